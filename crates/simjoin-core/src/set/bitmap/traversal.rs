//! Probe sets against the blocks, group by group and tile by tile.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Funnel, KeyId, MatchBuffer, MatchNeed, Pairing};
use crate::error::Result;
use crate::memory::{Memory, Reservation, copies, room};
use crate::set::bitmap::blocks::{BlockHit, ProbeGroup, SignatureBlocks};
use crate::set::bitmap::lines::{ABREAST, GROUP};
use crate::set::bitmap::unions::UnionGroup;
use crate::set::collection::SetCollection;
use crate::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::SetId;
use crate::tuning::Size;

/// Blocks tested between two looks at the survivors.
const TILE: Size = Size { usual: 256, small: 3 };
/// Tests of a group with a block between two looks at the clock: about a millisecond.
pub(super) const TESTS_AT_ONCE: Size = Size { usual: 1 << 16, small: 11 };
/// Survivors decided between two looks at the clock.
pub(super) const SURVIVORS_AT_ONCE: Size = Size { usual: 1 << 14, small: 13 };

/// A probe set of the current unit.
#[derive(Debug)]
struct ProbeSet {
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

/// A pair that all words of its signatures let pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Survivor {
    /// The probe set, and its place among the probes.
    pub probe: SetId,
    pub place: usize,
    pub build: SetId,
    /// The least overlap with which the pair matches.
    pub required: u32,
    /// Common tokens that own a bit; the required ones, where these suffice.
    pub owned: u32,
    /// The other known tokens, the first ones of each set.
    pub probe_rare: usize,
    pub build_rare: usize,
}

/// Tests the probe sets of one unit after the other against the blocks.
#[derive(Debug)]
pub(super) struct Traversal {
    pub build: Arc<SetCollection>,
    pub blocks: Arc<SignatureBlocks>,
    pub spec: JoinSpec,
    bounds: SizeBoundsCache,
    reservation: Reservation,
    /// The sets of a unit, at most, for which memory is reserved.
    reserved_sets: usize,
    pub probe_sets: Arc<SetCollection>,
    /// Probe sets, in the order in which they are tested.
    probes: Vec<ProbeSet>,
    /// The signatures of the probe sets, one after the other.
    signatures: Vec<u64>,
    /// The group being tested: its first probe, and how many there are.
    group: Range<usize>,
    front: ProbeGroup,
    /// The group for the columns in front of the blocks, where there are any, and columns that pass.
    union_group: UnionGroup,
    passing: Vec<u32>,
    /// Blocks that the group has not been tested with.
    left: Range<usize>,
    /// By block, the least overlap that a pair with the group needs.
    required: Vec<u32>,
    /// The required overlap by column.
    union_required: Vec<u32>,
    /// The sizes of the group that `required` was made for.
    required_for: Vec<(KeyId, u32)>,
    /// Survivors of tiles, and the next of them.
    hits: Vec<BlockHit>,
    next_hit: usize,
    /// Pairs tested, those that passed the tests, and those that passed all words.
    tested: u64,
    passed: u64,
    survivors: u64,
}

impl Traversal {
    pub(super) fn try_new(
        build: Arc<SetCollection>,
        blocks: Arc<SignatureBlocks>,
        spec: JoinSpec,
        reservation: &dyn Memory,
    ) -> Result<Self> {
        let tile = spec.tuning.size(TILE);
        let columns = blocks.unions().map_or(0, |unions| blocks.len().div_ceil(unions.members()));
        let passing = if columns > 0 { 2 * tile } else { 0 };
        reservation.try_grow(SizeBoundsCache::footprint(build.runs()))?;
        Ok(Self {
            bounds: SizeBoundsCache::new(&spec, build.runs()),
            required: copies(reservation, blocks.len(), u32::MAX)?,
            union_required: copies(reservation, columns, u32::MAX)?,
            required_for: vec![],
            reservation: reservation.new_empty(),
            reserved_sets: 0,
            probe_sets: Arc::default(),
            probes: vec![],
            signatures: vec![],
            group: 0..0,
            front: ProbeGroup::default(),
            union_group: UnionGroup::default(),
            passing: room(reservation, passing)?,
            left: 0..0,
            hits: room(reservation, 2 * tile)?,
            next_hit: 0,
            tested: 0,
            passed: 0,
            survivors: 0,
            build,
            blocks,
            spec,
        })
    }

    /// Reserves the memory of a unit of `sets` sets. One unit at a time is taken up, so that the
    /// largest counts.
    pub(super) fn admit(&mut self, sets: usize) -> Result<()> {
        let words = self.blocks.scheme().words();
        // With the places of each probe before and after sorting.
        let width = words * size_of::<u64>() + size_of::<ProbeSet>() + 2 * size_of::<u32>();
        if sets > self.reserved_sets {
            // The probes twice, because sorting their signatures copies them.
            self.reservation.try_resize(sets * (width + words * size_of::<u64>()))?;
            self.reserved_sets = sets;
        }
        Ok(())
    }

    /// Takes a unit up: its probes with their partners and signatures.
    pub(super) fn begin(&mut self, unit: SetUnit) {
        let SetUnit { items: sets, range, .. } = unit;
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
            self.probes.push(ProbeSet {
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
            probe.rare = match self.spec.pairing {
                Pairing::All => scheme.sign(tokens, signature) as u32,
                // Its blocks have the signature already.
                Pairing::Unordered => self.blocks.copy_signature(probe.set, signature),
            };
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

    /// Takes up the next probe sets of one key; whether there were any.
    pub(super) fn next_group(&mut self) -> bool {
        if self.group.end == self.probes.len() {
            return false;
        }
        let words = self.blocks.scheme().words();
        let first = self.group.end;
        let key = self.probes[first].key;
        let rest = &self.probes[first..];
        let len = rest.iter().take(GROUP).take_while(|p| p.key == key).count();
        self.group = first..first + len;
        self.front = ProbeGroup::default();
        self.union_group = UnionGroup::default();
        let front_words = self.blocks.front_words();
        let (mut start, mut end) = (u32::MAX, 0);
        for (place, probe) in self.probes[self.group.clone()].iter().enumerate() {
            let signature = &self.signatures[(first + place) * words..][..words];
            let (front, back) = signature.split_at(front_words);
            self.front.front[place][..front_words].copy_from_slice(front);
            self.front.back[place][..back.len()].copy_from_slice(back);
            if let Some(unions) = self.blocks.unions() {
                unions.put(&mut self.union_group, place, self.probe_sets.tokens(probe.set));
            }
            self.front.rest = self.front.rest.max(probe.rest);
            self.front.hidden = self.front.hidden.max(probe.rare - probe.hashed);
            start = start.min(probe.partners.start);
            end = end.max(probe.partners.end);
        }
        self.left = start as usize / ABREAST..(end as usize).div_ceil(ABREAST);
        self.require();
        true
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
        let runs_of = |probe: &ProbeSet| {
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
        if let Some(unions) = self.blocks.unions() {
            let members = unions.members();
            for (_, ids) in of_sizes().flat_map(runs_of) {
                let Range { start, end } = blocks_of(ids);
                for column in start / members..end.div_ceil(members) {
                    let blocks =
                        column * members..((column + 1) * members).min(self.required.len());
                    // Blocks of other sizes hold what an earlier group required: at worst too little.
                    let least = self.required[blocks].iter().min();
                    self.union_required[column] = least.copied().unwrap_or(u32::MAX);
                }
            }
        }
        self.required_for = sizes;
    }

    /// Whether no further block has to be tested with the group.
    pub(super) fn group_is_done(&self) -> bool {
        self.left.is_empty() || self.group.clone().all(|p| self.probes[p].done)
    }

    /// Tests the next blocks with the group, `most` at most; returns how many.
    pub(super) fn test(&mut self, most: usize) -> usize {
        let end = self.left.end.min(self.left.start + self.spec.tuning.size(TILE).min(most));
        let tile = self.left.start..end;
        self.left.start = end;
        let tests = tile.len();
        self.tested += (tests * ABREAST * self.group.len()) as u64;
        match self.blocks.unions() {
            Some(_) => self.test_behind_unions(tile),
            None => {
                self.blocks.test(self.spec.simd, &self.front, tile, &self.required, &mut self.hits);
            }
        }
        tests
    }

    /// Tests the columns of some blocks, and of these the blocks behind columns that pass.
    fn test_behind_unions(&mut self, tile: Range<usize>) {
        let Some(unions) = self.blocks.unions() else { return };
        let (simd, members) = (self.spec.simd, unions.members());
        let columns = tile.start / members..tile.end.div_ceil(members);
        self.passing.clear();
        unions.test(simd, &self.union_group, columns, &self.union_required, &mut self.passing);
        // Neighbours are tested together.
        for columns in self.passing.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (columns[0] as usize, columns[columns.len() - 1] as usize);
            let blocks = tile.start.max(first * members)..tile.end.min((last + 1) * members);
            self.blocks.test(simd, &self.front, blocks, &self.required, &mut self.hits);
        }
    }

    /// Forgets the survivors, which have been looked at.
    pub(super) fn clear(&mut self) {
        self.hits.clear();
        self.next_hit = 0;
    }

    /// Whether all survivors of the last tile have been looked at.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next_hit == self.hits.len()
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

    /// Whether the kernel's test decides the pairs of a block that holds positions of `decided`.
    fn is_decided(&self, block: u32, decided: &Range<u32>) -> bool {
        let first = block * ABREAST as u32;
        let last = first + ABREAST as u32 - 1;
        decided.start <= first
            && last < decided.end
            && self.blocks.size(first as usize) == self.blocks.size(last as usize)
    }

    /// Takes the survivors that come next as long as the test has decided them. Adds the rows of
    /// their build sets, by probe of the group, to `partners`; returns the number of pairs.
    pub(super) fn take_decided(&mut self, partners: &mut [u32; GROUP]) -> u64 {
        let decided = self.decided_by_test();
        let mut pairs = 0;
        while let Some(&hit) = self.hits.get(self.next_hit) {
            if !self.is_decided(hit.block, &decided) {
                break;
            }
            self.blocks.add_row_counts(hit, partners);
            pairs += u64::from(hit.lanes.count_ones());
            self.next_hit += 1;
        }
        self.passed += pairs;
        self.survivors += pairs;
        pairs
    }

    /// The pairs of rows of the group with `partners` rows, by probe.
    pub(super) fn row_pairs(&self, partners: [u32; GROUP]) -> u64 {
        let rows = |probe: &ProbeSet| u64::from(self.probe_sets.row_count_of(probe.set));
        let probes = self.probes[self.group.clone()].iter().zip(partners);
        probes.map(|(probe, partners)| rows(probe) * u64::from(partners)).sum()
    }

    /// The next pair that all words let pass and the buffer does not know: each is given once. `None`
    /// where there is none, or no work `left`.
    #[inline]
    pub(super) fn survivor(&mut self, matches: &MatchBuffer, left: &mut usize) -> Option<Survivor> {
        let words = self.blocks.scheme().words();
        let decided = self.decided_by_test();
        while let Some(&BlockHit { block, .. }) = self.hits.get(self.next_hit) {
            let is_decided =
                self.spec.need != MatchNeed::Scores && self.is_decided(block, &decided);
            let hit = &mut self.hits[self.next_hit];
            while hit.lanes != 0 {
                if *left == 0 {
                    return None;
                }
                *left -= 1;
                let lane = hit.lanes.trailing_zeros() as usize;
                hit.lanes &= !(1 << lane);
                let place = self.group.start + lane / ABREAST;
                let position = hit.block as usize * ABREAST + lane % ABREAST;
                if place >= self.group.end {
                    // The lanes of missing probes come last.
                    hit.lanes = 0;
                    continue;
                }
                let probe = &self.probes[place];
                if probe.done || !probe.partners.contains(&(position as u32)) {
                    continue;
                }
                self.passed += 1;
                if matches.knows(probe.set, self.blocks.set(position)) {
                    continue;
                }
                let required = probe.bounds.required(self.blocks.size(position));
                let build_rare = self.blocks.rare(position);
                let owned = if is_decided {
                    required
                } else {
                    let signature = &self.signatures[place * words..][..words];
                    let common = self.blocks.common(signature, position);
                    let hidden =
                        (probe.rare - probe.hashed).min(build_rare as u32 - common.build_hashed);
                    if common.owned + common.hashed + hidden < required {
                        continue;
                    }
                    common.owned
                };
                self.survivors += 1;
                let (build, probe_rare) = (self.blocks.set(position), probe.rare as usize);
                let probe = probe.set;
                return Some(Survivor {
                    probe,
                    place,
                    build,
                    required,
                    owned,
                    probe_rare,
                    build_rare,
                });
            }
            self.next_hit += 1;
        }
        None
    }

    /// Whether no further match of the probe at a place is needed.
    pub(super) fn is_done(&self, place: usize) -> bool {
        self.probes[place].done
    }

    /// No further match of the probe at a place is needed.
    pub(super) fn done_with(&mut self, place: usize) {
        self.probes[place].done = true;
    }

    /// No further match of a probe set of the unit is needed.
    pub(super) fn retire(&mut self, probe: SetId) {
        for place in self.group.clone() {
            self.probes[place].done |= self.probes[place].set == probe;
        }
    }

    /// Adds the work done so far.
    pub(super) fn add_to(&self, funnel: &mut Funnel) {
        funnel.postings += self.tested;
        funnel.prefix_pairs += self.passed;
        funnel.candidates += self.survivors;
    }
}
