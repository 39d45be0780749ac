//! The way of one partition's probe items through a prepared join.
//!
//! ```text
//! operator ── feed(unit 3) ──► Cursor: [ unit 3 | unit 2 filters | units 0, 1 on a device ]
//!     ▲                          │ poll
//!     └── MatchBuffer ◄──────────┘   runs (1: matches), (2: matches), (1: matches); complete: 1
//! ```
//!
//! The operator feeds units whenever the cursor asks for input, and need not wait for the matches
//! of former units: every match carries the number of its unit, and the cursor says when a unit is
//! complete. Units complete in any order.

use std::collections::VecDeque;
use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::engine::{Collection, Connections, Funnel, ItemId, Pairing, RowGroups};
use crate::error::Result;

/// Probe items that are fed to a cursor together.
///
/// The ranges of units of one collection that are open at the same time do not overlap.
#[derive(Debug, Clone)]
pub struct ProbeUnit {
    /// Names the unit until it is complete.
    pub number: u32,
    /// The items of the probe side.
    pub items: Arc<dyn Collection>,
    /// The items of the unit, as a range of `items`.
    pub range: Range<ItemId>,
    /// By item of `items`, the least similar value of a partner that is needed: stricter than the bound of the join,
    /// which holds for all where there are none. A cursor may give other partners as well.
    pub bounds: Option<ItemBounds>,
}

/// A bound for each item of a collection.
pub type ItemBounds = Arc<[f64]>;

impl ProbeUnit {
    /// A unit whose items have the bound of the join.
    pub fn new(number: u32, items: Arc<dyn Collection>, range: Range<ItemId>) -> Self {
        Self { number, items, range, bounds: None }
    }
}

/// A [`ProbeUnit`] as its family knows it.
#[derive(Debug, Default)]
pub struct Unit<T> {
    /// [`ProbeUnit::number`].
    pub number: u32,
    /// The items of the probe side.
    pub items: Arc<T>,
    /// The items of the unit, as a range of `items`.
    pub range: Range<ItemId>,
    /// [`ProbeUnit::bounds`].
    pub bounds: Option<ItemBounds>,
}

impl<T> Clone for Unit<T> {
    fn clone(&self) -> Self {
        let (items, bounds) = (Arc::clone(&self.items), self.bounds.clone());
        Self { number: self.number, items, range: self.range.clone(), bounds }
    }
}

impl<T: Collection> Unit<T> {
    /// The unit of the operator.
    ///
    /// # Errors
    ///
    /// An internal error when another family made its items.
    pub fn of(unit: &ProbeUnit) -> Result<Self> {
        let ProbeUnit { number, items, range, bounds } = unit;
        let (range, bounds) = (range.clone(), bounds.clone());
        Ok(Self { number: *number, items: items.shared()?, range, bounds })
    }
}

/// A pair of similar items. Kernels write it too (`Match` in `kernels/abi.cuh`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Match {
    /// The item of the probe side.
    pub probe: ItemId,
    /// The item of the build side.
    pub build: ItemId,
    /// The figure from which, besides the items, the family computes scores (the overlap of sets).
    /// It is exact where the join needs scores.
    pub detail: u32,
}

/// The orders of their two items in which the matches of a run hold.
///
/// A symmetric function gives the same value in both orders, except for the sign of NaN, which is
/// the sign of one of its arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MatchOrder {
    /// Every order that the join [asks for](super::Orders).
    #[default]
    All,
    /// The order with the probe item on the probe side, in a join that asks for both.
    Given,
    /// The order with the build item on the probe side, in a join that asks for both.
    Exchanged,
}

impl MatchOrder {
    /// Whether the matches hold as given, and whether they hold with their sides exchanged, in a
    /// join that asks for both orders.
    pub fn of_both(self) -> [bool; 2] {
        [self != Self::Exchanged, self != Self::Given]
    }
}

/// Pairs of rows behind matches that were counted without being given
/// ([`MatchNeed::Count`](crate::engine::MatchNeed::Count)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowPairCounts {
    /// The sum of the products of the row counts of two matching items.
    pub cross: u64,
    /// The sum of the squares of the row counts of items that match themselves, where each
    /// unordered pair is decided once.
    pub squares: u64,
    /// The sum of the row counts of the same items.
    pub rows: u64,
}

impl RowPairCounts {
    /// Counts pairs of rows of different items.
    #[inline]
    pub fn cross(cross: u64) -> Self {
        Self { cross, squares: 0, rows: 0 }
    }

    /// Counts the pairs of rows behind a match of two items of these collections.
    #[inline]
    pub fn of(pairing: Pairing, [probe, build]: [&RowGroups; 2], pair: [ItemId; 2]) -> Self {
        let rows = u64::from(probe.row_count_of(pair[0]));
        match pairing {
            Pairing::Unordered if pair[0] == pair[1] => {
                Self { cross: 0, squares: rows * rows, rows }
            }
            _ => Self::cross(rows * u64::from(build.row_count_of(pair[1]))),
        }
    }

    /// Counts the pairs of rows behind matches of items with themselves.
    pub(crate) fn of_themselves(groups: &RowGroups, items: Range<ItemId>) -> Self {
        let rows = groups.slots(items.clone()).len() as u64;
        let square = |item: ItemId| u64::from(groups.row_count_of(item)).pow(2);
        let squares = if rows == items.len() as u64 { rows } else { items.map(square).sum() };
        Self { cross: 0, squares, rows }
    }
}

impl AddAssign for RowPairCounts {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.cross += more.cross;
        self.squares += more.squares;
        self.rows += more.rows;
    }
}

/// Matches on their way to the operator, never more than its capacity, in runs of one unit.
///
/// A buffer of many runs is full as well, so that its memory has a bound. In a join that needs only what
/// connects, the buffer leaves out matches that connect nothing anew.
#[derive(Debug)]
pub struct MatchBuffer {
    matches: Vec<Match>,
    runs: Vec<RunStart>,
    completed: Vec<u32>,
    capacity: usize,
    counts: RowPairCounts,
    connections: Option<Connections>,
}

#[derive(Debug)]
struct RunStart {
    unit: u32,
    order: MatchOrder,
    /// The place of the first match.
    start: usize,
}

/// Matches of one unit that hold in the same orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchRun<'a> {
    /// The number of the unit.
    pub unit: u32,
    /// The orders in which the matches hold.
    pub order: MatchOrder,
    /// The matches, at least one.
    pub matches: &'a [Match],
}

/// The most runs of a buffer that takes a further match, which may begin two runs: its own, and
/// the run of the matches behind it.
const MOST_RUNS: usize = 254;

impl MatchBuffer {
    /// A buffer for `capacity` matches (at least one).
    pub fn new(capacity: usize) -> Self {
        Self {
            matches: vec![],
            runs: vec![],
            completed: vec![],
            capacity: capacity.max(1),
            counts: RowPairCounts::default(),
            connections: None,
        }
    }

    /// The buffer of a join that needs only what connects.
    pub fn connecting(self, connections: Option<Connections>) -> Self {
        Self { connections, ..self }
    }

    /// Notes that all matches of a unit are needed, whatever they connect.
    pub fn need_all_of(&mut self, unit: u32) {
        self.connections.iter_mut().for_each(|connections| connections.need_all_of(unit));
    }

    /// Whether a match of these items of the present unit would be left out: a cursor need not look
    /// whether they match.
    #[inline]
    pub fn knows(&self, probe: ItemId, build: ItemId) -> bool {
        self.connections.as_ref().is_some_and(|connections| connections.knows(probe, build))
    }

    /// Whether the buffer takes no further match.
    pub fn is_full(&self) -> bool {
        self.matches.len() >= self.capacity || self.runs.len() > MOST_RUNS
    }

    /// Whether there is neither a match nor a count nor a completed unit.
    pub fn is_empty(&self) -> bool {
        self.matches.is_empty()
            && self.completed.is_empty()
            && self.counts == RowPairCounts::default()
    }

    /// Begins a run: the matches that follow belong to `unit`. A cursor calls it whenever it is
    /// polled, and when the unit changes.
    #[inline]
    pub fn begin(&mut self, unit: u32) {
        self.begin_in(MatchOrder::All, unit);
    }

    /// Begins a run of matches that hold in these orders; the last run stays the same where it is one.
    #[inline]
    fn begin_in(&mut self, order: MatchOrder, unit: u32) {
        if let Some(connections) = &mut self.connections {
            connections.begin(unit);
        }
        let start = self.matches.len();
        if self.runs.last().is_some_and(|last| last.start == start) {
            self.runs.pop();
        }
        if self.runs.last().is_none_or(|last| (last.unit, last.order) != (unit, order)) {
            self.runs.push(RunStart { unit, order, start });
        }
    }

    /// Adds a match to the run; the caller has looked at [`Self::is_full`].
    #[inline]
    pub fn push(&mut self, found: Match) {
        debug_assert!(!self.is_full() && !self.runs.is_empty());
        self.add(found);
    }

    /// The one way into the buffer.
    #[inline]
    fn add(&mut self, found: Match) {
        let Match { probe, build, .. } = found;
        if self.connections.as_mut().is_some_and(|connections| !connections.add(probe, build)) {
            return;
        }
        self.make_room();
        self.matches.push(found);
    }

    /// Adds a match that holds in some orders to the present unit; the caller has looked at
    /// [`Self::is_full`]. The matches behind it hold in all orders again.
    #[inline]
    pub fn push_in(&mut self, order: MatchOrder, found: Match) {
        match self.runs.last() {
            Some(&RunStart { unit, .. }) if order != MatchOrder::All => {
                debug_assert!(!self.is_full());
                self.begin_in(order, unit);
                self.add(found);
                self.begin(unit);
            }
            _ => self.push(found),
        }
    }

    /// Makes room for a further match, in doubling steps that end at the capacity.
    #[inline]
    fn make_room(&mut self) {
        let needed = self.matches.len() + 1;
        if needed > self.matches.capacity() {
            let room = needed.max(2 * self.matches.capacity()).max(64).min(self.capacity);
            self.matches.reserve_exact(room.saturating_sub(self.matches.len()));
        }
    }

    /// Adds matches that are counted only.
    pub fn count(&mut self, counts: RowPairCounts) {
        self.counts += counts;
    }

    /// Notes that all matches of a unit have been added, now or before.
    pub fn complete(&mut self, unit: u32) {
        self.completed.push(unit);
    }

    /// The matches of all runs.
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// The run at a place.
    pub fn run(&self, place: usize) -> Option<MatchRun<'_>> {
        let &RunStart { unit, order, start } = self.runs.get(place)?;
        let end = self.runs.get(place + 1).map_or(self.matches.len(), |run| run.start);
        // Only the last run may have no match yet.
        let matches = &self.matches[start..end];
        (!matches.is_empty()).then_some(MatchRun { unit, order, matches })
    }

    /// The runs. A unit may have several.
    pub fn runs(&self) -> impl Iterator<Item = MatchRun<'_>> {
        (0..self.runs.len()).filter_map(|place| self.run(place))
    }

    /// The units whose last matches are in the runs, or were before.
    pub fn completed(&self) -> &[u32] {
        &self.completed
    }

    /// Takes one of the completed units, once the runs have been read.
    pub fn pop_completed(&mut self) -> Option<u32> {
        let unit = self.completed.pop()?;
        self.connections.iter_mut().for_each(|connections| connections.complete(unit));
        Some(unit)
    }

    /// The matches that were counted besides.
    pub fn counts(&self) -> RowPairCounts {
        self.counts
    }

    /// Forgets matches and counts; completed units stay.
    pub fn clear_matches(&mut self) {
        self.matches.clear();
        self.runs.clear();
        self.counts = RowPairCounts::default();
    }

    /// Forgets matches and completed units.
    pub fn clear(&mut self) {
        self.clear_matches();
        self.completed.clear();
    }

    /// The bytes that a full buffer takes.
    pub fn footprint(&self) -> usize {
        // A growing vector of runs doubles, from 4 on.
        let runs = (MOST_RUNS + 2).min(self.capacity + 1).next_power_of_two().max(4);
        self.capacity * size_of::<Match>() + runs * size_of::<RunStart>()
    }
}

/// The progress of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The filter has done all units. Another unit may be fed; polled again without one, the
    /// cursor completes the units it has, and asks again once there is none left.
    NeedsInput,
    /// The match buffer is full; there is more.
    Full,
    /// The time slice is used up; there is more.
    Yield,
    /// No more units follow, and all are complete.
    Ended,
}

/// Gives the matches of probe items, a bounded buffer at a time.
pub trait Cursor: Send {
    /// Takes a unit, at any time before [`Cursor::finish`].
    ///
    /// # Errors
    ///
    /// A resource error where memory for the unit is short: the cursor has not taken it, and goes
    /// on with those it has.
    fn feed(&mut self, unit: ProbeUnit) -> Result<()>;

    /// Tells the cursor that no more units follow.
    fn finish(&mut self);

    /// Adds matches and completed units to the buffer, in any order, working 10 ms at most.
    /// `Pending` means that a device works and will wake the task.
    fn poll(&mut self, cx: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>>;

    /// Tells the cursor that no further match of this probe item of a unit is needed. More may
    /// still come.
    fn retire(&mut self, unit: u32, probe: ItemId);

    /// The work done since the cursor was opened.
    fn funnel(&self) -> Funnel;
}

/// The units that have been fed to a cursor and that its filter has not begun.
#[derive(Debug)]
pub struct UnitQueue<U> {
    units: VecDeque<U>,
    finished: bool,
}

impl<U> Default for UnitQueue<U> {
    fn default() -> Self {
        Self { units: VecDeque::new(), finished: false }
    }
}

impl<U> UnitQueue<U> {
    pub fn push(&mut self, unit: U) {
        debug_assert!(!self.finished, "a unit after the last one");
        self.units.push_back(unit);
    }

    pub fn pop(&mut self) -> Option<U> {
        self.units.pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Notes that no more units follow.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The progress of a cursor that has completed every unit it was fed.
    pub fn progress(&self) -> Progress {
        match self.finished {
            true => Progress::Ended,
            false => Progress::NeedsInput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_matches_in_runs_of_one_unit() {
        let found = |probe| Match { probe, ..Match::default() };
        let mut buffer = MatchBuffer::new(5);
        buffer.begin(7);
        buffer.begin(3);
        buffer.push(found(0));
        buffer.begin(3);
        buffer.push(found(1));
        buffer.begin(9);
        [2, 3].map(found).into_iter().for_each(|found| buffer.push(found));
        buffer.begin(3);
        buffer.push(found(4));
        buffer.complete(3);
        let runs: Vec<_> = buffer.runs().map(|run| (run.unit, run.matches)).collect();
        let matches = buffer.matches();
        assert_eq!(runs, [(3, &matches[..2]), (9, &matches[2..4]), (3, &matches[4..])]);
        assert!(buffer.is_full() && buffer.run(3).is_none());
        assert_eq!(buffer.matches.capacity(), 5);
        buffer.clear_matches();
        assert!(buffer.runs().next().is_none() && !buffer.is_empty());
        assert_eq!((buffer.pop_completed(), buffer.pop_completed()), (Some(3), None));
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_buffer_keeps_to_its_memory() {
        let mut buffer = MatchBuffer::new(1000);
        buffer.begin(0);
        (0..1000).for_each(|_| buffer.push(Match::default()));
        assert_eq!((buffer.matches.capacity(), buffer.is_full()), (1000, true));
        buffer.clear();
        for unit in 0.. {
            if buffer.is_full() {
                break;
            }
            buffer.begin(unit);
            if !buffer.is_full() {
                buffer.push(Match::default());
            }
        }
        assert_eq!((buffer.runs().count(), buffer.matches().len()), (MOST_RUNS, MOST_RUNS));
        let bytes = buffer.matches.capacity() * size_of::<Match>()
            + buffer.runs.capacity() * size_of::<RunStart>();
        assert!(bytes <= buffer.footprint(), "{bytes}");
    }

    /// Matches of one order are runs of their own, of neighbours of one order and unit, within the
    /// buffer's memory.
    #[test]
    fn matches_of_one_order_are_runs() {
        use MatchOrder::{All, Exchanged, Given};
        let found = |probe| Match { probe, ..Match::default() };
        let mut buffer = MatchBuffer::new(20);
        buffer.begin(4);
        for (probe, order) in
            [Given, Given, All, All, Exchanged, Given, All].into_iter().enumerate()
        {
            buffer.push_in(order, found(probe as u32));
        }
        buffer.begin(5);
        buffer.push_in(Given, found(7));
        buffer.push(found(8));
        let runs: Vec<_> =
            buffer.runs().map(|run| (run.unit, run.order, run.matches.len())).collect();
        let expected = [
            (4, Given, 2),
            (4, All, 2),
            (4, Exchanged, 1),
            (4, Given, 1),
            (4, All, 1),
            (5, Given, 1),
        ];
        assert_eq!(runs, [&expected[..], &[(5, All, 1)]].concat());
        for capacity in [1, 2, 3, 1000] {
            let mut buffer = MatchBuffer::new(capacity);
            buffer.begin(0);
            for nth in 0.. {
                if buffer.is_full() {
                    break;
                }
                buffer.push_in([Given, All, Exchanged][nth % 3], found(nth as u32));
            }
            let runs: usize = buffer.runs().map(|run| run.matches.len()).sum();
            assert_eq!((runs, buffer.matches().len()), (capacity.min(MOST_RUNS + 1), runs));
            let bytes = buffer.matches.capacity() * size_of::<Match>()
                + buffer.runs.capacity() * size_of::<RunStart>();
            assert!(bytes <= buffer.footprint(), "{bytes}");
        }
    }
}
