//! Distinct sets in CSR form, ordered for the join.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::Result;

use crate::set::device::DeviceCopies;
use crate::set::runs::Runs;
use crate::util::cancel::{CancelFlag, sort_unstable_by_key};

/// The id of a distinct set in its [`SetCollection`].
pub type SetId = u32;

/// Distinct sets of token ranks, with the rows that hold each.
///
/// Sets are ordered by blocking key, then size, then their tokens lexicographically, so that the
/// partners which a key and a size range admit are one range of ids ([`Runs`]). The tokens of a
/// set ascend, rarest first. In a probe collection the tokens that the build side does not know
/// are not stored, only counted: they are the rarest of all, match nothing and stand in front.
#[derive(Debug, Default)]
pub struct SetCollection {
    tokens: Vec<u32>,
    /// `offsets[s]..offsets[s + 1]` are the tokens of set `s`.
    offsets: Vec<u64>,
    /// Tokens of each set outside the dictionary; empty when there are none at all.
    unknown: Vec<u32>,
    runs: Runs,
    /// `row_offsets[s]..row_offsets[s + 1]` are the places in `rows` of the rows that hold `s`.
    row_offsets: Vec<u32>,
    rows: Vec<u32>,
    /// Rows without a set: NULL or empty list, NULL key, or refused by a filter.
    setless_rows: Vec<u32>,
    /// Token ranks are below this.
    universe: u32,
    /// What of it is on devices.
    copies: DeviceCopies,
}

/// The parts of a [`SetCollection`], checked by [`SetCollection::from_parts`] in debug builds.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub tokens: Vec<u32>,
    pub offsets: Vec<u64>,
    pub unknown: Vec<u32>,
    pub runs: Runs,
    pub row_offsets: Vec<u32>,
    pub rows: Vec<u32>,
    pub setless_rows: Vec<u32>,
    pub universe: u32,
}

impl SetCollection {
    pub(crate) fn from_parts(parts: Parts) -> Self {
        let Parts { tokens, offsets, unknown, runs, row_offsets, rows, setless_rows, universe } =
            parts;
        debug_assert_eq!(offsets.last().copied().unwrap_or(0) as usize, tokens.len());
        debug_assert_eq!(row_offsets.last().copied().unwrap_or(0) as usize, rows.len());
        let copies = DeviceCopies::default();
        Self { tokens, offsets, unknown, runs, row_offsets, rows, setless_rows, universe, copies }
    }

    /// The number of distinct sets.
    pub fn len(&self) -> u32 {
        self.offsets.len().saturating_sub(1) as u32
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The known tokens of a set, as ascending ranks.
    #[inline]
    pub fn tokens(&self, set: SetId) -> &[u32] {
        let (start, end) = (self.offsets[set as usize], self.offsets[set as usize + 1]);
        &self.tokens[start as usize..end as usize]
    }

    /// All sets in CSR form: the tokens of set `s` are `tokens[offsets[s]..offsets[s + 1]]`. Where
    /// there are no sets there may be no offsets either.
    pub(crate) fn csr(&self) -> (&[u64], &[u32]) {
        (&self.offsets, &self.tokens)
    }

    /// What of it is on devices.
    pub(crate) fn copies(&self) -> &DeviceCopies {
        &self.copies
    }

    /// The first set whose tokens begin at place `token` of all tokens, or behind.
    pub(crate) fn first_set_from(&self, token: u64) -> SetId {
        let sets = self.len() as usize;
        self.offsets[..sets].partition_point(|&offset| offset < token) as SetId
    }

    /// How many tokens of the set are outside the dictionary.
    #[inline]
    pub fn unknown(&self, set: SetId) -> u32 {
        self.unknown.get(set as usize).copied().unwrap_or(0)
    }

    /// The size of a set, unknown tokens included.
    #[inline]
    pub fn size(&self, set: SetId) -> u32 {
        let s = set as usize;
        (self.offsets[s + 1] - self.offsets[s]) as u32 + self.unknown(set)
    }

    /// Sets of equal blocking key and size.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// The rows that hold a set: their numbers in the order of the input.
    #[inline]
    pub fn rows(&self, set: SetId) -> &[u32] {
        let places = self.row_places(set..set + 1);
        &self.rows[places.start as usize..places.end as usize]
    }

    /// How many rows hold a set.
    #[inline]
    pub fn row_count_of(&self, set: SetId) -> u32 {
        let s = set as usize;
        self.row_offsets[s + 1] - self.row_offsets[s]
    }

    /// Whether no two rows hold the same set.
    pub fn has_no_repeats(&self) -> bool {
        self.rows.len() == self.len() as usize
    }

    /// The places of these sets' rows in the array of all rows that have a set. Places identify
    /// rows densely, whatever range of sets is looked at.
    #[inline]
    pub fn row_places(&self, sets: Range<SetId>) -> Range<u32> {
        if self.row_offsets.is_empty() {
            return 0..0;
        }
        self.row_offsets[sets.start as usize]..self.row_offsets[sets.end as usize]
    }

    /// The row at each place in `places`.
    pub fn rows_at(&self, places: Range<u32>) -> &[u32] {
        &self.rows[places.start as usize..places.end as usize]
    }

    /// Every row by place: those with a set, then those without one.
    pub fn rows_by_place(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().chain(&self.setless_rows).copied()
    }

    /// The row at a place; the rows without a set have the places behind all others.
    #[inline]
    pub fn row_at(&self, place: u32) -> u32 {
        let place = place as usize;
        match self.rows.get(place) {
            Some(&row) => row,
            None => self.setless_rows[place - self.rows.len()],
        }
    }

    /// The places of the rows without a set.
    pub fn setless_places(&self) -> Range<u32> {
        let first = self.rows.len() as u32;
        first..first + self.setless_rows.len() as u32
    }

    /// Orders the rows of each set by `key`, ties by row.
    pub(crate) fn sort_rows_by_key(
        &mut self,
        key: impl Fn(u32) -> u32 + Copy,
        cancel: &CancelFlag,
    ) -> Result<()> {
        for (set, places) in self.row_offsets.windows(2).enumerate() {
            cancel.check_at(set)?;
            let rows = &mut self.rows[places[0] as usize..places[1] as usize];
            if !rows.is_sorted_by_key(|&row| key(row)) {
                sort_unstable_by_key(rows, cancel, |&row| (key(row), row))?;
            }
        }
        Ok(())
    }

    /// The rows that have no set and so match nothing.
    pub fn setless_rows(&self) -> &[u32] {
        &self.setless_rows
    }

    /// The number of rows that have a set.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The number of tokens in all sets, unknown ones left out.
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Token ranks are below this number.
    pub fn universe(&self) -> u32 {
        self.universe
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        let words = self.tokens.capacity()
            + self.unknown.capacity()
            + self.row_offsets.capacity()
            + self.rows.capacity()
            + self.setless_rows.capacity();
        words * size_of::<u32>()
            + self.offsets.capacity() * size_of::<u64>()
            + self.runs.size_in_bytes()
    }
}
