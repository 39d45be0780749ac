//! Candidates in the form in which a device takes them.

use std::sync::Arc;

use hashbrown::HashMap;
use simjoin_core::set::candidates::{Candidate, CandidateChunk};
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::size_bounds::SizeBoundsCache;
use simjoin_core::set::runs::SetId;

use crate::engine::Match;
use crate::verified::abi::{Group, NarrowCandidate};
use crate::verified::devices::VerifyingDevices;
use crate::verified::{ChunkShape, Section, Staging};

/// Groups are cut here, so that no block of threads has much more to do than others.
const GROUP: u32 = 512;
/// Known tokens of probe sets in narrow candidates are numbered below this.
const NARROW_PROBE: u32 = 2047;

/// Candidates of one unit, on their way to a device and back.
#[derive(Debug)]
pub(crate) struct Pack {
    pub staging: Staging,
    pub contents: Contents,
}

/// Properties of the candidates in a pack.
#[derive(Debug)]
pub(crate) struct Contents {
    probe: Arc<SetCollection>,
    /// Whether candidates travel as they are.
    pub wide: bool,
    pub candidates: u32,
    /// A candidate has found no room.
    pub is_full: bool,
    /// Candidates for which an empty pack has no room: their sets are too large.
    pub beside: Vec<Match>,
    /// The known tokens of the largest probe set, and of the candidates' probe sets together.
    greatest_probe: u32,
    probe_tokens: u64,
    /// The last group.
    group: Option<Open>,
    /// The probe size of the last table of required overlaps, and where it begins.
    table: Option<(u32, u32)>,
    /// The last probe set that was gathered, and its number.
    gathered_probe: Option<(SetId, u32)>,
    /// The gathered build sets by number, and their numbers.
    gathered: Vec<SetId>,
    numbers: HashMap<SetId, u32, foldhash::fast::RandomState>,
}

/// A group that may still grow.
#[derive(Debug, Clone, Copy)]
struct Open {
    probe: SetId,
    len: u32,
}

/// Whether candidates with these collections must travel as they are, for sets are too large.
pub(crate) fn is_wide(probe: &SetCollection, build: &SetCollection) -> bool {
    build.runs().greatest_size() > NarrowCandidate::MAX_SIZE
        || probe.runs().greatest_size() > NARROW_PROBE
}

impl Pack {
    /// An empty pack for candidates of `probe`.
    pub(crate) fn new(staging: Staging, probe: Arc<SetCollection>, wide: bool) -> Self {
        let contents = Contents {
            probe,
            wide,
            candidates: 0,
            is_full: false,
            beside: vec![],
            greatest_probe: 0,
            probe_tokens: 0,
            group: None,
            table: None,
            gathered_probe: None,
            gathered: vec![],
            numbers: HashMap::default(),
        };
        Self { staging, contents }
    }

    /// Adds the candidates of a chunk, from a place on: a group, and a place there. Gives the place of the
    /// first candidate for which there is no room.
    pub(crate) fn push(
        &mut self,
        join: &VerifyingDevices,
        build: &SetCollection,
        bounds: &mut SizeBoundsCache,
        chunk: &CandidateChunk,
        (mut group, mut at): (usize, usize),
    ) -> Option<(usize, usize)> {
        while group < chunk.groups.len() {
            let (probe, candidates) = chunk.group(group);
            while at < candidates.len() {
                let done = match self.open_group(join, bounds, probe) {
                    Some(room) => {
                        let end = candidates.len().min(at + room as usize);
                        self.push_part(join, build, probe, &candidates[at..end])
                    }
                    None => 0,
                };
                at += done;
                if done > 0 {
                    continue;
                }
                let most = join.chunk_candidates(self.contents.wide);
                let Contents { candidates: packed, beside, .. } = &mut self.contents;
                if *packed > 0 || beside.len() >= most {
                    self.contents.is_full = true;
                    return Some((group, at));
                }
                beside.push(Match { probe, build: candidates[at].build, detail: 0 });
                at += 1;
            }
            (group, at) = (group + 1, 0);
        }
        None
    }

    /// Adds candidates of the last group; gives the number of those for which there is room.
    fn push_part(
        &mut self,
        join: &VerifyingDevices,
        build: &SetCollection,
        probe: SetId,
        candidates: &[Candidate],
    ) -> usize {
        let done = match (join.join.has_build(), self.contents.wide) {
            (true, false) => self.push_narrow(candidates),
            _ => self.push_each(join, build, candidates),
        };
        let Contents { candidates: packed, probe_tokens, probe: sets, group, .. } =
            &mut self.contents;
        *packed += done as u32;
        *probe_tokens += done as u64 * sets.tokens(probe).len() as u64;
        if let Some(open) = group {
            open.len += done as u32;
        }
        done
    }

    /// Makes `probe` the last group; gives the number of candidates that it may still take, `None`
    /// where the pack has no room for another group.
    fn open_group(
        &mut self,
        join: &VerifyingDevices,
        bounds: &mut SizeBoundsCache,
        probe: SetId,
    ) -> Option<u32> {
        if let Some(open) = self.contents.group
            && open.probe == probe
            && open.len < GROUP
        {
            return Some(GROUP - open.len);
        }
        // One more ends the last group.
        if self.staging.room::<Group>(Section::Groups) < 2 {
            return None;
        }
        let table = if self.contents.wide {
            0
        } else {
            self.table(bounds, self.contents.probe.size(probe))?
        };
        let set = match join.join.has_probe() {
            true => probe,
            false => self.gather_probe(join, probe)?,
        };
        let group = Group { set, probe, start: self.contents.candidates, table };
        if !self.staging.push(Section::Groups, group) {
            return None;
        }
        self.contents.greatest_probe =
            self.contents.greatest_probe.max(self.contents.probe.tokens(probe).len() as u32);
        self.contents.group = Some(Open { probe, len: 0 });
        Some(GROUP)
    }

    /// Where the required overlaps of a probe size begin, less the least partner's size.
    fn table(&mut self, bounds: &mut SizeBoundsCache, size: u32) -> Option<u32> {
        if let Some((of, table)) = self.contents.table
            && of == size
        {
            return Some(table);
        }
        let start = self.staging.len::<u32>(Section::Required) as u32;
        // A size without partners has no candidates.
        let bounds = bounds.get(size)?;
        if !self.staging.extend(Section::Required, bounds.table()) {
            return None;
        }
        let table = start.wrapping_sub(bounds.least);
        self.contents.table = Some((size, table));
        Some(table)
    }

    /// Copies a probe set into the pack; gives its number.
    fn gather_probe(&mut self, join: &VerifyingDevices, probe: SetId) -> Option<u32> {
        match self.contents.gathered_probe {
            Some((last, number)) if last == probe => return Some(number),
            _ => {}
        }
        let number = self.contents.gathered_probe.map_or(0, |(_, last)| last + 1);
        let sets = Arc::clone(&self.contents.probe);
        self.gather(join, &sets, probe, number, Section::PROBE)?;
        self.contents.gathered_probe = Some((probe, number));
        Some(number)
    }

    /// Copies a set into the pack unless it does not fit.
    fn gather(
        &mut self,
        join: &VerifyingDevices,
        sets: &SetCollection,
        set: SetId,
        number: u32,
        [tokens, offsets, rows]: [Section; 3],
    ) -> Option<()> {
        let staging = &mut self.staging;
        let missing = usize::from(number == 0) + 1;
        if staging.room::<u32>(tokens) < sets.tokens(set).len()
            || staging.room::<u64>(offsets) < missing
            || join.join.counts_rows && staging.room::<u32>(rows) == 0
        {
            return None;
        }
        let mut pushed = number > 0 || staging.push(offsets, 0_u64);
        pushed &= staging.extend(tokens, sets.tokens(set));
        let end = staging.len::<u32>(tokens) as u64;
        pushed &= staging.push(offsets, end);
        pushed &= !join.join.counts_rows || staging.push(rows, sets.row_count_of(set));
        pushed.then_some(())
    }

    /// Adds narrow candidates of resident sets; gives their number.
    fn push_narrow(&mut self, candidates: &[Candidate]) -> usize {
        for (done, candidate) in candidates.iter().enumerate() {
            let narrow = NarrowCandidate { build: candidate.build, packed: pack(candidate) };
            if !self.staging.push(Section::Candidates, narrow) {
                return done;
            }
        }
        candidates.len()
    }

    /// Adds candidates of any kind; gives their number.
    fn push_each(
        &mut self,
        join: &VerifyingDevices,
        build: &SetCollection,
        candidates: &[Candidate],
    ) -> usize {
        for (done, candidate) in candidates.iter().enumerate() {
            let room = match self.contents.wide {
                true => self.staging.room::<Candidate>(Section::Candidates),
                false => self.staging.room::<NarrowCandidate>(Section::Candidates),
            };
            if room == 0 {
                return done;
            }
            let number = match join.join.has_build() {
                true => candidate.build,
                false => match self.gather_build(join, build, candidate.build) {
                    Some(number) => number,
                    None => return done,
                },
            };
            let pushed = match self.contents.wide {
                true => {
                    let wide = Candidate { build: number, ..*candidate };
                    self.staging.push(Section::Candidates, wide)
                }
                false => {
                    let narrow = NarrowCandidate { build: number, packed: pack(candidate) };
                    self.staging.push(Section::Candidates, narrow)
                }
            };
            if !pushed {
                return done;
            }
        }
        candidates.len()
    }

    fn gather_build(
        &mut self,
        join: &VerifyingDevices,
        build: &SetCollection,
        set: SetId,
    ) -> Option<u32> {
        if let Some(&number) = self.contents.numbers.get(&set) {
            return Some(number);
        }
        let number = self.contents.gathered.len() as u32;
        self.gather(join, build, set, number, Section::BUILD)?;
        self.contents.gathered.push(set);
        self.contents.numbers.insert(set, number);
        Some(number)
    }

    /// The pack with its last group ended: it is ready to go.
    pub(crate) fn sealed(mut self) -> Self {
        let end = Group { start: self.contents.candidates, ..Group::default() };
        let pushed = self.staging.push(Section::Groups, end);
        debug_assert!(pushed, "room for the end is kept");
        self
    }

    /// The sizes by which the kernel is chosen.
    pub(crate) fn shape(&self) -> ChunkShape {
        let Contents { candidates, greatest_probe, probe_tokens, .. } = self.contents;
        ChunkShape {
            groups: self.staging.len::<Group>(Section::Groups).saturating_sub(1) as u32,
            candidates,
            greatest_probe,
            average_probe: (probe_tokens / u64::from(candidates.max(1))) as u32,
            universe: self.contents.probe.universe(),
        }
    }

    /// The pairs of all candidates of a sealed pack.
    pub(crate) fn pairs(&self) -> Vec<Match> {
        let Self { staging, contents } = self;
        let mut pairs = contents.beside.clone();
        pairs.reserve_exact(contents.candidates as usize);
        for ends in staging.slice::<Group>(Section::Groups).windows(2) {
            let (probe, places) = (ends[0].probe, ends[0].start as usize..ends[1].start as usize);
            let pair = |build| Match { probe, build, detail: 0 };
            if contents.wide {
                let candidates = &staging.slice::<Candidate>(Section::Candidates)[places];
                pairs.extend(candidates.iter().map(|candidate| pair(candidate.build)));
            } else {
                let candidates = &staging.slice::<NarrowCandidate>(Section::Candidates)[places];
                pairs.extend(candidates.iter().map(|candidate| pair(candidate.build)));
            }
        }
        contents.restore(&mut pairs[contents.beside.len()..]);
        pairs
    }

    /// Moves the pack out of memory that a lost device has pinned.
    pub(crate) fn leave_lost_memory(&mut self, join: &VerifyingDevices) {
        if self.staging.is_lost()
            && let Ok(mut staging) = Staging::on_heap(&join.capacities(self.contents.wide))
            && staging.copy_from(&self.staging)
        {
            self.staging = staging;
        }
    }
}

impl Contents {
    /// Gives the build sets of matches their own numbers.
    pub(crate) fn restore(&self, matches: &mut [Match]) {
        if self.gathered.is_empty() {
            return;
        }
        for found in matches {
            if let Some(&build) = self.gathered.get(found.build as usize) {
                found.build = build;
            }
        }
    }
}

#[inline]
fn pack(candidate: &Candidate) -> u32 {
    debug_assert!(candidate.overlap < 1 << 10 && candidate.probe_at < 1 << 11);
    candidate.overlap | candidate.probe_at << 10 | candidate.build_at << 21
}
