//! Pairs of several partitions as few streams of small batches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{StreamExt, stream};

use super::without_views;
use crate::util::one_input::one_input;
use crate::util::row_bytes::range_bytes;

/// The partitions of an input, gathered.
#[derive(Debug, Clone)]
pub(super) struct Gathered {
    pub input: Arc<dyn ExecutionPlan>,
    /// The context of the input; that of the operator above has other memory.
    pub context: Arc<TaskContext>,
    /// The most rows of a batch.
    pub rows: usize,
    /// The most bytes of a batch, which has one row in any case.
    pub bytes: usize,
    pub seen: Arc<Seen>,
}

/// A record of the rows that were read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The bytes of the largest batch that was made.
    pub widest: AtomicUsize,
    /// Whether the input has ended with an error.
    pub input_failed: AtomicBool,
}

impl Gathered {
    /// The operator that gives the rows in `partitions` partitions.
    pub(super) fn into_exec(self, partitions: usize) -> GatheredExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(without_views::of_schema(&self.input.schema())),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            self.input.boundedness(),
        );
        let (input, properties) = (Arc::clone(&self.input), Arc::new(properties));
        GatheredExec { input, of: self, properties }
    }

    /// The rows of those partitions that leave a remainder.
    fn read(&self, remainder: usize, divisor: usize) -> Result<SendableRecordBatchStream> {
        let count = self.input.output_partitioning().partition_count();
        let partitions = (remainder..count).step_by(divisor);
        let streams = partitions.map(|of| self.input.execute(of, Arc::clone(&self.context)));
        let mut streams = streams.collect::<Result<Vec<_>>>()?;
        if streams.len() == 1 {
            return Ok(streams.remove(0));
        }
        let schema = self.input.schema();
        let mut together = RecordBatchReceiverStream::builder(schema, streams.len().max(1));
        for mut stream in streams {
            let rows = together.tx();
            together.spawn(async move {
                while let Some(batch) = stream.next().await {
                    let is_last = batch.is_err();
                    if rows.send(batch).await.is_err() || is_last {
                        break;
                    }
                }
                Ok(())
            });
        }
        Ok(together.build())
    }
}

/// The operator of [`Gathered`].
#[derive(Debug)]
pub(super) struct GatheredExec {
    input: Arc<dyn ExecutionPlan>,
    of: Gathered,
    properties: Arc<PlanProperties>,
}

impl GatheredExec {
    fn partitions(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Gathered { input, ..self.of.clone() }.into_exec(self.partitions()))
    }
}

impl DisplayAs for GatheredExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatheredExec")
    }
}

impl ExecutionPlan for GatheredExec {
    fn name(&self) -> &str {
        "GatheredExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    one_input!();

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition >= self.partitions() {
            return internal_err!("partition {partition} of {}", self.partitions());
        }
        let seen = Arc::clone(&self.of.seen);
        let input = self.of.read(partition, self.partitions())?.inspect(move |batch| {
            if batch.is_err() {
                seen.input_failed.store(true, Ordering::Relaxed);
            }
        });
        let schema = self.schema();
        let mut small = Small::new(&schema, &self.of);
        let rows = input.map(Some).chain(stream::once(std::future::ready(None)));
        let rows = rows.flat_map(move |batch| {
            let made = match batch.transpose() {
                Ok(Some(batch)) => small.push(&batch),
                Ok(None) => small.finish(),
                Err(error) => Err(error),
            };
            match made {
                Ok(batches) => stream::iter(batches.into_iter().map(Ok).collect::<Vec<_>>()),
                Err(error) => stream::iter(vec![Err(error)]),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Makes batches of one size, which share no memory with others: a sort counts the whole of what a batch
/// refers to.
struct Small {
    schema: SchemaRef,
    rows: usize,
    bytes: usize,
    seen: Arc<Seen>,
    /// Rows of the next batch.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
}

impl Small {
    fn new(schema: &SchemaRef, of: &Gathered) -> Self {
        Self {
            schema: Arc::clone(schema),
            rows: of.rows,
            bytes: of.bytes,
            seen: Arc::clone(&of.seen),
            pending: vec![],
            pending_rows: 0,
            pending_bytes: 0,
        }
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let batch = without_views::of_batch(batch, &self.schema)?;
        let mut made = vec![];
        let mut from = 0;
        while from < batch.num_rows() {
            let mut rows = (batch.num_rows() - from).min(self.rows);
            let mut bytes = bytes_of(&batch, from, rows);
            while bytes > self.bytes && rows > 1 {
                rows = rows.div_ceil(2);
                bytes = bytes_of(&batch, from, rows);
            }
            let is_full = self.pending_rows + rows > self.rows
                || self.pending_bytes.saturating_add(bytes) > self.bytes;
            if is_full {
                made.extend(self.finish()?);
            }
            self.pending.push(batch.slice(from, rows));
            self.pending_rows += rows;
            self.pending_bytes += bytes;
            from += rows;
        }
        // Batches that wait would keep all of their memory.
        if self.pending_rows > self.rows / 2 || self.pending.len() > self.rows {
            made.extend(self.finish()?);
        }
        Ok(made)
    }

    fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let pending = std::mem::take(&mut self.pending);
        let bytes = std::mem::take(&mut self.pending_bytes);
        self.pending_rows = 0;
        let batch = match pending.as_slice() {
            [] => return Ok(vec![]),
            [one] if get_record_batch_memory_size(one) <= 2 * bytes => one.clone(),
            [one] => {
                let all = UInt32Array::from_iter_values(0..one.num_rows() as u32);
                take_record_batch(one, &all)?
            }
            several => concat_batches(&self.schema, several)?,
        };
        self.seen.widest.fetch_max(get_record_batch_memory_size(&batch), Ordering::Relaxed);
        Ok(vec![batch])
    }
}

/// The bytes of some rows of a batch once they are copied.
fn bytes_of(batch: &RecordBatch, from: usize, rows: usize) -> usize {
    let columns = batch.columns().iter();
    columns.map(|column| range_bytes(column.as_ref(), from, from + rows)).sum()
}
