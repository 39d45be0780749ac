//! Probe sets that meet a block one after the other.

use std::ops::Range;
use std::sync::Arc;

use super::columns::TokenColumns;
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::SizeBounds;
use crate::set::runs::{Runs, SetId};
use crate::tuning::{Size, Tuning};

/// The list of a token, as far as no block has met it.
#[derive(Debug, Clone, Copy)]
struct TokenList {
    /// Its first set.
    next: SetId,
    /// The places of its sets among all lists.
    places: (u32, u32),
}

/// A probe set of the group.
#[derive(Debug)]
pub(super) struct ProbeSet {
    pub set: SetId,
    /// The build sets that it may match.
    pub partners: Range<SetId>,
    pub bounds: Arc<SizeBounds>,
    /// The lists of its rare tokens that have sets left.
    lists: Range<usize>,
    /// The place of its first token that has a column.
    columns: usize,
    /// The most tokens that a build set can share with it.
    pub most: u32,
}

impl ProbeSet {
    /// Its tokens that have columns.
    pub(super) fn tokens<'a>(&self, sets: &'a SetCollection) -> &'a [u32] {
        &sets.tokens(self.set)[self.columns..]
    }
}

/// Probe sets that are compared with a block before the next block.
#[derive(Debug, Default)]
pub(super) struct ProbeGroup {
    pub probes: Vec<ProbeSet>,
    /// The partners of all of them.
    pub span: Range<SetId>,
    lists: Vec<TokenList>,
    /// The bounds of how many sizes the probe sets keep, at most.
    sizes: usize,
    tuning: Tuning,
}

impl ProbeGroup {
    pub(super) fn new(tuning: Tuning) -> Self {
        Self { tuning, ..Self::default() }
    }

    /// Probe sets of a group at most.
    pub(super) const PROBES: Size = Size { usual: 256, small: 5 };
    /// Lists of a group, besides those of one probe set.
    const LISTS: Size = Size { usual: 1 << 13, small: 8 };

    /// The sizes of the probe sets of a group, each of which keeps its bounds.
    const SIZES: usize = 4;

    /// A bound on the bytes of a group, where no probe set shares more than `most` tokens with a build side of
    /// these runs.
    pub(super) fn footprint(most: usize, build: &Runs) -> usize {
        Self::most_bytes(most, SizeBounds::footprint(build))
    }

    /// A bound on the bytes of a group, where the bounds of one size take `of_size` bytes.
    pub(super) fn most_bytes(most: usize, of_size: usize) -> usize {
        Self::PROBES.usual * size_of::<ProbeSet>()
            + 2 * (Self::LISTS.usual + most) * size_of::<TokenList>()
            + Self::SIZES * of_size
    }

    /// Makes room for other probe sets; the lists of a large one go.
    pub(super) fn clear(&mut self) {
        self.probes.clear();
        self.lists.clear();
        self.lists.shrink_to(self.tuning.size(Self::LISTS));
        self.sizes = 0;
        self.span = 0..0;
    }

    pub(super) fn is_full(&self) -> bool {
        self.probes.len() >= self.tuning.size(Self::PROBES)
            || self.lists.len() >= self.tuning.size(Self::LISTS)
            || self.sizes >= Self::SIZES
    }

    /// Takes in a probe set.
    pub(super) fn push(
        &mut self,
        set: SetId,
        tokens: &[u32],
        (partners, bounds): (Range<SetId>, Arc<SizeBounds>),
        columns: &TokenColumns,
    ) {
        let first_column = tokens.partition_point(|&token| token < columns.first());
        let start = self.lists.len();
        let mut most = (tokens.len() - first_column) as u32;
        for &token in &tokens[..first_column] {
            let places = columns.places_from(token, partners.start);
            if places.is_empty() {
                continue;
            }
            let next = columns.set_at(places.start);
            if next < partners.end {
                most += 1;
                self.lists.push(TokenList { next, places: (places.start, places.end) });
            }
        }
        let lists = start..self.lists.len();
        let is_same = |last: &ProbeSet| Arc::ptr_eq(&last.bounds, &bounds);
        self.sizes += usize::from(!self.probes.last().is_some_and(is_same));
        self.span = match self.probes.is_empty() {
            true => partners.clone(),
            false => self.span.start.min(partners.start)..self.span.end.max(partners.end),
        };
        self.probes.push(ProbeSet { set, partners, bounds, lists, columns: first_column, most });
    }

    /// Calls `add` with each set before `end` that has a rare token of a probe set, once for each such token, and
    /// leaves these sets out of later calls. Returns the number of calls.
    #[inline]
    pub(super) fn lists_until(
        &mut self,
        probe: usize,
        end: SetId,
        columns: &TokenColumns,
        mut add: impl FnMut(SetId),
    ) -> usize {
        let lists = &mut self.lists[self.probes[probe].lists.clone()];
        let mut given = 0;
        for list in lists {
            while list.next < end {
                add(list.next);
                given += 1;
                list.places.0 += 1;
                list.next = match list.places.0 < list.places.1 {
                    true => columns.set_at(list.places.0),
                    false => SetId::MAX,
                };
            }
        }
        given
    }
}
