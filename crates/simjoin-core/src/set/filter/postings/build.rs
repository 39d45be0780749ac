//! Posting lists are made: each share of the sets counts its postings, then writes them where those
//! of the shares before it end.

use std::mem::size_of;
use std::ops::Range;

use super::{LANES, MAX_SIZE, SET, SHAPE, SHORT, SIGNATURE, SignaturePostings, sign_suffixes};
use crate::engine::PrepareContext;
use crate::error::Result;
use crate::memory::{copies, room};
use crate::set::collection::SetCollection;
use crate::set::runs::{Run, SetId};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{for_each, map, threads_for};

/// Sets indexed between two looks at the cancel flag.
const CHECK_EVERY: SetId = 4096;
/// At most this many counters for each token of the sets, whatever the universe and the threads.
const COUNTERS_PER_TOKEN: usize = 4;

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
        // For each share of the sets, by token: first its postings, then where the next one goes.
        let (shares, counters) = shares(build, context)?;
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
        // The threads that write the fields are the first to touch their memory.
        let mut fields: Vec<u32> = room(context.reservation, length)?;
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
        // SAFETY: the capacity is `length`. Every field of every list has been written, as each
        // share has written all postings that it has counted; the lanes behind are written here.
        unsafe {
            fields.as_mut_ptr().add(length - LANES).write_bytes(0, LANES);
            fields.set_len(length);
        }
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
    let mut offsets = copies(context.reservation, universe + 1, 0_u64)?;
    let threads = threads_for(context.threads, universe * counts.len());
    let range = universe.div_ceil(threads.count()).max(1);
    let mut tasks: Vec<_> =
        offsets[..universe].chunks_mut(range).map(|own| (own, Vec::new())).collect();
    for share in counts {
        for ((_, parts), part) in tasks.iter_mut().zip(share.chunks_mut(range)) {
            parts.push(part);
        }
    }
    // First from the beginning of each range on.
    let ends = map(threads, tasks, |(starts, mut parts)| {
        context.cancel.check()?;
        let mut end = 0;
        for (token, start) in starts.iter_mut().enumerate() {
            *start = end;
            for share in &mut parts {
                let len = std::mem::replace(&mut share[token], (end - *start) as u32);
                end += u64::from(len);
            }
        }
        Ok(end)
    })?;
    let mut total = 0;
    let mut tasks = vec![];
    for (starts, end) in offsets[..universe].chunks_mut(range).zip(ends) {
        tasks.push((starts, total));
        total += end;
    }
    for_each(threads, tasks, |(starts, before)| {
        starts.iter_mut().for_each(|start| *start += before);
        Ok(())
    })?;
    offsets[universe] = total;
    Ok(offsets)
}

/// Ranges of sets with about the same number of tokens, for as many threads as pay, and the bytes
/// reserved for a counter of each for each token.
fn shares(
    build: &SetCollection,
    context: PrepareContext<'_>,
) -> Result<(Vec<Range<SetId>>, usize)> {
    let universe = build.universe().max(1) as usize;
    let affordable = COUNTERS_PER_TOKEN * build.token_count() / universe;
    let threads = threads_for(context.threads, build.token_count());
    let mut shares = threads.at_most(affordable).count();
    let bytes = loop {
        let bytes = shares * universe * size_of::<u32>();
        match context.reservation.try_grow(bytes) {
            Ok(()) => break bytes,
            // Less memory will do.
            Err(_) if shares > 1 => shares /= 2,
            Err(error) => return Err(error),
        }
    };
    let share = (build.token_count() as u64).div_ceil(shares as u64).max(1);
    let mut start = 0;
    let mut ranges = vec![];
    for i in 1..=shares {
        let end = if i == shares { build.len() } else { build.first_set_from(i as u64 * share) };
        ranges.push(start..end);
        start = end;
    }
    Ok((ranges, bytes))
}

/// Calls `visit` with each set of a range that has a prefix, its tokens, and how many of them are the
/// prefix.
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
        // Of sets that match none but equal ones there may be many.
        let some = if prefix == 0 { set..set } else { set..ids.end.min(sets.end) };
        for set in some {
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

#[cfg(test)]
mod tests {
    use crate::util::parallel::Threads;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::memory::Budget;
    use crate::set::tests::harness::Sides;
    use crate::set::tests::shapes;

    /// Where memory is refused for the counters of all threads, fewer share the sets, down to one.
    #[test]
    fn little_memory_makes_few_shares() {
        let shape = shapes::universe(&mut StdRng::seed_from_u64(11), 300);
        let build = Sides::itself(&shape.name, &shape.build).build;
        let counters = build.universe() as usize * size_of::<u32>();
        let cancel = CancelFlag::default();
        for (room, most) in [(usize::MAX, 8), (5 * counters, 4), (counters, 1)] {
            let pool = Budget::new(room);
            let reservation = pool.reservation();
            let context = PrepareContext::new(&reservation, &cancel, Threads::small(8));
            let (ranges, bytes) = shares(&build, context).unwrap();
            assert_eq!((ranges.len(), bytes), (most, most * counters));
            assert_eq!(reservation.size(), bytes);
            let ends = ranges.iter().map(|range| range.end).chain([0]);
            assert!(ranges.iter().skip(1).zip(ends).all(|(next, end)| next.start == end));
            assert_eq!((ranges[0].start, ranges[most - 1].end), (0, build.len()));
        }
        let pool = Budget::new(counters - 1);
        let reservation = pool.reservation();
        let context = PrepareContext::new(&reservation, &cancel, Threads::small(8));
        assert!(shares(&build, context).is_err());
    }
}
