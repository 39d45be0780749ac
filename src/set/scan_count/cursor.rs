//! The matches of probe sets, counted for a group of them at a time.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::split::Split;
use crate::engine::{
    Cursor, Funnel, Match, MatchBuffer, MatchNeed, Pairing, ProbeUnit, Progress, RowPairCounts,
    UnitQueue,
};
use crate::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::set::{JoinSpec, SelfMatches, SetCollection, SetId, SetUnit};
use crate::simd::{Words, kernels};

/// Probe sets that are counted together: a bitmap of the build side is read once for all of them.
pub(super) const GROUP: usize = if cfg!(test) { 3 } else { 16 };
/// Steps (about nanoseconds) of a time slice.
const STEPS: usize = if cfg!(test) { 20 } else { 4_000_000 };

/// A probe set of the group.
#[derive(Debug)]
struct Probe {
    set: SetId,
    /// The build sets that it may match.
    partners: Range<SetId>,
    bounds: Arc<SizeBounds>,
}

/// What is next for the group.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Lists from this token on of this probe set.
    Light { probe: usize, token: usize },
    /// Bitmaps of this slice from this build set on.
    Heavy { slice: usize, build: SetId },
    /// Matches of this probe set from this build set on.
    Give { probe: usize, build: SetId },
    /// The next group.
    Done,
}

/// See [`super::ScanCount`].
#[derive(Debug)]
pub(super) struct ScanCountCursor {
    build: Arc<SetCollection>,
    split: Arc<Split>,
    spec: JoinSpec,
    bounds: SizeBoundsCache,
    units: UnitQueue<SetUnit>,
    /// The unit being joined, and its sets that are left.
    unit: Option<SetUnit>,
    /// Its sets that match themselves, until they are given.
    itself: Option<SelfMatches>,
    group: Vec<Probe>,
    /// The partners of the whole group.
    span: Range<SetId>,
    stage: Stage,
    /// The overlap of each probe set of the group with each build set.
    counters: Vec<u32>,
    /// The bitmaps of the group: slice by slice, then probe set by probe set.
    bitmaps: Vec<u64>,
    funnel: Funnel,
}

impl ScanCountCursor {
    pub(super) fn try_new(
        build: Arc<SetCollection>,
        split: Arc<Split>,
        spec: JoinSpec,
        reservation: &MemoryReservation,
    ) -> Result<Self> {
        let counters = GROUP * build.len() as usize;
        let words = GROUP * split.width() * split.slices();
        reservation.try_grow(
            counters * size_of::<u32>()
                + words * size_of::<u64>()
                + SizeBoundsCache::footprint(build.runs()),
        )?;
        Ok(Self {
            bounds: SizeBoundsCache::new(&spec, build.runs()),
            build,
            split,
            spec,
            units: UnitQueue::default(),
            unit: None,
            itself: None,
            group: Vec::with_capacity(GROUP),
            span: 0..0,
            stage: Stage::Done,
            counters: vec![0; counters],
            bitmaps: vec![0; words],
            funnel: Funnel::default(),
        })
    }

    /// Takes the next probe sets of one blocking key that have partners; false where the unit has
    /// none left.
    fn next_group(&mut self) -> bool {
        self.group.clear();
        self.span = 0..0;
        let Some(SetUnit { sets, range, .. }) = &mut self.unit else { return false };
        let mut key = None;
        while self.group.len() < GROUP && range.start < range.end {
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
            self.span = match self.group.is_empty() {
                true => partners.clone(),
                false => self.span.start.min(partners.start)..self.span.end.max(partners.end),
            };
            self.funnel.prefix_pairs += partners.len() as u64;
            self.funnel.candidates += partners.len() as u64;
            self.group.push(Probe { set, partners, bounds });
        }
        !self.group.is_empty()
    }

    /// Clears the counters and fills the bitmaps of the group.
    fn begin_group(&mut self) {
        let Some(SetUnit { sets, .. }) = &self.unit else { return };
        let build = self.build.len() as usize;
        let span = self.span.start as usize..self.span.end as usize;
        self.bitmaps.fill(0);
        for (number, probe) in self.group.iter().enumerate() {
            self.counters[number * build..][span.clone()].fill(0);
            for slice in 0..self.split.slices() {
                let start = (slice * GROUP + number) * self.split.width();
                let words = &mut self.bitmaps[start..start + self.split.width()];
                self.split.mark_slice(sets.tokens(probe.set), slice, words);
            }
        }
        self.stage = Stage::Light { probe: 0, token: 0 };
    }

    /// Counts by lists. Returns the steps left.
    fn count_lists(&mut self, mut probe: usize, mut token: usize, mut steps: usize) -> usize {
        let Some(SetUnit { sets, .. }) = &self.unit else { return 0 };
        let build = self.build.len() as usize;
        while let Some(Probe { set, partners, .. }) = self.group.get(probe) {
            let counters = &mut self.counters[probe * build..(probe + 1) * build];
            for &each in &self.split.light(sets.tokens(*set))[token..] {
                if steps == 0 {
                    self.stage = Stage::Light { probe, token };
                    return 0;
                }
                let found = self.split.sets_of(each, partners);
                found.iter().for_each(|&build| counters[build as usize] += 1);
                self.funnel.postings += found.len() as u64;
                steps = steps.saturating_sub(found.len() + 1);
                token += 1;
            }
            (probe, token) = (probe + 1, 0);
        }
        self.stage = Stage::Heavy { slice: 0, build: self.span.start };
        steps
    }

    /// Counts by bitmaps. Returns the steps left.
    fn count_bits(&mut self, mut slice: usize, mut from: SetId, mut steps: usize) -> usize {
        let (sets, width) = (self.build.len(), self.split.width());
        let mut counts = [0; GROUP];
        while slice < self.split.slices() {
            let start = slice * GROUP * width;
            let probes = &self.bitmaps[start..start + self.group.len() * width];
            for build in from..self.span.end {
                if steps == 0 {
                    self.stage = Stage::Heavy { slice, build };
                    return 0;
                }
                common_bits(
                    self.spec.simd,
                    probes,
                    self.split.words(slice, sets, build),
                    &mut counts,
                );
                for (number, count) in counts[..self.group.len()].iter().enumerate() {
                    self.counters[number * sets as usize + build as usize] += count;
                }
                steps = steps.saturating_sub(1 + probes.len() / 16);
            }
            (slice, from) = (slice + 1, self.span.start);
        }
        let build = self.group.first().map_or(0, |probe| probe.partners.start);
        self.stage = Stage::Give { probe: 0, build };
        steps
    }

    /// Gives the matches of the group; whether all are given.
    fn give(&mut self, mut probe: usize, mut from: SetId, matches: &mut MatchBuffer) -> bool {
        let Some(SetUnit { sets, .. }) = &self.unit else { return true };
        let (count_only, first_only) =
            (self.spec.need == MatchNeed::Count, self.spec.need == MatchNeed::Exists);
        while let Some(Probe { set, partners, bounds }) = self.group.get(probe) {
            let counters = &self.counters[probe * self.build.len() as usize..];
            let mut rows = 0;
            for build in from..partners.end {
                let overlap = counters[build as usize];
                if overlap == 0 || overlap < bounds.required(self.build.size(build)) {
                    continue;
                }
                if count_only {
                    rows += u64::from(self.build.row_count_of(build));
                } else if matches.is_full() {
                    self.stage = Stage::Give { probe, build };
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
            matches.count(RowPairCounts { cross, ..RowPairCounts::default() });
            self.funnel.verified += partners.len() as u64;
            probe += 1;
            from = self.group.get(probe).map_or(0, |probe| probe.partners.start);
        }
        self.stage = Stage::Done;
        true
    }

    /// Works on the unit for a time slice; `None` when the unit is done.
    fn advance(&mut self, matches: &mut MatchBuffer) -> Option<Progress> {
        let mut steps = STEPS;
        loop {
            match self.stage {
                Stage::Light { probe, token } => steps = self.count_lists(probe, token, steps),
                Stage::Heavy { slice, build } => steps = self.count_bits(slice, build, steps),
                Stage::Give { probe, build } => {
                    if !self.give(probe, build, matches) {
                        return Some(Progress::Full);
                    }
                    steps = steps.saturating_sub(self.group.len() * self.span.len());
                }
                Stage::Done => {
                    if !self.next_group() {
                        return None;
                    }
                    self.begin_group();
                    let words = self.bitmaps.len();
                    steps = steps.saturating_sub(words + self.group.len() * self.span.len() / 8);
                }
            }
            if steps == 0 {
                return Some(Progress::Yield);
            }
        }
    }
}

impl Cursor for ScanCountCursor {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        self.units.push(SetUnit::of(&unit)?);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        let start = Instant::now();
        if self.unit.is_none() {
            let Some(unit) = self.units.pop() else {
                return Poll::Ready(Ok(self.units.progress()));
            };
            self.itself = SelfMatches::of(&unit, &self.spec);
            self.unit = Some(unit);
        }
        if let Some(itself) = &mut self.itself {
            if !itself.give(matches, &mut self.funnel.matches) {
                return Poll::Ready(Ok(Progress::Full));
            }
            self.itself = None;
        }
        if let Some(unit) = &self.unit {
            matches.begin(unit.number);
        }
        let progress = self.advance(matches).unwrap_or_else(|| {
            self.unit.take().into_iter().for_each(|unit| matches.complete(unit.number));
            if self.units.is_empty() { self.units.progress() } else { Progress::Yield }
        });
        self.funnel.filter_nanos += start.elapsed().as_nanos() as u64;
        Poll::Ready(Ok(progress))
    }

    fn retire(&mut self, unit: u32, probe: SetId) {
        if self.unit.as_ref().is_some_and(|current| current.number == unit) {
            let retired = self.group.iter_mut().filter(|each| each.set == probe);
            retired.for_each(|each| each.partners.end = each.partners.start);
        }
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}

kernels! {
    /// The number of bits that each of several bitmaps has in common with another one, which is as
    /// long as each of them.
    fn common_bits[S: Words, ](probes: &[u64], build: &[u64], counts: &mut [u32]) -> () {
        for (probe, count) in probes.chunks_exact(build.len()).zip(counts) {
            let words = probe.iter().zip(build);
            *count = words.map(|(x, y)| u64::from((x & y).count_ones())).sum::<u64>() as u32;
        }
    }
}
