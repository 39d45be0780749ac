//! The order of distinct sets: by blocking key, size and tokens.

use std::ops::Range;

use crate::engine::KeyId;
use crate::error::Result;
use crate::set::encode::arrange::{GatheredSets, RunOfSets, SortKey};
use crate::set::encode::distinct::DistinctSets;
use crate::tuning::{Size, Tuning};
use crate::util::cancel::{
    CancelFlag, select_nth_unstable_by, sort_unstable_by, sort_unstable_by_key,
};
use crate::util::parallel::{Threads, filled, for_each, map, steps_per_task, threads_for};

/// Sets of a task, at least.
const LEAST_SETS: usize = 1 << 10;
/// The step of the sample by which the sets of one size are shared out.
const SAMPLE_STEP: Size = Size { usual: 1 << 6, small: 3 };

/// The steps of grouping and sorting a set.
const STEPS_PER_SET: usize = 1 << 5;

/// Sets of a part that one thread groups.
#[derive(Debug, Clone, Copy)]
struct Piece<'a> {
    part: &'a DistinctSets,
    /// The number of the part's first set.
    start: u32,
    /// The range of the sets in the part.
    from: u32,
    to: u32,
}

/// A set with its blocking key and size.
#[derive(Debug, Clone, Copy, Default)]
struct Keyed {
    group: (KeyId, u32),
    set: u32,
}

/// Sets that are sorted together: those of one size, or where these are many, those of one size
/// whose first tokens lie between two cuts. Buckets ascend as their sets do.
#[derive(Debug)]
struct Buckets {
    /// By size, its first cut, and the end of all.
    first_cuts: Vec<u32>,
    /// The first entries of their buckets but for the first bucket of each size.
    cuts: Vec<u64>,
}

impl Buckets {
    fn len(&self) -> usize {
        self.first_cuts.len() - 1 + self.cuts.len()
    }

    #[inline]
    fn of(&self, size: u32, front: impl FnOnce() -> u64) -> u32 {
        let (from, to) = (self.first_cuts[size as usize], self.first_cuts[size as usize + 1]);
        let cuts = &self.cuts[from as usize..to as usize];
        let before = match cuts {
            [] => 0,
            cuts => {
                let front = front();
                cuts.partition_point(|&cut| cut <= front)
            }
        };
        size + from + before as u32
    }
}

/// Some sets in the order of their buckets.
struct Grouped {
    entries: Vec<SortKey>,
    /// By bucket, where its sets end.
    ends: Vec<u32>,
}

impl Grouped {
    fn bucket(&self, bucket: usize) -> &[SortKey] {
        let start = if bucket == 0 { 0 } else { self.ends[bucket - 1] };
        &self.entries[start as usize..self.ends[bucket] as usize]
    }
}

impl GatheredSets {
    /// The sets in their order, and how many there are of each key and size.
    pub(super) fn sorted(
        &self,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<(Vec<SortKey>, Vec<RunOfSets>)> {
        let all = self.starts.last().copied().unwrap_or(0) as usize;
        let threads = threads_for(threads, STEPS_PER_SET * all);
        let keyed = self.parts.iter().any(DistinctSets::has_keys);
        let sizes = if keyed { None } else { self.sizes(threads, cancel)? };
        // By counting, where the sets are no fewer than their sizes.
        let (mut entries, runs, lens) = match sizes {
            Some(counts) => {
                let (entries, lens) = self.grouped_by_counting(&counts, threads, cancel)?;
                let runs = (0..).zip(counts).filter(|&(_, sets)| sets > 0);
                let runs = runs.map(|(size, sets)| RunOfSets { key: 0, size, sets });
                (entries, runs.collect(), lens)
            }
            None => {
                let (entries, runs) = self.grouped_by_sorting(threads, cancel)?;
                let lens = runs.iter().map(|run| run.sets).collect();
                (entries, runs, lens)
            }
        };
        self.sort_groups(&mut entries, &lens, threads, cancel)?;
        Ok((entries, runs))
    }

    /// All sets in pieces of about as many as a task has.
    fn pieces(&self, threads: Threads) -> Vec<Piece<'_>> {
        let all = self.starts.last().copied().unwrap_or(0) as usize;
        let len = steps_per_task(threads, all, LEAST_SETS);
        let parts = self.parts.iter().zip(&self.starts);
        let pieces = parts.flat_map(|(part, &start)| {
            (0..part.len()).step_by(len).map(move |from| {
                let to = part.len().min(from + len);
                Piece { part, start, from: from as u32, to: to as u32 }
            })
        });
        pieces.collect()
    }

    /// The sets of a piece, without repeats: the number of each one and that in the part.
    fn sets_of_piece(&self, piece: Piece<'_>) -> impl Iterator<Item = (u32, u32)> {
        let sets = (piece.from..piece.to).map(move |set| (piece.start + set, set));
        sets.filter(|&(set, _)| self.stands_for_all(set))
    }

    /// The number of sets of each size; `None` where a size is greater than the number of sets.
    fn sizes(&self, threads: Threads, cancel: &CancelFlag) -> Result<Option<Vec<u32>>> {
        let limit = self.starts.last().copied().unwrap_or(0);
        let counts = map(threads, self.pieces(threads), |piece| {
            let mut counts: Vec<u32> = vec![];
            for (i, (_, set)) in self.sets_of_piece(piece).enumerate() {
                cancel.check_at(i)?;
                let size = piece.part.size(set);
                if size > limit {
                    return Ok(None);
                }
                if size as usize >= counts.len() {
                    counts.resize(size as usize + 1, 0);
                }
                counts[size as usize] += 1;
            }
            Ok(Some(counts))
        })?;
        let add = |sum: Option<Vec<u32>>, counts: Option<Vec<u32>>| {
            let (mut sum, mut counts) = (sum?, counts?);
            if sum.len() < counts.len() {
                std::mem::swap(&mut sum, &mut counts);
            }
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            Some(sum)
        };
        let sum = counts.into_iter().fold(Some(vec![]), add);
        let count = |counts: &Vec<u32>| counts.iter().map(|&n| n as usize).sum::<usize>();
        Ok(sum.filter(|counts| counts.len() <= count(counts) + 1))
    }

    /// The sets in the order of their keys and sizes: sorted piece by piece, then share by share
    /// of the keys and sizes.
    fn grouped_by_sorting(
        &self,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<(Vec<SortKey>, Vec<RunOfSets>)> {
        let pieces = map(threads, self.pieces(threads), |piece| {
            let mut sets = Vec::with_capacity((piece.to - piece.from) as usize);
            for (i, (set, id)) in self.sets_of_piece(piece).enumerate() {
                cancel.check_at(i)?;
                sets.push(Keyed { group: (piece.part.key(id), piece.part.size(id)), set });
            }
            sort_unstable_by_key(&mut sets, cancel, |keyed| keyed.group)?;
            Ok(sets)
        })?;
        let all = pieces.iter().map(Vec::len).sum();
        let mut sorted = filled(threads, all, Keyed::default());
        let mut tasks = vec![];
        let (mut rest, mut starts) = (sorted.as_mut_slice(), vec![0; pieces.len()]);
        for end in
            group_cuts(&pieces, steps_per_task(threads, rest.len(), LEAST_SETS), threads.tuning)
        {
            let of_pieces = pieces.iter().zip(&mut starts).map(|(piece, start)| {
                let from = *start;
                *start += match end {
                    Some(end) => piece[from..].partition_point(|keyed| keyed.group < end),
                    None => piece.len() - from,
                };
                &piece[from..*start]
            });
            let of_pieces: Vec<&[Keyed]> = of_pieces.collect();
            let (own, others) = rest.split_at_mut(of_pieces.iter().map(|sets| sets.len()).sum());
            rest = others;
            tasks.push((of_pieces, own));
        }
        let runs = map(threads, tasks, |(of_pieces, own): (Vec<&[Keyed]>, &mut [Keyed])| {
            let mut place = 0;
            for sets in &of_pieces {
                own[place..place + sets.len()].copy_from_slice(sets);
                place += sets.len();
            }
            if of_pieces.len() > 1 {
                sort_unstable_by_key(own, cancel, |keyed| keyed.group)?;
            }
            let runs = own.chunk_by(|a, b| a.group == b.group).map(|run| {
                let (key, size) = run[0].group;
                RunOfSets { key, size, sets: run.len() as u32 }
            });
            Ok(runs.collect::<Vec<_>>())
        })?;
        drop(pieces);
        let mut entries = filled(threads, all, SortKey::default());
        let share = steps_per_task(threads, sorted.len(), LEAST_SETS);
        let tasks = entries.chunks_mut(share).zip(sorted.chunks(share)).collect();
        for_each(threads, tasks, |(entries, sets): (&mut [SortKey], &[Keyed])| {
            cancel.check()?;
            for (entry, keyed) in entries.iter_mut().zip(sets) {
                *entry = SortKey::of(keyed.set, self.tokens(keyed.set));
            }
            Ok(())
        })?;
        Ok((entries, runs.concat()))
    }

    /// The sets in the order of buckets, and the number of sets of each bucket. `counts` has the
    /// number of sets of each size.
    fn grouped_by_counting(
        &self,
        counts: &[u32],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<(Vec<SortKey>, Vec<u32>)> {
        let all = counts.iter().map(|&sets| sets as usize).sum();
        let buckets =
            self.buckets(counts, steps_per_task(threads, all, LEAST_SETS), threads.tuning);
        // The threads' counters together have no more places than there are sets.
        let pieces = self.pieces(threads);
        let tasks = (all / buckets.len().max(1)).min(pieces.len()).max(1);
        let share = pieces.len().div_ceil(tasks).max(1);
        let counts = Some(counts).filter(|_| pieces.len() <= share);
        let mut groups = map(threads, pieces.chunks(share).collect(), |pieces| {
            self.grouped(pieces, &buckets, counts, cancel)
        })?;
        let mut lens = vec![0_u32; buckets.len()];
        for group in &groups {
            let mut start = 0;
            for (len, &end) in lens.iter_mut().zip(&group.ends) {
                *len += end - start;
                start = end;
            }
        }
        if let [group] = groups.as_mut_slice() {
            return Ok((std::mem::take(&mut group.entries), lens));
        }
        let mut entries = filled(threads, all, SortKey::default());
        let mut tasks = vec![];
        let mut rest = entries.as_mut_slice();
        for buckets in shares(&lens, steps_per_task(threads, all, LEAST_SETS)) {
            let len = lens[buckets.clone()].iter().map(|&len| len as usize).sum();
            let (own, others) = rest.split_at_mut(len);
            tasks.push((buckets, own));
            rest = others;
        }
        for_each(threads, tasks, |(buckets, mut own)| {
            cancel.check()?;
            for bucket in buckets {
                for group in &groups {
                    let sets = group.bucket(bucket);
                    let (place, others) = own.split_at_mut(sets.len());
                    place.copy_from_slice(sets);
                    own = others;
                }
            }
            Ok(())
        })?;
        Ok((entries, lens))
    }

    /// Buckets of about `many` sets at most, where their first tokens differ.
    fn buckets(&self, counts: &[u32], many: usize, tuning: Tuning) -> Buckets {
        let step = tuning.size(SAMPLE_STEP);
        let is_large = |size: usize| counts[size] as usize > many;
        let mut samples: Vec<Vec<u64>> = vec![vec![]; counts.len()];
        if (0..counts.len()).any(is_large) {
            for piece in self.pieces(Threads::ONE) {
                for (set, id) in self.sets_of_piece(piece).step_by(step) {
                    let size = piece.part.size(id) as usize;
                    if is_large(size) {
                        samples[size].push(SortKey::of(set, piece.part.tokens(id)).front);
                    }
                }
            }
        }
        let mut buckets = Buckets { first_cuts: vec![0], cuts: vec![] };
        for (sample, &sets) in samples.iter_mut().zip(counts) {
            sample.sort_unstable();
            let start = buckets.cuts.len();
            let parts = (sets as usize).div_ceil(many.max(1)).min(sample.len());
            buckets.cuts.extend((1..parts).map(|part| sample[part * sample.len() / parts]));
            // Sets with the same first tokens stay together.
            let mut kept = start;
            for i in start..buckets.cuts.len() {
                if kept == start || buckets.cuts[kept - 1] != buckets.cuts[i] {
                    buckets.cuts[kept] = buckets.cuts[i];
                    kept += 1;
                }
            }
            buckets.cuts.truncate(kept);
            buckets.first_cuts.push(kept as u32);
        }
        buckets
    }

    /// The sets of some pieces in the order of their buckets. `counts` has the number of sets of
    /// each size where they are those of these pieces.
    fn grouped(
        &self,
        pieces: &[Piece<'_>],
        buckets: &Buckets,
        counts: Option<&[u32]>,
        cancel: &CancelFlag,
    ) -> Result<Grouped> {
        // Where no size is cut, sizes are buckets.
        let plain = buckets.cuts.is_empty();
        let mut of_sets = vec![];
        let mut ends = match counts {
            Some(counts) if plain => counts.to_vec(),
            _ => {
                let mut ends = vec![0_u32; buckets.len()];
                for &piece in pieces {
                    for (i, (set, id)) in self.sets_of_piece(piece).enumerate() {
                        cancel.check_at(i)?;
                        let front = || SortKey::of(set, piece.part.tokens(id)).front;
                        let bucket = buckets.of(piece.part.size(id), front);
                        ends[bucket as usize] += 1;
                        if !plain {
                            of_sets.push(bucket);
                        }
                    }
                }
                ends
            }
        };
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut entries = vec![SortKey::default(); start as usize];
        let mut of_sets = of_sets.into_iter();
        for &piece in pieces {
            for (i, (set, id)) in self.sets_of_piece(piece).enumerate() {
                cancel.check_at(i)?;
                let bucket = of_sets.next().unwrap_or_else(|| piece.part.size(id));
                let place = &mut ends[bucket as usize];
                entries[*place as usize] = SortKey::of(set, piece.part.tokens(id));
                *place += 1;
            }
        }
        Ok(Grouped { entries, ends })
    }

    /// Sorts groups of neighbouring sets, each by their tokens. The sets of a group have one key
    /// and one size; `lens` are the numbers of sets of the groups.
    fn sort_groups(
        &self,
        entries: &mut [SortKey],
        lens: &[u32],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<()> {
        // Large groups are sorted by all threads, the others group by group.
        let share = steps_per_task(threads, entries.len(), LEAST_SETS);
        let mut tasks: Vec<Vec<&mut [SortKey]>> = vec![];
        let mut room = 0;
        let mut rest = entries;
        for &len in lens {
            let (own, others) = rest.split_at_mut(len as usize);
            rest = others;
            if threads.count() > 1 && own.len() > 4 * share {
                self.sort_in_parallel(own, threads, cancel)?;
                continue;
            }
            if own.len() > room {
                tasks.push(vec![]);
                room = share;
            }
            room = room.saturating_sub(own.len());
            if let Some(task) = tasks.last_mut() {
                task.push(own);
            }
        }
        for_each(threads, tasks, |task| {
            task.into_iter().try_for_each(|group| self.sort(group, cancel))
        })
    }

    /// Sorts sets of one key and size by their tokens.
    fn sort(&self, run: &mut [SortKey], cancel: &CancelFlag) -> Result<()> {
        sort_unstable_by_key(run, cancel, |entry| entry.front)?;
        for same in run.chunk_by_mut(|a, b| a.front == b.front).filter(|same| same.len() > 1) {
            sort_unstable_by(same, cancel, |a, b| self.tokens(a.set).cmp(self.tokens(b.set)))?;
        }
        Ok(())
    }

    /// Like [`Self::sort`], half of the sets to half of the threads.
    fn sort_in_parallel(
        &self,
        run: &mut [SortKey],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<()> {
        if threads.count() == 1 || run.len() < threads.least(LEAST_SETS) {
            return self.sort(run, cancel);
        }
        let half = run.len() / 2;
        select_nth_unstable_by(run, half, cancel, |a, b| {
            let fronts = a.front.cmp(&b.front);
            fronts.then_with(|| self.tokens(a.set).cmp(self.tokens(b.set)))
        })?;
        let (low, high) = run.split_at_mut(half);
        let [few, others] = threads.halves();
        for_each(threads.at_most(2), vec![(low, few), (high, others)], |(half, threads)| {
            self.sort_in_parallel(half, threads, cancel)
        })
    }
}

/// Where shares of about `share` sets each end, by key and size; the last one has no end. Sets of one
/// key and size are in one share.
fn group_cuts(pieces: &[Vec<Keyed>], share: usize, tuning: Tuning) -> Vec<Option<(KeyId, u32)>> {
    let step = tuning.size(SAMPLE_STEP);
    let samples = pieces.iter().flat_map(|piece| piece.iter().step_by(step));
    let mut samples: Vec<(KeyId, u32)> = samples.map(|keyed| keyed.group).collect();
    samples.sort_unstable();
    let sets: usize = pieces.iter().map(Vec::len).sum();
    let shares = sets.div_ceil(share.max(1)).clamp(1, samples.len().max(1));
    let mut cuts: Vec<_> =
        (1..shares).map(|cut| Some(samples[cut * samples.len() / shares])).collect();
    cuts.dedup();
    cuts.push(None);
    cuts
}

/// Neighbouring groups of `lens` sets in ranges of about `share` sets each.
fn shares(lens: &[u32], share: usize) -> Vec<Range<usize>> {
    let mut ranges = vec![];
    let (mut start, mut sets) = (0, 0);
    for (i, &len) in lens.iter().enumerate() {
        sets += len as usize;
        if sets >= share {
            ranges.push(start..i + 1);
            (start, sets) = (i + 1, 0);
        }
    }
    if start < lens.len() {
        ranges.push(start..lens.len());
    }
    ranges
}
