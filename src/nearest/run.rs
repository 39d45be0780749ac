//! One execution: rounds of similarity joins, until every left row has its neighbours.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::{Array, ArrayRef};
use datafusion::common::runtime::JoinSet;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::numbered::{NumberedPairs, NumberedRows};
use super::pairs::{ComputedPairs, admitted, batch_of, evaluate, is_true};
use super::rounds::Rounds;
use super::table::RowTable;
use super::tasks::all_of;
use crate::config::SimJoinOptions;
use crate::exec::{ProcessCores, SetSimilarityJoinExec};
use crate::families::Families;
use crate::operator::errors::is_out_of_memory;
use crate::spec::{Nearest, NearestJoin, Residual, ResidualColumn, Side, value_array};
use crate::top::{TopK, key_of};
use crate::util::parallel::Threads;

/// Left rows that are joined, in the order of their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftRows<'a> {
    /// Their numbers.
    pub rows: &'a [u32],
    /// The row of [`TopK`] for each of them.
    pub slots: &'a [u32],
}

/// Hears of each round that has ended.
pub(super) type OnRound = Arc<dyn Fn(Round) + Send + Sync>;

/// The way in which neighbours were looked for.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// A join with this bound.
    Bound(f64),
    /// A search at once, by this device.
    AtOnce(String),
    /// A search at once that found nothing, and why.
    Declined(String),
    /// Scores of pairs, one by one.
    Pairs,
}

/// A round that has ended.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub way: Way,
    /// The left rows that took part.
    pub rows: usize,
    /// The rows among them that have their neighbours since.
    pub served: usize,
    /// Whether a row stands for all that are equal to it.
    pub of_items: bool,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::Bound(bound) if (1e-3..1e6).contains(&bound.abs()) => write!(f, "{bound:.4}")?,
            Way::Bound(bound) => write!(f, "{bound:.0e}")?,
            Way::AtOnce(device) => write!(f, "at once, {device}")?,
            Way::Declined(why) => write!(f, "at once ({why})")?,
            Way::Pairs => write!(f, "all pairs")?,
        }
        let rows = if self.of_items { "distinct rows" } else { "rows" };
        write!(f, ": {} of {} {rows}", self.served, self.rows)
    }
}

/// A search for neighbours of rows in memory among rows in memory.
#[derive(Clone)]
pub(super) struct InMemorySearch {
    pub join: Arc<NearestJoin>,
    pub left: Arc<RowTable>,
    pub right: Arc<RowTable>,
    /// Whether one input is both sides, and may be joined as such.
    pub itself: bool,
    /// The order of right rows, where those that come first in it are nearer among equal scores.
    pub order: Option<Arc<PartnerOrder>>,
    pub families: Families,
    pub options: SimJoinOptions,
    pub context: Arc<TaskContext>,
    pub memory: Arc<MemoryReservation>,
    pub on_round: OnRound,
    /// Whether a search before this one has found that rows hardly repeat.
    pub hardly_repeat: Arc<AtomicBool>,
}

/// An order of right rows; the order of their numbers unless there are ranks.
#[derive(Debug, Default)]
pub(super) struct PartnerOrder {
    /// The rank of each right row, by its number.
    pub ranks: Vec<u32>,
    /// The number of the right row of each rank.
    pub rows: Vec<u32>,
}

impl InMemorySearch {
    /// The number by which [`TopK`] knows a right row.
    pub(super) fn rank_of(&self, row: u32) -> u32 {
        let rank = self.order.as_ref().and_then(|order| order.ranks.get(row as usize));
        rank.copied().unwrap_or(row)
    }

    /// The right row that [`TopK`] knows by a number.
    pub(super) fn row_of(&self, rank: u32) -> u32 {
        let row = self.order.as_ref().and_then(|order| order.rows.get(rank as usize));
        row.copied().unwrap_or(rank)
    }

    pub(super) fn nearest(&self) -> Nearest {
        self.join.nearest
    }

    pub(super) fn right_rows(&self) -> usize {
        self.right.rows()
    }

    /// The most neighbours that a row can have without ties.
    pub(super) fn count(&self) -> usize {
        self.nearest().count.get().min(self.right_rows()).max(1)
    }

    /// The threads that share work.
    pub(super) fn threads(&self) -> Threads {
        ProcessCores::of(self.context.session_config())
    }

    /// The left rows that may have neighbours: rows whose argument is NULL have none. An argument that is
    /// computed is looked at where such rows would meet every right row.
    pub(super) fn candidates(&self) -> Result<Vec<u32>> {
        let mut rows = vec![];
        for (start, batch) in self.left.batches() {
            let filter = admitted(self.join.side_filter(Side::Left), batch)?;
            let argument = self.join.search.as_ref().map(|s| &s.arguments[Side::Left as usize]);
            let argument = argument.filter(|e| self.join.score.is_some() || e.is::<Column>());
            let argument = argument.map(|argument| evaluate(argument, batch)).transpose()?;
            let nulls = argument.and_then(|argument| argument.logical_nulls());
            rows.extend((0..batch.num_rows()).filter_map(|row| {
                let admitted = filter.as_ref().is_none_or(|filter| is_true(filter, row));
                let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                (admitted && !is_null).then_some(start + row as u32)
            }));
        }
        Ok(rows)
    }

    /// Finds the best pairs of the left rows `rows`, and offers them to `best`, which has none yet and knows each
    /// row by its place in `rows`. `carried` has their pairs with other right rows: pairs that are worse than all
    /// carried pairs of their row are not needed.
    pub(super) async fn find(
        &self,
        rows: &[u32],
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<()> {
        match self.find_by_items(rows, best, carried).await {
            Ok(Some(left)) => return self.find_in_rounds(rows, left, best, carried).await,
            Ok(None) => {}
            // Rows that stand for themselves take less.
            Err(error) if is_out_of_memory(&error) => {
                (0..rows.len() as u32).for_each(|place| best.clear(place));
            }
            Err(error) => return Err(error),
        }
        self.find_apart(rows, best, carried).await
    }

    /// Finds the best pairs as [`Self::find`] does, each row for itself.
    pub(super) async fn find_apart(
        &self,
        rows: &[u32],
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<()> {
        let left = self.find_at_once(rows, best, carried).await?;
        let active = left.unwrap_or_else(|| (0..rows.len() as u32).collect());
        self.find_in_rounds(rows, active, best, carried).await
    }

    /// Finds the best pairs as [`Self::find`] does, in rounds, of the left rows at the places `active` in `rows`,
    /// which have fewer neighbours than they may have.
    async fn find_in_rounds(
        &self,
        rows: &[u32],
        mut active: Vec<u32>,
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<()> {
        let lists = self.memory.new_empty();
        // The places, and the numbers of their rows.
        lists.try_grow(2 * active.len() * size_of::<u32>())?;
        if let Some(search) = self.join.search.as_ref().filter(|_| !active.is_empty()) {
            let function = search.predicate.call.function;
            let mut rounds = Rounds::new(function, search.predicate.bound);
            if let Some(carried) = carried {
                rounds.follow(carried, &active);
            }
            loop {
                let numbers = numbers_of(&active, rows);
                let (bound, is_last) = rounds.next(self, &numbers).await?;
                active.iter().for_each(|place| best.clear(*place));
                let left = LeftRows { rows: &numbers, slots: &active };
                self.join(bound, left, None, best).await?;
                let took_part = active.len();
                let key = key_of(bound, self.join.order);
                let is_done = |place: u32| {
                    best.is_full(place)
                        || carried.is_some_and(|carried| carried.is_full_within(place, key))
                };
                active.retain(|place| !is_done(*place));
                let served = took_part - active.len();
                let way = Way::Bound(bound);
                (self.on_round)(Round { way, rows: took_part, served, of_items: false });
                if is_last || active.is_empty() {
                    break;
                }
            }
        }
        if active.is_empty() || self.right_rows() == 0 || self.join.score.is_none() {
            return Ok(());
        }
        active.iter().for_each(|place| best.clear(*place));
        let (left, right) = (Arc::clone(&self.left), Arc::clone(&self.right));
        let pairs =
            ComputedPairs::try_new(Arc::clone(&self.join), left, right, self.memory.new_empty())?;
        let pairs = Arc::new(pairs);
        let numbers = numbers_of(&active, rows).into();
        let count = active.len();
        pairs.offer(numbers, active.into(), best, self.threads().count()).await?;
        let way = Way::Pairs;
        (self.on_round)(Round { way, rows: count, served: count, of_items: false });
        Ok(())
    }

    /// Offers `best` the matches of a join by `bound` of some left rows with some right rows, all of them
    /// where `right` is `None`.
    pub(super) async fn join(
        &self,
        bound: f64,
        left: LeftRows<'_>,
        right: Option<&[u32]>,
        best: &Arc<TopK>,
    ) -> Result<()> {
        let copies = self.memory.new_empty();
        let plan = self.plan(bound, left.rows, right, &copies)?;
        copies.try_grow(self.left.rows() * size_of::<u32>())?;
        let mut slots = vec![u32::MAX; self.left.rows()];
        for (row, slot) in left.rows.iter().zip(left.slots) {
            slots[*row as usize] = *slot;
        }
        let slots = Arc::new(slots);
        let mut tasks = JoinSet::new();
        for partition in 0..plan.output_partitioning().partition_count() {
            let mut batches = plan.execute(partition, Arc::clone(&self.context))?;
            let (slots, best, run) = (Arc::clone(&slots), Arc::clone(best), self.clone());
            tasks.spawn(async move {
                while let Some(batch) = batches.next().await {
                    let pairs = NumberedPairs::of(&batch?, run.join.order)?;
                    let pairs = pairs.iter();
                    best.offer(
                        pairs.map(|(left, right, key)| {
                            (slots[left as usize], run.rank_of(right), key)
                        }),
                    );
                    best.settle()?;
                }
                Ok::<_, datafusion::error::DataFusionError>(())
            });
        }
        all_of(tasks).await.map(drop)
    }

    /// The values of a condition for pairs of rows with their scores.
    ///
    /// # Errors
    ///
    /// The errors of evaluating it.
    pub(super) fn evaluate_pairs(
        &self,
        condition: &Residual,
        left: &[u32],
        right: &[u32],
        values: Vec<f64>,
    ) -> Result<ArrayRef> {
        let columns = condition.columns.iter().zip(condition.schema.fields());
        let columns = columns.map(|(column, field)| match column {
            ResidualColumn::Input(Side::Left, index) => self.left.column(*index, left),
            ResidualColumn::Input(Side::Right, index) => self.right.column(*index, right),
            ResidualColumn::Score(_) => Ok(value_array(values.clone(), field.data_type())?),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = batch_of(&condition.schema, columns, left.len())?;
        let holds = evaluate(&condition.expression, &batch)?;
        match holds.len() == left.len() {
            true => Ok(holds),
            false => {
                internal_err!("a condition has {} values for {} pairs", holds.len(), left.len())
            }
        }
    }

    /// The similarity join of a round, whose output is the numbers of the rows and the score.
    fn plan(
        &self,
        bound: f64,
        left: &[u32],
        right: Option<&[u32]>,
        copies: &MemoryReservation,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(search) = &self.join.search else {
            return internal_err!("no similarity join finds these neighbours");
        };
        let all_left = left.len() == self.left.rows();
        let numbered = NumberedRows {
            tables: [&self.left, &self.right],
            rows: [Some(left).filter(|_| !all_left), right],
            itself: self.itself && all_left && right.is_none(),
            partitions: self.threads().count(),
        };
        let (output, schema) = numbered.output(search.predicate.call, &search.arguments)?;
        let join = self.join.matches(search, bound, output, schema);
        let join = join.with_column_behind(numbered.columns())?;
        let options = self.options.clone();
        let input = numbered.input(&options, copies)?;
        Ok(Arc::new(SetSimilarityJoinExec::try_new(input, join, &self.families, options)?))
    }
}

fn numbers_of(places: &[u32], rows: &[u32]) -> Vec<u32> {
    places.iter().map(|place| rows[*place as usize]).collect()
}
