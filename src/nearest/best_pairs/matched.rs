//! The pairs of a one-to-one match of rows that do not fit into memory.
//!
//! ```text
//! rows on disk ─► those whose nodes are not taken ─► similarity join by the bound of the round
//!                          ▲                                           │
//!                          └──── nodes that are taken ◄──── a match among its pairs ────► output
//! ```
//!
//! All pairs of better scores decide before the others do: a match among the pairs within a bound is a part of the
//! match among all.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::mpsc::Sender;

use super::input::HeldInput;
use super::one_to_one::{NodeColumns, PAIRS_OF_ROW, columns_of};
use super::search::{BestPairSearch, Execution, ScoreSample};
use crate::exec::SetSimilarityJoinExec;
use crate::operator::streams::StreamsExec;
use crate::results::{MarkedNodes, NO_ID, OneToOneExec};
use crate::spec::{Order, OutputColumn, Side, SimilarityJoin};

/// The mark of a node that is taken.
const TAKEN: u8 = 1;

/// The nodes of both sides, shared by the rounds.
type TakenNodes = [Arc<Mutex<MarkedNodes>>; 2];

/// A match among the rows of both inputs, which are in memory or on disk.
pub(super) struct StoredMatch {
    pub search: BestPairSearch,
    pub sample: ScoreSample,
    pub held: HeldInput,
    pub columns: NodeColumns,
    pub metrics: ExecutionPlanMetricsSet,
}

impl Execution {
    /// The search for a match by nodes among all rows of an input, which go to disk, with the scores of a sample; `None`
    /// where the join makes few others, or its output has other columns.
    ///
    /// # Errors
    ///
    /// When rows cannot be read or written, and when memory is refused.
    pub(super) async fn stored_match(
        &self,
        held: &mut HeldInput,
        nodes: [usize; 2],
    ) -> Result<Option<(BestPairSearch, ScoreSample, NodeColumns)>> {
        let columns = columns_of(self.plain.join(), nodes)
            .filter(|columns| columns_of_match(self.plain.join(), *columns).is_some());
        let Some(columns) = columns else { return Ok(None) };
        if !held.store(&self.context, &self.metrics).await? {
            return Ok(None);
        }
        let Some(search) = self.search_of_sample(held).await? else { return Ok(None) };
        let rows = held.rows();
        let wanted = PAIRS_OF_ROW.saturating_mul(rows[0].min(rows[1]));
        let sample = search.scores(wanted, search.share_of(rows)).await?;
        let pays = !search.makes_few_pairs(&sample, rows);
        Ok(pays.then_some((search, sample, columns)))
    }
}

/// The columns of the output, as columns of the match: left node, right node, score. `None` where there are others.
pub(super) fn columns_of_match(join: &SimilarityJoin, columns: NodeColumns) -> Option<Vec<usize>> {
    let [first, second] = columns.sources();
    let place = |column: &OutputColumn| match column.source() {
        Some(source) if source == first => Some(0),
        Some(source) if source == second => Some(1),
        Some(_) => None,
        None => (*column == OutputColumn::Score(join.predicate.call)).then_some(2),
    };
    join.output.iter().map(place).collect()
}

impl StoredMatch {
    /// The pairs of the match. `places` has the columns of the output among those of the match.
    pub(super) fn run(self, places: Vec<usize>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.search.join.schema);
        let mut builder = RecordBatchReceiverStream::builder(schema, 2);
        let to = builder.tx();
        builder.spawn(async move { self.find(&places, to).await });
        builder.build()
    }

    async fn find(self, places: &[usize], to: Sender<Result<RecordBatch>>) -> Result<()> {
        let Self { search, sample, held, metrics, .. } = &self;
        let widest = search.join.predicate.bound;
        let wanted = PAIRS_OF_ROW.saturating_mul(held.rows().into_iter().min().unwrap_or(0));
        let emitted = BaselineMetrics::new(metrics, 0);
        let taken = self.no_nodes()?;
        for bound in sample.bounds(wanted, widest, search.order()) {
            let plan = Arc::new(self.join(bound, &taken)?);
            let join: Arc<dyn ExecutionPlan> = Arc::<SetSimilarityJoinExec>::clone(&plan);
            let found = OneToOneExec::try_new(join, search.order() == Order::Distance)?.sorting();
            let mut pairs = found.execute(0, Arc::clone(&search.context))?;
            let mut count = 0;
            while let Some(batch) = pairs.next().await {
                let batch = batch?;
                count += batch.num_rows();
                for (taken, nodes) in taken.iter().zip(batch.columns()) {
                    take(&mut taken.lock(), nodes)?;
                }
                emitted.record_output(batch.num_rows());
                let columns = places.iter().map(|place| batch.column(*place).clone()).collect();
                let rows = RecordBatch::try_new(Arc::clone(&search.join.schema), columns)?;
                if to.send(Ok(rows)).await.is_err() {
                    return Ok(());
                }
            }
            (search.on_round)(format!("{bound}: {count} pairs are taken"), Some(plan));
        }
        Ok(())
    }

    /// Nodes of both sides of which none is taken.
    fn no_nodes(&self) -> Result<TakenNodes> {
        let [first, second] = self.columns.sources().map(|(side, column)| {
            let data_type = self.held.schema(side).field(column).data_type().clone();
            let memory: MemoryReservation = self.search.memory.new_empty();
            MarkedNodes::try_new("one_to_one", &data_type, memory)
        });
        Ok([Arc::new(Mutex::new(first?)), Arc::new(Mutex::new(second?))])
    }

    /// The join by a bound of the rows whose nodes are not taken, with the columns left node, right node, score.
    fn join(&self, bound: f64, taken: &TakenNodes) -> Result<SetSimilarityJoinExec> {
        let join = &self.search.join;
        let call = join.predicate.call;
        let sources = self.columns.sources();
        let nodes = sources.map(|(side, column)| OutputColumn::Input(side, column));
        let mut output = nodes.to_vec();
        output.push(OutputColumn::Score(call));
        let node = |(side, column): (Side, usize)| self.held.schema(side).field(column).clone();
        let score = Field::new("score", self.search.score_type()?, true);
        let [first, second] = sources.map(node);
        let schema =
            Arc::new(Schema::new(vec![first.with_name("left"), second.with_name("right"), score]));
        let predicate = join.predicate.with_bound(bound);
        let join = SimilarityJoin { predicate, output, schema, ..join.clone() };
        let input = self.held.two_inputs(|side, plan| {
            let at = sources.iter().position(|(of, _)| *of == side).unwrap_or_default();
            without_taken(plan, sources[at].1, Arc::clone(&taken[at]), &self.search)
        })?;
        let BestPairSearch { families, options, mode, .. } = &self.search;
        SetSimilarityJoinExec::try_new_in_mode(input, join, families, options.clone(), *mode, None)
    }
}

/// Takes nodes.
fn take(taken: &mut MarkedNodes, nodes: &ArrayRef) -> Result<()> {
    let ids = taken.number(&[nodes], |_| {})?;
    ids.iter().flatten().for_each(|id| taken.set_mark(*id, TAKEN));
    Ok(())
}

/// The rows of a plan of one partition that have a node in a column, which is not taken.
fn without_taken(
    plan: Arc<dyn ExecutionPlan>,
    column: usize,
    taken: Arc<Mutex<MarkedNodes>>,
    search: &BestPairSearch,
) -> Result<Arc<dyn ExecutionPlan>> {
    debug_assert_eq!(plan.output_partitioning().partition_count(), 1);
    let schema = plan.schema();
    let rows = plan.execute(0, Arc::clone(&search.context))?.map(move |batch| {
        let batch = batch?;
        let mut taken = taken.lock();
        let ids = taken.number(&[batch.column(column)], |_| {})?;
        let is_free = |id: &u32| Some(*id != NO_ID && taken.mark(*id) != TAKEN);
        let free: BooleanArray = ids.iter().flatten().map(is_free).collect();
        Ok(filter_record_batch(&batch, &free)?)
    });
    let rows = RecordBatchStreamAdapter::new(Arc::clone(&schema), rows);
    Ok(Arc::new(StreamsExec::new(schema, vec![Box::pin(rows)])))
}
