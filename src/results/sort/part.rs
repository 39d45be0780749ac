//! The parts of a memory limit in which pairs are sorted.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;

/// A part of a memory limit for one sort.
#[derive(Debug)]
pub(super) struct SortMemory {
    pub bytes: usize,
    _memory: MemoryReservation,
}

impl SortMemory {
    /// The sorts of an operator take this part of what is left of a limit.
    pub(super) const OF_LIMIT: usize = 4;

    /// The least bytes of a sort.
    const LEAST_BYTES: usize = 512 << 10;

    /// Several sorts run at the same time where each has so many bytes.
    const SHARED_BYTES: usize = 64 << 20;

    /// Batches that a part holds, at least.
    pub(super) const BATCHES: usize = 32;

    /// A batch has a row for so many bytes of a part, so that many batches are merged at the same time.
    const BYTES_PER_ROW: usize = 2048;

    /// Up to so many bytes a sort puts its batches together and sorts them at once, which takes no memory
    /// beyond what it has reserved. More batches are sorted one by one and merged: merging takes as much again.
    const AT_ONCE: usize = 8 << 20;

    /// Parts of the limit of a context for up to `most` sorts; none where nothing is limited, or nothing
    /// can go to disk.
    ///
    /// # Errors
    ///
    /// A resource error that says how much is needed where even one sort gets no memory.
    pub(super) fn of_limit(
        function: &'static str,
        most: usize,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<Self>> {
        let pool = context.memory_pool();
        let MemoryLimit::Finite(limit) = pool.memory_limit() else { return Ok(vec![]) };
        if !context.runtime_env().disk_manager.tmp_files_enabled() {
            return Ok(vec![]);
        }
        let left = limit.saturating_sub(pool.reserved());
        let bytes = (left / Self::OF_LIMIT).max(Self::LEAST_BYTES);
        let sorts = (bytes / Self::SHARED_BYTES).clamp(1, most.max(1));
        (0..sorts).map(|_| Self::try_new(function, bytes / sorts, context)).collect()
    }

    fn try_new(function: &'static str, bytes: usize, context: &Arc<TaskContext>) -> Result<Self> {
        let memory = MemoryConsumer::new(format!("{function} sort"));
        let memory = memory.register(context.memory_pool());
        memory.try_grow(bytes).map_err(|error| {
            error.context(format!(
                "{function} sorts its pairs in {bytes} bytes at least, beside what the statement and tables in \
                 memory take: raise the memory limit by that much"
            ))
        })?;
        Ok(Self { bytes, _memory: memory })
    }

    /// The rows of a batch, of which one has `width` bytes at most.
    pub(super) fn rows(&self, width: usize, context: &TaskContext) -> usize {
        let fit = self.bytes / 16 / width.max(1);
        let usual = context.session_config().batch_size().max(1);
        fit.min(self.bytes / Self::BYTES_PER_ROW).clamp(1, usual)
    }

    /// A context whose memory pool is this part, for batches of so many rows.
    pub(super) fn context(&self, rows: usize, context: &TaskContext) -> Arc<TaskContext> {
        let runtime = RuntimeEnv {
            memory_pool: Arc::new(GreedyMemoryPool::new(self.bytes)),
            ..context.runtime_env().as_ref().clone()
        };
        let mut config = context.session_config().clone().with_batch_size(rows);
        let options = &mut config.options_mut().execution;
        if self.bytes <= Self::AT_ONCE {
            options.sort_in_place_threshold_bytes = usize::MAX;
            options.sort_spill_reservation_bytes = self.bytes / 4;
        } else {
            options.sort_spill_reservation_bytes = self.bytes / 2;
        }
        let context = TaskContext::default().with_session_config(config);
        Arc::new(context.with_runtime(Arc::new(runtime)))
    }

    /// A limit under which batches of so many bytes are sorted.
    pub(super) fn limit_for(batch_bytes: usize) -> usize {
        (16 * batch_bytes).max(Self::LEAST_BYTES) * Self::OF_LIMIT
    }
}
