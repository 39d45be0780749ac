//! Posting lists are made: each share of the sets counts its postings, then writes them where those
//! of the shares before it end.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::Result;

use super::{LANES, MAX_SIZE, SET, SHAPE, SHORT, SIGNATURE, SignaturePostings, sign_suffixes};
use crate::set::{PrepareContext, Run, SetCollection, SetId};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{for_each, threads_for};

/// Sets indexed between two looks at the cancel flag.
const CHECK_EVERY: SetId = 4096;

/// Where the writers of [`SignaturePostings::try_new`] put postings.
struct SharedFields(*mut u32);

// SAFETY: threads write through the pointer at different places, and the vector behind it is
// neither read nor dropped before they have ended.
unsafe impl Sync for SharedFields {}

impl SignaturePostings {
    /// Indexes the first `prefix(run)` tokens of every set, with signatures of `words` words
    /// (0, 1, 2 or 4).
    pub(crate) fn try_new(
        build: &SetCollection,
        words: usize,
        prefix: impl Fn(Run) -> u32 + Sync,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let universe = build.universe() as usize;
        let width = SIGNATURE + words;
        let shares = shares(build, context.threads);
        // For each share of the sets, by token: first its postings, then where the next one goes.
        let counters = shares.len() * universe * size_of::<u32>();
        context.reservation.try_grow((universe + 1) * size_of::<u64>() + counters)?;
        let mut next = vec![vec![]; shares.len()];
        let tasks: Vec<_> = shares.iter().zip(&mut next).collect();
        for_each(context.threads, tasks, |(sets, counts)| {
            *counts = vec![0_u32; universe];
            each_prefix(build, sets, &prefix, context.cancel, |_, tokens, prefix| {
                tokens[..prefix].iter().for_each(|&t| counts[t as usize] += 1);
            })
        })?;
        let offsets = offsets(&mut next, universe, context)?;
        let total = offsets[universe];
        let length = total as usize * width + LANES;
        context.reservation.try_grow(length * size_of::<u32>())?;
        let mut fields = vec![0_u32; length];
        let shared = SharedFields(fields.as_mut_ptr());
        let tasks: Vec<_> = shares.iter().zip(&mut next).collect();
        for_each(context.threads, tasks, |(sets, next)| {
            let shared = &shared;
            each_prefix(build, sets, &prefix, context.cancel, |set, tokens, prefix| {
                let size = tokens.len().min(MAX_SIZE as usize) as u32;
                sign_suffixes(tokens, 0..prefix, words, |position, signature| {
                    let t = tokens[position] as usize;
                    let (start, end) = (offsets[t] as usize, offsets[t + 1] as usize);
                    let len = end - start;
                    let place = next[t] as usize;
                    next[t] += 1;
                    let behind = (tokens.len() - position - 1).min(MAX_SIZE as usize - 1) as u32;
                    let write = |field: usize, value: u32| {
                        // SAFETY: the list of `t` has the fields `start * width..end * width`, in
                        // bounds as `end <= total`; `place < len`, because each share writes as
                        // many postings of a token as it has counted, from behind those of the
                        // shares before it on, so that no two threads write the same field.
                        unsafe { shared.0.add(start * width + field * len + place).write(value) }
                    };
                    write(SET, set);
                    write(SHAPE, size | behind << 16);
                    for (word, &bits) in signature[..words].iter().enumerate() {
                        write(SIGNATURE + word, bits);
                    }
                });
            })
        })?;
        drop(next);
        context.reservation.shrink(counters);
        let first_long = (0..universe).find(|&t| offsets[t + 1] - offsets[t] > SHORT as u64);
        let first_long = first_long.unwrap_or(universe) as u32;
        Ok(Self { offsets, fields, words, first_long })
    }
}

/// Where the list of each token begins, and the end of the last one. `counts` holds, by share of
/// the sets, the postings of each token; each becomes the place in the list of the first of them.
fn offsets(
    counts: &mut [Vec<u32>],
    universe: usize,
    context: PrepareContext<'_>,
) -> Result<Vec<u64>> {
    let mut offsets = vec![0_u64; universe + 1];
    let threads = threads_for(context.threads, universe * counts.len());
    let range = universe.div_ceil(threads).max(1);
    let mut tasks: Vec<_> =
        offsets[..universe].chunks_mut(range).map(|own| (own, Vec::new())).collect();
    for share in counts {
        tasks
            .iter_mut()
            .zip(share.chunks_mut(range))
            .for_each(|((_, parts), part)| parts.push(part));
    }
    // First the lengths of the lists, then their sums.
    for_each(threads, tasks, |(lengths, mut parts)| {
        context.cancel.check()?;
        for (token, length) in lengths.iter_mut().enumerate() {
            let mut len = 0;
            for share in &mut parts {
                len += std::mem::replace(&mut share[token], len);
            }
            *length = u64::from(len);
        }
        Ok(())
    })?;
    let mut end = 0;
    for offset in &mut offsets {
        end += std::mem::replace(offset, end);
    }
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
