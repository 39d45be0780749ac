//! AllPairs' candidates, from the inverted index: length and prefix filter.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Funnel, Pairing, PrepareContext};
use crate::error::Result;
use crate::memory::{Memory, copies, room};
use crate::set::candidate_source::{CandidateFilter, CandidateSource, SourceProgress};
use crate::set::candidates::{Candidate, CandidateChunk};
use crate::set::collection::SetCollection;
use crate::set::filter::inverted_index::InvertedIndex;
use crate::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::{Run, SetId};
use crate::tuning::Size;

/// Postings looked at in one time slice: some milliseconds.
const POSTINGS_PER_SLICE: Size = Size { usual: 1 << 20, small: 29 };
/// The cost of looking up a posting list, in postings.
const LOOKUP_STEPS: usize = 16;
/// Probe sets handled in one time slice.
const SETS_PER_SLICE: Size = Size { usual: 1 << 16, small: 7 };
/// Build-side prefix lengths are tabulated for set sizes below this.
const MAX_PREFIX_TABLE: u32 = 1 << 16;

/// The build side, indexed by the tokens of each set's prefix.
#[derive(Debug)]
pub struct PrefixIndex {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    index: InvertedIndex,
    /// The indexed prefix of sets of each size.
    prefixes: Vec<u32>,
}

impl PrefixIndex {
    /// Indexes the prefixes of the sets of `build`.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub fn try_new(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let sizes = build.runs().greatest_size().saturating_add(1).min(MAX_PREFIX_TABLE);
        let mut prefixes = room(context.reservation, sizes as usize)?;
        prefixes.extend((0..sizes).map(|size| spec.indexed_prefix(size)));
        let prefix = |run: Run| spec.indexed_prefix(run.size);
        let index = InvertedIndex::try_new(&build, prefix, context)?;
        Ok(Self { build, spec, index, prefixes })
    }

    /// The indexed sets.
    pub fn build(&self) -> &Arc<SetCollection> {
        &self.build
    }

    /// The join that the index is for.
    pub fn spec(&self) -> &JoinSpec {
        &self.spec
    }

    fn prefix(&self, size: u32) -> u32 {
        match self.prefixes.get(size as usize) {
            Some(&prefix) => prefix,
            None => self.spec.indexed_prefix(size),
        }
    }

    /// A source of candidates; its memory is added to `reservation`.
    pub fn source(this: &Arc<Self>, reservation: &dyn Memory) -> Result<PrefixSource> {
        let sets = this.build.len() as usize;
        // The list of counters in use can double past its need.
        reservation.try_grow(
            sets * size_of::<u32>() * 2 + SizeBoundsCache::footprint(this.build.runs()),
        )?;
        Ok(PrefixSource {
            index: Arc::clone(this),
            bounds: SizeBoundsCache::new(&this.spec, this.build.runs()),
            overlaps: copies(reservation, sets, 0)?,
            touched: vec![],
            probe: SetUnit::default(),
            run: None,
            state: State::Next,
            retired: None,
            postings: 0,
            prefix_pairs: 0,
            candidates: 0,
        })
    }
}

impl CandidateFilter for PrefixIndex {
    fn open(self: Arc<Self>, reservation: &dyn Memory) -> Result<Box<dyn CandidateSource>> {
        Ok(Box::new(Self::source(&self, reservation)?))
    }
}

/// The probe sets of one key and size.
#[derive(Debug, Clone)]
struct ProbeRun {
    /// Up to here the ids have this key and size.
    end: SetId,
    /// The build sets of the same key and admissible size; `None` when there are none.
    partners: Option<(Range<SetId>, Arc<SizeBounds>)>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The next probe set is `probe.range.start`.
    Next,
    /// Reading the posting list of the known prefix token `token`, from entry `from` of its
    /// stretch on.
    Scan { set: SetId, token: usize, from: usize },
    /// Giving out the touched build sets from `from` on.
    Drain { set: SetId, from: usize },
}

/// Merges the posting lists of each probe set's prefix into overlap counters.
#[derive(Debug)]
pub struct PrefixSource {
    index: Arc<PrefixIndex>,
    bounds: SizeBoundsCache,
    /// For each build set, the common prefix tokens with the current probe set; 0 when it is no
    /// candidate (any more).
    overlaps: Vec<u32>,
    /// The build sets whose counter may not be 0.
    touched: Vec<SetId>,
    probe: SetUnit,
    run: Option<ProbeRun>,
    state: State,
    retired: Option<SetId>,
    postings: u64,
    prefix_pairs: u64,
    candidates: u64,
}

impl CandidateSource for PrefixSource {
    fn start(&mut self, probe: SetUnit) {
        for &set in &self.touched {
            self.overlaps[set as usize] = 0;
        }
        self.touched.clear();
        self.probe = probe;
        self.run = None;
        self.state = State::Next;
        self.retired = None;
    }

    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress {
        let tuning = self.index.spec.tuning;
        let mut postings_left = tuning.size(POSTINGS_PER_SLICE);
        let mut sets_left = tuning.size(SETS_PER_SLICE);
        loop {
            match self.state {
                State::Next => {
                    if self.probe.range.is_empty() {
                        return SourceProgress::Done;
                    }
                    if sets_left == 0 {
                        return SourceProgress::More;
                    }
                    sets_left -= 1;
                    let set = self.probe.range.start;
                    self.state = match self.partners(set) {
                        Some(_) => {
                            self.probe.range.start += 1;
                            State::Scan { set, token: 0, from: 0 }
                        }
                        None => {
                            // Nor has any other set of the run partners.
                            let end = self.run.as_ref().map_or(set + 1, |run| run.end);
                            self.probe.range.start = end.min(self.probe.range.end);
                            State::Next
                        }
                    };
                }
                State::Scan { set, token, from } => {
                    let scanned = self.scan(set, token, from, &mut postings_left);
                    self.state = scanned;
                    if let State::Scan { .. } = scanned {
                        return SourceProgress::More;
                    }
                }
                State::Drain { set, from } => {
                    if self.retired == Some(set) {
                        self.drop_touched(from);
                        self.state = State::Next;
                    } else if let Some(from) = self.drain(set, from, chunk, capacity) {
                        self.state = State::Drain { set, from };
                        return SourceProgress::More;
                    } else {
                        self.state = State::Next;
                    }
                }
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

impl PrefixSource {
    /// The build sets that the probe set may match by key and size.
    fn partners(&mut self, set: SetId) -> Option<(Range<SetId>, Arc<SizeBounds>)> {
        if self.run.as_ref().is_none_or(|run| set >= run.end) {
            let (run, ids) = self.probe.items.runs().of_set(set)?;
            // Sets of one run may store different numbers of tokens; unknown tokens count for their
            // size.
            let partners = self.bounds.get(run.size).map(|bounds| {
                let sets = self.index.build.runs().sets(run.key, bounds.least, bounds.greatest);
                (sets, bounds)
            });
            let partners = partners.filter(|(sets, _)| !sets.is_empty());
            self.run = Some(ProbeRun { end: ids.end, partners });
        }
        let (sets, bounds) = self.run.as_ref()?.partners.clone()?;
        Some(match self.index.spec.pairing {
            Pairing::All => (sets, bounds),
            Pairing::Unordered => (sets.start..sets.end.min(set), bounds),
        })
    }

    /// Counts common prefix tokens until the slice is used up (a `Scan`) or all are counted.
    fn scan(&mut self, set: SetId, token: usize, from: usize, left: &mut usize) -> State {
        let Some((partners, bounds)) = self.partners(set) else {
            return State::Next;
        };
        let probe = Arc::clone(&self.probe.items);
        let tokens = known_prefix(&probe, set, &bounds);
        let index = Arc::clone(&self.index);
        let mut from = from;
        for (place, &rank) in tokens.iter().enumerate().skip(token) {
            if partners.is_empty() {
                break;
            }
            if *left == 0 {
                return State::Scan { set, token: place, from };
            }
            *left = left.saturating_sub(LOOKUP_STEPS);
            let stretch = index.index.stretch(rank, &partners);
            let start = stretch.start + from;
            let end = stretch.end.min(start + *left);
            let sets = index.index.sets(start..end);
            self.postings += sets.len() as u64;
            *left -= sets.len();
            for &build in sets {
                let overlap = &mut self.overlaps[build as usize];
                if *overlap == 0 {
                    self.touched.push(build);
                }
                *overlap += 1;
            }
            if end < stretch.end {
                return State::Scan { set, token: place, from: from + sets.len() };
            }
            from = 0;
        }
        self.prefix_pairs += self.touched.len() as u64;
        State::Drain { set, from: 0 }
    }

    /// Turns touched sets into candidates; where to go on, when the chunk is full.
    fn drain(
        &mut self,
        set: SetId,
        from: usize,
        chunk: &mut CandidateChunk,
        capacity: usize,
    ) -> Option<usize> {
        let (_, bounds) = self.partners(set)?;
        let probe = Arc::clone(&self.probe.items);
        let prefix = known_prefix(&probe, set, &bounds);
        let last_probe = prefix.last().copied();
        let known = probe.tokens(set).len() as u32;
        for (place, &build) in self.touched.iter().enumerate().skip(from) {
            if chunk.candidates.len() >= capacity {
                return Some(place);
            }
            let overlap = std::mem::take(&mut self.overlaps[build as usize]);
            if overlap == 0 {
                continue;
            }
            let build_size = self.index.build.size(build);
            let build_tokens = self.index.build.tokens(build);
            let build_prefix = (self.index.prefix(build_size) as usize).min(build_tokens.len());
            // The side whose prefix ends first has met all that the other holds up to there; the
            // other one resumes behind as many tokens as were common (Mann, Augsten, Bouros: "An
            // empirical evaluation of set similarity join techniques", PVLDB 2016).
            let (probe_at, build_at) = if last_probe < build_tokens[..build_prefix].last().copied()
            {
                (prefix.len() as u32, overlap)
            } else {
                (overlap, build_prefix as u32)
            };
            let required = bounds.required(build_size);
            // Most are out of reach already: verification would begin with this test.
            if overlap + (known - probe_at).min(build_size - build_at) < required {
                continue;
            }
            self.candidates += 1;
            chunk.push(set, Candidate { build, overlap, required, probe_at, build_at });
        }
        self.touched.clear();
        None
    }

    fn drop_touched(&mut self, from: usize) {
        for &build in &self.touched[from..] {
            self.overlaps[build as usize] = 0;
        }
        self.touched.clear();
    }
}

/// The known tokens in the probe prefix. Unknown tokens are the rarest and come first.
pub(crate) fn known_prefix<'a>(
    probe: &'a SetCollection,
    set: SetId,
    bounds: &SizeBounds,
) -> &'a [u32] {
    let tokens = probe.tokens(set);
    let known = bounds.prefix.saturating_sub(probe.unknown(set));
    &tokens[..tokens.len().min(known as usize)]
}
