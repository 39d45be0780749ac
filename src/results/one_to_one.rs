//! One-to-one matches of scored pairs.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::greedy::MarkedNodes;
use super::nodes::NO_ID;
use super::operator::{
    By, fmt_sort, order_of, properties_of, reads_pairs, reads_sorted_pairs, sorted_pairs,
};
use super::scores::without_nan;
use super::sort::PairSort;

const TAKEN: u8 = 1;

/// Takes pairs by falling score, of ties by (left, right), each left and each right node once.
///
/// The result is the stable matching of nodes that prefer partners of better score, as issue 156 of the project
/// anonlink argues. A pair whose score is NaN is not taken. The input has the columns left, right and
/// score, none NULL, and is sorted so, or [`sorting`](Self::sorting) sorts it; the output has the pairs
/// taken.
///
/// Memory: a byte for each id of a node, where nodes are integers of a narrow range; otherwise also a
/// table of the distinct values.
#[derive(Debug)]
pub struct OneToOneExec {
    input: Arc<dyn ExecutionPlan>,
    /// Whether a lesser score is better.
    is_distance: bool,
    /// Whether the pairs come in any order.
    sorts: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl OneToOneExec {
    /// Matches among the pairs of `input`; with `is_distance` by rising score.
    ///
    /// # Errors
    ///
    /// An internal error where the input lacks columns.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, is_distance: bool) -> Result<Self> {
        let schema = input.schema();
        if schema.fields().len() != 3 {
            return internal_err!(
                "matches are made of 3 columns, not of {}",
                schema.fields().len()
            );
        }
        let properties = properties_of(&input, schema, 1, EmissionType::Incremental);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, is_distance, sorts: false, properties, metrics })
    }

    /// The same matches, of pairs that come in any order and partitions: the operator sorts them.
    pub fn sorting(self) -> Self {
        Self { sorts: true, ..self }
    }

    /// Whether a lesser score is better.
    pub fn is_distance(&self) -> bool {
        self.is_distance
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Self { sorts: self.sorts, ..Self::try_new(input, self.is_distance)? })
    }

    fn sort(&self) -> [By; 3] {
        let scores = By::Scores { column: 2, is_distance: self.is_distance };
        [scores, By::Nodes(0), By::Nodes(1)]
    }
}

impl DisplayAs for OneToOneExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_distance { "distance" } else { "similarity" };
        match t {
            DisplayFormatType::TreeRender => write!(f, "by={order}"),
            _ => {
                write!(f, "OneToOneExec: by={order}")?;
                fmt_sort(self.sorts, order_of(&self.input, &self.sort()), f)
            }
        }
    }
}

impl ExecutionPlan for OneToOneExec {
    fn name(&self) -> &str {
        "OneToOneExec"
    }

    reads_pairs!();
    reads_sorted_pairs!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let side = |name: &str, column: usize| {
            let consumer = MemoryConsumer::new(format!("one_to_one {name}"));
            let memory = consumer.register(context.memory_pool());
            MarkedNodes::try_new("one_to_one", schema.field(column).data_type(), memory)
        };
        let mut sides = (side("left", 0)?, side("right", 1)?);
        let emitted = BaselineMetrics::new(&self.metrics, partition);
        let pairs = MetricBuilder::new(&self.metrics).counter("pairs", partition);
        let order = order_of(&self.input, &self.sort()).filter(|_| self.sorts);
        let (input, metrics) = (&self.input, &self.metrics);
        let sort = order.map(|order| PairSort { function: "one_to_one", input, order, metrics });
        let input = sorted_pairs(input, partition, &context, sort)?;
        let rows = input.map(move |batch| {
            let batch = batch?;
            pairs.add(batch.num_rows());
            let _timer = emitted.elapsed_compute().timer();
            let taken = take(&mut sides, &batch)?;
            emitted.record_output(taken.num_rows());
            Ok(taken)
        });
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }
}

/// The pairs of a batch that are taken.
fn take(sides: &mut (MarkedNodes, MarkedNodes), batch: &RecordBatch) -> Result<RecordBatch> {
    let (left, right) = sides;
    let left_ids = left.number(&[batch.column(0)], |_| {})?;
    let right_ids = right.number(&[batch.column(1)], |_| {})?;
    let scores = without_nan(batch.column(2))?;
    let ids = left_ids.iter().flatten().zip(right_ids.iter().flatten()).enumerate();
    let taken: BooleanArray = ids
        .map(|(row, (a, b))| {
            let is_free = *a != NO_ID && *b != NO_ID && scores.is_valid(row);
            let is_free = is_free && left.mark(*a) != TAKEN && right.mark(*b) != TAKEN;
            if is_free {
                left.set_mark(*a, TAKEN);
                right.set_mark(*b, TAKEN);
            }
            Some(is_free)
        })
        .collect();
    Ok(filter_record_batch(batch, &taken)?)
}
