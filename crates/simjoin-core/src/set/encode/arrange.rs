//! From distinct sets in order of appearance to a [`SetCollection`] in the order of the join.

use std::mem::size_of;

use crate::engine::KeyId;
use crate::error::Result;
use crate::set::collection::{SetCollection, SetParts};
use crate::set::encode::distinct::DistinctSets;
use crate::set::runs::{Runs, SetId};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, filled, for_each, steps_per_task, threads_for};
use crate::util::scatter::Scatter;

/// Sets copied at a time by one thread, at least and at most.
const LEAST_SETS: usize = 1 << 10;
const MOST_SETS: usize = 1 << 13;
/// The steps of finding the tokens of a set.
const STEPS_PER_SET: usize = 1 << 4;

/// Sets from one or more encoders, numbered through in their order: the sets of the first encoder,
/// then those of the second, and so on. The tokens of each set ascend.
#[derive(Debug)]
pub(crate) struct GatheredSets {
    pub parts: Vec<DistinctSets>,
    /// The number of each part's first set, and the number of all sets.
    pub starts: Vec<u32>,
    /// Where parts share sets: for each set, the set that stands for all of its repeats.
    pub same_as: Vec<u32>,
    /// Where the rows of the parts stand in the input, ascending.
    pub stretches: Vec<Stretch>,
    /// In how many sets the last tokens stand, where that has been counted.
    pub frequencies: Vec<u32>,
}

/// Neighbouring rows that one encoder has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The number of the first row in the input.
    pub first_row: u32,
    pub part: u32,
    /// The number of the first row in the part.
    pub start: u32,
    pub len: u32,
}

/// The sort key of sets of one key and size: their first two tokens, each plus one, 0 for none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SortKey {
    pub front: u64,
    pub set: u32,
}

impl SortKey {
    #[inline]
    pub(super) fn of(set: u32, tokens: &[u32]) -> Self {
        let token = |nth: usize| tokens.get(nth).map_or(0, |&t| u64::from(t) + 1);
        Self { front: token(0) << 32 | token(1), set }
    }
}

/// The number of sets of one key and size.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunOfSets {
    pub key: KeyId,
    pub size: u32,
    pub sets: u32,
}

impl GatheredSets {
    /// The sets of one encoder, which read the rows `0..` of its input.
    pub(crate) fn of_one(sets: DistinctSets) -> Self {
        let rows = sets.set_of_row().len() as u32;
        let stretches = vec![Stretch { first_row: 0, part: 0, start: 0, len: rows }];
        let starts = vec![0, sets.len() as u32];
        Self { parts: vec![sets], starts, same_as: vec![], stretches, frequencies: vec![] }
    }

    /// The number of the part that holds a set.
    pub(crate) fn part_of(&self, set: u32) -> usize {
        self.starts.partition_point(|&start| start <= set) - 1
    }

    /// The bytes allocated.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.parts.iter().map(DistinctSets::size_in_bytes).sum::<usize>()
            + self.same_as.capacity() * size_of::<u32>()
            + self.stretches.capacity() * size_of::<Stretch>()
            + self.frequencies.capacity() * size_of::<u32>()
    }

    /// The part that holds a set, and its id there.
    #[inline]
    pub(crate) fn locate(&self, set: u32) -> (&DistinctSets, SetId) {
        if let [part] = self.parts.as_slice() {
            return (part, set);
        }
        let part = self.part_of(set);
        (&self.parts[part], set - self.starts[part])
    }

    /// Whether a set is no repeat of another one that stands for it.
    #[inline]
    pub(crate) fn stands_for_all(&self, set: u32) -> bool {
        self.stands_for(set) == set
    }

    /// The set that stands for all repeats of a set.
    #[inline]
    pub(super) fn stands_for(&self, set: u32) -> u32 {
        self.same_as.get(set as usize).copied().unwrap_or(set)
    }

    pub(super) fn tokens(&self, set: u32) -> &[u32] {
        let (part, set) = self.locate(set);
        part.tokens(set)
    }

    /// The bytes that [`Self::into_collection`] allocates on top of the bytes held.
    pub(crate) fn collection_growth(&self) -> usize {
        let sets = self.starts.last().copied().unwrap_or(0) as usize;
        let rows: usize = self.parts.iter().map(|p| p.set_of_row().len()).sum();
        let tokens: usize = self.parts.iter().map(DistinctSets::token_count).sum();
        let unknown = if self.parts.iter().any(DistinctSets::has_unknown) { sets * 4 } else { 0 };
        let freed: usize = self.parts.iter().map(DistinctSets::token_bytes).sum();
        Self::collection_bytes(sets, rows, tokens, freed) + unknown
    }

    /// The bytes that laying out `sets` sets, `rows` rows and `tokens` tokens allocates, while it
    /// gives `freed` bytes back.
    pub(crate) fn collection_bytes(sets: usize, rows: usize, tokens: usize, freed: usize) -> usize {
        let collection = tokens * 4 + (sets + 1) * 8;
        // First the order of the sets, grouped and put together, with counters; then the order
        // beside the collection; then, when the sets in order of appearance are gone, the place of
        // each set, at first beside the order, later with the rows.
        let order = sets * size_of::<SortKey>();
        let sorting = 2 * order + sets * 2 * size_of::<u32>();
        let places = sets * size_of::<u32>();
        let grouping = places + order.max(Self::rows_footprint(sets, rows));
        sorting.max(collection + order).max((collection + grouping).saturating_sub(freed))
    }

    /// Orders the sets by key, size and tokens.
    pub(crate) fn into_collection(
        mut self,
        universe: u32,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<SetCollection> {
        self.parts.iter_mut().for_each(DistinctSets::close);
        let (order, runs) = self.sorted(threads, cancel)?;
        let frequencies = std::mem::take(&mut self.frequencies);
        let mut parts = SetParts { universe, frequencies, ..SetParts::default() };
        parts.offsets = self.offsets(&order, &runs, threads, cancel)?;
        parts.runs = Runs::of(runs.iter().map(|run| (run.key, run.size, run.sets)));
        parts.tokens = self.copied(&order, &parts.offsets, threads, cancel)?;
        if self.has_unknown() {
            let unknown = |entry: &SortKey| {
                let (part, set) = self.locate(entry.set);
                part.unknown(set)
            };
            parts.unknown = order.iter().map(unknown).collect();
        }
        for_each(threads, self.parts.iter_mut().collect(), |part: &mut DistinctSets| {
            part.drop_tokens();
            Ok(())
        })?;
        let sets = order.len();
        let position = self.positions(order, threads, cancel)?;
        let rows = self.rows_of_sets(&position, sets, threads, cancel)?;
        (parts.row_offsets, parts.rows, parts.setless_rows) =
            (rows.offsets, rows.rows, rows.setless);
        Ok(SetCollection::from_parts(parts))
    }

    fn has_unknown(&self) -> bool {
        self.parts.iter().any(DistinctSets::has_unknown)
    }

    /// From the number of a set to its place in the order. Repeats have none.
    fn positions(
        &self,
        order: Vec<SortKey>,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Scatter> {
        let threads = threads_for(threads, 2 * order.len());
        let all = self.starts.last().copied().unwrap_or(0) as usize;
        let position = Scatter::new(all, threads)?;
        let share = steps_per_task(threads, order.len(), LEAST_SETS);
        let tasks = order.chunks(share).enumerate().collect();
        for_each(threads, tasks, |(task, entries): (usize, &[SortKey])| {
            cancel.check()?;
            let places = (task * share) as u32..;
            places.zip(entries).for_each(|(place, e)| position.set(e.set as usize, place));
            Ok(())
        })?;
        Ok(position)
    }

    /// Where the tokens of each set start, and where those of the last one end.
    fn offsets(
        &self,
        order: &[SortKey],
        runs: &[RunOfSets],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Vec<u64>> {
        let mut end = 0;
        if self.has_unknown() {
            // Sets of a size differ in how many of their tokens are stored.
            let mut offsets = Vec::with_capacity(order.len() + 1);
            offsets.push(0);
            for (i, entry) in order.iter().enumerate() {
                cancel.check_at(i)?;
                end += self.tokens(entry.set).len() as u64;
                offsets.push(end);
            }
            return Ok(offsets);
        }
        let mut offsets = filled(threads, order.len() + 1, 0);
        let threads = threads_for(threads, order.len());
        let share = steps_per_task(threads, order.len(), LEAST_SETS);
        let mut tasks = vec![];
        let mut rest = &mut offsets[1..];
        for run in runs {
            let (own, others) = rest.split_at_mut(run.sets as usize);
            rest = others;
            for own in own.chunks_mut(share) {
                let start = end;
                end += own.len() as u64 * u64::from(run.size);
                tasks.push((own, start, run.size));
            }
        }
        // Runs may be short: several are a task.
        let share = tasks.len().div_ceil(4 * threads.count()).max(1);
        for_each(threads, tasks.chunks_mut(share).collect(), |tasks| {
            cancel.check()?;
            for (own, end, size) in tasks {
                for place in own.iter_mut() {
                    *end += u64::from(*size);
                    *place = *end;
                }
            }
            Ok(())
        })?;
        Ok(offsets)
    }

    /// The tokens of the sets in order.
    fn copied(
        &self,
        order: &[SortKey],
        offsets: &[u64],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Vec<u32>> {
        let mut tokens = filled(threads, offsets.last().copied().unwrap_or(0) as usize, 0);
        let threads = threads_for(threads, tokens.len() + STEPS_PER_SET * order.len());
        let share = steps_per_task(threads, order.len(), LEAST_SETS).min(MOST_SETS);
        let mut tasks = vec![];
        let mut rest = tokens.as_mut_slice();
        let mut from = 0;
        for entries in order.chunks(share) {
            let len = offsets[from + entries.len()] - offsets[from];
            let (own, others) = rest.split_at_mut(len as usize);
            tasks.push((entries, own));
            rest = others;
            from += entries.len();
        }
        for_each(threads, tasks, |(entries, mut own)| {
            cancel.check()?;
            for entry in entries {
                let set = self.tokens(entry.set);
                let (place, others) = own.split_at_mut(set.len());
                place.copy_from_slice(set);
                own = others;
            }
            Ok(())
        })?;
        Ok(tokens)
    }
}
