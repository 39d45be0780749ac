//! Inputs while they are read: the partitions of one, and the slices of rows that tasks take.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use tokio::sync::Mutex;

use super::build::ROWS_PER_SLICE;

/// The partitions of the probe input, which are asked for once each.
pub(super) struct ProbeStreams {
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// Whether all partitions run here and share what they find.
    shared: bool,
    partitions: parking_lot::Mutex<Vec<Probe>>,
}

enum Probe {
    Unasked,
    Ready(SendableRecordBatchStream),
    Taken,
}

impl ProbeStreams {
    pub fn new(input: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>, shared: bool) -> Self {
        let count = input.output_partitioning().partition_count();
        let partitions = (0..count).map(|_| Probe::Unasked).collect();
        Self { input, context, shared, partitions: parking_lot::Mutex::new(partitions) }
    }

    pub fn are_shared(&self) -> bool {
        self.shared
    }

    /// Starts a partition, unless it has been.
    pub fn ask(&self, partition: usize) -> Result<()> {
        let mut partitions = self.partitions.lock();
        if let Some(probe @ Probe::Unasked) = partitions.get_mut(partition) {
            *probe = Probe::Ready(self.input.execute(partition, Arc::clone(&self.context))?);
        }
        Ok(())
    }

    /// The rows of a partition; `None` where somebody has them.
    pub fn take(&self, partition: usize) -> Result<Option<SendableRecordBatchStream>> {
        self.ask(partition)?;
        let mut partitions = self.partitions.lock();
        let probe = partitions.get_mut(partition);
        Ok(match probe.map(|probe| std::mem::replace(probe, Probe::Taken)) {
            Some(Probe::Ready(stream)) => Some(stream),
            _ => None,
        })
    }

    /// The rows of all partitions.
    pub fn take_all(&self) -> Result<Vec<SendableRecordBatchStream>> {
        let count = self.partitions.lock().len();
        (0..count).filter_map(|partition| self.take(partition).transpose()).collect()
    }
}

/// The rows of an input that nobody has taken.
pub(super) struct Slices {
    input: Mutex<Input>,
    /// Counts the rows that have come.
    rows: Count,
}

struct Input {
    /// `None` once it has ended.
    stream: Option<SendableRecordBatchStream>,
    /// Batches of which rows are left.
    batches: Vec<RecordBatch>,
    /// The number of the next row.
    next_row: u64,
}

impl Slices {
    pub fn new(stream: SendableRecordBatchStream, rows: Count) -> Self {
        let input = Input { stream: Some(stream), batches: vec![], next_row: 0 };
        Self { input: Mutex::new(input), rows }
    }

    /// The next rows, and the number of the first.
    pub async fn next(&self) -> Result<Option<(u64, RecordBatch)>> {
        let mut input = self.input.lock().await;
        let batch = loop {
            if let Some(rest) = input.batches.pop() {
                break rest;
            }
            let Some(stream) = &mut input.stream else { return Ok(None) };
            match stream.next().await.transpose()? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    self.rows.add(batch.num_rows());
                    break batch;
                }
                None => input.stream = None,
            }
        };
        let rows = ROWS_PER_SLICE.min(batch.num_rows());
        let slice = batch.slice(0, rows);
        if rows < batch.num_rows() {
            input.batches.push(batch.slice(rows, batch.num_rows() - rows));
        }
        let first_row = input.next_row;
        input.next_row += rows as u64;
        Ok(Some((first_row, slice)))
    }

    /// Like [`Self::next`], for an input of which rows are told apart by 32 bits.
    pub async fn next_of_build(&self) -> Result<Option<(u32, RecordBatch)>> {
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

    /// Gives rows back: somebody takes them later.
    pub async fn put_back(&self, rows: RecordBatch) {
        self.input.lock().await.batches.push(rows);
    }
}
