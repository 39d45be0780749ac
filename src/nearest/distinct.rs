//! Rows with the same neighbours are searched for once.
//!
//! ```text
//! left rows, right rows ─► items: rows that are equal in what the score reads
//!                              │
//!                              ▼
//!     the nearest right items of each left item ─► their rows, as many as are asked for ─► best
//! ```
//!
//! A condition of the pair is decided by items as well where the columns that it reads repeat with them.
//! Otherwise it is held against the pairs of rows of the nearest items, a few of each left row at a time; for rows
//! that have too few left more items are found.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::expressions::Column;

use super::alike::{equal_pairs, first_rows};
use super::expand::Expand;
use super::run::{FinishedRound, InMemorySearch, OnRound};
use super::table::RowTable;
use crate::operator::errors::is_out_of_memory;
use crate::spec::{Nearest, NearestJoin, Residual, ResidualColumn, Side};
use crate::top::TopK;
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;

/// Pairs of rows below which all of them are searched.
const FEW_PAIRS: Size = Size { usual: 1 << 18, small: 1 << 6 };

/// Pairs of equal rows of a side, for each row of it, that take as long as finding the equal rows.
const EQUAL_PAIRS: Size<f64> = Size { usual: 16.0, small: 1.2 };

/// The factor by which there are fewer pairs of items than of rows, at least.
const FEWER: Size = Size { usual: 4, small: 1 };

/// Items that are found beyond the number of neighbours, where a condition decides pairs of rows.
const SPARE: usize = 3;

/// The factor by which more items are found for rows that have too few pairs, and how often.
const WIDER: NonZeroUsize = NonZeroUsize::new(8).unwrap();
const MOST_PASSES: usize = 8;

/// The rows of each item of a side. Items are in the order of their first rows.
#[derive(Debug)]
pub(super) struct Items {
    /// The places among `rows` where those of each item begin, and the end.
    starts: Vec<u32>,
    /// The rows of each item: numbers, or ranks where the rows of the side have an order.
    rows: Vec<u32>,
}

impl Items {
    /// The bytes that a row takes at most, while its item is found and then.
    const BYTES: usize = 6 * size_of::<u32>();

    /// The items of rows in an order of their own. `first` tells the first row that is equal to a row, by number;
    /// `row_of` the number of a row.
    fn of(rows: &[u32], first: &[u32], row_of: impl Fn(u32) -> u32) -> Self {
        const NONE: u32 = u32::MAX;
        let mut item_of = vec![NONE; first.len()];
        let (mut counts, mut numbers) = (vec![0_u32], Vec::with_capacity(rows.len()));
        for row in rows {
            let item = &mut item_of[first[row_of(*row) as usize] as usize];
            if *item == NONE {
                *item = counts.len() as u32 - 1;
                counts.push(0);
            }
            counts[*item as usize + 1] += 1;
            numbers.push(*item);
        }
        for item in 1..counts.len() {
            counts[item] += counts[item - 1];
        }
        let mut next = counts.clone();
        let mut sorted = vec![0; rows.len()];
        for (row, item) in rows.iter().zip(numbers) {
            let place = &mut next[item as usize];
            sorted[*place as usize] = *row;
            *place += 1;
        }
        Self { starts: counts, rows: sorted }
    }

    /// The rows of all items.
    pub(super) fn all(&self) -> &[u32] {
        &self.rows
    }

    /// The item that has the row at a place among those of all items.
    pub(super) fn item_at(&self, place: usize) -> u32 {
        self.starts.partition_point(|start| *start as usize <= place) as u32 - 1
    }

    /// The places of the rows of an item.
    pub(super) fn places(&self, item: u32) -> Range<usize> {
        let item = item as usize;
        self.starts[item] as usize..self.starts[item + 1] as usize
    }

    /// The number of items.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The rows of an item.
    pub(super) fn rows(&self, item: u32) -> &[u32] {
        &self.rows[self.places(item)]
    }

    /// Puts the rows of each item into an order.
    pub(super) fn sort_by_key(&mut self, key: impl Fn(u32) -> u32) {
        for item in self.starts.windows(2) {
            self.rows[item[0] as usize..item[1] as usize].sort_by_key(|row| key(*row));
        }
    }

    /// The first row of each item.
    fn firsts(&self) -> impl Iterator<Item = u32> + '_ {
        self.starts[..self.len()].iter().map(|start| self.rows[*start as usize])
    }
}

/// Left items whose pairs are looked for together.
struct ItemGroup {
    /// By item of `left`, its number in the search.
    items: Vec<u32>,
    left: Arc<Items>,
}

impl ItemGroup {
    /// The items that have some of their rows among those at `places`, with these rows alone. `count` is the
    /// number of all rows.
    fn of(&self, places: &[u32], count: usize) -> Self {
        let mut is_left = vec![false; count];
        places.iter().for_each(|place| is_left[*place as usize] = true);
        let (mut items, mut starts, mut rows) = (vec![], vec![0], vec![]);
        for (item, number) in (0..).zip(&self.items) {
            let before = rows.len();
            let of_item = self.left.rows(item).iter();
            rows.extend(of_item.filter(|place| is_left[**place as usize]));
            if rows.len() > before {
                items.push(*number);
                starts.push(rows.len() as u32);
            }
        }
        Self { items, left: Arc::new(Items { starts, rows }) }
    }
}

/// A search of items in place of rows.
struct ByItems {
    /// The left items, whose rows are places among the left rows that are searched for.
    left: Items,
    /// The right items, whose rows are as [`InMemorySearch::rank_of`] numbers them.
    right: Items,
    /// A row of each item of either side, in the order of the items.
    run: InMemorySearch,
    /// The condition that decides pairs of rows.
    condition: Option<Residual>,
    memory: MemoryReservation,
}

/// The expressions of each side in which rows are equal that have the same neighbours.
struct Told {
    sides: [Vec<PhysicalExprRef>; 2],
}

impl Told {
    /// Columns that the score of a pair reads, and the keys.
    fn by_score(run: &InMemorySearch) -> Self {
        let join = &run.join;
        let mut sides: [Vec<PhysicalExprRef>; 2] = match (&join.search, &join.score) {
            (Some(search), _) => search.arguments.each_ref().map(|argument| vec![argument.clone()]),
            (None, score) => Self::columns(run, score.as_ref()),
        };
        for (left, right) in &join.on {
            sides[0].push(Arc::clone(left));
            sides[1].push(Arc::clone(right));
        }
        Self { sides }
    }

    /// The same columns, and those that a condition reads.
    fn and(&self, run: &InMemorySearch, condition: &Residual) -> Self {
        let mut sides = self.sides.clone();
        for (side, columns) in sides.iter_mut().zip(Self::columns(run, Some(condition))) {
            side.extend(columns);
        }
        Self { sides }
    }

    fn columns(run: &InMemorySearch, expression: Option<&Residual>) -> [Vec<PhysicalExprRef>; 2] {
        let mut sides = [vec![], vec![]];
        for column in expression.iter().flat_map(|expression| &expression.columns) {
            if let ResidualColumn::Input(side, index) = column {
                let table = if *side == Side::Left { &run.left } else { &run.right };
                let column = Column::new(table.schema().field(*index).name(), *index);
                sides[*side as usize].push(Arc::new(column) as PhysicalExprRef);
            }
        }
        sides
    }

    /// Whether rows of one table are equal on either side by the same expressions.
    fn is_same(&self) -> bool {
        self.sides[0] == self.sides[1]
    }

    fn of(&self, side: Side) -> Vec<&PhysicalExprRef> {
        self.sides[side as usize].iter().collect()
    }

    /// Whether so many rows of a side are equal that finding them pays.
    fn repeat(&self, run: &InMemorySearch) -> bool {
        [Side::Left, Side::Right].iter().any(|side| {
            let table = if *side == Side::Left { &run.left } else { &run.right };
            let pairs = equal_pairs(table, &self.of(*side));
            pairs > run.threads().tuning.size(EQUAL_PAIRS) * table.rows() as f64
        })
    }
}

impl InMemorySearch {
    /// The condition of the pair.
    fn condition(&self) -> Option<&Residual> {
        let of_search = self.join.search.as_ref().and_then(|search| search.residual.as_ref());
        of_search.or(self.join.condition.as_ref())
    }

    /// Whether a condition reads the columns of the pair and its score alone.
    pub(super) fn has_scores_of(&self, condition: &Residual) -> bool {
        condition.columns.iter().all(|column| match column {
            ResidualColumn::Input(..) => true,
            ResidualColumn::Score(call) => {
                self.join.search.as_ref().is_some_and(|search| search.predicate.call == *call)
            }
        })
    }

    /// Offers `best` the neighbours of left rows, found by items. The places of those that have too few of
    /// them; `None` where rows hardly repeat.
    ///
    /// # Errors
    ///
    /// The errors of the search, and when memory is refused.
    pub(super) async fn find_by_items(
        &self,
        rows: &[u32],
        best: &Arc<TopK>,
        carried: Option<&TopK>,
    ) -> Result<Option<Vec<u32>>> {
        let is_small =
            rows.len().saturating_mul(self.right_rows()) < self.threads().tuning.size(FEW_PAIRS);
        if is_small || self.hardly_repeat.load(Relaxed) {
            return Ok(None);
        }
        // Lists of places.
        let listed = self.memory.new_empty();
        listed.try_grow(2 * rows.len() * size_of::<u32>())?;
        // A blocking thread is not aborted: it ends at its next look at the flag, once the statement is dropped.
        let cancel = CancelFlag::default();
        let _cancelled = cancel.on_drop();
        let (run, places) = (self.clone(), rows.to_vec());
        let found =
            SpawnedTask::spawn_blocking(move || run.by_items(&places, &cancel)).join().await;
        let found = found.map_err(|e| internal_datafusion_err!("finding equal rows ended: {e}"))?;
        let Some(by_items) = found? else {
            self.hardly_repeat.store(true, Relaxed);
            return Ok(None);
        };
        let ByItems { left, right, run, condition, memory } = by_items;
        // Without a condition of their own, equal rows carry pairs of equal scores.
        let carried = match carried.filter(|_| condition.is_none()) {
            Some(carried) => Some(self.carried_by_items(carried, &left).await?),
            None => None,
        };
        let right_items = right.len();
        let expand = Arc::new(Expand::try_new(self.clone(), rows, right, condition, memory)?);
        let mut search = run;
        let items = (0..left.len() as u32).collect();
        let mut pass = ItemGroup { items, left: Arc::new(left) };
        let mut passes = 0;
        loop {
            let left = match search.pass(&pass, carried.as_ref(), &expand, best, right_items).await
            {
                // Rounds of rows take less.
                Err(error) if passes > 0 && is_out_of_memory(&error) => pass.left.all().to_vec(),
                left => left?,
            };
            let asked = search.count();
            if left.is_empty() || asked >= right_items || passes == MOST_PASSES {
                return Ok(Some(left));
            }
            pass = pass.of(&left, rows.len());
            passes += 1;
            let mut join = NearestJoin::clone(&search.join);
            join.nearest.count = join.nearest.count.saturating_mul(WIDER);
            search.join = Arc::new(join);
        }
    }

    /// Offers `best` the pairs of the rows of some left items of a search of items. The places of those that have
    /// too few of them.
    async fn pass(
        &self,
        pass: &ItemGroup,
        carried: Option<&TopK>,
        expand: &Arc<Expand>,
        best: &Arc<TopK>,
        right_items: usize,
    ) -> Result<Vec<u32>> {
        let (with_ties, count) = (self.nearest().with_ties, self.count());
        let memory = Box::new(self.memory.new_empty());
        let found = Arc::new(TopK::try_new(pass.items.len(), count, with_ties, memory)?);
        self.find_apart(&pass.items, &found, carried).await?;
        // Where all right items were found, none is left.
        let asked = if count < right_items { count } else { usize::MAX };
        Arc::clone(expand).offer(pass.left.clone(), (found, asked), best).await
    }

    /// The items of left rows and of all right rows that may be candidates; `None` where they are hardly fewer.
    fn by_items(&self, rows: &[u32], cancel: &CancelFlag) -> Result<Option<ByItems>> {
        let told = Told::by_score(self);
        let of_pair = [self.join.score.as_ref(), self.condition()];
        let of_pair = of_pair.into_iter().flatten().map(|residual| &residual.expression);
        // What is volatile is evaluated for each pair of rows.
        let is_volatile = told.sides.iter().flatten().chain(of_pair).any(is_volatile);
        if is_volatile || !told.repeat(self) {
            return Ok(None);
        }
        let memory = self.memory.new_empty();
        let right_rows = self.ranked_candidates()?;
        let most = self.left.rows().max(rows.len()) + self.right_rows();
        memory.try_grow(most.saturating_mul(Items::BYTES))?;
        let items = |told: &Told| -> Result<Option<[Items; 2]>> {
            let first = |table: &RowTable, side: Side| {
                let held = self.memory.new_empty();
                first_rows(table, &told.of(side), self.threads(), &held, cancel)
            };
            let of_right = first(&self.right, Side::Right)?;
            let right = Items::of(&right_rows, &of_right, |row| self.row_of(row));
            let places: Vec<u32> = (0..rows.len() as u32).collect();
            let same = self.itself && told.is_same();
            let left = if 2 * rows.len() < self.left.rows() {
                // A part of the rows does not look at all of them.
                let held = self.memory.new_empty();
                let of_part = first(&self.left.some(rows, &held)?, Side::Left)?;
                Items::of(&places, &of_part, |place| place)
            } else {
                let of_left = if same { of_right } else { first(&self.left, Side::Left)? };
                Items::of(&places, &of_left, |place| rows[place as usize])
            };
            let of_items = left.len().saturating_mul(right.len());
            let of_rows = rows.len().saturating_mul(right_rows.len());
            let fewer = self.threads().tuning.size(FEWER);
            Ok((of_items.saturating_mul(fewer) <= of_rows).then_some([left, right]))
        };
        let (mut both, mut condition) = (None, None);
        if let Some(of_pair) = self.condition() {
            let with_condition = told.and(self, of_pair);
            if with_condition.repeat(self) {
                both = items(&with_condition)?;
            }
            if both.is_none() {
                condition = Some(of_pair.clone());
            }
        }
        if condition.as_ref().is_some_and(|condition| !self.has_scores_of(condition)) {
            return Ok(None);
        }
        let both = if both.is_some() { both } else { items(&told)? };
        let Some([left, right]) = both else { return Ok(None) };
        let run = self.of_items(rows, [&left, &right], condition.is_some(), &memory)?;
        Ok(Some(ByItems { left, right, run, condition, memory }))
    }

    /// The search for a row of each item. Without a condition of its own where pairs of rows are held against
    /// that afterwards.
    fn of_items(
        &self,
        rows: &[u32],
        [left, right]: [&Items; 2],
        is_decided_later: bool,
        memory: &MemoryReservation,
    ) -> Result<InMemorySearch> {
        let of_left: Vec<u32> = left.firsts().map(|place| rows[place as usize]).collect();
        let of_right: Vec<u32> = right.firsts().map(|row| self.row_of(row)).collect();
        let is_same = self.itself && of_left == of_right && !is_decided_later;
        let right_table = Arc::new(self.right.some(&of_right, memory)?);
        let left_table = match is_same {
            true => Arc::clone(&right_table),
            false => Arc::new(self.left.some(&of_left, memory)?),
        };
        let mut join = NearestJoin::clone(&self.join);
        if is_decided_later {
            join.condition = None;
            // Drivers that find all candidates are those of the condition.
            join.rounds.retain(|round| round.threshold.is_some());
            join.search.iter_mut().for_each(|search| search.residual = None);
            let count = join.nearest.count.saturating_add(SPARE);
            join.nearest = Nearest { count, ..join.nearest };
        }
        let told = Arc::clone(&self.on_round);
        let on_round: OnRound = Arc::new(move |round| {
            told(FinishedRound { of_items: true, ..round });
        });
        Ok(InMemorySearch {
            join: Arc::new(join),
            left: left_table,
            right: right_table,
            itself: is_same,
            order: self.order.as_ref().map(|_| Arc::default()),
            on_round,
            hardly_repeat: Arc::default(),
            kept: None,
            ..self.clone()
        })
    }

    /// The pairs that a row of each left item carries.
    async fn carried_by_items(&self, carried: &TopK, left: &Items) -> Result<TopK> {
        let (with_ties, memory) = (self.nearest().with_ties, self.memory.new_empty());
        let most = carried.most_of_row();
        let of_items = TopK::try_new(left.len(), most, with_ties, Box::new(memory))?;
        let mut entries = vec![];
        for (item, place) in (0..).zip(left.firsts()) {
            carried.sorted(place, &mut entries);
            of_items.offer(entries.iter().map(|(key, partner)| (item, *partner, *key)));
            of_items.settle()?;
            if item % (1 << 12) == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(of_items)
    }
}
