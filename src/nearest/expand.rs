//! From the nearest items of items to the nearest rows of rows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Operator;

use super::alike::common_ranks;
use super::condition::TableCondition;
use super::distinct::Items;
use super::run::InMemorySearch;
use super::tasks::all_of;
use crate::engine::PairCondition;
use crate::exec::layout::row_order_of;
use crate::memory::CountedVec;
use crate::spec::Residual;
use crate::top::{ScoreKey, TopK, score_of};
use crate::tuning::Size;

/// Left rows that a task takes on at a time.
const CHUNK: Size = Size { usual: 1 << 10, small: 1 << 3 };

/// [`Expand::block`].
const BLOCK: Size = Size { usual: 1 << 13, small: 1 << 5 };

/// The pairs of a row that are its best, where more are as good as the last one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ties {
    All,
    Any,
    /// The pairs whose right rows come first.
    First,
}

/// An item, or a row, with the key of its score.
type Entry = (ScoreKey, u32);

/// Right items, and what tells which of their rows are the nearest ones of left rows.
pub(super) struct Expand {
    /// The search for rows.
    run: InMemorySearch,
    /// The left rows that are searched for.
    rows: Vec<u32>,
    ties: Ties,
    /// Their rows are ranks.
    right: Items,
    /// A condition that pairs of rows must meet.
    condition: Option<TableCondition>,
    /// A comparison that the condition implies.
    compared: Option<Compared>,
    /// Pairs of rows, about, that are held against a condition at once.
    block: usize,
    _memory: MemoryReservation,
}

/// Left items, and the right items that are nearest to each.
struct ItemNeighbours {
    /// Their rows are places among [`Expand::rows`].
    left: Arc<Items>,
    best: Arc<TopK>,
    /// The items that each left item was to have.
    asked: usize,
}

/// A comparison of a column of each side: the rows of an item that it may hold for are neighbours.
struct Compared {
    operator: Operator,
    /// By number, the ranks of left rows; 0 is NULL, for which it never holds.
    left: Vec<u32>,
    /// By rank in the order of right rows, those of right rows.
    right: Vec<u32>,
    /// By right item, the order of its rows by these ranks.
    orders: Vec<RankOrder>,
}

/// The order of some rows by ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RankOrder {
    Ascending,
    Descending,
    Neither,
}

impl Compared {
    /// A comparison that `condition` implies, where there is one. Puts the rows of each right item in such an
    /// order that the comparison holds for the first ones, if `is_free` says that any order will do.
    fn of(
        run: &InMemorySearch,
        condition: &Residual,
        right: &mut Items,
        is_free: bool,
        memory: &MemoryReservation,
    ) -> Result<Option<Self>> {
        let Some((order, _)) = row_order_of(condition) else { return Ok(None) };
        let ranks = match common_ranks([&run.left, &run.right], order.columns, memory) {
            Ok(Some(ranks)) => ranks,
            Ok(None) => return Ok(None),
            Err(error) => return Err(error),
        };
        let [left, by_row] = ranks;
        let right_rows = by_row.len() as u32;
        memory.try_grow(by_row.len() * (size_of::<u32>() + size_of::<RankOrder>()))?;
        let of_right: Vec<u32> =
            (0..right_rows).map(|rank| by_row[run.row_of(rank) as usize]).collect();
        let rank = |row: u32| of_right[row as usize];
        if is_free {
            match order.operator {
                Operator::Lt | Operator::LtEq => right.sort_by_key(|row| u32::MAX - rank(row)),
                Operator::Gt | Operator::GtEq => right.sort_by_key(rank),
                _ => {}
            }
        }
        let orders = (0..right.len() as u32).map(|item| {
            let rows = right.rows(item);
            if rows.is_sorted_by_key(|row| rank(*row)) {
                RankOrder::Ascending
            } else if rows.is_sorted_by_key(|row| Reverse(rank(*row))) {
                RankOrder::Descending
            } else {
                RankOrder::Neither
            }
        });
        let orders = orders.collect();
        Ok(Some(Self { operator: order.operator, left, right: of_right, orders }))
    }

    /// The places among the rows of a right item of those that the comparison may hold for, with a left row.
    fn places(&self, left: u32, item: u32, rows: &[u32]) -> Range<usize> {
        let own = self.left[left as usize];
        if own == 0 {
            return 0..0;
        }
        let point = |holds: &dyn Fn(u32) -> bool| {
            rows.partition_point(|row| holds(self.right[*row as usize]))
        };
        // `left <operator> right`.
        let is_first = |rank: u32| match self.operator {
            Operator::Lt => rank > own,
            Operator::LtEq => rank >= own,
            Operator::Gt => rank < own,
            _ => rank <= own,
        };
        let is_greater = matches!(self.operator, Operator::Lt | Operator::LtEq);
        match (self.orders[item as usize], self.operator) {
            (RankOrder::Neither, _) | (_, Operator::NotEq) => 0..rows.len(),
            (RankOrder::Ascending, _) if is_greater => point(&|rank| !is_first(rank))..rows.len(),
            (RankOrder::Descending, _) if !is_greater => point(&|rank| !is_first(rank))..rows.len(),
            _ => 0..point(&is_first),
        }
    }
}

impl Expand {
    /// The rows of right items, for the left rows `rows`. `memory` holds the items.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn try_new(
        run: InMemorySearch,
        rows: &[u32],
        mut right: Items,
        condition: Option<Residual>,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let ties = match (run.nearest().with_ties, &run.order) {
            (true, _) => Ties::All,
            (false, Some(_)) => Ties::First,
            (false, None) => Ties::Any,
        };
        let compared = match &condition {
            Some(condition) => {
                Compared::of(&run, condition, &mut right, ties != Ties::First, &memory)?
            }
            None => None,
        };
        let condition = condition.map(|condition| TableCondition::new(&run, &condition));
        let (rows, block) = (rows.to_vec(), run.threads().tuning.size(BLOCK));
        Ok(Self { run, rows, ties, right, condition, compared, block, _memory: memory })
    }

    /// Offers `best` the pairs of the rows of left items, whose nearest items are `found`: `asked` of them, where
    /// there are so many. The places of rows that have too few pairs.
    ///
    /// # Errors
    ///
    /// The errors of the condition, and when memory is refused.
    pub(super) async fn offer(
        self: Arc<Self>,
        left: Arc<Items>,
        (found, asked): (Arc<TopK>, usize),
        best: &Arc<TopK>,
    ) -> Result<Vec<u32>> {
        let found = Arc::new(ItemNeighbours { left, best: found, asked });
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        let chunk = self.run.threads().tuning.size(CHUNK);
        for _ in 0..self.run.threads().count() {
            let (this, best, next) = (Arc::clone(&self), Arc::clone(best), Arc::clone(&next));
            let found = Arc::clone(&found);
            tasks.spawn(async move {
                let mut left = vec![];
                loop {
                    let first = next.fetch_add(chunk, Relaxed);
                    let all = found.left.all().len();
                    if first >= all {
                        return Ok::<_, DataFusionError>(left);
                    }
                    let places = first..all.min(first + chunk);
                    this.offer_some(&found, places, &best, &mut left).await?;
                }
            });
        }
        let mut left = all_of(tasks).await?.concat();
        left.sort_unstable();
        Ok(left)
    }

    /// Offers the pairs of some left rows, by their places among those of all items.
    async fn offer_some(
        &self,
        found: &ItemNeighbours,
        mut places: Range<usize>,
        best: &TopK,
        left: &mut Vec<u32>,
    ) -> Result<()> {
        let mut entries = vec![];
        while !places.is_empty() {
            let item = found.left.item_at(places.start);
            let end = found.left.places(item).end.min(places.end);
            let rows = &found.left.all()[places.start..end];
            found.best.sorted(item, &mut entries);
            match &self.condition {
                None => self.offer_all(rows, &entries, best).await?,
                Some(condition) => {
                    let entries = (&entries[..], found.asked);
                    self.offer_those(condition, rows, entries, best, left).await?;
                }
            }
            places.start = end;
        }
        Ok(())
    }

    /// Offers the first pairs of some rows of an item.
    async fn offer_all(&self, rows: &[u32], entries: &[Entry], best: &TopK) -> Result<()> {
        let count = self.run.count();
        let mut all = Candidates::new(self, entries, None);
        let mut first = CountedVec::new(self.run.memory.as_ref());
        while let Some(entry) = all.next() {
            // Of those beyond the number only ties.
            let last = first.last().filter(|_| first.len() >= count);
            if last.is_some_and(|(key, _)| self.ties != Ties::All || *key < entry.0) {
                break;
            }
            first.try_push(entry)?;
        }
        for rows in rows.chunks((self.block / first.len().max(1)).max(1)) {
            let pairs = rows
                .iter()
                .flat_map(|place| first.iter().map(move |(key, partner)| (*place, *partner, *key)));
            best.offer(pairs);
            best.settle()?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Offers the first pairs of some rows of an item that meet a condition. Adds to `left` the rows that have
    /// too few of them.
    async fn offer_those(
        &self,
        condition: &TableCondition,
        rows: &[u32],
        (entries, asked): (&[Entry], usize),
        best: &TopK,
        left: &mut Vec<u32>,
    ) -> Result<()> {
        let count = self.run.count();
        // Items that were not found come behind all that were.
        let last = entries.last().filter(|_| entries.len() >= asked).copied();
        let last = last.map(|(key, item)| (key, self.right.rows(item).iter().min().copied()));
        let open = |place: &u32| OpenRow {
            place: *place,
            candidates: Candidates::new(self, entries, Some(self.rows[*place as usize])),
            step: count + 1,
            met: vec![],
            is_ended: false,
        };
        let mut waiting = rows.iter();
        let mut active: Vec<OpenRow<'_>> = vec![];
        loop {
            let (mut lefts, mut rights, mut taken) = (vec![], vec![], vec![]);
            for (at, open) in active.iter_mut().enumerate() {
                open.take(at, self.block.saturating_sub(taken.len()), &mut taken);
            }
            while taken.len() < self.block
                && let Some(place) = waiting.next()
            {
                let mut open = open(place);
                open.take(active.len(), self.block - taken.len(), &mut taken);
                active.push(open);
            }
            if active.is_empty() {
                return Ok(());
            }
            let mut values = vec![];
            for (at, (key, partner)) in &taken {
                lefts.push(self.rows[active[*at].place as usize]);
                rights.push(self.run.row_of(*partner));
                values.push(score_of(*key, self.run.join.order));
            }
            let values = vec![values; condition.calls().len()];
            let holds = condition.hold(&lefts, &rights, &values)?;
            for (pair, (at, entry)) in taken.into_iter().enumerate() {
                let open = &mut active[at];
                // Of those beyond the number only ties.
                let worst = open.met.last().filter(|_| open.met.len() >= count);
                if worst.is_some_and(|(key, _)| self.ties != Ties::All || *key < entry.0) {
                    open.is_ended = true;
                } else if holds[pair] {
                    open.met.push(entry);
                }
            }
            let has_enough = |open: &OpenRow<'_>| {
                let nth = open.met.get(count - 1);
                nth.is_some_and(|(key, row)| match (self.ties, last) {
                    (Ties::First, Some((last, first))) => (*key, Some(*row)) <= (last, first),
                    _ => true,
                })
            };
            for open in active.extract_if(.., |open| {
                open.is_ended || self.ties != Ties::All && open.met.len() >= count
            }) {
                if last.is_some() && !has_enough(&open) {
                    left.push(open.place);
                    continue;
                }
                best.offer(open.met.iter().map(|(key, row)| (open.place, *row, *key)));
            }
            best.settle()?;
            tokio::task::yield_now().await;
        }
    }
}

/// A left row that looks for pairs.
struct OpenRow<'a> {
    place: u32,
    candidates: Candidates<'a>,
    /// The candidates that it looks at next.
    step: usize,
    /// The pairs that meet the condition.
    met: Vec<Entry>,
    /// No other pair is needed, or there is none.
    is_ended: bool,
}

impl OpenRow<'_> {
    /// Takes further candidates, `most` at most, for the row at a place.
    fn take(&mut self, at: usize, most: usize, taken: &mut Vec<(usize, Entry)>) {
        if most == 0 {
            return;
        }
        for _ in 0..self.step.min(most) {
            match self.candidates.next() {
                Some(entry) => taken.push((at, entry)),
                None => {
                    self.is_ended = true;
                    return;
                }
            }
        }
        self.step = self.step.saturating_mul(2).min(self.candidates.expand.block);
    }
}

/// The rows of right items, nearest first; those of equal scores in their order where that counts.
struct Candidates<'a> {
    expand: &'a Expand,
    entries: &'a [Entry],
    /// The left row whose pairs are held against a condition.
    row: Option<u32>,
    key: ScoreKey,
    /// The next row of each item of equal scores, its item, and the places behind the row.
    next: BinaryHeap<Reverse<(u32, u32, usize, usize)>>,
}

impl<'a> Candidates<'a> {
    fn new(expand: &'a Expand, entries: &'a [Entry], row: Option<u32>) -> Self {
        Self { expand, entries, row, key: 0, next: BinaryHeap::new() }
    }

    /// Goes on with the items of the next score, or the next item where any order will do.
    fn advance(&mut self) -> bool {
        let Some((key, _)) = self.entries.first() else { return false };
        let tied = match self.expand.ties {
            Ties::First => self.entries.partition_point(|entry| entry.0 <= *key),
            Ties::All | Ties::Any => 1,
        };
        self.key = *key;
        let (tied, rest) = self.entries.split_at(tied);
        self.entries = rest;
        for (_, item) in tied {
            let rows = self.expand.right.rows(*item);
            let places = match (&self.expand.compared, self.row) {
                (Some(compared), Some(row)) => compared.places(row, *item, rows),
                _ => 0..rows.len(),
            };
            self.push(*item, places);
        }
        true
    }

    fn push(&mut self, item: u32, places: Range<usize>) {
        if !places.is_empty() {
            let row = self.expand.right.rows(item)[places.start];
            self.next.push(Reverse((row, item, places.start + 1, places.end)));
        }
    }

    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(Reverse((row, item, start, end))) = self.next.pop() {
                self.push(item, start..end);
                return Some((self.key, row));
            }
            if !self.advance() {
                return None;
            }
        }
    }
}
