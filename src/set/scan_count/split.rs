//! The tokens of a collection by how many sets have them.

use std::ops::Range;

use datafusion::common::Result;

use crate::engine::Pairing;
use crate::set::{PrepareContext, SetCollection, SetId};
use crate::util::parallel;

/// A token of at least one set in this many owns a bit. The list of its sets would take as much
/// memory as a bit in every set, and adding to counters as long as counting bits.
pub(in crate::set) const HEAVY: u64 = if cfg!(test) { 4 } else { 32 };
/// Words of a slice: those of a group of probe sets stay in a core's cache.
const SLICE: usize = if cfg!(test) { 1 } else { 1024 };

/// Lists of sets for rare tokens and bits for frequent ones.
#[derive(Debug)]
pub(super) struct Split {
    /// Tokens of lower rank are of one set, which has no partner by them.
    first: u32,
    /// Tokens from this rank on own bits.
    heavy: u32,
    /// `offsets[token - first]..offsets[token - first + 1]` is the list of a token before `heavy`.
    offsets: Vec<u64>,
    sets: Vec<SetId>,
    /// Words of a slice, and the number of slices.
    width: usize,
    slices: usize,
    /// The words of slice `s` of set `t` begin at `(s * build sets + t) * width`.
    bits: Vec<u64>,
}

impl Split {
    pub(super) fn try_new(
        build: &SetCollection,
        pairing: Pairing,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let universe = build.universe();
        let counting = universe as usize * size_of::<u32>();
        context.reservation.try_grow(counting)?;
        let mut counts = vec![0_u32; universe as usize];
        for set in 0..build.len() {
            context.cancel.check()?;
            build.tokens(set).iter().for_each(|&token| counts[token as usize] += 1);
        }
        let first = match pairing {
            Pairing::All => 0,
            Pairing::Unordered => counts.iter().take_while(|&&count| count <= 1).count() as u32,
        };
        let is_heavy = |&&count: &&u32| u64::from(count) * HEAVY >= u64::from(build.len());
        let light = &counts[first as usize..];
        let heavy = universe - light.iter().rev().take_while(is_heavy).count() as u32;
        let words = (universe - heavy).div_ceil(u64::BITS) as usize;
        let width = words.clamp(1, SLICE);
        let slices = words.div_ceil(width);
        let mut split =
            Self { first, heavy, offsets: vec![], sets: vec![], width, slices, bits: vec![] };
        split.list(build, &counts, context)?;
        drop(counts);
        context.reservation.shrink(counting);
        split.mark(build, context)?;
        Ok(split)
    }

    /// Makes the lists of rare tokens.
    fn list(
        &mut self,
        build: &SetCollection,
        counts: &[u32],
        context: PrepareContext<'_>,
    ) -> Result<()> {
        let counts = &counts[self.first as usize..self.heavy as usize];
        context.reservation.try_grow((counts.len() + 1) * size_of::<u64>())?;
        // Each offset is the end of its list; filling from the back turns it into the start.
        let mut total = 0;
        self.offsets = Vec::with_capacity(counts.len() + 1);
        for &count in counts {
            total += u64::from(count);
            self.offsets.push(total);
        }
        self.offsets.push(total);
        context.reservation.try_grow(total as usize * size_of::<SetId>())?;
        self.sets = parallel::filled(context.threads, total as usize, 0);
        for set in (0..build.len()).rev() {
            context.cancel.check()?;
            for &token in self.light(build.tokens(set)) {
                let place = &mut self.offsets[(token - self.first) as usize];
                *place -= 1;
                self.sets[*place as usize] = set;
            }
        }
        Ok(())
    }

    /// Sets the bits of frequent tokens.
    fn mark(&mut self, build: &SetCollection, context: PrepareContext<'_>) -> Result<()> {
        let sets = build.len() as usize;
        let words = sets * self.width * self.slices;
        context.reservation.try_grow(words * size_of::<u64>())?;
        let mut bits = parallel::filled(context.threads, words, 0_u64);
        let slices = bits.chunks_mut((sets * self.width).max(1)).enumerate().collect();
        parallel::for_each(context.threads, slices, |(slice, bits): (usize, &mut [u64])| {
            for (set, words) in (0..build.len()).zip(bits.chunks_exact_mut(self.width)) {
                context.cancel.check()?;
                self.mark_slice(build.tokens(set), slice, words);
            }
            Ok(())
        })?;
        self.bits = bits;
        Ok(())
    }

    /// Sets the bits of a slice of a set.
    pub(super) fn mark_slice(&self, tokens: &[u32], slice: usize, words: &mut [u64]) {
        let from = u64::from(self.heavy) + (slice * self.width) as u64 * u64::from(u64::BITS);
        let start = tokens.partition_point(|&token| u64::from(token) < from);
        for &token in &tokens[start..] {
            let place = u64::from(token) - from;
            let Some(word) = words.get_mut((place / 64) as usize) else { break };
            *word |= 1 << (place % 64);
        }
    }

    /// The tokens of a set that have lists.
    pub(super) fn light<'a>(&self, tokens: &'a [u32]) -> &'a [u32] {
        let end = tokens.partition_point(|&token| token < self.heavy);
        let start = tokens[..end].partition_point(|&token| token < self.first);
        &tokens[start..end]
    }

    /// The sets in a range that have a token with a list.
    #[inline]
    pub(super) fn sets_of(&self, token: u32, range: &Range<SetId>) -> &[SetId] {
        /// Longer lists are searched.
        const SHORT: usize = 16;
        let place = (token - self.first) as usize;
        let list = &self.sets[self.offsets[place] as usize..self.offsets[place + 1] as usize];
        if list.len() <= SHORT {
            let start = list.iter().take_while(|&&set| set < range.start).count();
            let end = list.iter().rev().take_while(|&&set| set >= range.end).count();
            return list.get(start..list.len() - end).unwrap_or_default();
        }
        let start = list.partition_point(|&set| set < range.start);
        let end = start + list[start..].partition_point(|&set| set < range.end);
        &list[start..end]
    }

    /// Words of a slice.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn slices(&self) -> usize {
        self.slices
    }

    /// The words of a slice of a set, of which there are `sets`.
    #[inline]
    pub(super) fn words(&self, slice: usize, sets: u32, set: SetId) -> &[u64] {
        let start = (slice * sets as usize + set as usize) * self.width;
        &self.bits[start..start + self.width]
    }
}
