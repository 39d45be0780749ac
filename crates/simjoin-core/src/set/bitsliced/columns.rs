//! The sets of each token: bits of many, lists of few.

use std::ops::Range;

use super::planes::{BLOCK, STRIPS};
use crate::engine::{Pairing, PrepareContext};
use crate::error::{Result, resources_err};
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::simd::{BITS, Line};
use crate::tuning::{Size, Tuning};
use crate::util::counters::Counters;
use crate::util::parallel::for_each;

/// The share of the sets from which on a token has a column: a list of fewer takes less time and memory.
const LEAST_SHARE: Size = Size { usual: 256, small: 4 };

/// The columns of frequent tokens, and the lists of the others.
#[derive(Debug)]
pub(super) struct TokenColumns {
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
fn least_count(sets: usize, tuning: Tuning) -> usize {
    (sets / tuning.size(LEAST_SHARE)).max(2)
}

/// The blocks of `sets` sets.
fn block_count(sets: u32) -> usize {
    sets.div_ceil(BLOCK) as usize
}

impl TokenColumns {
    /// A bound on the bytes of the columns and lists of a collection, by its tokens.
    pub(super) fn most_bytes(build: &SetCollection, tuning: Tuning) -> usize {
        let (sets, universe) = (build.len() as usize, build.universe() as usize);
        Self::bytes_for(sets, build.token_count(), universe, tuning)
    }

    /// A bound on the bytes of the columns and lists of `sets` sets with `tokens` tokens in all, `universe` of them
    /// different.
    pub(super) fn bytes_for(sets: usize, tokens: usize, universe: usize, tuning: Tuning) -> usize {
        let columns = universe.min(tokens / least_count(sets, tuning));
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
        let universe = build.universe() as usize;
        context.reservation.try_grow((universe + 1) * size_of::<u32>())?;
        let mut counts = counts(build, context)?;
        let least = least_count(build.len() as usize, spec.tuning);
        let is_frequent = |count: &&u32| **count as usize >= least;
        let count = counts[..universe].iter().rev().take_while(is_frequent).count();
        let first = universe - count;
        let lines = columns(build, first as u32, count, context)?;
        let tokens = counts[..first].iter().map(|&count| u64::from(count)).sum::<u64>();
        if tokens > u32::MAX.into() {
            return resources_err!(
                "lists of {tokens} sets are more than 2^32; SET simjoin.strategy = 'allpairs'"
            );
        }
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
        let sets = context.filled(end as usize, 0)?;
        let mut this = Self { first: first as u32, count, lines, starts: counts, sets };
        let places = context.reservation.new_empty();
        places.try_grow((first + 1) * size_of::<u32>())?;
        this.fill(build, context)?;
        Ok(this)
    }

    /// Lists the sets of rare tokens.
    fn fill(&mut self, build: &SetCollection, context: PrepareContext<'_>) -> Result<()> {
        let PrepareContext { threads, cancel, .. } = context;
        let Self { first, starts, sets, .. } = self;
        // Each task goes through all sets.
        let tasks = threads.at_most(sets.len() / (build.len() as usize).max(1)).count();
        let (mut parts, mut rest, mut from) = (vec![], &mut sets[..], 0);
        for task in 1..=tasks {
            let end = rest.len() / (tasks + 1 - task) + starts[from] as usize;
            let to = match task == tasks {
                true => *first as usize,
                false => starts[..*first as usize].partition_point(|start| (*start as usize) < end),
            };
            let to = to.max(from);
            let (own, others) = rest.split_at_mut((starts[to] - starts[from]) as usize);
            parts.push((from as u32..to as u32, own));
            (rest, from) = (others, to);
        }
        for_each(threads, parts, |(tokens, lists)| {
            let own = &starts[tokens.start as usize..=tokens.end as usize];
            let mut places: Vec<u32> = own.iter().map(|start| start - own[0]).collect();
            for set in 0..build.len() {
                cancel.check_at(set as usize)?;
                let of_set = build.tokens(set);
                let of_set = &of_set[of_set.partition_point(|&token| token < tokens.start)..];
                for &token in of_set.iter().take_while(|&&token| token < tokens.end) {
                    let token = (token - tokens.start) as usize;
                    let place = &mut places[token];
                    // Tokens of one set may have no list.
                    if *place < own[token + 1] - own[0] {
                        lists[*place as usize] = set;
                        *place += 1;
                    }
                }
            }
            Ok(())
        })
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

/// By token, the number of its sets.
fn counts(build: &SetCollection, context: PrepareContext<'_>) -> Result<Vec<u32>> {
    /// The most frequent tokens, which each task counts by itself: threads would wait for each other at
    /// few counters.
    const OWN: Size = Size { usual: 1 << 12, small: 4 };
    /// Sets of a task, at least and at most.
    const SHARE: Size<[usize; 2]> = Size { usual: [1 << 9, 1 << 13], small: [16, 17] };
    let PrepareContext { threads, cancel, .. } = context;
    let (universe, len) = (build.universe() as usize, build.len() as usize);
    let counts = Counters::new(universe + 1, threads);
    let first = universe.saturating_sub(threads.tuning.size(OWN));
    let [least, most] = threads.tuning.size(SHARE);
    let share = (len / (4 * threads.count())).clamp(least, most) as u32;
    let starts = (0..build.len()).step_by(share as usize);
    let tasks = starts.map(|start| start..build.len().min(start.saturating_add(share)));
    for_each(threads, tasks.collect(), |sets| {
        cancel.check()?;
        let mut own = vec![0_u32; universe - first];
        for set in sets {
            for &token in build.tokens(set) {
                match own.get_mut((token as usize).wrapping_sub(first)) {
                    Some(count) => *count += 1,
                    None => counts.raise(token as usize),
                }
            }
        }
        for (place, count) in (first..).zip(own).filter(|(_, count)| *count > 0) {
            counts.add(place, count);
        }
        Ok(())
    })?;
    Ok(counts.into_counts())
}

/// The columns of the tokens from rank `first` on, block by block.
fn columns(
    build: &SetCollection,
    first: u32,
    count: usize,
    context: PrepareContext<'_>,
) -> Result<Vec<Line>> {
    /// Tasks for each thread, and tokens of a task, at least.
    const TASKS: usize = 4;
    const LEAST: Size = Size { usual: 16, small: 1 };
    let PrepareContext { threads, cancel, .. } = context;
    let blocks = block_count(build.len());
    let mut lines = context.filled(blocks * count * STRIPS, Line::EMPTY)?;
    let of_block = match threads.count() {
        1 => 1,
        threads => (TASKS * threads).div_ceil(blocks.max(1)),
    };
    let share = count.div_ceil(of_block).max(threads.tuning.size(LEAST));
    let of_blocks = lines.chunks_mut((count * STRIPS).max(1)).zip(0_u32..);
    let tasks = of_blocks.flat_map(|(lines, block)| {
        let parts = lines.chunks_mut(share * STRIPS).zip((first..).step_by(share));
        parts.map(move |(lines, token)| (lines, block, token))
    });
    for_each(threads, tasks.collect(), |(lines, block, first): (&mut [Line], u32, u32)| {
        cancel.check()?;
        let (start, end) = (block * BLOCK, first + (lines.len() / STRIPS) as u32);
        for set in start..build.len().min(start.saturating_add(BLOCK)) {
            let tokens = build.tokens(set);
            let from = tokens.partition_point(|&token| token < first);
            let (strip, bit) = ((set - start) as usize / BITS, (set - start) as usize % BITS);
            for &token in tokens[from..].iter().take_while(|&&token| token < end) {
                lines[(token - first) as usize * STRIPS + strip].set(bit);
            }
        }
        Ok(())
    })?;
    Ok(lines)
}
