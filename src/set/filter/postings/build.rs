//! Posting lists are made: each is counted, then filled in the order of the sets.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::Result;

use super::{LANES, MAX_SIZE, SET, SHAPE, SHORT, SIGNATURE, SignaturePostings, sign_suffixes};
use crate::set::{PrepareContext, Run, SetCollection, SetId};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{for_each, threads_for};

/// Sets indexed between two looks at the cancel flag.
const CHECK_EVERY: SetId = 4096;

impl SignaturePostings {
    /// Indexes the first `prefix(run)` tokens of every set, with signatures of `words` words
    /// (0, 1, 2 or 4).
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(crate) fn try_new(
        build: &SetCollection,
        words: usize,
        prefix: impl Fn(Run) -> u32 + Sync,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let universe = build.universe() as usize;
        let width = SIGNATURE + words;
        context.reservation.try_grow((universe + 1) * size_of::<u64>())?;
        let offsets = count(build, &prefix, context)?;
        let total = offsets[universe] as usize;
        let length = total * width + LANES;
        let counters = universe * size_of::<u32>();
        context.reservation.try_grow(length * size_of::<u32>() + counters)?;
        let mut next = vec![0_u32; universe];
        let mut fields = vec![0_u32; length];
        // Every thread takes up all sets, for lists of its own: two threads that write to one list
        // would wait for its cache lines. More threads than these would take up sets in vain.
        let worth = 1 + 4 * total / (build.len() as usize).max(1);
        let threads = threads_for(context.threads, total).min(worth);
        let lists = Lists::divide(&offsets, width, threads, &mut next, &mut fields);
        for_each(threads, lists, |lists| lists.fill(build, words, &prefix, context.cancel))?;
        drop(next);
        context.reservation.shrink(counters);
        let first_long = (0..universe).find(|&t| offsets[t + 1] - offsets[t] > SHORT as u64);
        let first_long = first_long.unwrap_or(universe) as u32;
        Ok(Self { offsets, fields, words, first_long })
    }
}

/// The lists of neighbouring tokens, to be filled by one thread.
struct Lists<'a> {
    tokens: Range<u32>,
    /// Of each token, the beginning of its list in all lists; and the end of the last list.
    offsets: &'a [u64],
    /// Of each token, the postings that its list has already.
    next: &'a mut [u32],
    fields: &'a mut [u32],
}

impl<'a> Lists<'a> {
    /// All lists in `parts` parts of about the same number of postings.
    fn divide(
        offsets: &'a [u64],
        width: usize,
        parts: usize,
        mut next: &'a mut [u32],
        mut fields: &'a mut [u32],
    ) -> Vec<Self> {
        let universe = offsets.len() - 1;
        let share = offsets[universe].div_ceil(parts as u64).max(1);
        let mut start = 0;
        let mut divided = vec![];
        for part in 1..=parts as u64 {
            let end = match part == parts as u64 {
                true => universe,
                false => offsets[..universe].partition_point(|&o| o < part * share).max(start),
            };
            let (own_next, other_next) = std::mem::take(&mut next).split_at_mut(end - start);
            let postings = (offsets[end] - offsets[start]) as usize;
            let (own, others) = std::mem::take(&mut fields).split_at_mut(postings * width);
            (next, fields) = (other_next, others);
            divided.push(Self {
                tokens: start as u32..end as u32,
                offsets: &offsets[start..=end],
                next: own_next,
                fields: own,
            });
            start = end;
        }
        divided
    }

    /// Fills the lists with the postings of all sets.
    fn fill(
        self,
        build: &SetCollection,
        words: usize,
        prefix: &impl Fn(Run) -> u32,
        cancel: &CancelFlag,
    ) -> Result<()> {
        let Self { tokens: own, offsets, next, fields } = self;
        let width = SIGNATURE + words;
        each_prefix(build, &(0..build.len()), prefix, cancel, |set, tokens, prefix| {
            let prefix = &tokens[..prefix];
            let first = prefix.partition_point(|&t| t < own.start);
            let end = first + prefix[first..].partition_point(|&t| t < own.end);
            if first == end {
                return;
            }
            let size = tokens.len().min(MAX_SIZE as usize) as u32;
            sign_suffixes(tokens, first..end, words, |position, signature| {
                let token = (tokens[position] - own.start) as usize;
                let start = (offsets[token] - offsets[0]) as usize * width;
                let len = (offsets[token + 1] - offsets[token]) as usize;
                let place = next[token] as usize;
                next[token] += 1;
                let behind = (tokens.len() - position - 1).min(MAX_SIZE as usize - 1) as u32;
                let list = &mut fields[start..start + len * width];
                list[SET * len + place] = set;
                list[SHAPE * len + place] = size | behind << 16;
                for (word, &bits) in signature[..words].iter().enumerate() {
                    list[(SIGNATURE + word) * len + place] = bits;
                }
            });
        })
    }
}

/// Where the list of each token begins, and the end of the last one.
fn count(
    build: &SetCollection,
    prefix: &(impl Fn(Run) -> u32 + Sync),
    context: PrepareContext<'_>,
) -> Result<Vec<u64>> {
    let universe = build.universe() as usize;
    let shares = shares(build, context.threads);
    let counters = shares.len() * universe * size_of::<u32>();
    context.reservation.try_grow(counters)?;
    let mut counts = vec![vec![]; shares.len()];
    for_each(context.threads, shares.iter().zip(&mut counts).collect(), |(sets, counts)| {
        *counts = vec![0_u32; universe];
        each_prefix(build, sets, prefix, context.cancel, |_, tokens, prefix| {
            tokens[..prefix].iter().for_each(|&t| counts[t as usize] += 1);
        })
    })?;
    let mut offsets = vec![0_u64; universe + 1];
    let threads = threads_for(context.threads, universe * counts.len());
    let range = universe.div_ceil(threads).max(1);
    let lengths = offsets[..universe].chunks_mut(range).enumerate();
    for_each(threads, lengths.collect(), |(part, lengths)| {
        context.cancel.check()?;
        for counts in &counts {
            let counts = &counts[part * range..];
            lengths.iter_mut().zip(counts).for_each(|(len, &count)| *len += u64::from(count));
        }
        Ok(())
    })?;
    let mut end = 0;
    for offset in &mut offsets {
        end += std::mem::replace(offset, end);
    }
    drop(counts);
    context.reservation.shrink(counters);
    Ok(offsets)
}

/// Ranges of sets with about the same number of tokens, for as many threads as pay.
fn shares(build: &SetCollection, threads: usize) -> Vec<Range<SetId>> {
    // Each share has a counter for each token.
    let affordable = build.token_count() / build.universe().max(1) as usize;
    let shares = threads_for(threads, build.token_count()).min(affordable.max(1)) as u64;
    let share = (build.token_count() as u64).div_ceil(shares).max(1);
    let mut start = 0;
    let mut ranges = vec![];
    for i in 1..=shares {
        let end = if i == shares { build.len() } else { build.first_set_from(i * share) };
        ranges.push(start..end);
        start = end;
    }
    ranges
}

/// Calls `visit` with each set of a range, its tokens, and how many of them are its prefix.
fn each_prefix(
    build: &SetCollection,
    sets: &Range<SetId>,
    prefix: impl Fn(Run) -> u32,
    cancel: &CancelFlag,
    mut visit: impl FnMut(SetId, &[u32], usize),
) -> Result<()> {
    let mut set = sets.start;
    while set < sets.end {
        cancel.check()?;
        let Some((run, ids)) = build.runs().of_set(set) else { break };
        let prefix = prefix(run) as usize;
        for set in set..ids.end.min(sets.end) {
            if set % CHECK_EVERY == 0 {
                cancel.check()?;
            }
            let tokens = build.tokens(set);
            visit(set, tokens, tokens.len().min(prefix));
        }
        set = ids.end;
    }
    Ok(())
}
