//! The tokens of many sets, slice of ranks by slice.

use std::ops::Range;

use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::runs::SetId;
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// The progress of a walk through the tokens of some sets.
#[derive(Debug)]
pub(super) struct Walk {
    sets: Vec<SetId>,
    /// The place of the next token of each set among its tokens.
    places: Vec<usize>,
}

impl Walk {
    /// The bytes of a walk over `sets` sets.
    pub(super) fn footprint(sets: usize) -> usize {
        sets * (size_of::<SetId>() + size_of::<usize>())
    }

    /// A walk that begins at this rank.
    pub(super) fn new(build: &SetCollection, sets: impl Iterator<Item = SetId>, from: u32) -> Self {
        let sets: Vec<SetId> = sets.collect();
        let place = |&set: &SetId| build.tokens(set).partition_point(|&token| token < from);
        let places = sets.iter().map(place).collect();
        Self { sets, places }
    }

    /// Leaves out the tokens of rank less than `from`.
    pub(super) fn skip_to(&mut self, build: &SetCollection, from: u32) {
        for (&set, place) in self.sets.iter().zip(&mut self.places) {
            let rest = &build.tokens(set)[*place..];
            if rest.first().is_some_and(|&token| token < from) {
                *place += rest.partition_point(|&token| token < from);
            }
        }
    }

    /// Counts the sets that have each of the next ranks, which begin at `start`.
    pub(super) fn count<C: SetCount>(
        &mut self,
        build: &SetCollection,
        start: u32,
        counts: &mut [C],
    ) {
        let end = start.saturating_add(counts.len() as u32);
        self.slice(build, end, |_, tokens| {
            tokens.iter().for_each(|&token| counts[(token - start) as usize].add_one());
        });
    }

    /// Visits the tokens of rank less than `end` that each set has left.
    pub(super) fn slice(
        &mut self,
        build: &SetCollection,
        end: u32,
        mut visit: impl FnMut(SetId, &[u32]),
    ) {
        for (&set, place) in self.sets.iter().zip(&mut self.places) {
            let rest = &build.tokens(set)[*place..];
            let count = rest.iter().take_while(|&&token| token < end).count();
            visit(set, &rest[..count]);
            *place += count;
        }
    }
}

/// Bytes of counts that stay in a core's cache.
pub(super) const SPAN: Size = Size { usual: 1 << 18, small: 16 };

/// Counts for each of some ranks how many of the sets have it, `span` bytes of counts at a time.
pub(super) fn count<C: SetCount>(
    build: &SetCollection,
    sets: impl Iterator<Item = SetId>,
    first: u32,
    counts: &mut [C],
    (span, cancel): (usize, &CancelFlag),
) -> Result<()> {
    let mut walk = Walk::new(build, sets, first);
    let mut start = first;
    for slice in counts.chunks_mut(span / size_of::<C>()) {
        cancel.check()?;
        walk.count(build, start, slice);
        start = start.saturating_add(slice.len() as u32);
    }
    Ok(())
}

/// A number of sets.
pub(super) trait SetCount: Send {
    fn add_one(&mut self);
}

impl SetCount for u8 {
    #[inline(always)]
    fn add_one(&mut self) {
        *self += 1;
    }
}

impl SetCount for u32 {
    #[inline(always)]
    fn add_one(&mut self) {
        *self += 1;
    }
}

/// Ranks cut into a few pieces for each of `threads` threads; a piece has its first rank, and its part of
/// `counts`, which has an item for each rank.
pub(super) fn pieces<C>(first: u32, counts: &mut [C], threads: Threads) -> Vec<(u32, &mut [C])> {
    /// Pieces for each thread: dense ranks take longer.
    const PIECES: usize = 8;
    let share = match threads.count() {
        1 => counts.len(),
        count => counts.len().div_ceil(PIECES * count),
    };
    let starts = (first..).step_by(share.max(1));
    starts.zip(counts.chunks_mut(share.max(1))).collect()
}

/// The ranks of a slice.
pub(super) fn ranks(first: u32, end: u32, span: u32, slice: usize) -> Range<u32> {
    let start = u64::from(first) + slice as u64 * u64::from(span);
    let limit = (start + u64::from(span)).min(u64::from(end));
    start as u32..limit as u32
}
