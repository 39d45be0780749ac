//! Joins of rows in memory by bounds from a sample, whose pairs are numbers of rows.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::StreamExt;

use super::held::rows_of_sample;
use super::input::HeldInput;
use super::top::{Pair, Picked, Top};
use crate::config::SimJoinOptions;
use crate::exec::{JoinMode, ProcessCores, SetSimilarityJoinExec};
use crate::families::Families;
use crate::memory::CountedVec;
use crate::nearest::numbered::{NumberedPairs, NumberedRows};
use crate::nearest::table::RowTable;
use crate::spec::{Order, OutputColumn, SimilarityJoin};
use crate::top::{ScoreKey, key_of, score_of};
use crate::tuning::{Size, Tuning};
use crate::util::parallel::Threads;

/// Pairs of rows, at most, of which all matches are made.
const FEW_PAIRS: Size = Size { usual: 1 << 22, small: 1 << 8 };

/// Bounds that are tried, at most.
const MOST_ROUNDS: u32 = 4;

/// The factor by which the next round is to find more pairs than a round that found too few.
const WIDER: usize = 4;

/// The best pairs of a sample that are told apart where its pairs are counted.
pub(super) const COUNTED: usize = 1 << 12;

/// Told of a round that has ended, and of its join, where it is one.
pub(super) type OnRound = Arc<dyn Fn(String, Option<Arc<SetSimilarityJoinExec>>) + Send + Sync>;

/// The outcome of a search.
#[derive(Debug)]
pub(super) enum SearchOutcome {
    /// The pairs.
    Pairs(CountedVec<Pair>),
    /// The pairs are those that a join by this bound finds, or among them.
    Within(f64),
}

/// The means of an execution.
pub(super) struct Execution {
    /// The join with all its pairs.
    pub plain: Arc<SetSimilarityJoinExec>,
    pub families: Families,
    pub context: Arc<TaskContext>,
    pub memory: MemoryReservation,
    pub metrics: ExecutionPlanMetricsSet,
    pub on_round: OnRound,
}

impl Execution {
    /// The search among rows in memory.
    pub(super) fn search(&self, tables: [Arc<RowTable>; 2], itself: bool) -> BestPairSearch {
        let plain = &self.plain;
        BestPairSearch {
            join: plain.join().clone(),
            tables,
            itself,
            families: self.families.clone(),
            options: plain.options().clone(),
            mode: plain.mode(),
            context: Arc::clone(&self.context),
            memory: self.memory.new_empty(),
            on_round: Arc::clone(&self.on_round),
        }
    }

    /// The search among a sample of the rows of each side; `None` where these make few pairs.
    ///
    /// # Errors
    ///
    /// When rows cannot be read, and when memory is refused.
    pub(super) async fn search_of_sample(
        &self,
        held: &HeldInput,
    ) -> Result<Option<BestPairSearch>> {
        let tuning = ProcessCores::of(self.context.session_config()).tuning;
        if are_few_pairs(held.rows(), tuning) {
            return Ok(None);
        }
        let memory = self.memory.new_empty();
        let tables = held.sample(tuning, &memory).await?;
        Ok(Some(BestPairSearch { memory, ..self.search(tables, false) }))
    }
}

/// Whether so many rows of each side make so few pairs that all matches are made.
fn are_few_pairs([left, right]: [usize; 2], tuning: Tuning) -> bool {
    left.saturating_mul(right) <= tuning.size(FEW_PAIRS)
}

/// Both sides of an execution, in memory.
pub(super) struct BestPairSearch {
    /// The join as planned.
    pub join: SimilarityJoin,
    pub tables: [Arc<RowTable>; 2],
    /// Whether one input is both sides.
    pub itself: bool,
    pub families: Families,
    pub options: SimJoinOptions,
    pub mode: JoinMode,
    pub context: Arc<TaskContext>,
    pub memory: MemoryReservation,
    pub on_round: OnRound,
}

impl BestPairSearch {
    /// The threads that share work.
    pub(super) fn threads(&self) -> Threads {
        ProcessCores::of(self.context.session_config())
    }

    pub(super) fn tuning(&self) -> Tuning {
        self.threads().tuning
    }

    pub(super) fn order(&self) -> Order {
        self.join.predicate.call.function.info().order
    }

    /// The type of the score.
    pub(super) fn score_type(&self) -> Result<DataType> {
        let of_side = |side: usize| self.join.arguments[side].data_type(self.tables[side].schema());
        Ok(self.join.predicate.call.function.data_type([&of_side(0)?, &of_side(1)?]))
    }

    /// The search without a condition of the pair.
    pub(super) fn without_condition(&self) -> Self {
        let itself = self.itself;
        let join = SimilarityJoin { residual: None, ..self.join.clone() };
        Self { join, itself, ..self.among(self.tables.clone(), self.memory.new_empty()) }
    }

    /// The search among rows of two other tables.
    fn among(&self, tables: [Arc<RowTable>; 2], memory: MemoryReservation) -> Self {
        Self {
            join: self.join.clone(),
            tables,
            itself: false,
            families: self.families.clone(),
            options: self.options.clone(),
            mode: self.mode,
            context: Arc::clone(&self.context),
            memory,
            on_round: Arc::clone(&self.on_round),
        }
    }

    /// Whether the rows make so few pairs that all matches are made.
    pub(super) fn has_few_pairs(&self) -> bool {
        are_few_pairs([0, 1].map(|side| self.tables[side].rows()), self.tuning())
    }

    /// Whether the scores of the output are those by which pairs are ranked.
    pub(super) fn has_all_scores(&self) -> bool {
        let own = OutputColumn::Score(self.join.predicate.call);
        let mut output = self.join.output.iter();
        output.all(|column| *column == own || column.source().is_some())
    }

    fn top(&self, count: usize, any_tie: bool) -> Arc<Top> {
        let best = self.join.predicate.call.function.extremes()[1];
        let best = (!best.is_nan()).then(|| key_of(best, self.order()));
        Arc::new(Top::new(count, any_tie, best, &self.memory, self.tuning()))
    }

    /// The scores of a sample of each side, joined by the widest bound, as far as they tell bounds for `count`
    /// pairs.
    pub(super) async fn sample(&self, count: usize) -> Result<ScoreSample> {
        let (sample, share) = self.sampled()?;
        sample.scores(count, share).await
    }

    /// The number of pairs of the join, as a sample of each side has them; or a lesser one, of so many that
    /// the sample was left.
    pub(super) async fn expected_pairs(&self) -> Result<f64> {
        let (sample, share) = self.sampled()?;
        let top = sample.join_sample(COUNTED).await?;
        Ok(top.offered() as f64 / share)
    }

    /// The search among a sample of each side, and the part of all pairs that are among these.
    fn sampled(&self) -> Result<(Self, f64)> {
        let memory = self.memory.new_empty();
        let sample = |side: usize| -> Result<Arc<RowTable>> {
            let table = &self.tables[side];
            let rows = rows_of_sample(table.rows(), side, self.tuning());
            Ok(Arc::new(table.some(&rows, &memory)?))
        };
        let tables = [sample(0)?, sample(1)?];
        let sample = self.among(tables, memory);
        let share = sample.share_of([0, 1].map(|side| self.tables[side].rows()));
        Ok((sample, share))
    }

    /// The part of all pairs of so many rows that the pairs of these tables are.
    pub(super) fn share_of(&self, rows: [usize; 2]) -> f64 {
        [0, 1].map(|side| self.tables[side].rows() as f64 / rows[side] as f64).iter().product()
    }

    /// The scores of these rows, joined by the widest bound, as far as they tell bounds for `count` pairs of
    /// rows of which these are a `share`.
    pub(super) async fn scores(&self, count: usize, share: f64) -> Result<ScoreSample> {
        let count = ScoreSample::place(share, count, MOST_ROUNDS.saturating_sub(1));
        let top = self.join_sample(count).await?;
        let keys = match top.take() {
            Picked::Few(pairs) | Picked::Pairs(pairs) => {
                pairs.iter().map(|(key, ..)| *key).collect()
            }
            // So many ties that all places have this key.
            Picked::Within(key) => vec![key; count],
        };
        Ok(ScoreSample { keys, share, offered: top.offered() })
    }

    /// The `count` best pairs of these rows by the widest bound.
    async fn join_sample(&self, count: usize) -> Result<Arc<Top>> {
        let top = self.top(count, false);
        let plan = self.join(self.join.predicate.bound, [None; 2], &top).await?;
        let [left, right] = [0, 1].map(|side| self.tables[side].rows());
        let text = format!("sample of {left} x {right} rows: {} pairs", top.offered());
        (self.on_round)(text, Some(plan));
        Ok(top)
    }

    /// Offers `top` the matches of a join by `bound` of some rows of each side, all where there are none
    /// given. Returns the join.
    pub(super) async fn join(
        &self,
        bound: f64,
        rows: [Option<&[u32]>; 2],
        top: &Arc<Top>,
    ) -> Result<Arc<SetSimilarityJoinExec>> {
        let copies = self.memory.new_empty();
        let numbered = NumberedRows {
            tables: [&self.tables[0], &self.tables[1]],
            rows,
            itself: self.itself && rows == [None; 2],
            partitions: self.threads().count(),
        };
        let predicate = self.join.predicate.with_bound(bound);
        let (output, schema) = numbered.output(predicate.call, &self.join.arguments)?;
        let join = SimilarityJoin { predicate, output, schema, ..self.join.clone() };
        let join = join.with_column_behind(numbered.columns())?;
        let input = numbered.input(&self.options, &copies)?;
        let options = self.options.clone();
        let (families, mode) = (&self.families, self.mode);
        let plan =
            SetSimilarityJoinExec::try_new_in_mode(input, join, families, options, mode, None)?;
        let mut tasks = JoinSet::new();
        for partition in 0..plan.properties().partitioning.partition_count() {
            let mut batches = plan.execute(partition, Arc::clone(&self.context))?;
            let (top, order) = (Arc::clone(top), self.order());
            tasks.spawn(async move {
                while let Some(batch) = batches.next().await {
                    let pairs = NumberedPairs::of(&batch?, order)?;
                    top.offer(pairs.iter().map(|(left, right, key)| (key, left, right)))?;
                    if top.is_done() {
                        break;
                    }
                }
                Ok::<_, datafusion::error::DataFusionError>(())
            });
        }
        // Tasks that are left end with the set.
        while !top.is_done() {
            let Some(ended) = tasks.join_next().await else { break };
            ended.map_err(|e| {
                internal_datafusion_err!("a task of a join's best pairs ended: {e}")
            })??;
        }
        Ok(Arc::new(plan))
    }
}

/// Whether `bound` admits more than `other`; not where one is NaN.
pub(super) fn is_wider(bound: f64, other: f64, order: Order) -> bool {
    match order {
        Order::Similarity => bound < other,
        Order::Distance => bound > other,
    }
}

/// The scores of a sample.
#[derive(Debug)]
pub(super) struct ScoreSample {
    /// The best of them, the best one first.
    keys: Vec<ScoreKey>,
    /// The part of all pairs that is in the sample.
    share: f64,
    /// The number of pairs of the sample; a lesser one where the search left the sample because of so many.
    offered: usize,
}

impl ScoreSample {
    /// The place among the keys whose score `count` pairs, or in later rounds more, have at least.
    fn place(share: f64, count: usize, round: u32) -> usize {
        let expected = share * count as f64;
        // Three times the deviation, and some for small numbers.
        let sure = (expected + 3.0 * expected.sqrt() + 3.0).ceil() as usize;
        sure.saturating_mul(WIDER.saturating_pow(round)).max(1)
    }

    /// The number of pairs of the join, or a lesser one where the sample was left.
    pub(super) fn pairs(&self) -> f64 {
        self.offered as f64 / self.share
    }

    /// The bounds of the rounds for `count` pairs, each wider than the one before it; `widest` is the last.
    pub(super) fn bounds(&self, count: usize, widest: f64, order: Order) -> Vec<f64> {
        let place = |round| Self::place(self.share, count, round) - 1;
        let keys = (0..MOST_ROUNDS).map_while(|round| self.keys.get(place(round)));
        let mut bounds: Vec<f64> = keys.map(|key| score_of(*key, order)).collect();
        bounds.retain(|bound| is_wider(widest, *bound, order));
        bounds.dedup();
        bounds.push(widest);
        bounds
    }
}
