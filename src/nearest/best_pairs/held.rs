//! Inputs that are held in memory as far as they fit, and given on as inputs of a join.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{Result, Statistics};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::exec::expected;
use crate::nearest::table::RowTable;
use crate::operator::streams::StreamsExec;

/// Inputs may take this part of the memory that is left.
const PART_OF_LIMIT: usize = 8;

/// The bytes that inputs may take where there is no limit.
const MOST_BYTES: usize = 1 << 31;

/// The bytes that both inputs of a join may take.
pub(super) fn room(pool: &Arc<dyn MemoryPool>) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes.saturating_sub(pool.reserved()) / PART_OF_LIMIT,
        MemoryLimit::Infinite | MemoryLimit::Unknown => MOST_BYTES,
    }
}

/// The rows of an input, each in memory or still to be read.
pub(super) struct HeldRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
    /// The rows behind these; `None` where there are none.
    rest: Option<SendableRecordBatchStream>,
}

impl HeldRows {
    /// An input of which nothing has been read.
    pub(super) fn unread(input: SendableRecordBatchStream) -> Self {
        Self { schema: input.schema(), batches: vec![], rows: 0, rest: Some(input) }
    }

    /// Reads an input until `room` bytes or `memory` are used up. The bytes that are read count against both.
    ///
    /// # Errors
    ///
    /// The errors of the input.
    pub(super) async fn read(
        mut input: SendableRecordBatchStream,
        room: &mut usize,
        memory: &MemoryReservation,
    ) -> Result<Self> {
        let mut held = Self { schema: input.schema(), batches: vec![], rows: 0, rest: None };
        while let Some(batch) = input.next().await {
            let batch = batch?;
            let bytes = get_record_batch_memory_size(&batch);
            held.rows += batch.num_rows();
            held.batches.push(batch);
            // Rows have numbers of 32 bits.
            let fits = bytes <= *room && held.rows <= u32::MAX as usize;
            if !fits || memory.try_grow(bytes).is_err() {
                held.rest = Some(input);
                return Ok(held);
            }
            *room -= bytes;
        }
        Ok(held)
    }

    /// Whether all rows are in memory.
    pub(super) fn is_complete(&self) -> bool {
        self.rest.is_none()
    }

    /// The rows in memory.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The rows in memory as a table.
    pub(super) fn table(&self) -> RowTable {
        RowTable::of(Arc::clone(&self.schema), self.batches.clone())
    }

    /// All rows of `input`, which has been read by `self`, as the input of a join.
    pub(super) fn into_input(self, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let mut statistics = match expected::statistics(input) {
            Some(statistics) => statistics.as_ref().clone(),
            None => Statistics::new_unknown(&self.schema),
        };
        if self.is_complete() {
            statistics.num_rows = Precision::Exact(self.rows);
        } else if statistics.total_byte_size == Precision::Absent {
            let bytes = expected::bytes(input);
            statistics.total_byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
        }
        let batches = stream::iter(self.batches.into_iter().map(Ok));
        let rows = match self.rest {
            Some(rest) => batches.chain(rest).boxed(),
            None => batches.boxed(),
        };
        let rows: SendableRecordBatchStream =
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows));
        Arc::new(StreamsExec::new(self.schema, vec![rows]).with_statistics(statistics))
    }
}
