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
pub(super) struct Part {
    /// A context whose memory pool is this part.
    pub context: Arc<TaskContext>,
    pub bytes: usize,
    /// The rows of a batch.
    pub rows: usize,
    _memory: MemoryReservation,
}

impl Part {
    /// The sorts of an operator take this part of what is left of a limit.
    const OF_LIMIT: usize = 4;

    /// The least bytes of a sort.
    const LEAST_BYTES: usize = 512 << 10;

    /// Several sorts run at the same time where each has so many bytes.
    const SHARED_BYTES: usize = 64 << 20;

    /// Batches that a part holds, at least.
    pub(super) const BATCHES: usize = 32;

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
        let runtime = context.runtime_env();
        let runtime = RuntimeEnv {
            memory_pool: Arc::new(GreedyMemoryPool::new(bytes)),
            ..runtime.as_ref().clone()
        };
        let config = context.session_config();
        let rows = (bytes >> 11).clamp(64, config.batch_size().max(64));
        let mut config = config.clone().with_batch_size(rows);
        let options = &mut config.options_mut().execution;
        if bytes <= Self::AT_ONCE {
            options.sort_in_place_threshold_bytes = usize::MAX;
            options.sort_spill_reservation_bytes = bytes / 4;
        } else {
            options.sort_spill_reservation_bytes = bytes / 2;
        }
        let context = TaskContext::default().with_session_config(config);
        let context = context.with_runtime(Arc::new(runtime));
        Ok(Self { context: Arc::new(context), bytes, rows, _memory: memory })
    }

    /// A limit under which batches of so many bytes are sorted.
    pub(super) fn limit_for(batch_bytes: usize) -> usize {
        (batch_bytes * Self::BATCHES / 2).max(Self::LEAST_BYTES) * Self::OF_LIMIT
    }
}
