//! Distinct sets in CSR form, ordered for the join.

use std::mem::size_of;

use crate::engine::RowGroups;
use crate::set::runs::{Runs, SetId};
use crate::simd::prefetch;
use crate::util::attached::Attached;

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
    /// The rows that hold each set. Rows without a set have a NULL or empty list, a NULL key, or
    /// are refused by a filter.
    groups: RowGroups,
    /// Token ranks are below this.
    universe: u32,
    /// In how many sets each of the last ranks stands; empty where they were not counted.
    frequencies: Vec<u32>,
    /// The copies of the collection on devices, for one.
    attached: Attached,
}

/// The parts of a [`SetCollection`], checked by [`SetCollection::from_parts`] in debug builds.
#[derive(Debug, Default)]
pub struct SetParts {
    pub tokens: Vec<u32>,
    pub offsets: Vec<u64>,
    pub unknown: Vec<u32>,
    pub runs: Runs,
    pub row_offsets: Vec<u32>,
    pub rows: Vec<u32>,
    pub setless_rows: Vec<u32>,
    pub universe: u32,
    pub frequencies: Vec<u32>,
}

impl SetCollection {
    /// At most so many ranks have their frequencies kept.
    pub(crate) const MOST_FREQUENCIES: usize = 1 << 10;

    pub(crate) fn from_parts(parts: SetParts) -> Self {
        let SetParts {
            tokens,
            offsets,
            unknown,
            runs,
            row_offsets,
            rows,
            setless_rows,
            universe,
            frequencies,
        } = parts;
        debug_assert_eq!(offsets.last().copied().unwrap_or(0) as usize, tokens.len());
        let groups = RowGroups::new(row_offsets, rows, setless_rows);
        let attached = Attached::default();
        Self { tokens, offsets, unknown, runs, groups, universe, frequencies, attached }
    }

    /// The number of distinct sets.
    pub fn len(&self) -> u32 {
        self.offsets.len().saturating_sub(1) as u32
    }

    /// Whether there is no set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The known tokens of a set, as ascending ranks.
    #[inline]
    pub fn tokens(&self, set: SetId) -> &[u32] {
        let (start, end) = (self.offsets[set as usize], self.offsets[set as usize + 1]);
        &self.tokens[start as usize..end as usize]
    }

    /// Asks for the place of the tokens of a set that will be needed soon.
    #[inline]
    pub(crate) fn prefetch_offsets(&self, set: SetId) {
        prefetch(self.offsets.as_ptr().wrapping_add(set as usize));
    }

    /// Asks for the tokens of a set from place `from` on.
    #[inline]
    pub(crate) fn prefetch_tokens(&self, set: SetId, from: u32) {
        let start = self.offsets[set as usize] as usize + from as usize;
        prefetch(self.tokens.as_ptr().wrapping_add(start));
    }

    /// All sets in CSR form: the tokens of set `s` are `tokens[offsets[s]..offsets[s + 1]]`. Where
    /// there are no sets there may be no offsets either.
    pub fn csr(&self) -> (&[u64], &[u32]) {
        (&self.offsets, &self.tokens)
    }

    /// Values beside the collection, such as its copies on devices.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// The first set whose tokens begin at place `token` of all tokens, or behind.
    pub(crate) fn first_set_from(&self, token: u64) -> SetId {
        let sets = self.len() as usize;
        self.offsets[..sets].partition_point(|&offset| offset < token) as SetId
    }

    /// The number of the set's tokens that are outside the dictionary.
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

    /// The rows that hold each set.
    pub fn groups(&self) -> &RowGroups {
        &self.groups
    }

    pub fn groups_mut(&mut self) -> &mut RowGroups {
        &mut self.groups
    }

    /// The number of rows that hold a set.
    #[inline]
    pub fn row_count_of(&self, set: SetId) -> u32 {
        self.groups.row_count_of(set)
    }

    /// Whether no two rows hold the same set.
    pub fn has_no_repeats(&self) -> bool {
        self.groups.has_no_repeats()
    }

    /// The number of rows that have a set.
    pub fn row_count(&self) -> usize {
        self.groups.row_count()
    }

    /// The number of tokens in all sets, unknown ones left out.
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Token ranks are below this number.
    pub fn universe(&self) -> u32 {
        self.universe
    }

    /// In how many sets each rank from `first` on stands, where that has been counted.
    pub fn frequencies(&self, first: u32) -> Option<&[u32]> {
        let counted = self.universe as usize - self.frequencies.len();
        self.frequencies.get((first as usize).checked_sub(counted)?..)
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        (self.tokens.capacity() + self.unknown.capacity() + self.frequencies.capacity())
            * size_of::<u32>()
            + self.offsets.capacity() * size_of::<u64>()
            + self.groups.size_in_bytes()
            + self.runs.size_in_bytes()
    }
}
