//! GroupJoin's candidates: sets with identical prefixes are filtered once.
//!
//! Bouros, Ge, Mamoulis: "Spatio-textual similarity joins", PVLDB 2012; compared with others by
//! Mann, Augsten, Bouros: "An empirical evaluation of set similarity join techniques", PVLDB 2016.
//! Length, prefix and positional filter see no more of a set than its size and prefix, so that
//! their decision on one set holds for its whole group. The build side is grouped by the prefix
//! that is indexed, the probe sets by the prefix that is looked up (in a self-join the longer one);
//! a pair of groups that passes is expanded to pairs of sets in front of verification.

use std::ops::Range;
use std::sync::Arc;

use super::index::{GroupId, GroupIndex};
use crate::engine::{Funnel, Pairing, PrepareContext};
use crate::error::Result;
use crate::memory::Memory;
use crate::set::JoinSpec;
use crate::set::SetUnit;
use crate::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::set::{Candidate, CandidateChunk, CandidateFilter, CandidateSource, SourceProgress};
use crate::set::{SetCollection, SetId};
use crate::tuning::Size;

/// Postings and touched groups looked at in one time slice: some milliseconds.
const STEPS_PER_SLICE: Size = Size { usual: 1 << 20, small: 29 };
/// The cost of looking up a posting list, in postings.
const LOOKUP_STEPS: usize = 16;
/// Probe groups begun in one time slice.
const GROUPS_PER_SLICE: Size = Size { usual: 1 << 15, small: 7 };
/// Larger probe groups are filtered in parts, so that finding their end takes no time slice.
const MAX_PROBE_GROUP: Size<u32> = Size { usual: 1 << 12, small: 40 };

/// The build side in groups, indexed by the tokens of their prefixes.
#[derive(Debug)]
pub(super) struct GroupFilter {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    index: GroupIndex,
}

impl GroupFilter {
    pub(super) fn try_new(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let index = GroupIndex::try_new(&build, |size| spec.indexed_prefix(size), context)?;
        Ok(Self { build, spec, index })
    }

    /// A source of candidates; its memory is added to `reservation`.
    pub(super) fn source(this: &Arc<Self>, reservation: &dyn Memory) -> Result<GroupSource> {
        let groups = this.index.len();
        // A counter for each group, and the list of those in use, which holds none twice.
        reservation.try_grow(
            groups * 2 * size_of::<u32>() + SizeBoundsCache::footprint(this.build.runs()),
        )?;
        Ok(GroupSource {
            filter: Arc::clone(this),
            bounds: SizeBoundsCache::new(&this.spec, this.build.runs()),
            overlaps: vec![0; groups],
            touched: Vec::with_capacity(groups),
            probe: SetUnit::default(),
            run: None,
            current: None,
            before: 0,
            state: State::Next,
            retired: None,
            postings: 0,
            prefix_pairs: 0,
            candidates: 0,
        })
    }
}

impl CandidateFilter for GroupFilter {
    fn open(self: Arc<Self>, reservation: &dyn Memory) -> Result<Box<dyn CandidateSource>> {
        Ok(Box::new(Self::source(&self, reservation)?))
    }
}

/// The partners and bounds that the probe sets of one key and size share.
#[derive(Debug)]
struct ProbeRun {
    /// Up to here the ids have this key and size.
    end: SetId,
    size: u32,
    /// The groups of the same key and admissible size; `None` when there are none.
    partners: Option<(Range<GroupId>, Arc<SizeBounds>)>,
}

/// The probe sets that are filtered together.
#[derive(Debug)]
struct ProbeGroup {
    sets: Range<SetId>,
    size: u32,
    /// Tokens outside the dictionary: the first of the prefix.
    unknown: u32,
    /// The number of known tokens of the prefix.
    known: usize,
    /// The groups that may hold partners by key, size and, in a self-join, order.
    partners: Range<GroupId>,
    bounds: Arc<SizeBounds>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The next probe group starts at `probe.range.start`.
    Next,
    /// Reading the posting list of the known prefix token `token`, from entry `from` of its
    /// stretch on.
    Scan { token: usize, from: usize },
    /// Dropping the groups that were pruned from the touched ones: `kept` of the first `from`
    /// are left.
    Settle { from: usize, kept: usize },
    /// Giving out the candidates of the probe set `set`: from set `next` of the touched group at
    /// `place` on.
    Expand { set: SetId, place: usize, next: SetId },
}

/// Merges the posting lists of each probe group's prefix into overlap counters of groups.
#[derive(Debug)]
pub(super) struct GroupSource {
    filter: Arc<GroupFilter>,
    bounds: SizeBoundsCache,
    /// For each group, the common prefix tokens with the current probe group; 0 when it holds no
    /// candidates (any more).
    overlaps: Vec<u32>,
    /// The groups whose counter may not be 0.
    touched: Vec<GroupId>,
    probe: SetUnit,
    run: Option<ProbeRun>,
    current: Option<ProbeGroup>,
    /// In a self-join, the first group that holds no set in front of the last probe set.
    before: GroupId,
    state: State,
    retired: Option<SetId>,
    postings: u64,
    prefix_pairs: u64,
    candidates: u64,
}

impl CandidateSource for GroupSource {
    fn start(&mut self, probe: SetUnit) {
        self.forget_touched();
        self.probe = probe;
        self.run = None;
        self.current = None;
        self.before = 0;
        self.state = State::Next;
        self.retired = None;
    }

    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress {
        let tuning = self.filter.spec.tuning;
        let mut steps_left = tuning.size(STEPS_PER_SLICE);
        let mut groups_left = tuning.size(GROUPS_PER_SLICE);
        loop {
            let state = match self.state {
                State::Next => {
                    if self.probe.range.is_empty() {
                        return SourceProgress::Done;
                    }
                    if groups_left == 0 {
                        return SourceProgress::More;
                    }
                    groups_left -= 1;
                    self.next_group()
                }
                State::Scan { token, from } => self.scan(token, from, &mut steps_left),
                State::Settle { from, kept } => self.settle(from, kept, &mut steps_left),
                State::Expand { set, place, next } => {
                    self.expand(set, place, next, chunk, capacity, &mut steps_left)
                }
            };
            self.state = state;
            // A step other than the first ends early for want of room or time alone.
            if steps_left == 0 || chunk.candidates.len() >= capacity {
                return SourceProgress::More;
            }
        }
    }

    fn retire(&mut self, probe: SetId) {
        self.retired = Some(probe);
    }

    fn add_to(&self, funnel: &mut Funnel) {
        funnel.postings += self.postings;
        funnel.prefix_pairs += self.prefix_pairs;
        funnel.candidates += self.candidates;
    }
}

impl GroupSource {
    /// Begins with the group of `probe.range.start`.
    fn next_group(&mut self) -> State {
        let (start, end) = (self.probe.range.start, self.probe.range.end);
        if self.run.as_ref().is_none_or(|run| start >= run.end) {
            self.run = self.next_run(start);
        }
        let Some(run) = &self.run else {
            self.probe.range.start = end;
            return State::Next;
        };
        let end = run.end.min(end);
        let Some((partners, bounds)) = &run.partners else {
            // Nor has any other set of the run partners.
            self.probe.range.start = end;
            return State::Next;
        };
        let sets = &self.probe.items;
        let unknown = sets.unknown(start);
        let known = bounds.prefix.saturating_sub(unknown) as usize;
        let known = known.min(sets.tokens(start).len());
        let prefix = &sets.tokens(start)[..known];
        let same =
            |&set: &SetId| sets.unknown(set) == unknown && sets.tokens(set)[..known] == *prefix;
        let end = end.min(start.saturating_add(self.filter.spec.tuning.size(MAX_PROBE_GROUP)));
        let end = start + 1 + (start + 1..end).take_while(same).count() as SetId;
        self.probe.range.start = end;
        let mut partners = partners.clone();
        if self.filter.spec.pairing == Pairing::Unordered {
            // The partners of a set stand before it.
            self.before = self.filter.index.first_at(end - 1, self.before);
            partners.end = partners.end.min(self.before);
        }
        let (size, bounds) = (run.size, Arc::clone(bounds));
        if partners.is_empty() {
            return State::Next;
        }
        self.current =
            Some(ProbeGroup { sets: start..end, size, unknown, known, partners, bounds });
        State::Scan { token: 0, from: 0 }
    }

    fn next_run(&mut self, set: SetId) -> Option<ProbeRun> {
        let (run, ids) = self.probe.items.runs().of_set(set)?;
        let partners = self.bounds.get(run.size).map(|bounds| {
            let sets = self.filter.build.runs().sets(run.key, bounds.least, bounds.greatest);
            (self.filter.index.starting_in(&sets), bounds)
        });
        let partners = partners.filter(|(groups, _)| !groups.is_empty());
        Some(ProbeRun { end: ids.end, size: run.size, partners })
    }

    /// Counts common prefix tokens until the slice is used up (a `Scan`) or all are counted.
    fn scan(&mut self, token: usize, mut from: usize, left: &mut usize) -> State {
        let Some(group) = &self.current else { return State::Next };
        let index = &self.filter.index;
        let tokens = &self.probe.items.tokens(group.sets.start)[..group.known];
        for (place, &rank) in tokens.iter().enumerate().skip(token) {
            if *left == 0 {
                return State::Scan { token: place, from };
            }
            *left = left.saturating_sub(LOOKUP_STEPS);
            let stretch = index.stretch(rank, &group.partners);
            let start = stretch.start + from;
            let end = stretch.end.min(start + *left);
            let postings = index.postings(start..end);
            self.postings += postings.len() as u64;
            *left -= postings.len();
            // What either side has behind this token bounds the overlap that can follow.
            let probe_rest = group.size - (group.unknown + place as u32) - 1;
            for posting in postings {
                let size = index.size(posting.group);
                let overlap = &mut self.overlaps[posting.group as usize];
                let rest = probe_rest.min(size - posting.position - 1);
                if *overlap + 1 + rest >= group.bounds.required(size) {
                    if *overlap == 0 {
                        self.touched.push(posting.group);
                    }
                    *overlap += 1;
                } else {
                    // Later tokens of the pair only lower the bound: it stays pruned.
                    *overlap = 0;
                }
            }
            if end < stretch.end {
                return State::Scan { token: place, from: from + postings.len() };
            }
            from = 0;
        }
        State::Settle { from: 0, kept: 0 }
    }

    /// Drops pruned groups, so that each set of the probe group meets only groups that are left.
    fn settle(&mut self, from: usize, mut kept: usize, left: &mut usize) -> State {
        let Some(group) = &self.current else { return State::Next };
        let end = self.touched.len().min(from.saturating_add(*left));
        *left -= end - from;
        for place in from..end {
            let touched = self.touched[place];
            let (_, sets) = self.filter.index.group(touched);
            self.prefix_pairs += pairs(self.filter.spec.pairing, &group.sets, &sets);
            if self.overlaps[touched as usize] > 0 {
                self.touched[kept] = touched;
                kept += 1;
            }
        }
        if end < self.touched.len() {
            return State::Settle { from: end, kept };
        }
        self.touched.truncate(kept);
        State::Expand { set: group.sets.start, place: 0, next: 0 }
    }

    /// Turns pairs of groups into candidates until the chunk is full or the slice used up (an
    /// `Expand`) or all are given out.
    fn expand(
        &mut self,
        mut set: SetId,
        mut place: usize,
        mut next: SetId,
        chunk: &mut CandidateChunk,
        capacity: usize,
        left: &mut usize,
    ) -> State {
        let Some(group) = &self.current else { return State::Next };
        let index = &self.filter.index;
        let unordered = self.filter.spec.pairing == Pairing::Unordered;
        let last_probe = self.probe.items.tokens(group.sets.start)[..group.known].last().copied();
        let given = chunk.candidates.len();
        while set < group.sets.end {
            if self.retired == Some(set) {
                (set, place, next) = (set + 1, 0, 0);
                continue;
            }
            while let Some(&touched) = self.touched.get(place) {
                if *left == 0 || chunk.candidates.len() >= capacity {
                    self.candidates += (chunk.candidates.len() - given) as u64;
                    return State::Expand { set, place, next };
                }
                *left -= 1;
                let (build, sets) = index.group(touched);
                let overlap = self.overlaps[touched as usize];
                // The side whose prefix ends first has met all that the other holds up to there;
                // the other one resumes behind as many tokens as were common (Mann et al.).
                let (probe_at, build_at) = if last_probe < Some(build.last) {
                    (group.known as u32, overlap)
                } else {
                    (overlap, build.prefix)
                };
                let required = group.bounds.required(build.size);
                let probe_left = group.size - group.unknown - probe_at;
                if overlap + probe_left.min(build.size - build_at) < required {
                    (place, next) = (place + 1, 0);
                    continue;
                }
                let end = if unordered { sets.end.min(set) } else { sets.end };
                let first = sets.start.max(next);
                let room = (capacity - chunk.candidates.len()).min(SetId::MAX as usize) as SetId;
                let stop = end.min(first.saturating_add(room));
                for build in first..stop {
                    chunk.push(set, Candidate { build, overlap, required, probe_at, build_at });
                }
                if stop < end {
                    next = stop;
                } else {
                    (place, next) = (place + 1, 0);
                }
            }
            (set, place, next) = (set + 1, 0, 0);
        }
        self.candidates += (chunk.candidates.len() - given) as u64;
        self.forget_touched();
        State::Next
    }

    fn forget_touched(&mut self) {
        for &group in &self.touched {
            self.overlaps[group as usize] = 0;
        }
        self.touched.clear();
    }
}

/// The number of pairs of sets that two groups stand for, each set's pair with itself left out.
fn pairs(pairing: Pairing, probe: &Range<SetId>, build: &Range<SetId>) -> u64 {
    match pairing {
        Pairing::Unordered if build.end > probe.start => {
            let partners = |set: SetId| u64::from(build.end.min(set).saturating_sub(build.start));
            probe.clone().map(partners).sum()
        }
        _ => probe.len() as u64 * build.len() as u64,
    }
}
