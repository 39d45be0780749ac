//! The sort of pairs, by DataFusion's external sort in a part of the memory limit.
//!
//! ```text
//! partitions of pairs ─► gathered: few streams of small batches ─► SortExec, each with memory of its own ─► merged
//! ```
//!
//! Without a limit each partition is sorted as it is. Under a limit, DataFusion's sort by itself does not end:
//! it sets 10 MB aside for each partition, holds batches until the limit is reached, and then lacks memory to merge
//! them, or leaves none for the operators below. So a part of the limit is taken for the sort before it
//! starts: the operators below never see it, and the sort goes to disk when its part is full.

mod gathered;
mod part;
mod without_views;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use self::gathered::{Begun, Seen};
use self::part::SortMemory;
use crate::operator::errors::is_out_of_memory;
use crate::operator::streams::StreamsExec;

/// A sort of the pairs of all partitions of an input, for the operator of that name.
#[derive(Debug)]
pub(super) struct PairSort<'a> {
    pub function: &'static str,
    pub input: &'a Arc<dyn ExecutionPlan>,
    pub order: LexOrdering,
    /// Gets the time and the spilled bytes of the sort once it has ended.
    pub metrics: &'a ExecutionPlanMetricsSet,
}

impl PairSort<'_> {
    /// The pairs in their order.
    ///
    /// # Errors
    ///
    /// A resource error where the limit has no part for a sort. The stream gives those of the input, and a
    /// resource error that says which limit would do where a pair does not fit into its part.
    pub(super) fn execute(self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        let parts = SortMemory::of_limit(self.function, partitions, context)?;
        let sort =
            Sort { function: self.function, order: self.order, metrics: self.metrics.clone() };
        if parts.is_empty() {
            let contexts = vec![Arc::clone(context); partitions];
            return sort.execute(Arc::clone(self.input), contexts, context);
        }
        let schema = self.input.schema();
        let streams = gathered::read(self.input, parts.len(), context)?;
        let to = Arc::clone(&schema);
        let sorted = stream::once(sort.within(parts, streams, Arc::clone(context))).try_flatten();
        let rows = sorted.map(move |batch| without_views::of_batch(&batch?, &to));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// A sort of the rows of a plan.
struct Sort {
    function: &'static str,
    order: LexOrdering,
    metrics: ExecutionPlanMetricsSet,
}

impl Sort {
    /// Sorts each stream in a part of its own, and merges them. The memory is held as long as the result.
    async fn within(
        self,
        parts: Vec<SortMemory>,
        streams: Vec<SendableRecordBatchStream>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let seen = Arc::new(Seen::default());
        let (mut contexts, mut inputs) = (vec![], vec![]);
        for (part, stream) in parts.iter().zip(streams) {
            let begun = Begun::read(stream).await?;
            let rows = part.rows(begun.width, &context);
            contexts.push(part.context(rows, &context));
            inputs.push(begun.in_batches(rows, part.bytes / SortMemory::BATCHES, &seen));
        }
        let Some(schema) = inputs.first().map(|input| input.schema()) else {
            return internal_err!("pairs are sorted in a part of the limit at least");
        };
        let gathered = Arc::new(StreamsExec::new(Arc::clone(&schema), inputs));
        let (function, bytes) = (self.function, parts[0].bytes);
        let sorted = self.execute(gathered, contexts, &context)?;
        let rows = sorted.map_err(move |error| {
            let _held = &parts;
            if !is_out_of_memory(&error) || seen.input_failed.load(Ordering::Relaxed) {
                return error;
            }
            let widest = seen.widest.load(Ordering::Relaxed);
            let needed = SortMemory::limit_for(widest).max(2 * SortMemory::OF_LIMIT * bytes);
            error.context(format!(
                "{function} sorts its pairs in {bytes} bytes of the memory limit, and some that take {widest} \
                 bytes do not fit: raise the limit to {needed} bytes or more"
            ))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Sorts each partition of `input` in a context of its own, and merges them in `context`.
    fn execute(
        &self,
        input: Arc<dyn ExecutionPlan>,
        contexts: Vec<Arc<TaskContext>>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = input.schema();
        let sort = SortExec::new(self.order.clone(), input).with_preserve_partitioning(true);
        let streams = contexts.into_iter().enumerate();
        let streams = streams.map(|(partition, context)| sort.execute(partition, context));
        let mut streams = streams.collect::<Result<Vec<_>>>()?;
        let ended = Ended { sort, metrics: self.metrics.clone() };
        let merged = match streams.len() {
            1 => streams.remove(0),
            _ => {
                let merge = MemoryConsumer::new(format!("{} merge", self.function));
                StreamingMergeBuilder::new()
                    .with_streams(streams.into_iter().map(|s| spawn_buffered(s, 1)).collect())
                    .with_schema(Arc::clone(&schema))
                    .with_expressions(&self.order)
                    .with_metrics(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
                    .with_batch_size(context.session_config().batch_size())
                    .with_reservation(merge.register(context.memory_pool()))
                    .build()?
            }
        };
        let rows = merged.map(move |batch| {
            let _ended = &ended;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Adds the metrics of a sort to those of its operator when it is dropped.
struct Ended {
    sort: SortExec,
    metrics: ExecutionPlanMetricsSet,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let Some(of_sort) = self.sort.metrics() else { return };
        let spilled = SpillMetrics::new(&self.metrics, 0);
        spilled.spill_file_count.add(of_sort.spill_count().unwrap_or_default());
        spilled.spilled_bytes.add(of_sort.spilled_bytes().unwrap_or_default());
        spilled.spilled_rows.add(of_sort.spilled_rows().unwrap_or_default());
        let compute = BaselineMetrics::new(&self.metrics, 0).elapsed_compute().clone();
        compute.add_duration(std::time::Duration::from_nanos(
            of_sort.elapsed_compute().unwrap_or_default() as u64,
        ));
    }
}
