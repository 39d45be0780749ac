//! A search for the neighbours of rows in memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::array::Array;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::expressions::Column;

use super::pairs::{ComputedPairs, admitted, evaluate, is_true};
use super::table::RowTable;
use crate::config::SimJoinOptions;
use crate::engine::{Round, Way};
use crate::exec::ProcessCores;
use crate::families::Families;
use crate::operator::errors::is_out_of_memory;
use crate::spec::{Nearest, NearestJoin, Side};
use crate::top::{TopK, key_of};
use crate::util::attached::Attached;
use crate::util::parallel::Threads;

/// Hears of each round that has ended.
pub(super) type OnRound = Arc<dyn Fn(FinishedRound) + Send + Sync>;

/// A round that has ended.
#[derive(Debug, Clone)]
pub(super) struct FinishedRound {
    pub round: Round,
    /// Whether a row stands for all that are equal to it.
    pub of_items: bool,
}

impl fmt::Display for FinishedRound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round: Round { way, rows, served }, of_items } = self;
        let rows_or_items = if *of_items { "distinct rows" } else { "rows" };
        write!(f, "{way}: {served} of {rows} {rows_or_items}")
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
    /// The forms of the left rows, which searches in several windows share.
    pub kept: Option<Arc<Attached>>,
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
            Ok(Some(left)) if left.is_empty() => return Ok(()),
            Ok(Some(left)) => return self.find_again(rows, &left, best, carried).await,
            Ok(None) => {}
            // Rows that stand for themselves take less.
            Err(error) if is_out_of_memory(&error) => {
                (0..rows.len() as u32).for_each(|place| best.clear(place));
            }
            Err(error) => return Err(error),
        }
        self.find_apart(rows, best, carried).await
    }

    /// Finds the best pairs of the left rows at some places in `rows`, which have fewer than they may have, each row for
    /// itself.
    async fn find_again(
        &self,
        rows: &[u32],
        places: &[u32],
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<()> {
        places.iter().for_each(|place| best.clear(*place));
        self.find_those(rows, places.to_vec(), best, carried).await
    }

    /// Finds the best pairs as [`Self::find`] does, each row for itself.
    pub(super) async fn find_apart(
        &self,
        rows: &[u32],
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<()> {
        self.find_those(rows, (0..rows.len() as u32).collect(), best, carried).await
    }

    /// Finds the best pairs of the left rows at the places `active` in `rows`.
    async fn find_those(
        &self,
        rows: &[u32],
        mut active: Vec<u32>,
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<()> {
        if self.right_rows() == 0 || active.is_empty() {
            return Ok(());
        }
        let lists = self.memory.new_empty();
        // The places, and the numbers of their rows.
        lists.try_grow(2 * active.len() * size_of::<u32>())?;
        if let Some(search) = &self.join.search {
            self.ask(search, (rows, &active), best, carried).await?;
            if self.join.score.is_none() {
                return Ok(());
            }
            let key = key_of(search.predicate.bound, self.join.order);
            let is_done = |place: u32| {
                best.is_full(place)
                    || carried.is_some_and(|carried| carried.is_full_within(place, key))
            };
            active.retain(|place| !is_done(*place));
        }
        active = self.by_rounds(rows, active, best, carried).await?;
        if active.is_empty() || self.join.score.is_none() {
            return Ok(());
        }
        active.iter().for_each(|place| best.clear(*place));
        let (left, right) = (Arc::clone(&self.left), Arc::clone(&self.right));
        let pairs =
            ComputedPairs::try_new(Arc::clone(&self.join), left, right, self.memory.new_empty())?;
        let pairs = Arc::new(pairs);
        let numbers: Vec<u32> = active.iter().map(|place| rows[*place as usize]).collect();
        let count = active.len();
        pairs.offer(numbers.into(), active.into(), best, self.threads().count()).await?;
        let round = Round { way: Way::Pairs, rows: count, served: count };
        (self.on_round)(FinishedRound { round, of_items: false });
        Ok(())
    }
}
