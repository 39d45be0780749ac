//! Pairs of several partitions as few streams of small batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, stream};

use super::without_views;
use crate::operator::row_bytes::{range_bytes, widest_row};

/// The partitions of an input as `count` streams, which read at the same time.
pub(super) fn read(
    input: &Arc<dyn ExecutionPlan>,
    count: usize,
    context: &Arc<TaskContext>,
) -> Result<Vec<SendableRecordBatchStream>> {
    let partitions = input.output_partitioning().partition_count();
    let group = |first: usize| {
        let streams = (first..partitions).step_by(count);
        let streams = streams.map(|of| input.execute(of, Arc::clone(context)));
        let mut streams = streams.collect::<Result<Vec<_>>>()?;
        if partitions == 1 && streams.len() == 1 {
            return Ok(streams.remove(0));
        }
        let mut together = RecordBatchReceiverStream::builder(input.schema(), streams.len().max(1));
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
    };
    (0..count).map(group).collect()
}

/// A stream whose first rows have been read.
pub(super) struct Begun {
    /// The bytes of the widest one of the first rows.
    pub width: usize,
    first: Option<RecordBatch>,
    rest: SendableRecordBatchStream,
}

impl Begun {
    /// Reads the first rows.
    ///
    /// # Errors
    ///
    /// The errors of the stream.
    pub(super) async fn read(mut rest: SendableRecordBatchStream) -> Result<Self> {
        let schema = without_views::of_schema(&rest.schema());
        let first = loop {
            match rest.next().await.transpose()? {
                Some(batch) if batch.num_rows() == 0 => {}
                first => break first,
            }
        };
        let width = match &first {
            Some(first) => {
                let first = without_views::of_batch(first, &schema)?;
                first.columns().iter().map(|column| widest_row(column.as_ref())).sum()
            }
            None => 0,
        };
        Ok(Self { width, first, rest })
    }

    /// The rows in batches of one size.
    pub(super) fn in_batches(
        self,
        rows: usize,
        bytes: usize,
        seen: &Arc<Seen>,
    ) -> SendableRecordBatchStream {
        let schema = without_views::of_schema(&self.rest.schema());
        let mut small = Small::new(&schema, rows, bytes, Arc::clone(seen));
        let seen = Arc::clone(seen);
        let input = stream::iter(self.first.map(Ok)).chain(self.rest).inspect(move |batch| {
            if batch.is_err() {
                seen.input_failed.store(true, Ordering::Relaxed);
            }
        });
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
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// A record of the rows that were read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The bytes of the largest batch that was made.
    pub widest: AtomicUsize,
    /// Whether the input has ended with an error.
    pub input_failed: AtomicBool,
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
    fn new(schema: &SchemaRef, rows: usize, bytes: usize, seen: Arc<Seen>) -> Self {
        Self {
            schema: Arc::clone(schema),
            rows,
            bytes,
            seen,
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
