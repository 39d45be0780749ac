//! From distinct sets in order of appearance to a [`SetCollection`] in the order of the join.

use std::mem::size_of;
use std::ops::Range;

use datafusion::common::{Result, internal_err};

use crate::engine::KeyId;
use crate::set::collection::{Parts, SetCollection, SetId};
use crate::set::encode::distinct::{DistinctSets, NO_SET};
use crate::set::runs::Runs;
use crate::util::cancel::{
    CancelFlag, select_nth_unstable_by, sort_unstable_by, sort_unstable_by_key,
};
use crate::util::parallel::{for_each, threads_for};

/// Sorted or copied at a time by one thread. Tests want many such shares.
const SETS_PER_TASK: usize = if cfg!(test) { 1 << 5 } else { 1 << 13 };

/// Sets from one or more encoders, numbered through in their order: the sets of the first encoder,
/// then those of the second, and so on. The tokens of each set ascend.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub parts: Vec<DistinctSets>,
    /// The number of each part's first set, and the number of all sets.
    pub starts: Vec<u32>,
    /// Where parts share sets: for each set, the set that stands for all of its repeats.
    pub same_as: Vec<u32>,
    /// Where the rows of the parts stand in the input, ascending.
    pub stretches: Vec<Stretch>,
}

/// Neighbouring rows that one encoder has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// In the input.
    pub first_row: u32,
    pub part: u32,
    /// In the part.
    pub start: u32,
    pub len: u32,
}

/// The sort key of sets of one key and size: their first two tokens, each plus one, 0 for none.
#[derive(Debug, Clone, Copy)]
struct Entry {
    front: u64,
    set: u32,
}

impl Entry {
    fn of(set: u32, tokens: &[u32]) -> Self {
        let token = |nth: usize| tokens.get(nth).map_or(0, |&t| u64::from(t) + 1);
        Self { front: token(0) << 32 | token(1), set }
    }
}

/// How many sets there are of one key and size.
#[derive(Debug, Clone, Copy)]
struct RunOfSets {
    key: KeyId,
    size: u32,
    sets: u32,
}

impl Gathered {
    /// The sets of one encoder, which read the rows `0..` of its input.
    pub(crate) fn of_one(sets: DistinctSets) -> Self {
        let rows = sets.set_of_row().len() as u32;
        let stretches = vec![Stretch { first_row: 0, part: 0, start: 0, len: rows }];
        let starts = vec![0, sets.len() as u32];
        Self { parts: vec![sets], starts, same_as: vec![], stretches }
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

    /// The sets, without repeats.
    fn sets(&self) -> impl Iterator<Item = (u32, &DistinctSets, SetId)> {
        let parts = self.parts.iter().zip(&self.starts);
        let all = parts.flat_map(|(part, &start)| {
            (0..part.len() as u32).map(move |set| (start + set, part, set))
        });
        all.filter(|&(set, ..)| self.stands_for_all(set))
    }

    #[inline]
    pub(crate) fn stands_for_all(&self, set: u32) -> bool {
        self.same_as.get(set as usize).is_none_or(|&same| same == set)
    }

    fn tokens(&self, set: u32) -> &[u32] {
        let (part, set) = self.locate(set);
        part.tokens(set)
    }

    fn key_and_size(&self, set: u32) -> (KeyId, u32) {
        let (part, set) = self.locate(set);
        (part.key(set), part.size(set))
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
        // First the order of the sets is on top, with the sizes counted; then, when the sets in
        // order of appearance are gone, the place of each set, offsets, a cursor, and the rows.
        let order = sets * size_of::<Entry>();
        let grouping = (sets + 1) * 12 + rows * 4;
        collection + order.max((order + grouping).saturating_sub(freed))
    }

    /// Orders the sets by key, size and tokens.
    pub(crate) fn into_collection(
        mut self,
        universe: u32,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<SetCollection> {
        self.parts.iter_mut().for_each(DistinctSets::close);
        let (order, runs) = self.sorted(threads, cancel)?;
        let mut parts = Parts { universe, ..Parts::default() };
        parts.offsets = self.offsets(&order, &runs, cancel)?;
        parts.runs = Runs::of(runs.iter().map(|run| (run.key, run.size, run.sets)));
        parts.tokens = self.copied(&order, &parts.offsets, threads, cancel)?;
        if self.has_unknown() {
            let unknown = |entry: &Entry| {
                let (part, set) = self.locate(entry.set);
                part.unknown(set)
            };
            parts.unknown = order.iter().map(unknown).collect();
        }
        self.parts.iter_mut().for_each(DistinctSets::drop_tokens);
        // From the number of a set to its place in the order.
        let mut position = vec![NO_SET; self.starts.last().copied().unwrap_or(0) as usize];
        for (i, entry) in order.iter().enumerate() {
            cancel.check_at(i)?;
            position[entry.set as usize] = i as u32;
        }
        let sets = order.len();
        drop(order);
        if !self.same_as.is_empty() {
            for set in 0..position.len() {
                cancel.check_at(set)?;
                position[set] = position[self.same_as[set] as usize];
            }
        }
        (parts.row_offsets, parts.rows, parts.setless_rows) =
            self.rows_of_sets(&position, sets, cancel)?;
        Ok(SetCollection::from_parts(parts))
    }

    fn has_unknown(&self) -> bool {
        self.parts.iter().any(DistinctSets::has_unknown)
    }

    /// The sets in their order, and how many there are of each key and size.
    fn sorted(&self, threads: usize, cancel: &CancelFlag) -> Result<(Vec<Entry>, Vec<RunOfSets>)> {
        let (mut entries, runs) = self.grouped(cancel)?;
        let threads = threads_for(threads, entries.len());
        // Many sets of one size are sorted by all threads, the others run by run.
        let many = (entries.len() / threads).max(SETS_PER_TASK);
        let mut tasks: Vec<Vec<&mut [Entry]>> = vec![];
        let mut room = 0;
        let mut rest = entries.as_mut_slice();
        for run in &runs {
            let (own, others) = rest.split_at_mut(run.sets as usize);
            rest = others;
            if threads > 1 && own.len() > many / 2 {
                self.sort_in_parallel(own, threads, cancel)?;
                continue;
            }
            if own.len() > room {
                tasks.push(vec![]);
                room = SETS_PER_TASK;
            }
            room = room.saturating_sub(own.len());
            if let Some(task) = tasks.last_mut() {
                task.push(own);
            }
        }
        for_each(threads, tasks, |task| {
            task.into_iter().try_for_each(|run| self.sort(run, cancel))
        })?;
        Ok((entries, runs))
    }

    /// The sets grouped by key and size.
    fn grouped(&self, cancel: &CancelFlag) -> Result<(Vec<Entry>, Vec<RunOfSets>)> {
        let (mut count, mut greatest) = (0, 0);
        for (_, part, set) in self.sets() {
            cancel.check_at(count)?;
            count += 1;
            greatest = greatest.max(part.size(set) as usize);
        }
        let keyed = self.parts.iter().any(DistinctSets::has_keys);
        match keyed || greatest > count {
            true => self.grouped_by_sorting(count, cancel),
            false => self.grouped_by_counting(count, greatest, cancel),
        }
    }

    fn grouped_by_sorting(
        &self,
        count: usize,
        cancel: &CancelFlag,
    ) -> Result<(Vec<Entry>, Vec<RunOfSets>)> {
        let mut entries = Vec::with_capacity(count);
        for (i, (set, part, id)) in self.sets().enumerate() {
            cancel.check_at(i)?;
            entries.push(Entry::of(set, part.tokens(id)));
        }
        sort_unstable_by_key(&mut entries, cancel, |entry| self.key_and_size(entry.set))?;
        let mut runs: Vec<RunOfSets> = vec![];
        for (i, entry) in entries.iter().enumerate() {
            cancel.check_at(i)?;
            let (key, size) = self.key_and_size(entry.set);
            match runs.last_mut() {
                Some(run) if (run.key, run.size) == (key, size) => run.sets += 1,
                _ => runs.push(RunOfSets { key, size, sets: 1 }),
            }
        }
        Ok((entries, runs))
    }

    /// Without keys, and where the sets are no fewer than their sizes.
    fn grouped_by_counting(
        &self,
        count: usize,
        greatest: usize,
        cancel: &CancelFlag,
    ) -> Result<(Vec<Entry>, Vec<RunOfSets>)> {
        let mut next = vec![0_u32; greatest + 2];
        for (i, (_, part, set)) in self.sets().enumerate() {
            cancel.check_at(i)?;
            next[part.size(set) as usize + 1] += 1;
        }
        let runs = (0..=greatest).map(|size| (size as u32, next[size + 1]));
        let runs = runs.filter(|&(_, sets)| sets > 0);
        let runs = runs.map(|(size, sets)| RunOfSets { key: 0, size, sets }).collect();
        (1..next.len()).for_each(|size| next[size] += next[size - 1]);
        let mut entries = vec![Entry { front: 0, set: 0 }; count];
        for (i, (set, part, id)) in self.sets().enumerate() {
            cancel.check_at(i)?;
            let place = &mut next[part.size(id) as usize];
            entries[*place as usize] = Entry::of(set, part.tokens(id));
            *place += 1;
        }
        Ok((entries, runs))
    }

    /// Sorts sets of one key and size by their tokens.
    fn sort(&self, run: &mut [Entry], cancel: &CancelFlag) -> Result<()> {
        sort_unstable_by_key(run, cancel, |entry| entry.front)?;
        for same in run.chunk_by_mut(|a, b| a.front == b.front).filter(|same| same.len() > 1) {
            sort_unstable_by(same, cancel, |a, b| self.tokens(a.set).cmp(self.tokens(b.set)))?;
        }
        Ok(())
    }

    /// Like [`Self::sort`], half of the sets to half of the threads.
    fn sort_in_parallel(
        &self,
        run: &mut [Entry],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<()> {
        if threads <= 1 || run.len() < SETS_PER_TASK {
            return self.sort(run, cancel);
        }
        let half = run.len() / 2;
        select_nth_unstable_by(run, half, cancel, |a, b| {
            let fronts = a.front.cmp(&b.front);
            fronts.then_with(|| self.tokens(a.set).cmp(self.tokens(b.set)))
        })?;
        let (low, high) = run.split_at_mut(half);
        let halves = vec![(low, threads / 2), (high, threads - threads / 2)];
        for_each(2, halves, |(half, threads)| self.sort_in_parallel(half, threads, cancel))
    }

    /// Where the tokens of each set start, and where those of the last one end.
    fn offsets(
        &self,
        order: &[Entry],
        runs: &[RunOfSets],
        cancel: &CancelFlag,
    ) -> Result<Vec<u64>> {
        let mut end = 0;
        let mut offsets = Vec::with_capacity(order.len() + 1);
        offsets.push(0);
        if self.has_unknown() {
            // Sets of a size differ in how many of their tokens are stored.
            for (i, entry) in order.iter().enumerate() {
                cancel.check_at(i)?;
                end += self.tokens(entry.set).len() as u64;
                offsets.push(end);
            }
        } else {
            for run in runs {
                cancel.check()?;
                offsets.extend((0..run.sets).map(|_| {
                    end += u64::from(run.size);
                    end
                }));
            }
        }
        Ok(offsets)
    }

    /// The tokens of the sets in order.
    fn copied(
        &self,
        order: &[Entry],
        offsets: &[u64],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Vec<u32>> {
        let mut tokens = vec![0; offsets.last().copied().unwrap_or(0) as usize];
        let threads = threads_for(threads, tokens.len());
        let mut tasks = vec![];
        let mut rest = tokens.as_mut_slice();
        let mut from = 0;
        for entries in order.chunks(SETS_PER_TASK) {
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

    /// The rows of each set (offsets and rows, ascending within a set) and the rows without a set.
    fn rows_of_sets(
        &self,
        position: &[u32],
        sets: usize,
        cancel: &CancelFlag,
    ) -> Result<(Vec<u32>, Vec<u32>, Vec<u32>)> {
        let mut offsets = vec![0_u32; sets + 1];
        let mut setless = vec![];
        let mut row_count = 0;
        for stretch in &self.stretches {
            for (row, set) in (stretch.first_row..).zip(self.sets_of(stretch)) {
                match set {
                    NO_SET => setless.push(row),
                    set => offsets[position[set as usize] as usize + 1] += 1,
                }
            }
            row_count += stretch.len as usize;
            cancel.check()?;
        }
        (1..offsets.len()).for_each(|i| offsets[i] += offsets[i - 1]);
        let mut rows = vec![0_u32; row_count - setless.len()];
        let mut next = offsets.clone();
        for stretch in &self.stretches {
            for (row, set) in (stretch.first_row..).zip(self.sets_of(stretch)) {
                if set != NO_SET {
                    let place = &mut next[position[set as usize] as usize];
                    rows[*place as usize] = row;
                    *place += 1;
                }
            }
            cancel.check()?;
        }
        if offsets.last().is_some_and(|&end| end as usize != rows.len()) {
            return internal_err!("rows of a similarity join were lost");
        }
        Ok((offsets, rows, setless))
    }

    /// The sets of the rows of a stretch, by their numbers.
    fn sets_of(&self, stretch: &Stretch) -> impl Iterator<Item = u32> {
        let rows: Range<usize> = stretch.start as usize..(stretch.start + stretch.len) as usize;
        let start = self.starts[stretch.part as usize];
        let sets = &self.parts[stretch.part as usize].set_of_row()[rows];
        sets.iter().map(move |&set| if set == NO_SET { NO_SET } else { start + set })
    }
}
