//! Probe sets that are counted together.

use std::ops::Range;
use std::sync::Arc;

use super::lists::{SliceLists, WIDEST};
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::SizeBounds;
use crate::set::runs::SetId;
use crate::tuning::{Size, Tuning};

/// Counters of a group: they stay in a core's second cache.
const COUNTERS: usize = 1 << 18;
/// Probe sets of a group, at least and at most.
const PROBES: Size<[usize; 2]> = Size { usual: [8, 128], small: [7, 7] };
/// Entries of a slice that are gathered at a time.
const ENTRIES: Size = Size { usual: 1 << 18, small: 32 };
/// Where fewer than one rank in this many has an entry, entries are left in the order of the sets.
const SPARSE: usize = 8;

/// A probe set of the group.
#[derive(Debug)]
pub(super) struct ProbeSet {
    pub set: SetId,
    /// The build sets that it may match.
    pub partners: Range<SetId>,
    pub bounds: Arc<SizeBounds>,
    /// The place of the first token that has not been gathered.
    next: usize,
}

impl ProbeSet {
    pub(super) fn new(set: SetId, partners: Range<SetId>, bounds: Arc<SizeBounds>) -> Self {
        Self { set, partners, bounds, next: 0 }
    }
}

/// Probe sets with a counter for each of their partners.
#[derive(Debug)]
pub(super) struct ProbeGroup {
    pub probes: Vec<ProbeSet>,
    /// The partners of all of them.
    pub span: Range<SetId>,
    /// The counters of each probe set, for the sets of `span`.
    counters: Vec<u32>,
    /// Probe sets at most.
    capacity: usize,
    /// Tokens of probe sets in a slice: the place of the token in the slice above 16 bits for the
    /// place of the probe set in the group.
    entries: Vec<u32>,
    /// Room to sort them.
    sorted: Vec<u32>,
    /// The entries gathered.
    gathered: usize,
    /// Where the entries of each token of a slice begin.
    starts: Vec<u32>,
}

impl ProbeGroup {
    /// Probe sets of a group, by the number of build sets.
    pub(super) fn capacity(build: usize, tuning: Tuning) -> usize {
        let [least, most] = tuning.size(PROBES);
        (COUNTERS / build.max(1)).clamp(least, most)
    }

    /// The bytes of a group.
    pub(super) fn footprint(build: usize, lists: &SliceLists, tuning: Tuning) -> usize {
        let words = Self::capacity(build, tuning) * build
            + 2 * Self::entries(lists, tuning)
            + lists.span() as usize;
        words * size_of::<u32>()
    }

    /// A bound on the bytes of a group, whatever the lists.
    pub(super) fn most_bytes(build: usize) -> usize {
        let counters = Self::capacity(build, Tuning::USUAL) * build;
        let (entries, widest) = (ENTRIES.usual, WIDEST.usual as usize);
        (counters + 2 * entries.max(widest) + widest) * size_of::<u32>()
    }

    /// Room for entries: at least the tokens that one set may have in a slice.
    fn entries(lists: &SliceLists, tuning: Tuning) -> usize {
        tuning.size(ENTRIES).max(lists.span() as usize)
    }

    /// An empty group, for which the caller holds [`Self::footprint`].
    pub(super) fn new(build: usize, lists: &SliceLists, tuning: Tuning) -> Self {
        let capacity = Self::capacity(build, tuning);
        Self {
            probes: Vec::with_capacity(capacity),
            span: 0..0,
            counters: vec![0; capacity * build],
            capacity,
            entries: vec![0; Self::entries(lists, tuning)],
            sorted: vec![0; Self::entries(lists, tuning)],
            gathered: 0,
            starts: vec![0; lists.span() as usize],
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.probes.len() >= self.capacity
    }

    pub(super) fn clear(&mut self) {
        self.probes.clear();
        self.span = 0..0;
    }

    pub(super) fn push(&mut self, probe: ProbeSet) {
        let partners = &probe.partners;
        self.span = match self.probes.is_empty() {
            true => partners.clone(),
            false => self.span.start.min(partners.start)..self.span.end.max(partners.end),
        };
        self.probes.push(probe);
    }

    /// Clears the counters and goes to the first token with a list. Returns the steps taken.
    pub(super) fn begin(&mut self, sets: &SetCollection, lists: &SliceLists) -> usize {
        let used = self.probes.len() * self.span.len();
        self.counters[..used].fill(0);
        for probe in &mut self.probes {
            let tokens = sets.tokens(probe.set);
            probe.next = tokens.partition_point(|&token| token < lists.first());
        }
        self.probes.len() + used / 8
    }

    /// The counters of a probe set, one for each set of `span`.
    pub(super) fn counters(&self, probe: usize) -> &[u32] {
        &self.counters[probe * self.span.len()..(probe + 1) * self.span.len()]
    }

    /// Adds to the counter of a probe set and a build set.
    #[inline]
    pub(super) fn add(&mut self, probe: usize, build: SetId, count: u32) {
        let place = probe * self.span.len() + (build - self.span.start) as usize;
        self.counters[place] += count;
    }

    /// The number of entries gathered.
    pub(super) fn gathered(&self) -> usize {
        self.gathered
    }

    /// Gathers what the probe sets from one on have in a slice. Returns the probe set to go on with
    /// in the same slice, if not all found room, and the steps taken.
    pub(super) fn gather(
        &mut self,
        sets: &SetCollection,
        lists: &SliceLists,
        slice: usize,
        from: usize,
    ) -> (Option<usize>, usize) {
        let ranks = lists.ranks_of(slice);
        let (mut count, mut taken) = (0, from);
        for (number, probe) in self.probes.iter_mut().enumerate().skip(from) {
            let rest = &sets.tokens(probe.set)[probe.next..];
            let entries = &mut self.entries[count..];
            let mut found = 0;
            for (&token, entry) in
                rest.iter().take_while(|&&token| token < ranks.end).zip(entries.iter_mut())
            {
                *entry = (token - ranks.start) << 16 | number as u32;
                found += 1;
            }
            count += found;
            probe.next += found;
            taken = number;
            // The entries are full: the same set may have more in the slice.
            if count == self.entries.len() {
                break;
            }
            taken += 1;
        }
        self.gathered = count;
        if count * SPARSE > ranks.len() {
            self.sort();
        }
        let rest = (taken < self.probes.len()).then_some(taken);
        (rest, 2 * self.probes.len() + 4 * count)
    }

    /// Orders the entries by token: lists are then read from the first to the last, and one that
    /// several probe sets need is read once.
    fn sort(&mut self) {
        let entries = &self.entries[..self.gathered];
        self.starts.fill(0);
        entries.iter().for_each(|&entry| self.starts[(entry >> 16) as usize] += 1);
        let mut start = 0;
        for place in &mut self.starts {
            start += std::mem::replace(place, start);
        }
        for &entry in entries {
            let place = &mut self.starts[(entry >> 16) as usize];
            self.sorted[*place as usize] = entry;
            *place += 1;
        }
        std::mem::swap(&mut self.entries, &mut self.sorted);
    }

    /// The next slice of which a probe set has a token.
    pub(super) fn next_slice(&self, sets: &SetCollection, lists: &SliceLists) -> usize {
        let next = |probe: &ProbeSet| sets.tokens(probe.set).get(probe.next).copied();
        let least = self.probes.iter().filter_map(next).min();
        least.map_or(usize::MAX, |token| lists.slice_of(token))
    }

    /// Adds one to the counters of the sets that have the tokens of entries, from one entry on, for
    /// about `steps` steps. Returns the next entry, the steps left and the postings read.
    pub(super) fn count(
        &mut self,
        lists: &SliceLists,
        slice: usize,
        mut entry: usize,
        mut steps: usize,
    ) -> (usize, usize, u64) {
        /// Lists of later entries that are asked for, which no processor could guess.
        const AHEAD: usize = 12;
        let slice = lists.slice(slice);
        let width = self.span.len();
        let entries = &self.entries[..self.gathered];
        let mut postings = 0;
        while steps > 0
            && let Some(&packed) = entries.get(entry)
        {
            if let Some(&later) = entries.get(entry + AHEAD) {
                slice.prefetch((later >> 16) as usize);
            }
            let number = (packed & 0xFFFF) as usize;
            let partners = &self.probes[number].partners;
            let counters = &mut self.counters[number * width..(number + 1) * width];
            let list = slice.list((packed >> 16) as usize);
            let found = add_list(list, partners, self.span.start, counters);
            postings += found as u64;
            steps = steps.saturating_sub(4 + found);
            entry += 1;
        }
        (entry, steps, postings)
    }
}

/// Adds one to the counters of the sets of a list that are partners; the first counter is that of
/// the set `first`. Returns how many there were.
#[inline]
fn add_list(list: &[SetId], partners: &Range<SetId>, first: SetId, counters: &mut [u32]) -> usize {
    let mut list = list;
    if list.first().is_some_and(|&set| set < partners.start) {
        list = &list[list.partition_point(|&set| set < partners.start)..];
    }
    let mut found = 0;
    for &set in list {
        if set >= partners.end {
            break;
        }
        counters[(set - first) as usize] += 1;
        found += 1;
    }
    found
}
