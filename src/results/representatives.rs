//! Representatives: which nodes to keep, and which kept one stands for each other.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, make_comparator};
use arrow::compute::{SortOptions, concat, take};
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
use super::nodes::{NO_ID, NODE_ORDER};
use super::operator::{
    By, fmt_sort, order_of, properties_of, reads_pairs, reads_sorted_pairs, sorted_pairs,
};
use super::scores::without_nan;
use super::sort::PairSort;

const KEPT: u8 = 1;
const DROPPED: u8 = 2;

/// Goes through nodes in their order, and keeps each that no kept node before it is a partner of.
///
/// The input has the columns later, earlier and, where pairs have scores, score: the nodes of a pair in
/// their order; earlier is NULL for a node alone. It is sorted by later, or [`sorting`](Self::sorting) sorts it.
/// The output has a row for each node: the node; its representative, which is itself where it is
/// kept, and else the kept partner before it of the best score, of ties the least; whether it is
/// kept; and the score with the representative. A score that is NaN is as NULL, worse than any number.
///
/// Memory: a byte for each id of a node, where nodes are integers of a narrow range; otherwise also a
/// table of the distinct values.
#[derive(Debug)]
pub struct RepresentativesExec {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    /// Whether a lesser score is better.
    is_distance: bool,
    /// Whether the pairs come in any order.
    sorts: bool,
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
        Ok(Self { input, schema, is_distance, sorts: false, properties, metrics })
    }

    /// The same representatives, of pairs that come in any order and partitions: the operator sorts them.
    pub fn sorting(self) -> Self {
        Self { sorts: true, ..self }
    }

    /// Whether a lesser score is better.
    pub fn is_distance(&self) -> bool {
        self.is_distance
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let other = Self::try_new(input, Arc::clone(&self.schema), self.is_distance)?;
        Ok(Self { sorts: self.sorts, ..other })
    }

    fn sort(&self) -> [By; 1] {
        [By::Nodes(0)]
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
            _ => {
                write!(f, "RepresentativesExec: by={order}")?;
                fmt_sort(self.sorts, order_of(&self.input, &self.sort()), f)
            }
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
        let mut pass = PairPass {
            nodes,
            is_distance: self.is_distance,
            open: None,
            held: None,
            schema: self.schema(),
            found: DecidedNodes::default(),
        };
        let emitted = BaselineMetrics::new(&self.metrics, partition);
        let pairs = MetricBuilder::new(&self.metrics).counter("pairs", partition);
        let order = order_of(&self.input, &self.sort()).filter(|_| self.sorts);
        let (input, metrics) = (&self.input, &self.metrics);
        let sort =
            order.map(|order| PairSort { function: "representatives", input, order, metrics });
        let input = sorted_pairs(input, partition, &context, sort)?;
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
struct PairPass {
    nodes: MarkedNodes,
    is_distance: bool,
    open: Option<OpenNode>,
    /// Between two batches, the columns of pairs from the earlier node on, with the best pair of the open
    /// node.
    held: Option<Vec<ArrayRef>>,
    schema: SchemaRef,
    found: DecidedNodes,
}

/// The later node of the pairs that are gone through.
#[derive(Debug, Clone, Copy)]
struct OpenNode {
    id: u32,
    /// The row of its best pair with a kept node so far, and that node.
    best: Option<(u32, u32)>,
}

/// Nodes that are decided.
#[derive(Debug, Default)]
struct DecidedNodes {
    nodes: Vec<u32>,
    representatives: Vec<u32>,
    /// By node, the row of the batch with the score.
    scores: Vec<Option<u32>>,
}

impl DecidedNodes {
    fn push(&mut self, node: u32, representative: u32, score: Option<u32>) {
        self.nodes.push(node);
        self.representatives.push(representative);
        self.scores.push(score);
    }
}

impl PairPass {
    fn pairs(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let open = &mut self.open;
        let ids = self.nodes.number(&[batch.column(0), batch.column(1)], |change| {
            if let Some(OpenNode { id, best }) = open {
                *id = change.id_of(*id);
                *best = best.map(|(row, earlier)| (row, change.id_of(earlier)));
            }
        })?;
        let [later, earlier] = ids.as_slice() else {
            return internal_err!("pairs have two columns of nodes");
        };
        let mut columns = batch.columns()[1..].to_vec();
        if let Some(scores) = columns.get_mut(1) {
            *scores = without_nan(scores)?;
        }
        // The best pair of the open node stands in front.
        let columns = match self.held.take() {
            None => columns,
            Some(held) => {
                let columns = held.iter().zip(&columns);
                let joined = columns.map(|(held, column)| concat(&[held, column]));
                joined.collect::<std::result::Result<_, _>>()?
            }
        };
        let first = columns[0].len() - batch.num_rows();
        let compare = self.comparator(&columns)?;
        for (row, (later, earlier)) in later.iter().zip(earlier).enumerate() {
            self.pair(*later, *earlier, (row + first) as u32, &compare);
        }
        if let Some(OpenNode { best: Some((row, _)), .. }) = &mut self.open {
            let best = UInt32Array::from(vec![std::mem::take(row)]);
            let held = columns.iter().map(|column| take(column, &best, None));
            self.held = Some(held.collect::<std::result::Result<_, _>>()?);
        }
        self.rows(columns.get(1))
    }

    /// Compares pairs of one later node by row: the best score is least, of ties the least earlier node.
    fn comparator(&self, columns: &[ArrayRef]) -> Result<impl Fn(u32, u32) -> Ordering + use<>> {
        let by_earlier = make_comparator(&columns[0], &columns[0], NODE_ORDER)?;
        let best_first = SortOptions { descending: !self.is_distance, nulls_first: false };
        let by_score = columns.get(1).map(|scores| make_comparator(scores, scores, best_first));
        let by_score = by_score.transpose()?;
        Ok(move |a: u32, b: u32| {
            let [a, b] = [a as usize, b as usize];
            let scores = by_score.as_ref().map_or(Ordering::Equal, |compare| compare(a, b));
            scores.then_with(|| by_earlier(a, b))
        })
    }

    /// Goes through a pair. The pairs of one later node follow each other.
    fn pair(
        &mut self,
        later: u32,
        earlier: u32,
        row: u32,
        compare: &impl Fn(u32, u32) -> Ordering,
    ) {
        if later == NO_ID {
            return;
        }
        if self.open.is_none_or(|open| open.id != later) {
            self.close();
            self.open = Some(OpenNode { id: later, best: None });
            // A mark keeps the id of the open node where ids change.
            self.nodes.set_mark(later, KEPT);
        }
        if earlier == NO_ID {
            return;
        }
        if self.nodes.mark(earlier) == 0 {
            // All pairs in which it is the later node would have come before.
            self.nodes.set_mark(earlier, KEPT);
            self.found.push(earlier, earlier, None);
        }
        if self.nodes.mark(earlier) == KEPT
            && let Some(OpenNode { best, .. }) = &mut self.open
            && best.is_none_or(|(best, _)| compare(row, best).is_lt())
        {
            *best = Some((row, earlier));
        }
    }

    /// Decides the open node, all of whose pairs were gone through.
    fn close(&mut self) {
        match self.open.take() {
            Some(OpenNode { id, best: Some((row, kept)) }) => {
                self.nodes.set_mark(id, DROPPED);
                self.found.push(id, kept, Some(row));
            }
            Some(OpenNode { id, best: None }) => self.found.push(id, id, None),
            None => {}
        }
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        self.close();
        let held = self.held.take();
        self.rows(held.as_ref().and_then(|held| held.get(1)))
    }

    fn rows(&mut self, scores: Option<&ArrayRef>) -> Result<RecordBatch> {
        let DecidedNodes { nodes, representatives, scores: places } =
            std::mem::take(&mut self.found);
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
