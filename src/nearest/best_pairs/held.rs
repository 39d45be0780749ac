//! The rows of an input that are read several times: in memory, on disk, or still to be read.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{BatchCoalescer, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{Result, Statistics};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use crate::disk::DiskRows;
use crate::exec::expected;
use crate::nearest::right::Reading;
use crate::nearest::table::RowTable;
use crate::operator::streams::StreamsExec;
use crate::spec::Side;
use crate::tuning::{Size, Tuning};
use crate::util::evenly::one_of_each;

/// Inputs may take this part of the memory that is left.
const PART_OF_LIMIT: usize = 8;

/// The bytes that inputs may take where there is no limit.
const MOST_BYTES: usize = 1 << 31;

/// The rows of a side of which one is in a sample.
const SAMPLED: Size = Size { usual: 16, small: 3 };

/// The least and the most rows of a side in a sample.
const SAMPLE_ROWS: Size<[usize; 2]> = Size { usual: [1 << 9, 1 << 15], small: [8, 1 << 6] };

/// The bytes that both inputs of a join may take.
pub(super) fn room(pool: &Arc<dyn MemoryPool>) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes.saturating_sub(pool.reserved()) / PART_OF_LIMIT,
        MemoryLimit::Infinite | MemoryLimit::Unknown => MOST_BYTES,
    }
}

/// The rows of an input.
pub(super) struct HeldRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The rows behind these that are on disk.
    stored: Option<Arc<DiskRows>>,
    rows: usize,
    /// The rows behind all of these; `None` where there are none. The lock is never held: streams are not shared.
    rest: Mutex<Option<SendableRecordBatchStream>>,
    /// The bytes of `batches`.
    memory: MemoryReservation,
}

impl HeldRows {
    /// An input of which nothing has been read.
    pub(super) fn unread(input: SendableRecordBatchStream, memory: MemoryReservation) -> Self {
        let (schema, batches) = (input.schema(), vec![]);
        Self { schema, batches, stored: None, rows: 0, rest: Mutex::new(Some(input)), memory }
    }

    /// Reads an input until its rows take `room` bytes, or `memory` is refused.
    ///
    /// # Errors
    ///
    /// The errors of the input.
    pub(super) async fn read(
        input: SendableRecordBatchStream,
        room: usize,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let mut held = Self::unread(input, memory);
        while let Some(mut input) = held.rest.get_mut().take() {
            let Some(batch) = input.next().await else { break };
            let batch = batch?;
            let bytes = get_record_batch_memory_size(&batch);
            held.rows += batch.num_rows();
            held.batches.push(batch);
            *held.rest.get_mut() = Some(input);
            // Rows have numbers of 32 bits.
            let fits = held.bytes() + bytes <= room && held.rows <= u32::MAX as usize;
            if !fits || held.memory.try_grow(bytes).is_err() {
                break;
            }
        }
        Ok(held)
    }

    /// Writes the rows that are still to be read to disk.
    ///
    /// # Errors
    ///
    /// The errors of the input, and when rows cannot be written.
    pub(super) async fn store(&mut self, reading: &Reading) -> Result<()> {
        let Some(input) = self.rest.get_mut().take() else { return Ok(()) };
        let stored = reading.store(&self.schema, input).await?;
        self.rows += stored.rows as usize;
        self.stored = Some(Arc::new(stored));
        Ok(())
    }

    /// Forgets the rows that have been read; the rows still to be read, where there are some.
    pub(super) fn into_rest(self) -> Option<SendableRecordBatchStream> {
        self.rest.into_inner()
    }

    /// Whether all rows have been read.
    pub(super) fn is_complete(&self) -> bool {
        self.rest.lock().is_none()
    }

    /// Whether all rows are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.is_complete() && self.stored.is_none()
    }

    /// The number of rows that have been read.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.size()
    }

    /// The rows in memory as a table.
    pub(super) fn table(&self) -> RowTable {
        RowTable::of(Arc::clone(&self.schema), self.batches.clone())
    }

    /// The rows that have been read.
    fn batches(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let batches = stream::iter(self.batches.clone().into_iter().map(Ok));
        match &self.stored {
            Some(stored) => batches.chain(stored.read_all(0..stored.segments.len())).boxed(),
            None => batches.boxed(),
        }
    }

    /// A part of the rows that have been read, as the rows of `side`. `memory` grows by them.
    ///
    /// # Errors
    ///
    /// When rows cannot be read, and when memory is refused.
    pub(super) async fn sample(
        &self,
        side: Side,
        tuning: Tuning,
        memory: &MemoryReservation,
    ) -> Result<RowTable> {
        let numbers = rows_of_sample(self.rows, side as usize, tuning);
        /// Rows of a batch.
        const ROWS: usize = 1 << 13;
        // It keeps no other bytes of the batches than those of the rows.
        let mut sampled = BatchCoalescer::new(Arc::clone(&self.schema), ROWS);
        let (mut first, mut next) = (0, 0);
        let mut all = self.batches();
        while let Some(batch) = all.try_next().await? {
            let end = first + batch.num_rows();
            let of_batch = numbers[next..].iter().take_while(|number| (**number as usize) < end);
            let places: UInt32Array = of_batch.map(|number| number - first as u32).collect();
            (first, next) = (end, next + places.len());
            if !places.is_empty() {
                sampled.push_batch(take_record_batch(&batch, &places)?)?;
            }
        }
        sampled.finish_buffered_batch()?;
        let mut batches = vec![];
        while let Some(batch) = sampled.next_completed_batch() {
            memory.try_grow(get_record_batch_memory_size(&batch))?;
            batches.push(batch);
        }
        Ok(RowTable::of(Arc::clone(&self.schema), batches))
    }

    /// The rows that have been read as the input of a join, in place of `input`.
    pub(super) fn plan(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let statistics = Statistics::new_unknown(&self.schema);
        let statistics = Statistics { num_rows: Precision::Exact(self.rows), ..statistics };
        self.plan_of(self.batches(), expected::statistics(input).as_deref().cloned(), statistics)
    }

    /// All rows as the input of a join, in place of `input`. Their memory is no longer reserved.
    pub(super) fn into_plan(mut self, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let Some(rest) = self.rest.get_mut().take() else { return self.plan(input) };
        let mut statistics = Statistics::new_unknown(&self.schema);
        let bytes = expected::bytes(input);
        statistics.total_byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
        let rows = self.batches().chain(rest).boxed();
        self.plan_of(rows, expected::statistics(input).as_deref().cloned(), statistics)
    }

    fn plan_of(
        &self,
        rows: BoxStream<'static, Result<RecordBatch>>,
        of_input: Option<Statistics>,
        known: Statistics,
    ) -> Arc<dyn ExecutionPlan> {
        let mut statistics = of_input.unwrap_or_else(|| Statistics::new_unknown(&self.schema));
        if known.num_rows != Precision::Absent {
            statistics.num_rows = known.num_rows;
        } else if statistics.total_byte_size == Precision::Absent {
            statistics.total_byte_size = known.total_byte_size;
        }
        let schema = Arc::clone(&self.schema);
        let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows));
        Arc::new(StreamsExec::new(schema, vec![rows]).with_statistics(statistics))
    }
}

/// Numbers of some of `rows` rows of a side, in rising order: one at random of each few that follow each
/// other, so that rows that lie at equal places of both sides do not meet more often than others.
pub(super) fn rows_of_sample(rows: usize, side: usize, tuning: Tuning) -> Vec<u32> {
    let [least, most] = tuning.size(SAMPLE_ROWS);
    let wanted = (rows / tuning.size(SAMPLED)).clamp(least, most);
    let step = rows.div_ceil(wanted).max(1);
    one_of_each(rows, step, side as u64 + 1).collect()
}
