//! The left rows that a search serves, with the nearest partners of their items.

use std::ops::Range;

use super::sides::RightItems;
use super::{NeighbourRequest, Neighbours, PairCondition};
use crate::engine::{AnyMatcher, ItemId, MatchSpec, PreparedJoin, RowGroups};
use crate::error::{Result, resources_err};
use crate::memory::{CountedVec, Memory};
use crate::top::{Entry, ScoreKey, TopK, key_of, score_of};

/// A join by a bound, or a search for the nearest partners of items.
pub(super) struct ItemSearch<'a> {
    pub request: &'a NeighbourRequest<'a>,
    pub matcher: &'a dyn AnyMatcher,
    pub prepared: &'a dyn PreparedJoin,
    pub spec: &'a MatchSpec,
    pub right: &'a RightItems,
    /// The condition that decides pairs of rows.
    pub condition: Option<&'a dyn PairCondition>,
    /// The key of the bound, where better neighbours than those within it may be missing.
    pub bound: Option<ScoreKey>,
}

impl ItemSearch<'_> {
    /// No partners yet of some items, or with a condition of their rows.
    pub(super) fn partners(&self, groups: &RowGroups, items: Range<u32>) -> Result<TopK> {
        let NeighbourRequest { count, with_ties, reservation, .. } = *self.request;
        let right = self.right.items.groups();
        let (slots, most) = match self.condition {
            Some(_) => (groups.slots(items).len(), right.row_count()),
            None => (items.len(), right.len() as usize),
        };
        TopK::try_new(slots, count.min(most).max(1), with_ties, reservation.new_empty())
    }
}

/// The neighbours of some left rows.
pub(super) struct FoundRows {
    /// Left rows by number, each with where its neighbours lie.
    rows: CountedVec<(u32, Range<u32>)>,
    pub partners: CountedVec<u32>,
    pub values: CountedVec<f64>,
}

impl FoundRows {
    pub(super) fn new(memory: &dyn Memory) -> Self {
        let (rows, partners) = (CountedVec::new(memory), CountedVec::new(memory));
        Self { rows, partners, values: CountedVec::new(memory) }
    }

    /// Adds neighbours of equal values.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn add(&mut self, partners: &[u32], value: f64) -> Result<()> {
        check_count(self.partners.len() + partners.len())?;
        self.partners.try_extend(partners.iter().copied())?;
        self.values.try_extend(std::iter::repeat_n(value, partners.len()))
    }

    /// Gives the neighbours from a place on to some rows.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn serve(
        &mut self,
        rows: impl ExactSizeIterator<Item = u32>,
        start: usize,
    ) -> Result<()> {
        let range = start as u32..self.partners.len() as u32;
        self.rows.try_extend(rows.map(|row| (row, range.clone())))
    }

    /// Forgets the neighbours from a place on.
    pub(super) fn truncate(&mut self, start: usize) {
        self.partners.truncate(start);
        self.values.truncate(start);
    }

    /// Enters the rows among those of a request.
    ///
    /// # Errors
    ///
    /// A resources error where there are too many neighbours for their places, and when memory is refused.
    pub(super) fn enter(self, request: &NeighbourRequest<'_>, to: &mut Neighbours) -> Result<()> {
        check_count(to.partners.len() + self.partners.len())?;
        let before = to.partners.len() as u32;
        for (row, Range { start, end }) in self.rows.iter() {
            if let Some(place) = place_of(request, *row) {
                (to.starts[place], to.counts[place]) = (before + start, end - start);
            }
        }
        to.partners.try_append(self.partners)?;
        to.values.try_append(self.values)
    }
}

/// Checks that 32 bits tell the places of so many neighbours apart.
///
/// # Errors
///
/// A resources error, upon which SQL searches for fewer left rows at a time.
fn check_count(neighbours: usize) -> Result<()> {
    match neighbours > u32::MAX as usize {
        true => resources_err!("{neighbours} neighbours are more than 2^32"),
        false => Ok(()),
    }
}

/// The place of a left row among those that take part.
pub(super) fn place_of(request: &NeighbourRequest<'_>, row: u32) -> Option<usize> {
    let rows = request.sides[0].rows;
    match rows.get(row as usize) {
        Some(same) if *same == row => Some(row as usize),
        _ => rows.binary_search(&row).ok(),
    }
}

/// Left rows that are served with the nearest partners of their items, and others.
pub(super) struct ServedRows<'a> {
    search: &'a ItemSearch<'a>,
    entries: Vec<Entry>,
    pub found: FoundRows,
    /// The numbers of rows that have too few neighbours within the bound.
    pub others: Vec<u32>,
}

impl<'a> ServedRows<'a> {
    pub(super) fn new(search: &'a ItemSearch<'a>) -> Self {
        let found = FoundRows::new(search.request.reservation);
        Self { search, entries: vec![], found, others: vec![] }
    }

    /// Serves the rows of some items whose partners are `best`: from the first of `range` on, or with `of_all` from the
    /// first item on.
    pub(super) fn serve(
        &mut self,
        best: Option<&TopK>,
        unit: &UnitRows<'_>,
        range: Range<ItemId>,
        of_all: bool,
    ) -> Result<()> {
        let by_rows = self.search.condition.is_some();
        let first = match (of_all, by_rows) {
            (true, _) => 0,
            (false, true) => unit.groups.slots(range.clone()).start,
            (false, false) => range.start,
        };
        for item in range {
            let rows = unit.groups.rows(item);
            let slots = if by_rows { unit.groups.slots(item..item + 1) } else { item..item + 1 };
            let step = if by_rows { 1 } else { rows.len().max(1) };
            for (slot, rows) in slots.zip(rows.chunks(step)) {
                self.entries.clear();
                if let Some(best) = best {
                    best.sorted(slot - first, &mut self.entries);
                }
                self.serve_rows(unit, item, rows)?;
            }
        }
        Ok(())
    }

    /// Serves left rows of an item that have the entries, where these are all that are needed.
    fn serve_rows(&mut self, unit: &UnitRows<'_>, item: ItemId, rows: &[u32]) -> Result<()> {
        let order = self.search.request.predicate.call.function.info().order;
        let start = self.found.partners.len();
        let has_all = self.add_neighbours()?;
        let of_item = unit.bounds.map(|bounds| key_of(bounds[item as usize], order));
        let ends = |bound: ScoreKey| of_item.is_some_and(|of_item| of_item <= bound);
        let rows = rows.iter().map(|row| unit.first_row + row);
        if has_all || self.search.bound.is_none_or(ends) {
            return self.found.serve(rows, start);
        }
        self.others.extend(rows);
        self.found.truncate(start);
        Ok(())
    }

    /// Adds the rows of the nearest partners, in order, and says whether they are all that are needed.
    fn add_neighbours(&mut self) -> Result<bool> {
        let NeighbourRequest { predicate, count, with_ties, .. } = *self.search.request;
        let order = predicate.call.function.info().order;
        let groups = self.search.right.items.groups();
        let (start, mut last) = (self.found.partners.len(), None);
        for (key, partner) in &self.entries {
            let missing = (start + count).saturating_sub(self.found.partners.len());
            // Of rows in a tie any do, where not all are wanted.
            if missing == 0 && !(with_ties && last == Some(*key)) {
                break;
            }
            let rows = match self.search.condition {
                Some(_) => std::slice::from_ref(partner),
                None => groups.rows(*partner),
            };
            let rows = if with_ties { rows } else { &rows[..rows.len().min(missing)] };
            self.found.add(rows, score_of(*key, order))?;
            last = Some(*key);
        }
        Ok(self.found.partners.len() - start >= count)
    }
}

/// The rows of a collection of left items.
pub(super) struct UnitRows<'a> {
    pub groups: &'a RowGroups,
    /// The number of the row that the collection calls 0.
    pub first_row: u32,
    /// [`ProbeUnit::bounds`](crate::engine::ProbeUnit::bounds).
    pub bounds: Option<&'a [f64]>,
}
