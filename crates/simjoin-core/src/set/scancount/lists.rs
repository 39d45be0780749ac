//! The sets of each rare token.

use std::ops::Range;

use super::walk::{Walk, ranks};
use crate::engine::PrepareContext;
use crate::error::Result;
use crate::memory::room;
use crate::set::collection::SetCollection;
use crate::set::runs::SetId;
use crate::simd::prefetch;
use crate::tuning::{Size, Tuning};
use crate::util::parallel;

/// Ranks of a slice at most: a place within it fits into 16 bits.
pub(super) const WIDEST: Size<u32> = Size { usual: 1 << 16, small: 16 };
/// Ranks of a slice at least.
const NARROWEST: Size<u32> = Size { usual: 1 << 12, small: 4 };
/// Postings of an average slice: they and their offsets stay in a core's second cache.
const POSTINGS: u64 = 1 << 16;

/// Lists of sets by token, in slices of neighbouring ranks.
#[derive(Debug)]
pub(super) struct SliceLists {
    /// The ranks that have lists.
    ranks: Range<u32>,
    /// Ranks of a slice, a power of two.
    span: u32,
    /// Where the lists of each slice begin.
    bases: Vec<u64>,
    /// The places of each slice, `span + 1`: list `t` of the slice lies between places `t` and `t + 1`.
    places: Vec<u32>,
    sets: Vec<SetId>,
}

/// The lists of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice<'a> {
    places: &'a [u32],
    sets: &'a [SetId],
}

impl<'a> Slice<'a> {
    /// The sets, ascending, that have the token at this place of the slice.
    #[inline(always)]
    pub(super) fn list(&self, place: usize) -> &'a [SetId] {
        &self.sets[self.places[place] as usize..self.places[place + 1] as usize]
    }

    /// Asks for a list that will be needed soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: usize) {
        prefetch(self.sets.as_ptr().wrapping_add(self.places[place] as usize));
    }
}

impl SliceLists {
    /// Lists of the tokens of these ranks, of which `counts` tells how many sets have them.
    pub(super) fn try_new(
        build: &SetCollection,
        ranks: Range<u32>,
        counts: &[u32],
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let span = span(counts, context.threads.tuning);
        let slices = ranks.len().div_ceil(span as usize);
        let row = span as usize + 1;
        let mut bases = room(context.reservation, slices + 1)?;
        let mut places = context.filled(slices * row, 0_u32)?;
        let mut total = 0;
        for (counts, places) in counts.chunks(span as usize).zip(places.chunks_exact_mut(row)) {
            context.cancel.check()?;
            bases.push(total);
            total += place_lists(counts, places);
        }
        bases.push(total);
        let sets = context.filled(total as usize, 0)?;
        let mut this = Self { ranks, span, bases, places, sets };
        this.fill(build, context)?;
        Ok(this)
    }

    /// Writes the sets into the lists, slice by slice, on all threads.
    fn fill(&mut self, build: &SetCollection, context: PrepareContext<'_>) -> Result<()> {
        let (span, row, slices) = (self.span, self.span as usize + 1, self.slices());
        let share = match context.threads.count() {
            1 => slices,
            threads => slices.div_ceil(8 * threads),
        };
        let share = share.max(1);
        let mut tasks = vec![];
        let (mut places, mut sets) = (&mut self.places[..], &mut self.sets[..]);
        for start in (0..slices).step_by(share) {
            let end = (start + share).min(slices);
            let length = (self.bases[end] - self.bases[start]) as usize;
            let (of_places, of_sets);
            (of_places, places) = places.split_at_mut((end - start) * row);
            (of_sets, sets) = sets.split_at_mut(length);
            tasks.push((start, of_places, of_sets));
        }
        let walks =
            context.threads.at_most(tasks.len()).count() * Walk::footprint(build.len() as usize);
        context.reservation.try_grow(walks)?;
        let (all, bases) = (&self.ranks, &self.bases);
        parallel::for_each(context.threads, tasks, |(start, places, sets)| {
            let first = ranks(all.start, all.end, span, start).start;
            let mut walk = Walk::new(build, 0..build.len(), first);
            for (slice, places) in (start..).zip(places.chunks_exact_mut(row)) {
                context.cancel.check()?;
                let ranks = ranks(all.start, all.end, span, slice);
                let sets = &mut sets[(bases[slice] - bases[start]) as usize..];
                walk.slice(build, ranks.end, |set, tokens| {
                    for &token in tokens {
                        // The place behind a list starts as its first, and ends as its end.
                        let place = &mut places[(token - ranks.start) as usize + 1];
                        sets[*place as usize] = set;
                        *place += 1;
                    }
                });
            }
            Ok(())
        })?;
        context.reservation.shrink(walks);
        Ok(())
    }

    pub(super) fn slices(&self) -> usize {
        self.bases.len() - 1
    }

    /// Ranks of a slice.
    pub(super) fn span(&self) -> u32 {
        self.span
    }

    /// The ranks of a slice.
    pub(super) fn ranks_of(&self, slice: usize) -> Range<u32> {
        ranks(self.ranks.start, self.ranks.end, self.span, slice)
    }

    /// The first rank that has a list.
    pub(super) fn first(&self) -> u32 {
        self.ranks.start
    }

    /// The slice of a rank; one behind all slices where the rank has no list.
    pub(super) fn slice_of(&self, rank: u32) -> usize {
        match rank < self.ranks.end {
            true => (rank.saturating_sub(self.ranks.start) / self.span) as usize,
            false => self.slices(),
        }
    }

    /// The lists of a slice.
    pub(super) fn slice(&self, slice: usize) -> Slice<'_> {
        let row = self.span as usize + 1;
        Slice {
            places: &self.places[slice * row..(slice + 1) * row],
            sets: &self.sets[self.bases[slice] as usize..self.bases[slice + 1] as usize],
        }
    }
}

/// Ranks of a slice, for lists as long as `counts`.
fn span(counts: &[u32], tuning: Tuning) -> u32 {
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let average = (total / (counts.len() as u64).max(1)).max(1);
    let wanted = u32::try_from(POSTINGS / average).unwrap_or(u32::MAX).max(1);
    let span = 1 << wanted.clamp(tuning.size(NARROWEST), tuning.size(WIDEST)).ilog2();
    // Places within a slice take 32 bits, however long the lists are.
    let longest = u64::from(counts.iter().copied().max().unwrap_or(0)).max(1);
    span.min(1 << (u64::from(u32::MAX) / longest).ilog2().min(16))
}

/// Writes where each list of a slice begins into the place behind it. Returns their length.
fn place_lists(counts: &[u32], places: &mut [u32]) -> u64 {
    let mut total = 0_u32;
    for (&count, place) in counts.iter().zip(&mut places[1..]) {
        *place = total;
        total += count;
    }
    // Behind the last list of the last slice.
    places[counts.len() + 1..].fill(total);
    u64::from(total)
}
