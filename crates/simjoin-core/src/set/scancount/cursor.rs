//! The matches of probe sets, counted for a group of them at a time.

use std::sync::Arc;

use super::bits::{WIDTH, common_bits};
use super::group::{ProbeGroup, ProbeSet};
use super::split::Split;
use crate::engine::{
    Funnel, Match, MatchBuffer, MatchNeed, Pairing, RowPairCounts, Worker, WorkerProgress,
};
use crate::error::Result;
use crate::memory::{Memory, copies};
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::SizeBoundsCache;
use crate::set::itself::SelfMatches;
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::SetId;
use crate::tuning::{Size, Tuning};

/// Probe sets whose bits are counted together: a bitmap of the build side is read once for all.
const BLOCK: Size = Size { usual: 16, small: 6 };
/// Steps (about nanoseconds) between two looks at the clock.
const STEPS: Size = Size { usual: 1_000_000, small: 20 };

/// The next step for the group.
#[derive(Debug, Clone, Copy)]
enum GroupStep {
    /// Entries of this slice, from this probe set on.
    Gather { slice: usize, probe: usize },
    /// Lists of this slice, from this entry on; then the entries from this probe set on, if any.
    Light { slice: usize, entry: usize, rest: Option<usize> },
    /// Bitmaps of the probe sets from this one on in this slice.
    Mark { slice: usize, probe: usize },
    /// Bits common with those of the build sets from this one on.
    Heavy { slice: usize, probe: usize, build: SetId },
    /// Matches of this probe set from this build set on.
    Give { probe: usize, build: SetId },
    /// The next group.
    Done,
}

/// The worker of [`super::ScanCount`].
#[derive(Debug)]
pub(super) struct ScanCountWorker {
    build: Arc<SetCollection>,
    split: Arc<Split>,
    spec: JoinSpec,
    bounds: SizeBoundsCache,
    /// The unit being joined, and its sets that are left.
    unit: Option<SetUnit>,
    /// Its sets that match themselves, until they are given.
    itself: Option<SelfMatches>,
    group: ProbeGroup,
    stage: GroupStep,
    /// The bitmaps of a block of probe sets in a slice, one after the other.
    bitmaps: Vec<u64>,
    funnel: Funnel,
}

impl ScanCountWorker {
    /// A bound on the bytes of the counters, lists and bitmaps, by the number of build sets.
    pub(super) fn footprint(build: usize) -> usize {
        ProbeGroup::most_bytes(build) + BLOCK.usual * WIDTH.usual * size_of::<u64>()
    }

    pub(super) fn try_new(
        build: Arc<SetCollection>,
        split: Arc<Split>,
        spec: JoinSpec,
        reservation: &dyn Memory,
    ) -> Result<Self> {
        let words = spec.tuning.size(BLOCK) * split.bits.width();
        reservation.try_grow(
            ProbeGroup::footprint(build.len() as usize, &split.lists, spec.tuning)
                + SizeBoundsCache::footprint(build.runs()),
        )?;
        Ok(Self {
            bounds: SizeBoundsCache::new(&spec, build.runs()),
            group: ProbeGroup::new(build.len() as usize, &split.lists, spec.tuning),
            build,
            split,
            spec,
            unit: None,
            itself: None,
            stage: GroupStep::Done,
            bitmaps: copies(reservation, words, 0)?,
            funnel: Funnel::default(),
        })
    }

    /// Takes the next probe sets of one blocking key that have partners; false where the unit has
    /// none left.
    fn next_group(&mut self) -> bool {
        self.group.clear();
        let Some(SetUnit { items: sets, range, .. }) = &mut self.unit else { return false };
        let mut key = None;
        while !self.group.is_full() && range.start < range.end {
            let Some((run, ids)) = sets.runs().of_set(range.start) else { break };
            if key.is_some_and(|key| key != run.key) {
                break;
            }
            let Some(bounds) = self.bounds.get(run.size) else {
                range.start = ids.end.min(range.end);
                continue;
            };
            let set = range.start;
            range.start += 1;
            let mut partners = self.build.runs().sets(run.key, bounds.least, bounds.greatest);
            if self.spec.pairing == Pairing::Unordered {
                partners.end = partners.end.min(set);
            }
            if partners.start >= partners.end {
                continue;
            }
            key = Some(run.key);
            self.funnel.prefix_pairs += partners.len() as u64;
            self.funnel.candidates += partners.len() as u64;
            self.group.push(ProbeSet::new(set, partners, bounds));
        }
        !self.group.probes.is_empty()
    }

    /// Gathers entries of a slice. Returns the steps taken.
    fn gather(&mut self, slice: usize, probe: usize) -> usize {
        let Some(SetUnit { items: sets, .. }) = &self.unit else { return 0 };
        let lists = &self.split.lists;
        if slice >= lists.slices() {
            self.stage = GroupStep::Mark { slice: 0, probe: 0 };
            return 1;
        }
        let (rest, steps) = self.group.gather(sets, lists, slice, probe);
        self.stage = GroupStep::Light { slice, entry: 0, rest };
        steps
    }

    /// Counts by lists. Returns the steps left.
    fn count_lists(
        &mut self,
        slice: usize,
        entry: usize,
        rest: Option<usize>,
        steps: usize,
    ) -> usize {
        let Some(SetUnit { items: sets, .. }) = &self.unit else { return 0 };
        let lists = &self.split.lists;
        let (entry, steps, postings) = self.group.count(lists, slice, entry, steps);
        self.funnel.postings += postings;
        self.stage = match (entry < self.group.gathered(), rest) {
            (true, _) => GroupStep::Light { slice, entry, rest },
            (false, Some(probe)) => GroupStep::Gather { slice, probe },
            (false, None) => {
                GroupStep::Gather { slice: self.group.next_slice(sets, lists), probe: 0 }
            }
        };
        steps
    }

    /// Makes the bitmaps of a block of probe sets. Returns the steps taken.
    fn mark(&mut self, slice: usize, probe: usize) -> usize {
        let Some(SetUnit { items: sets, .. }) = &self.unit else { return 0 };
        let bits = &self.split.bits;
        let Some(block) =
            block(&self.group.probes, probe, self.spec.tuning).filter(|_| slice < bits.slices())
        else {
            let first = self.group.probes.first();
            let build = first.map_or(0, |probe| probe.partners.start);
            self.stage = GroupStep::Give { probe: 0, build };
            return 1;
        };
        self.bitmaps.fill(0);
        for (probe, words) in block.iter().zip(self.bitmaps.chunks_exact_mut(bits.width())) {
            bits.mark(sets.tokens(probe.set), slice, words);
        }
        let build = block.iter().map(|probe| probe.partners.start).min().unwrap_or(0);
        self.stage = GroupStep::Heavy { slice, probe, build };
        self.bitmaps.len()
    }

    /// Counts by bitmaps. Returns the steps left.
    fn count_bits(&mut self, slice: usize, probe: usize, from: SetId, mut steps: usize) -> usize {
        let bits = &self.split.bits;
        let block = block(&self.group.probes, probe, self.spec.tuning).unwrap_or(&[]);
        let (count, end) = (block.len(), block.iter().map(|probe| probe.partners.end).max());
        let words = &self.bitmaps[..count * bits.width()];
        let mut counts = [0; BLOCK.usual];
        for build in from..end.unwrap_or(from) {
            if steps == 0 {
                self.stage = GroupStep::Heavy { slice, probe, build };
                return 0;
            }
            common_bits(self.spec.simd, words, bits.of(slice, build), &mut counts);
            for (number, count) in counts[..count].iter().enumerate() {
                self.group.add(probe + number, build, *count);
            }
            steps = steps.saturating_sub(1 + words.len() / 10);
        }
        let next = probe + self.spec.tuning.size(BLOCK);
        self.stage = match next < self.group.probes.len() {
            true => GroupStep::Mark { slice, probe: next },
            false => GroupStep::Mark { slice: slice + 1, probe: 0 },
        };
        steps
    }

    /// Gives the matches of the group; whether all are given.
    fn give(&mut self, mut probe: usize, mut from: SetId, matches: &mut MatchBuffer) -> bool {
        let Some(SetUnit { items: sets, .. }) = &self.unit else { return true };
        let (count_only, first_only) =
            (self.spec.need == MatchNeed::Count, self.spec.need == MatchNeed::Exists);
        let first = self.group.span.start;
        while let Some(ProbeSet { set, partners, bounds, .. }) = self.group.probes.get(probe) {
            let counters = self.group.counters(probe);
            // Larger partners need no less.
            let least = bounds.required(bounds.least).max(1);
            let mut rows = 0;
            for build in from..partners.end {
                let overlap = counters[(build - first) as usize];
                if overlap < least || overlap < bounds.required(self.build.size(build)) {
                    continue;
                }
                if count_only {
                    rows += u64::from(self.build.row_count_of(build));
                } else if matches.is_full() {
                    self.stage = GroupStep::Give { probe, build };
                    return false;
                } else {
                    matches.push(Match { probe: *set, build, detail: overlap });
                }
                self.funnel.matches += 1;
                if first_only {
                    break;
                }
            }
            let cross = rows * u64::from(sets.row_count_of(*set));
            matches.count(RowPairCounts::cross(cross));
            self.funnel.verified += partners.len() as u64;
            probe += 1;
            from = self.group.probes.get(probe).map_or(0, |probe| probe.partners.start);
        }
        self.stage = GroupStep::Done;
        true
    }

    /// Counts for the groups of the unit.
    fn advance(&mut self, matches: &mut MatchBuffer) -> WorkerProgress {
        let mut steps = self.spec.tuning.size(STEPS);
        loop {
            match self.stage {
                GroupStep::Gather { slice, probe } => {
                    steps = steps.saturating_sub(self.gather(slice, probe));
                }
                GroupStep::Light { slice, entry, rest } => {
                    steps = self.count_lists(slice, entry, rest, steps);
                }
                GroupStep::Mark { slice, probe } => {
                    steps = steps.saturating_sub(self.mark(slice, probe));
                }
                GroupStep::Heavy { slice, probe, build } => {
                    steps = self.count_bits(slice, probe, build, steps);
                }
                GroupStep::Give { probe, build } => {
                    if !self.give(probe, build, matches) {
                        return WorkerProgress::Full;
                    }
                    let pairs = self.group.probes.len() * self.group.span.len();
                    steps = steps.saturating_sub(pairs);
                }
                GroupStep::Done => {
                    if !self.next_group() {
                        return WorkerProgress::Done;
                    }
                    steps = steps.saturating_sub(self.begin_group());
                }
            }
            if steps == 0 {
                return WorkerProgress::More;
            }
        }
    }

    /// Clears the counters of the group. Returns the steps taken.
    fn begin_group(&mut self) -> usize {
        let Some(SetUnit { items: sets, .. }) = &self.unit else { return 0 };
        let lists = &self.split.lists;
        let steps = self.group.begin(sets, lists);
        self.stage = GroupStep::Gather { slice: self.group.next_slice(sets, lists), probe: 0 };
        steps
    }
}

/// Probe sets of a group whose bits are counted together, from one on; `None` behind the last.
fn block(probes: &[ProbeSet], from: usize, tuning: Tuning) -> Option<&[ProbeSet]> {
    let rest = probes.get(from..)?;
    (!rest.is_empty()).then(|| &rest[..rest.len().min(tuning.size(BLOCK))])
}

impl Worker for ScanCountWorker {
    type Items = SetCollection;

    fn begin(&mut self, unit: SetUnit) -> Result<()> {
        self.itself = SelfMatches::of(&unit, &self.spec);
        self.unit = Some(unit);
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        if !SelfMatches::give_rest(&mut self.itself, matches, &mut self.funnel.matches) {
            return Ok(WorkerProgress::Full);
        }
        let worked = self.advance(matches);
        if worked == WorkerProgress::Done {
            self.unit = None;
        }
        Ok(worked)
    }

    fn retire(&mut self, probe: SetId) {
        let retired = self.group.probes.iter_mut().filter(|each| each.set == probe);
        retired.for_each(|each| each.partners.end = each.partners.start);
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}
