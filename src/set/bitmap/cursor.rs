//! The matches of probe sets, group by group against the blocks.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::KeyId;
use crate::engine::{
    Cursor, Funnel, Match, MatchBuffer, MatchNeed, Pairing, ProbeUnit, Progress, RowPairCounts,
    UnitQueue,
};
use crate::set::bitmap::blocks::{ABREAST, Blocks, GROUP, Group, Hit};
use crate::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::set::intersect;
use crate::set::{JoinSpec, SelfMatches, SetCollection, SetId, SetUnit};

/// Blocks tested between two looks at the clock and at the survivors.
const TILE: usize = if cfg!(test) { 3 } else { 256 };
/// Tests of a group with a block in one time slice: a few milliseconds.
const TESTS_PER_SLICE: usize = if cfg!(test) { 11 } else { 1 << 18 };
/// Survivors decided in one time slice.
const SURVIVORS_PER_SLICE: usize = if cfg!(test) { 13 } else { 1 << 16 };

/// As many tokens to compare count as one more survivor.
const TOKENS_A_SURVIVOR: usize = 64;

/// A probe set of the current unit.
#[derive(Debug)]
struct Probe {
    set: SetId,
    key: KeyId,
    size: u32,
    /// Positions of the partners, admissible by key and size.
    partners: Range<u32>,
    bounds: Arc<SizeBounds>,
    /// Tokens that the front leaves out, those unknown to the build side not counted.
    rest: u32,
    /// Known tokens that own no bit, the first ones of the set, and how many hashed bits they set.
    rare: u32,
    hashed: u32,
    /// No (further) match of this set is needed.
    done: bool,
}

/// See [`crate::set::bitmap::BitmapBlocks`].
#[derive(Debug)]
pub(crate) struct BitmapCursor {
    build: Arc<SetCollection>,
    blocks: Arc<Blocks>,
    spec: JoinSpec,
    bounds: SizeBoundsCache,
    reservation: MemoryReservation,
    /// The sets of a unit, at most, for which memory is reserved.
    reserved_sets: usize,
    units: UnitQueue<SetUnit>,
    /// The unit that `probes` are of.
    unit: Option<u32>,
    probe_sets: Arc<SetCollection>,
    /// Its sets that match themselves, until they are given.
    itself: Option<SelfMatches>,
    /// In the order in which they are tested.
    probes: Vec<Probe>,
    /// Their signatures, one after the other.
    signatures: Vec<u64>,
    /// The group being tested: its first probe, and how many there are.
    group: Range<usize>,
    front: Group,
    /// Blocks that the group has not been tested with.
    left: Range<usize>,
    /// By block, the least overlap that a pair with the group needs.
    required: Vec<u32>,
    /// The sizes of the group that `required` was made for.
    required_for: Vec<(KeyId, u32)>,
    /// Survivors of the last tile, and the next of them.
    hits: Vec<Hit>,
    next_hit: usize,
    funnel: Funnel,
}

impl BitmapCursor {
    pub(super) fn try_new(
        build: Arc<SetCollection>,
        blocks: Arc<Blocks>,
        spec: JoinSpec,
        reservation: &MemoryReservation,
    ) -> Result<Self> {
        let hits = 2 * TILE * size_of::<Hit>();
        let required = blocks.len() * size_of::<u32>();
        reservation.try_grow(SizeBoundsCache::footprint(build.runs()) + required + hits)?;
        Ok(Self {
            bounds: SizeBoundsCache::new(&spec, build.runs()),
            required: vec![u32::MAX; blocks.len()],
            required_for: vec![],
            reservation: reservation.new_empty(),
            reserved_sets: 0,
            units: UnitQueue::default(),
            unit: None,
            probe_sets: Arc::default(),
            itself: None,
            probes: vec![],
            signatures: vec![],
            group: 0..0,
            front: Group::default(),
            left: 0..0,
            hits: Vec::with_capacity(TILE),
            next_hit: 0,
            funnel: Funnel::default(),
            build,
            blocks,
            spec,
        })
    }
}

impl Cursor for BitmapCursor {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        let unit = SetUnit::of(&unit)?;
        let words = self.blocks.scheme().words();
        // With the places of each probe before and after sorting.
        let width = words * size_of::<u64>() + size_of::<Probe>() + 2 * size_of::<u32>();
        let sets = unit.range.len();
        if sets > self.reserved_sets {
            // The probes twice, because sorting their signatures copies them.
            self.reservation.try_resize(sets * (width + words * size_of::<u64>()))?;
            self.reserved_sets = sets;
        }
        self.units.push(unit);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        if self.unit.is_none() {
            let Some(unit) = self.units.pop() else {
                return Poll::Ready(Ok(self.units.progress()));
            };
            self.begin(unit);
        }
        if let Some(unit) = self.unit {
            matches.begin(unit);
        }
        if let Some(itself) = &mut self.itself {
            if !itself.give(matches, &mut self.funnel.matches) {
                return Poll::Ready(Ok(Progress::Full));
            }
            self.itself = None;
        }
        let mut tests = TESTS_PER_SLICE;
        let mut survivors = SURVIVORS_PER_SLICE;
        let mut now = Instant::now();
        let progress = loop {
            if self.next_hit < self.hits.len() {
                let decided = self.decide(matches, &mut survivors);
                let then = std::mem::replace(&mut now, Instant::now());
                self.funnel.verify_nanos += (now - then).as_nanos() as u64;
                match decided {
                    Some(progress) => break progress,
                    None => continue,
                }
            }
            if tests == 0 {
                break Progress::Yield;
            }
            if self.left.is_empty() || self.group.clone().all(|p| self.probes[p].done) {
                if self.group.end == self.probes.len() {
                    self.unit.take().into_iter().for_each(|unit| matches.complete(unit));
                    break if self.units.is_empty() {
                        self.units.progress()
                    } else {
                        Progress::Yield
                    };
                }
                self.next_group();
            }
            let end = self.left.end.min(self.left.start + TILE.min(tests));
            let tile = self.left.start..end;
            self.left.start = end;
            tests -= tile.len();
            self.hits.clear();
            self.next_hit = 0;
            self.funnel.postings += (tile.len() * ABREAST * self.group.len()) as u64;
            self.blocks.test(self.spec.simd, &self.front, tile, &self.required, &mut self.hits);
            let then = std::mem::replace(&mut now, Instant::now());
            self.funnel.filter_nanos += (now - then).as_nanos() as u64;
        };
        Poll::Ready(Ok(progress))
    }

    fn retire(&mut self, unit: u32, probe: SetId) {
        if self.unit == Some(unit) {
            for place in self.group.clone() {
                self.probes[place].done |= self.probes[place].set == probe;
            }
        }
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}

impl BitmapCursor {
    /// Takes a unit up: its probes with their partners and signatures.
    fn begin(&mut self, unit: SetUnit) {
        let start = Instant::now();
        self.itself = SelfMatches::of(&unit, &self.spec);
        let SetUnit { number, sets, range } = unit;
        self.unit = Some(number);
        self.probes.clear();
        self.probes.reserve_exact(range.len());
        let unordered = self.spec.pairing == Pairing::Unordered;
        let mut run_end = range.start;
        let mut run = None;
        for set in range {
            if set >= run_end {
                let Some((of_set, ids)) = sets.runs().of_set(set) else { continue };
                run_end = ids.end;
                run = self.bounds.get(of_set.size).map(|bounds| {
                    let (least, greatest) = (bounds.least, bounds.greatest);
                    let partners = self.build.runs().sets(of_set.key, least, greatest);
                    (of_set, partners, bounds)
                });
                run = run.filter(|(_, partners, _)| !partners.is_empty());
            }
            let Some((run, partners, bounds)) = &run else { continue };
            let mut partners = partners.clone();
            if unordered {
                partners.end = partners.end.min(self.blocks.position(set));
                if partners.is_empty() {
                    continue;
                }
            }
            let bounds = Arc::clone(bounds);
            self.probes.push(Probe {
                set,
                key: run.key,
                size: run.size,
                partners,
                bounds,
                rest: 0,
                rare: 0,
                hashed: 0,
                done: false,
            });
        }
        self.sign(&sets);
        self.probe_sets = sets;
        self.group = 0..0;
        self.left = 0..0;
        self.hits.clear();
        self.next_hit = 0;
        self.funnel.filter_nanos += start.elapsed().as_nanos() as u64;
    }

    /// Makes the signatures of the probes and orders those of one size by what the front leaves
    /// out, as the blocks are.
    fn sign(&mut self, sets: &SetCollection) {
        let scheme = self.blocks.scheme();
        let words = scheme.words();
        let front_words = self.blocks.front_words();
        let mut signatures = vec![0; self.probes.len() * words];
        for (probe, signature) in self.probes.iter_mut().zip(signatures.chunks_exact_mut(words)) {
            let tokens = sets.tokens(probe.set);
            probe.rare = scheme.sign(tokens, signature) as u32;
            let bits = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
            probe.hashed = bits(&signature[scheme.owned_words()..]);
            probe.rest = tokens.len() as u32 - bits(&signature[..front_words]);
        }
        let mut order: Vec<u32> = (0..self.probes.len() as u32).collect();
        let probes = &self.probes;
        order.sort_unstable_by_key(|&p| {
            let probe = &probes[p as usize];
            (probe.key, probe.size, probe.partners.end, probe.rest, p)
        });
        self.signatures.clear();
        self.signatures.reserve_exact(signatures.len());
        for &place in &order {
            self.signatures.extend_from_slice(&signatures[place as usize * words..][..words]);
        }
        let mut rank = vec![0_u32; order.len()];
        for (to, &from) in order.iter().enumerate() {
            rank[from as usize] = to as u32;
        }
        // Follow the cycles of the permutation.
        for place in 0..rank.len() {
            while rank[place] as usize != place {
                let to = rank[place] as usize;
                self.probes.swap(place, to);
                rank.swap(place, to);
            }
        }
    }

    /// Takes up the next probe sets of one key.
    fn next_group(&mut self) {
        let words = self.blocks.scheme().words();
        let first = self.group.end;
        let key = self.probes[first].key;
        let rest = &self.probes[first..];
        let len = rest.iter().take(GROUP).take_while(|p| p.key == key).count();
        self.group = first..first + len;
        self.front = Group::default();
        let front_words = self.blocks.front_words();
        let (mut start, mut end) = (u32::MAX, 0);
        for (place, probe) in self.probes[self.group.clone()].iter().enumerate() {
            let signature = &self.signatures[(first + place) * words..][..words];
            let (front, back) = signature.split_at(front_words);
            self.front.front[place][..front_words].copy_from_slice(front);
            self.front.back[place][..back.len()].copy_from_slice(back);
            self.front.rest = self.front.rest.max(probe.rest);
            self.front.hidden = self.front.hidden.max(probe.rare - probe.hashed);
            start = start.min(probe.partners.start);
            end = end.max(probe.partners.end);
        }
        self.left = start as usize / ABREAST..(end as usize).div_ceil(ABREAST);
        self.require();
    }

    /// Tabulates the overlaps that the group requires of each block.
    fn require(&mut self) {
        let group = &self.probes[self.group.clone()];
        let mut sizes: Vec<(KeyId, u32)> = group.iter().map(|p| (p.key, p.size)).collect();
        sizes.dedup();
        if sizes == self.required_for {
            return;
        }
        let blocks_of =
            |ids: Range<SetId>| ids.start as usize / ABREAST..(ids.end as usize).div_ceil(ABREAST);
        let of_sizes = || group.chunk_by(|a, b| a.size == b.size).map(|probes| &probes[0]);
        let runs_of = |probe: &Probe| {
            let (least, greatest) = (probe.bounds.least, probe.bounds.greatest);
            self.build.runs().of_key(probe.key, least, greatest)
        };
        // Only the group's own blocks are read: with many keys, they are few of all.
        for probe in of_sizes() {
            for (_, ids) in runs_of(probe) {
                self.required[blocks_of(ids)].fill(u32::MAX);
            }
        }
        for probe in of_sizes() {
            for (run, ids) in runs_of(probe) {
                let required = probe.bounds.required(run.size);
                let blocks = blocks_of(ids);
                // A block that holds two runs must do for the less demanding one.
                for block in &mut self.required[blocks] {
                    *block = required.min(*block);
                }
            }
        }
        self.required_for = sizes;
    }

    /// Positions whose pairs with the group the kernel's test decides: signatures are exact, and the
    /// probes, which share their size, have these partners in common. A block must also hold sets
    /// of one size.
    fn decided_by_test(&self) -> Range<u32> {
        let probes = &self.probes[self.group.clone()];
        if !self.blocks.scheme().is_exact() || self.required_for.len() != 1 {
            return 0..0;
        }
        let start = probes.iter().map(|probe| probe.partners.start).max();
        let end = probes.iter().map(|probe| probe.partners.end).min();
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Adds the pairs of survivors that the test has decided: their number, and by probe of the group
    /// the rows of their build sets.
    fn count(&mut self, survivors: u64, partners: [u32; GROUP], matches: &mut MatchBuffer) {
        self.funnel.prefix_pairs += survivors;
        self.funnel.candidates += survivors;
        self.funnel.matches += survivors;
        let rows = |probe: &Probe| u64::from(self.probe_sets.row_count_of(probe.set));
        let probes = self.probes[self.group.clone()].iter().zip(partners);
        let cross = probes.map(|(probe, partners)| rows(probe) * u64::from(partners)).sum();
        matches.count(RowPairCounts { cross, ..RowPairCounts::default() });
    }

    /// Decides the survivors of the last tile; why it stopped, unless all are decided.
    fn decide(&mut self, matches: &mut MatchBuffer, left: &mut usize) -> Option<Progress> {
        let (mut survivors, mut partners) = (0, [0; GROUP]);
        let stopped = self.decide_each(matches, left, &mut survivors, &mut partners);
        if survivors > 0 {
            self.count(survivors, partners, matches);
        }
        stopped
    }

    /// Like [`Self::decide`]. Survivors that the test has decided are counted only, where counts are
    /// wanted.
    fn decide_each(
        &mut self,
        matches: &mut MatchBuffer,
        left: &mut usize,
        survivors: &mut u64,
        partners: &mut [u32; GROUP],
    ) -> Option<Progress> {
        let exact = self.spec.need == MatchNeed::Scores;
        let first_only = self.spec.need == MatchNeed::Exists;
        let count_only = self.spec.need == MatchNeed::Count;
        let words = self.blocks.scheme().words();
        let tested = self.decided_by_test();
        while let Some(&hit) = self.hits.get(self.next_hit) {
            let first = hit.block * ABREAST as u32;
            let last = first + ABREAST as u32 - 1;
            let is_decided = tested.contains(&first)
                && tested.contains(&last)
                && self.blocks.size(first as usize) == self.blocks.size(last as usize);
            if is_decided && count_only {
                self.blocks.add_row_counts(hit, partners);
                *survivors += u64::from(hit.lanes.count_ones());
                self.next_hit += 1;
                *left = left.saturating_sub(1);
                continue;
            }
            let hit = &mut self.hits[self.next_hit];
            while hit.lanes != 0 {
                if matches.is_full() {
                    return Some(Progress::Full);
                }
                if *left == 0 {
                    return Some(Progress::Yield);
                }
                *left -= 1;
                let lane = hit.lanes.trailing_zeros() as usize;
                hit.lanes &= hit.lanes - 1;
                let place = self.group.start + lane / ABREAST;
                let position = hit.block as usize * ABREAST + lane % ABREAST;
                if place >= self.group.end {
                    // The lanes of missing probes come last.
                    hit.lanes = 0;
                    continue;
                }
                let probe = &mut self.probes[place];
                if probe.done || !probe.partners.contains(&(position as u32)) {
                    continue;
                }
                let build = self.blocks.set(position);
                let required = probe.bounds.required(self.blocks.size(position));
                self.funnel.prefix_pairs += 1;
                if is_decided && !exact {
                    self.funnel.candidates += 1;
                    self.funnel.matches += 1;
                    probe.done |= first_only;
                    matches.push(Match { probe: probe.set, build, detail: required });
                    continue;
                }
                let signature = &self.signatures[place * words..][..words];
                let common = self.blocks.common(signature, position);
                let rare = self.blocks.rare(position);
                let hidden = (probe.rare - probe.hashed).min(rare as u32 - common.build_hashed);
                if common.owned + common.hashed + hidden < required {
                    continue;
                }
                self.funnel.candidates += 1;
                let overlap = if self.blocks.scheme().is_exact() {
                    Some(common.owned)
                } else if !exact && common.owned >= required {
                    Some(required)
                } else {
                    self.funnel.verified += 1;
                    let probe_rare = &self.probe_sets.tokens(probe.set)[..probe.rare as usize];
                    let build_rare = &self.build.tokens(build)[..rare];
                    *left = left.saturating_sub((probe_rare.len() + rare) / TOKENS_A_SURVIVOR);
                    let simd = self.spec.simd;
                    intersect(simd, probe_rare, build_rare, common.owned, required, exact)
                };
                if let Some(overlap) = overlap.filter(|&o| o >= required) {
                    self.funnel.matches += 1;
                    probe.done |= first_only;
                    if count_only {
                        let rows = u64::from(self.probe_sets.row_count_of(probe.set));
                        let cross = rows * u64::from(self.build.row_count_of(build));
                        matches.count(RowPairCounts { cross, ..RowPairCounts::default() });
                    } else {
                        matches.push(Match { probe: probe.set, build, detail: overlap });
                    }
                }
            }
            self.next_hit += 1;
        }
        None
    }
}
