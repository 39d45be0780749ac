//! The sets of each token: bits of many, lists of few.

use std::ops::Range;

use datafusion::common::{Result, resources_err};

use super::planes::{BLOCK, STRIPS};
use crate::engine::{Pairing, PrepareContext};
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::simd::{BITS, Line};
use crate::util::cancel::CancelFlag;
use crate::util::counters::Counters;
use crate::util::parallel::{filled, for_each};

/// The share of the sets from which on a token has a column: a list of fewer takes less time and memory.
const LEAST_SHARE: usize = if cfg!(test) { 4 } else { 256 };

/// The columns of frequent tokens, and the lists of the others.
#[derive(Debug)]
pub(super) struct Columns {
    /// The tokens that have columns: those from this rank on, as many as `count`.
    first: u32,
    count: usize,
    /// The strips of column `c` in block `b` begin at `(b * count + c) * STRIPS`.
    lines: Vec<Line>,
    /// The sets of token `t`, ascending, are `sets[starts[t]..starts[t + 1]]`, for tokens below `first`. Where sets look
    /// for each other, tokens of one set have no list.
    starts: Vec<u32>,
    sets: Vec<SetId>,
}

/// The sets of a token from which on it has a column.
fn least_count(sets: usize) -> usize {
    (sets / LEAST_SHARE).max(2)
}

/// The blocks of `sets` sets.
fn block_count(sets: u32) -> usize {
    sets.div_ceil(BLOCK) as usize
}

impl Columns {
    /// A bound on the bytes of the columns and lists of a collection, by its tokens.
    pub(super) fn most_bytes(build: &SetCollection) -> usize {
        Self::bytes_for(build.len() as usize, build.token_count(), build.universe() as usize)
    }

    /// A bound on the bytes of the columns and lists of `sets` sets with `tokens` tokens in all, `universe` of them
    /// different.
    pub(super) fn bytes_for(sets: usize, tokens: usize, universe: usize) -> usize {
        let columns = universe.min(tokens / least_count(sets));
        let bits = columns * block_count(sets as u32) * BLOCK as usize / 8;
        bits + (tokens + 2 * (universe + 1)) * size_of::<u32>()
    }

    /// The columns and lists of a build side.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn try_new(
        build: &SetCollection,
        spec: &JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let PrepareContext { reservation, cancel, threads, .. } = context;
        let universe = build.universe() as usize;
        reservation.try_grow((universe + 1) * size_of::<u32>())?;
        let counts = Counters::new(universe + 1, threads);
        for_each_share(build, context, |sets| {
            for set in sets {
                build.tokens(set).iter().for_each(|&token| counts.raise(token as usize));
            }
        })?;
        let mut counts = counts.into_counts();
        let least = least_count(build.len() as usize);
        let is_frequent = |count: &&u32| **count as usize >= least;
        let count = counts[..universe].iter().rev().take_while(is_frequent).count();
        let first = universe - count;
        let bytes = count * block_count(build.len()) * STRIPS * size_of::<Line>();
        reservation.try_grow(bytes)?;
        let lines = columns(build, first as u32, count, context)?;
        let tokens = counts[..first].iter().map(|&count| u64::from(count)).sum::<u64>();
        if tokens > u32::MAX.into() {
            return resources_err!(
                "lists of {tokens} sets are more than 2^32; SET simjoin.strategy = 'allpairs'"
            );
        }
        reservation.try_grow(tokens as usize * size_of::<SetId>())?;
        // A token of one set brings no two sets of one collection together.
        let alone = if spec.pairing == Pairing::Unordered { 1 } else { 0 };
        let mut end = 0_u32;
        for place in &mut counts[..first] {
            let count = std::mem::replace(place, end);
            end += if count > alone { count } else { 0 };
        }
        counts[first] = end;
        counts.truncate(first + 1);
        counts.shrink_to_fit();
        let mut this = Self { first: first as u32, count, lines, starts: counts, sets: vec![] };
        let places = reservation.new_empty();
        places.try_grow((first + 1) * size_of::<u32>())?;
        this.fill(build, cancel)?;
        Ok(this)
    }

    /// Lists the sets of rare tokens.
    fn fill(&mut self, build: &SetCollection, cancel: &CancelFlag) -> Result<()> {
        let Self { first, starts, sets, .. } = self;
        sets.resize(starts[*first as usize] as usize, 0);
        let mut places = starts.clone();
        for set in 0..build.len() {
            cancel.check_at(set as usize)?;
            for &token in build.tokens(set).iter().take_while(|&&token| token < *first) {
                let place = &mut places[token as usize];
                // Tokens of one set may have no list.
                if *place < starts[token as usize + 1] {
                    sets[*place as usize] = set;
                    *place += 1;
                }
            }
        }
        Ok(())
    }

    /// The first token that has a column.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// The columns in a block.
    pub(super) fn block(&self, block: usize) -> &[Line] {
        let lines = self.count * STRIPS;
        &self.lines[block * lines..(block + 1) * lines]
    }

    /// The sets of a token below [`Self::first`], ascending.
    #[inline]
    pub(super) fn list(&self, token: u32) -> &[SetId] {
        let [start, end] = [0, 1].map(|next| self.starts[token as usize + next] as usize);
        &self.sets[start..end]
    }

    /// The place of the first of these sets from `set` on, among all lists, and behind the last one.
    #[inline]
    pub(super) fn places_from(&self, token: u32, set: SetId) -> Range<u32> {
        let start = self.starts[token as usize];
        let list = self.list(token);
        let before = list.partition_point(|&other| other < set) as u32;
        start + before..start + list.len() as u32
    }

    /// The set at a place of all lists.
    #[inline]
    pub(super) fn set_at(&self, place: u32) -> SetId {
        self.sets[place as usize]
    }
}

/// Calls `work` with ranges of all sets, on all threads.
fn for_each_share(
    build: &SetCollection,
    context: PrepareContext<'_>,
    work: impl Fn(Range<SetId>) + Sync,
) -> Result<()> {
    /// Sets of a task.
    const SHARE: u32 = if cfg!(test) { 16 } else { 1 << 13 };
    let starts = (0..build.len()).step_by(SHARE as usize);
    let shares = starts.map(|start| start..build.len().min(start.saturating_add(SHARE))).collect();
    for_each(context.threads, shares, |sets| {
        context.cancel.check()?;
        work(sets);
        Ok(())
    })
}

/// The columns of the tokens from rank `first` on, block by block.
fn columns(
    build: &SetCollection,
    first: u32,
    count: usize,
    context: PrepareContext<'_>,
) -> Result<Vec<Line>> {
    let blocks = block_count(build.len());
    let mut lines = filled(context.threads, blocks * count * STRIPS, Line::EMPTY);
    let tasks = lines.chunks_mut((count * STRIPS).max(1)).zip(0_u32..).collect();
    for_each(context.threads, tasks, |(lines, block): (&mut [Line], u32)| {
        context.cancel.check()?;
        let start = block * BLOCK;
        for set in start..build.len().min(start.saturating_add(BLOCK)) {
            let tokens = build.tokens(set);
            let from = tokens.partition_point(|&token| token < first);
            let (strip, bit) = ((set - start) as usize / BITS, (set - start) as usize % BITS);
            for &token in &tokens[from..] {
                lines[(token - first) as usize * STRIPS + strip].set(bit);
            }
        }
        Ok(())
    })?;
    Ok(lines)
}
