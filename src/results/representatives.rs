//! Representatives: which nodes to keep, and which kept one stands for each other.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};

use super::greedy::MarkedNodes;
use super::nodes::NO_ID;
use super::operator::{order_of, properties_of, reads_pairs, reads_sorted_pairs, sorted_pairs};

const KEPT: u8 = 1;
const DROPPED: u8 = 2;

/// Goes through nodes in their order, and keeps each that no kept node before it is a partner of.
///
/// The input has the columns later, earlier and, where pairs have scores, score: the nodes of a pair in
/// their order; earlier is NULL for a node alone. It is sorted by later, the best score and earlier.
/// The output has a row for each node: the node; its representative, which is itself where it is
/// kept, and else the kept partner before it of the best score, of ties the least; whether it is
/// kept; and the score with the representative.
///
/// Memory: a byte for each id of a node, where nodes are integers of a narrow range; otherwise also a
/// table of the distinct values.
#[derive(Debug)]
pub struct RepresentativesExec {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    /// Whether a lesser score is better.
    is_distance: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RepresentativesExec {
    /// Representatives of the nodes of `input`. `schema` has the columns of the output.
    ///
    /// # Errors
    ///
    /// An internal error where the input lacks columns.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        is_distance: bool,
    ) -> Result<Self> {
        let columns = input.schema().fields().len();
        if !(2..=3).contains(&columns) || schema.fields().len() != columns + 1 {
            return internal_err!("representatives are made of 2 or 3 columns, not of {columns}");
        }
        let properties = properties_of(&input, Arc::clone(&schema), 1, EmissionType::Incremental);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, schema, is_distance, properties, metrics })
    }

    /// Whether a lesser score is better.
    pub fn is_distance(&self) -> bool {
        self.is_distance
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::try_new(input, Arc::clone(&self.schema), self.is_distance)
    }

    fn sort(&self) -> Vec<(usize, bool)> {
        match self.input.schema().fields().len() {
            2 => vec![(0, false), (1, false)],
            _ => vec![(0, false), (2, !self.is_distance), (1, false)],
        }
    }
}

impl DisplayAs for RepresentativesExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.input.schema().fields().len() {
            2 => "order",
            _ if self.is_distance => "distance",
            _ => "similarity",
        };
        match t {
            DisplayFormatType::TreeRender => write!(f, "by={order}"),
            _ => write!(f, "RepresentativesExec: by={order}"),
        }
    }
}

impl ExecutionPlan for RepresentativesExec {
    fn name(&self) -> &str {
        "RepresentativesExec"
    }

    reads_pairs!();
    reads_sorted_pairs!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("representatives").register(context.memory_pool());
        let node = self.input.schema().field(0).data_type().clone();
        let nodes = MarkedNodes::try_new("representatives", &node, memory)?;
        let mut pass = Pass { nodes, open: None, schema: self.schema(), found: Found::default() };
        let emitted = BaselineMetrics::new(&self.metrics, partition);
        let pairs = MetricBuilder::new(&self.metrics).counter("pairs", partition);
        let input = sorted_pairs(&self.input, partition, &context)?;
        let ended = stream::once(std::future::ready(None));
        let rows = input.map(Some).chain(ended).map(move |batch| {
            let batch = batch.transpose()?;
            let _timer = emitted.elapsed_compute().timer();
            let rows = match &batch {
                Some(batch) => {
                    pairs.add(batch.num_rows());
                    pass.pairs(batch)?
                }
                None => pass.finish()?,
            };
            emitted.record_output(rows.num_rows());
            Ok(rows)
        });
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }
}

/// One pass over the pairs.
struct Pass {
    nodes: MarkedNodes,
    /// The later node of the pairs that are gone through, while no kept partner of it was found.
    open: Option<u32>,
    schema: SchemaRef,
    found: Found,
}

/// Nodes that are decided.
#[derive(Debug, Default)]
struct Found {
    nodes: Vec<u32>,
    representatives: Vec<u32>,
    /// By node, the row of the batch with the score.
    scores: Vec<Option<u32>>,
}

impl Found {
    fn push(&mut self, node: u32, representative: u32, score: Option<u32>) {
        self.nodes.push(node);
        self.representatives.push(representative);
        self.scores.push(score);
    }
}

impl Pass {
    fn pairs(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let open = &mut self.open;
        let ids = self.nodes.number(&[batch.column(0), batch.column(1)], |change| {
            *open = open.map(|id| change.id_of(id));
        })?;
        let [later, earlier] = ids.as_slice() else {
            return internal_err!("pairs have two columns of nodes");
        };
        for (row, (later, earlier)) in later.iter().zip(earlier).enumerate() {
            self.pair(*later, *earlier, row as u32);
        }
        self.rows(batch.columns().get(2))
    }

    /// Goes through a pair. Those of one later node follow each other, the best first.
    fn pair(&mut self, later: u32, earlier: u32, row: u32) {
        if later == NO_ID {
            return;
        }
        if self.open != Some(later) {
            self.close();
            if self.nodes.mark(later) != DROPPED {
                self.open = Some(later);
                // A mark keeps the id of the open node where ids change.
                self.nodes.set_mark(later, KEPT);
            }
        }
        if earlier == NO_ID {
            return;
        }
        if self.nodes.mark(earlier) == 0 {
            // All pairs in which it is the later node would have come before.
            self.nodes.set_mark(earlier, KEPT);
            self.found.push(earlier, earlier, None);
        }
        if self.open == Some(later) && self.nodes.mark(earlier) == KEPT {
            self.nodes.set_mark(later, DROPPED);
            self.found.push(later, earlier, Some(row));
            self.open = None;
        }
    }

    /// Keeps the open node, all of whose pairs were gone through.
    fn close(&mut self) {
        if let Some(node) = self.open.take() {
            self.found.push(node, node, None);
        }
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        self.close();
        self.rows(None)
    }

    fn rows(&mut self, scores: Option<&ArrayRef>) -> Result<RecordBatch> {
        let Found { nodes, representatives, scores: places } = std::mem::take(&mut self.found);
        let kept = nodes.iter().zip(&representatives).map(|(node, kept)| Some(node == kept));
        let kept: BooleanArray = kept.collect();
        let mut columns: Vec<ArrayRef> =
            vec![self.nodes.values(&nodes)?, self.nodes.values(&representatives)?, Arc::new(kept)];
        if let Some(field) = self.schema.fields().get(3) {
            columns.push(match scores {
                Some(scores) => take(scores, &UInt32Array::from(places), None)?,
                None => arrow::array::new_null_array(field.data_type(), nodes.len()),
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
