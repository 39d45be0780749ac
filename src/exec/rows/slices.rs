//! Inputs while they are read in slices of rows that tasks take.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::metrics::Count;
use futures::StreamExt;
use tokio::sync::Mutex;

use crate::exec::rows::arguments::ROWS_PER_SLICE;
use crate::operator::row_bytes::batch_bytes;
use crate::tuning::{Size, Tuning};

/// The rows of a slice may take this part of a memory limit: encoding takes a multiple of their
/// bytes, which is not reserved.
const LIMIT_PER_SLICE: usize = 256;
const LEAST_SLICE_BYTES: usize = 128 << 10;
/// The least rows of a slice where memory is limited: rows that look large may share one
/// dictionary.
const LEAST_ROWS_PER_SLICE: Size = Size { usual: 256, small: 1 };

/// The least rows of a slice that is small so that all tasks have work.
const LEAST_SHARED_ROWS: Size = Size { usual: 1024, small: 2 };
/// Slices for each task of the rows that have come.
const SLICES_PER_TASK: u64 = 8;

/// The most rows of a slice where `tasks` tasks share an input of which `before` rows have come: `least` at
/// first, as few batches may come, and more the more rows have come.
pub(crate) fn shared_rows(before: u64, tasks: usize, least: usize, tuning: Tuning) -> usize {
    let most = tuning.size(ROWS_PER_SLICE);
    if tasks <= 1 {
        return most;
    }
    let least = least.clamp(tuning.size(LEAST_SHARED_ROWS), most) as u64;
    (before / (SLICES_PER_TASK * tasks as u64)).clamp(least, most as u64) as usize
}

/// The rows of an input that no task has taken.
pub(crate) struct Slices {
    schema: SchemaRef,
    input: Mutex<SlicedInput>,
    /// Counts the rows that have come.
    rows: Count,
    /// About the bytes of a slice.
    slice_bytes: usize,
    /// The tasks that share the rows.
    tasks: usize,
    tuning: Tuning,
}

struct SlicedInput {
    /// `None` once it has ended.
    stream: Option<SendableRecordBatchStream>,
    /// Batches of which rows are left, each with the most rows that are taken of it at a time.
    batches: Vec<(RecordBatch, usize)>,
    /// The number of the next row.
    next_row: u64,
}

impl Slices {
    pub(crate) fn new(stream: SendableRecordBatchStream, rows: Count, tuning: Tuning) -> Self {
        let schema = stream.schema();
        let input = SlicedInput { stream: Some(stream), batches: vec![], next_row: 0 };
        Self { schema, input: Mutex::new(input), rows, slice_bytes: usize::MAX, tasks: 1, tuning }
    }

    /// The rows in slices that are small beside a memory limit.
    pub(crate) fn within(mut self, limit: &MemoryLimit) -> Self {
        if let MemoryLimit::Finite(bytes) = limit {
            self.slice_bytes = (bytes / LIMIT_PER_SLICE).max(LEAST_SLICE_BYTES);
        }
        self
    }

    /// The rows for several tasks: in small slices at first, as few batches may come, and in greater
    /// ones the more rows have come.
    pub(crate) fn shared_by(self, tasks: usize) -> Self {
        Self { tasks, ..self }
    }

    /// The schema of the rows.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The next rows, and the number of the first. The task yields once it has them.
    pub(crate) async fn next(&self) -> Result<Option<(u64, RecordBatch)>> {
        let taken = self.take().await;
        // The lock now belongs to the task that has waited longest. Releasing it has made that task
        // the next one of this very thread, where no other thread takes it: without the yield, all
        // tasks would wait until this one has worked through its rows.
        tokio::task::yield_now().await;
        taken
    }

    async fn take(&self) -> Result<Option<(u64, RecordBatch)>> {
        let mut input = self.input.lock().await;
        let (batch, most_rows) = loop {
            if let Some(rest) = input.batches.pop() {
                break rest;
            }
            let Some(stream) = &mut input.stream else { return Ok(None) };
            match stream.next().await.transpose()? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    self.rows.add(batch.num_rows());
                    let most_rows = self.rows_per_slice(&batch, input.next_row);
                    break (batch, most_rows);
                }
                None => input.stream = None,
            }
        };
        let rows = most_rows.min(batch.num_rows());
        let slice = batch.slice(0, rows);
        if rows < batch.num_rows() {
            input.batches.push((batch.slice(rows, batch.num_rows() - rows), most_rows));
        }
        let first_row = input.next_row;
        input.next_row += rows as u64;
        Ok(Some((first_row, slice)))
    }

    /// Like [`Self::next`], for an input of which rows are told apart by 32 bits.
    pub(crate) async fn next_of_build(&self) -> Result<Option<(u32, RecordBatch)>> {
        let Some((first_row, slice)) = self.next().await? else { return Ok(None) };
        let beyond = first_row + slice.num_rows() as u64;
        match u32::try_from(first_row) {
            Ok(first_row) if beyond <= u64::from(u32::MAX) => Ok(Some((first_row, slice))),
            _ => Err(exec_datafusion_err!(
                "a side of a similarity join that is held in memory has at most {} rows; \
                 SET simjoin.spill = 'always' joins more",
                u32::MAX
            )),
        }
    }

    /// Gives rows back, for the next task that asks.
    pub(crate) async fn put_back(&self, rows: RecordBatch) {
        let all = rows.num_rows();
        self.input.lock().await.batches.push((rows, all));
    }

    /// The number of rows of a batch that are taken at a time, where `before` rows have come before it.
    fn rows_per_slice(&self, batch: &RecordBatch, before: u64) -> usize {
        let most = shared_rows(before, self.tasks, 1, self.tuning);
        if self.slice_bytes == usize::MAX {
            return most;
        }
        let bytes = batch_bytes(batch);
        let row_bytes = bytes.div_ceil(batch.num_rows().max(1)).max(1);
        let [least, greatest] =
            [LEAST_ROWS_PER_SLICE, ROWS_PER_SLICE].map(|size| self.tuning.size(size));
        (self.slice_bytes / row_bytes).clamp(least, greatest).min(most)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    use arrow::array::{ArrayRef, FixedSizeBinaryArray, Int32Array};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;

    /// The rows of each slice of a batch of 12 rows, each of 64 kB.
    async fn slices(limit: MemoryLimit) -> Vec<usize> {
        slices_of(1, 1, limit).await
    }

    /// The rows of each slice of some such batches, which tasks share.
    async fn slices_of(batches: usize, tasks: usize, limit: MemoryLimit) -> Vec<usize> {
        let rows = vec![vec![7_u8; 64 << 10]; 12];
        let array = FixedSizeBinaryArray::try_from_iter(rows.into_iter()).unwrap();
        let batch = RecordBatch::try_from_iter([("a", Arc::new(array) as ArrayRef)]).unwrap();
        let schema = batch.schema();
        let batches = futures::stream::iter((0..batches).map(move |_| Ok(batch.clone())));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
        let slices =
            Slices::new(stream, Count::new(), Tuning::small()).within(&limit).shared_by(tasks);
        let mut all = vec![];
        while let Some((first_row, rows)) = slices.next().await.unwrap() {
            assert_eq!(first_row, all.iter().sum::<usize>() as u64);
            all.push(rows.num_rows());
        }
        all
    }

    #[tokio::test]
    async fn slices_are_small_beside_a_memory_limit() {
        assert_eq!(slices(MemoryLimit::Infinite).await, [5, 5, 2]);
        assert_eq!(slices(MemoryLimit::Finite(64 << 20)).await, [4, 4, 4]);
        assert_eq!(slices(MemoryLimit::Finite(1)).await, [2; 6]);
    }

    /// The first rows are shared out in small slices, later ones in greater ones.
    #[tokio::test]
    async fn few_batches_are_shared_by_all_tasks() {
        assert_eq!(slices_of(1, 2, MemoryLimit::Infinite).await, [2; 6]);
        let many = slices_of(10, 2, MemoryLimit::Infinite).await;
        assert_eq!(many.iter().sum::<usize>(), 120);
        assert_eq!((many[0], many[many.len() - 3]), (2, 5));
        assert!(slices_of(10, 3, MemoryLimit::Finite(1)).await.iter().all(|&rows| rows == 2));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 8)]
    async fn tasks_work_on_their_slices_at_the_same_time() {
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..320));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let (schema, batches) = (batch.schema(), futures::stream::iter([Ok(batch)]));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
        let slices = Arc::new(Slices::new(stream, Count::new(), Tuning::small()));
        let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // All wait for the lock before the first slice is there to be taken.
        let held = slices.input.lock().await;
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (slices, working, most) = (slices.clone(), working.clone(), most.clone());
                tokio::spawn(async move {
                    while slices.next().await.unwrap().is_some() {
                        most.fetch_max(1 + working.fetch_add(1, Relaxed), Relaxed);
                        // Work that keeps the thread.
                        std::thread::sleep(Duration::from_millis(5));
                        working.fetch_sub(1, Relaxed);
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        // Where a task keeps the thread that the next one waits for, two work at most.
        let most = most.load(Relaxed);
        assert!(most > 4, "{most} of 8 tasks worked at the same time");
    }
}
