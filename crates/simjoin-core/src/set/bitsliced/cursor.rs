//! The matches of probe sets, block by block of build sets.

use std::ops::Range;
use std::sync::Arc;

use super::columns::TokenColumns;
use super::group::ProbeGroup;
use super::planes::{BLOCK, Planes, STRIPS, planes_of};
use super::sums::{MOST_PLANES, Sum, Summed, add_up, number};
use crate::engine::{
    Funnel, Match, MatchBuffer, MatchNeed, Pairing, RowPairCounts, Worker, WorkerProgress,
};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::SizeBoundsCache;
use crate::set::itself::SelfMatches;
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::SetId;
use crate::simd::{BITS, Line};
use crate::tuning::Size;

/// Steps (about nanoseconds) between two looks at the clock.
const STEPS: Size = Size { usual: 1_000_000, small: 20 };

/// The worker of [`super::BitSliced`].
#[derive(Debug)]
pub(super) struct SlicedWorker {
    build: Arc<SetCollection>,
    columns: Arc<TokenColumns>,
    spec: JoinSpec,
    bounds: SizeBoundsCache,
    /// The unit being joined, and its sets that are left.
    unit: Option<SetUnit>,
    /// Its sets that match themselves, until they are given.
    itself: Option<SelfMatches>,
    group: ProbeGroup,
    /// The block that the group meets, and its probe set that comes next.
    block: u32,
    probe: usize,
    /// The numbers that rare tokens add up to.
    planes: Planes,
    sums: Box<[Sum; STRIPS]>,
    /// Matches of the probe set before that have not been given, from `given` on: build sets with overlaps.
    found: Vec<(SetId, u32)>,
    given: usize,
    /// Further matches of that probe set that are only counted, and their rows.
    counted: (u64, u64),
    funnel: Funnel,
    /// Holds the memory: `own` bytes, and those of the group.
    reservation: Reservation,
    own: usize,
}

impl SlicedWorker {
    /// A bound on the bytes of a worker, where the largest set has `longest` tokens.
    pub(super) fn most_bytes(longest: usize) -> usize {
        let bounds = SizeBoundsCache::most_bytes(longest);
        Self::own_bytes(longest)
            + ProbeGroup::most_bytes(longest, longest * size_of::<u32>())
            + bounds
    }

    /// The bytes, but for the bounds of sizes and the group.
    fn own_bytes(longest: usize) -> usize {
        Planes::footprint(longest)
            + STRIPS * size_of::<Sum>()
            + BLOCK as usize * size_of::<(SetId, u32)>()
    }

    pub(super) fn try_new(
        build: Arc<SetCollection>,
        columns: Arc<TokenColumns>,
        spec: JoinSpec,
        reservation: &dyn Memory,
    ) -> Result<Self> {
        // No probe set shares more tokens with a build set than this has.
        let most = build.runs().greatest_size() as usize;
        let own = Self::own_bytes(most) + SizeBoundsCache::footprint(build.runs());
        let reservation = reservation.new_empty();
        reservation.try_grow(own)?;
        Ok(Self {
            bounds: SizeBoundsCache::new(&spec, build.runs()),
            build,
            columns,
            spec,
            unit: None,
            itself: None,
            group: ProbeGroup::new(spec.tuning),
            block: 0,
            probe: 0,
            planes: Planes::new(most),
            sums: Box::new([[Line::EMPTY; MOST_PLANES]; STRIPS]),
            found: Vec::with_capacity(BLOCK as usize),
            given: 0,
            counted: (0, 0),
            funnel: Funnel::default(),
            reservation,
            own,
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
            self.group.push(set, sets.tokens(set), (partners, bounds), &self.columns);
        }
        (self.block, self.probe) = (self.group.span.start / BLOCK, 0);
        !self.group.probes.is_empty()
    }

    /// Adds up what the next probe set shares with the sets of the block. Returns the steps taken; `None` where the group
    /// has met all blocks.
    fn meet(&mut self) -> Option<usize> {
        let start = self.block * BLOCK;
        if start >= self.group.span.end {
            return None;
        }
        let SetUnit { items: sets, .. } = self.unit.as_ref()?;
        let Some(probe) = self.group.probes.get(self.probe) else {
            (self.block, self.probe) = (self.block + 1, 0);
            return Some(1);
        };
        let number = self.probe;
        self.probe += 1;
        let of_block =
            probe.partners.start.max(start)..probe.partners.end.min(start.saturating_add(BLOCK));
        if of_block.is_empty() {
            return Some(2);
        }
        let bounds = &probe.bounds;
        let (planes, mut begin) = (planes_of(probe.most as usize) + 1, [0_u64; STRIPS]);
        let strips = (of_block.start - start) as usize / BITS
            ..((of_block.end - start) as usize).div_ceil(BITS);
        let mut is_possible = false;
        for strip in strips.clone() {
            // The sets of a key come by size: the first one needs least.
            let first = of_block.start.max(start + (strip * BITS) as u32);
            let least = bounds.required(self.build.size(first)).max(1);
            is_possible |= least <= probe.most;
            // No sum grows so far where none can have enough.
            begin[strip] = (1_u64 << (planes - 1)).saturating_sub(least.into());
        }
        let tokens = probe.tokens(sets);
        self.planes.clear();
        let planes_of_lists = &mut self.planes;
        let added = self.group.lists_until(number, of_block.end, &self.columns, |set| {
            planes_of_lists.add((set - start) as usize);
        });
        if !is_possible {
            return Some(8 + 2 * added);
        }
        let summed = Summed {
            columns: self.columns.block(self.block as usize),
            tokens,
            first: self.columns.first(),
            others: self.planes.lines(),
        };
        let steps = 20 + 2 * added + strips.len() * (10 + tokens.len());
        let found = add_up(self.spec.simd, summed, strips, &begin, planes, &mut self.sums);
        if found != 0 {
            self.collect(number, found, (of_block, planes, begin));
        }
        Some(steps + 4 * self.found.len())
    }

    /// Collects the matches of a probe set in some strips of the block.
    fn collect(
        &mut self,
        probe: usize,
        mut strips: u32,
        (of_block, planes, begin): (Range<SetId>, usize, [u64; STRIPS]),
    ) {
        let probe = &self.group.probes[probe];
        let start = self.block * BLOCK;
        while strips != 0 {
            let strip = strips.trailing_zeros() as usize;
            strips &= strips - 1;
            let sum = &self.sums[strip];
            if self.spec.need == MatchNeed::Count {
                let first = start + (strip * BITS) as u32;
                let sets =
                    of_block.start.max(first)..of_block.end.min(first.saturating_add(BITS as u32));
                let required = |set: SetId| probe.bounds.required(self.build.size(set));
                // Sets come by size, and larger ones need no less: here all need what the sum began with.
                if required(sets.start) == required(sets.end - 1) {
                    let bits = sets.start - first..sets.end - first;
                    let (matches, rows) = counted(&self.build, &sum[planes - 1], first, bits);
                    self.funnel.candidates += matches;
                    self.counted = (self.counted.0 + matches, self.counted.1 + rows);
                    continue;
                }
            }
            for (place, &word) in sum[planes - 1].words().iter().enumerate() {
                let mut word = word;
                while word != 0 {
                    let bit = 64 * place + word.trailing_zeros() as usize;
                    word &= word - 1;
                    let build = start + (strip * BITS + bit) as u32;
                    if !of_block.contains(&build) {
                        continue;
                    }
                    self.funnel.candidates += 1;
                    let overlap = (number(sum, planes, bit) - begin[strip]) as u32;
                    if overlap >= probe.bounds.required(self.build.size(build)) {
                        self.found.push((build, overlap));
                    }
                }
            }
        }
    }

    /// Gives matches of the probe set before; whether all are given.
    fn give(&mut self, matches: &mut MatchBuffer) -> bool {
        let Some(SetUnit { items: sets, .. }) = &self.unit else { return true };
        let Some(probe) = self.probe.checked_sub(1) else { return true };
        let Some(probe) = self.group.probes.get_mut(probe) else { return true };
        let set = probe.set;
        match self.spec.need {
            MatchNeed::Count => {
                let rows = self.found.iter().map(|&(build, _)| self.build.row_count_of(build));
                let (further, further_rows) = std::mem::take(&mut self.counted);
                let rows = rows.map(u64::from).sum::<u64>() + further_rows;
                matches.count(RowPairCounts::cross(rows * u64::from(sets.row_count_of(set))));
                self.funnel.matches += self.found.len() as u64 + further;
                self.funnel.verified += further;
            }
            need => {
                while let Some(&(build, detail)) = self.found.get(self.given) {
                    if matches.is_full() {
                        return false;
                    }
                    matches.push(Match { probe: set, build, detail });
                    self.given += 1;
                    self.funnel.matches += 1;
                    if need == MatchNeed::Exists {
                        probe.partners.end = probe.partners.start;
                        break;
                    }
                }
            }
        }
        self.funnel.verified += self.found.len() as u64;
        self.found.clear();
        self.given = 0;
        true
    }
}

/// Counts the sets of a strip that have a bit within a range, and their rows. The strip begins at set `first`.
fn counted(build: &SetCollection, strip: &Line, first: SetId, bits: Range<u32>) -> (u64, u64) {
    let groups = build.groups();
    let has_one_row_each = groups.slots(first + bits.start..first + bits.end).len() == bits.len();
    let (mut sets, mut rows) = (0, 0);
    for (place, &word) in (0_u32..).step_by(64).zip(strip.words()) {
        let (from, to) = (bits.start.clamp(place, place + 64), bits.end.clamp(place, place + 64));
        if from >= to {
            continue;
        }
        let mut word = word & (u64::MAX >> (64 - (to - from))) << (from - place);
        sets += u64::from(word.count_ones());
        while word != 0 && !has_one_row_each {
            rows += u64::from(build.row_count_of(first + place + word.trailing_zeros()));
            word &= word - 1;
        }
    }
    (sets, if has_one_row_each { sets } else { rows })
}

impl Worker for SlicedWorker {
    type Items = SetCollection;

    fn admit(&mut self, unit: &SetUnit) -> Result<()> {
        let longest = unit.items.runs().greatest_size().min(self.build.universe());
        let group = ProbeGroup::footprint(longest as usize, self.build.runs());
        // One unit at a time is taken up, so that the largest counts.
        match self.own + group > self.reservation.size() {
            true => self.reservation.try_resize(self.own + group),
            false => Ok(()),
        }
    }

    fn begin(&mut self, unit: SetUnit) -> Result<()> {
        self.itself = SelfMatches::of(&unit, &self.spec);
        self.unit = Some(unit);
        self.group.clear();
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        if !SelfMatches::give_rest(&mut self.itself, matches, &mut self.funnel.matches) {
            return Ok(WorkerProgress::Full);
        }
        let mut steps = self.spec.tuning.size(STEPS);
        while steps > 0 {
            let has_found = !self.found.is_empty() || self.counted.0 > 0;
            if has_found && !self.give(matches) {
                return Ok(WorkerProgress::Full);
            }
            steps = match self.meet() {
                Some(taken) => steps.saturating_sub(taken),
                None if self.next_group() => steps.saturating_sub(100 * self.group.probes.len()),
                None => {
                    self.unit = None;
                    return Ok(WorkerProgress::Done);
                }
            };
        }
        Ok(WorkerProgress::More)
    }

    fn retire(&mut self, probe: SetId) {
        let retired = self.group.probes.iter_mut().filter(|each| each.set == probe);
        retired.for_each(|each| each.partners.end = each.partners.start);
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::set::tests::harness::{Rows, Sides};

    /// Any range of the bits of a strip counts as its sets do one by one, with and without repeats.
    #[test]
    fn ranges_of_a_strip_are_counted() {
        let mut rng = StdRng::seed_from_u64(11);
        for repeats in [0, 40] {
            let sets = BITS as u32 + 100;
            let mut rows: Rows = (0..sets).map(|token| (0, vec![token])).collect();
            rows.extend((0..repeats).map(|_| (0, vec![rng.random_range(0..sets)])));
            let build = Sides::itself("single tokens", &rows).build;
            for _ in 0..50 {
                let mut strip = Line::EMPTY;
                (0..BITS).filter(|_| rng.random_bool(0.3)).for_each(|bit| strip.set(bit));
                let first = rng.random_range(0..=100);
                let from = rng.random_range(0..BITS as u32);
                let bits = from..rng.random_range(from + 1..=BITS as u32);
                let found = bits.clone().filter(|&bit| strip.has(bit as usize));
                let rows = found.clone().map(|bit| u64::from(build.row_count_of(first + bit)));
                let expected = (found.count() as u64, rows.sum());
                assert_eq!(counted(&build, &strip, first, bits), expected);
            }
        }
    }
}
