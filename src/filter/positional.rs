//! PPJoin's candidates: prefix, length and positional filter over posting lists with signatures.
//!
//! Xiao, Wang, Lin, Yu: "Efficient similarity joins for near duplicate detection", WWW 2008. Where
//! PPJoin counts the common prefix tokens of every pair that it meets, this source decides each
//! posting by itself ([`super::postings`]): no counter is kept, and a pair that passes is noted so
//! that it becomes a candidate once.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::postings::{
    Criterion, List, ProbePosition, SignaturePostings, SuffixSignature, add_token, scan,
};
use super::prefix::indexed_prefix;
use super::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::sets::{SetCollection, SetId};
use crate::strategy::{
    Candidate, CandidateChunk, CandidateSource, Funnel, JoinSpec, Pairing, PrepareContext,
    ProbeSets, SourceProgress,
};

/// Postings looked at in one time slice: a millisecond or two.
const POSTINGS_PER_SLICE: usize = if cfg!(test) { 29 } else { 1 << 22 };
/// Prefix tokens looked up in one time slice.
const LOOKUPS_PER_SLICE: usize = if cfg!(test) { 7 } else { 1 << 15 };
/// Postings scanned between two looks at the room in the chunk.
const STRIDE: usize = 1 << 10;
/// Shorter lists are scanned whole; in longer ones the stretch of admissible ids is looked up.
const SHORT: usize = 48;

/// The build side, indexed for [`PositionalSource`]s.
#[derive(Debug)]
pub struct PositionalIndex {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    postings: SignaturePostings,
}

impl PositionalIndex {
    /// `words` is the width of the signatures in words of 32 bits: 0, 1, 2 or 4.
    pub fn try_new(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        words: usize,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let prefix = |run: crate::sets::Run| indexed_prefix(&spec, run.size);
        let postings = SignaturePostings::try_new(&build, words, prefix, context)?;
        Ok(Self { build, spec, postings })
    }

    /// A source of candidates; its memory is added to `reservation`.
    pub fn source(this: &Arc<Self>, reservation: &MemoryReservation) -> Result<PositionalSource> {
        let sets = this.build.len() as usize;
        let sizes = (this.build.runs().least_size(), this.build.runs().greatest_size());
        let hits = STRIDE.max(SHORT);
        reservation
            .try_grow((sets + hits) * size_of::<u32>() + SizeBoundsCache::footprint(sizes))?;
        Ok(PositionalSource {
            index: Arc::clone(this),
            bounds: SizeBoundsCache::new(this.spec.bounds, this.spec.probe_role, sizes),
            met_by: vec![0; sets],
            probes: 0,
            hits: vec![0; hits],
            signatures: vec![],
            probe: ProbeSets { sets: Arc::default(), range: 0..0 },
            run: None,
            state: State::Next,
            retired: None,
            postings: 0,
            passed: 0,
            candidates: 0,
        })
    }
}

/// The probe sets of one key and size.
#[derive(Debug)]
struct ProbeRun {
    /// Up to here the ids have this key and size.
    end: SetId,
    /// The build sets of the same key and admissible size; `None` when there are none.
    partners: Option<Partners>,
}

#[derive(Debug, Clone)]
struct Partners {
    sets: Range<SetId>,
    bounds: Arc<SizeBounds>,
    criterion: Arc<Criterion>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The next probe set is `probe.range.start`.
    Next,
    /// Reading the posting list of the known prefix token `token` from posting `from` on.
    Scan { set: SetId, token: usize, from: usize },
    /// Giving out the set itself, in an unordered self-join.
    Itself { set: SetId },
}

/// Scans the posting lists of each probe set's prefix.
#[derive(Debug)]
pub struct PositionalSource {
    index: Arc<PositionalIndex>,
    bounds: SizeBoundsCache,
    /// For each build set, the number of the probe set that made it a candidate last.
    met_by: Vec<u32>,
    /// The number of the current probe set; numbers start at 1.
    probes: u32,
    hits: Vec<u32>,
    /// The signatures behind each known prefix token of the current probe set.
    signatures: Vec<SuffixSignature>,
    probe: ProbeSets,
    run: Option<ProbeRun>,
    state: State,
    retired: Option<SetId>,
    postings: u64,
    passed: u64,
    candidates: u64,
}

impl CandidateSource for PositionalSource {
    fn start(&mut self, probe: ProbeSets) -> Result<()> {
        self.probe = probe;
        self.run = None;
        self.state = State::Next;
        self.retired = None;
        Ok(())
    }

    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress {
        let index = Arc::clone(&self.index);
        let probe = Arc::clone(&self.probe.sets);
        let mut slice = Slice { postings: POSTINGS_PER_SLICE, lookups: LOOKUPS_PER_SLICE };
        loop {
            match self.state {
                State::Next => {
                    if self.probe.range.is_empty() {
                        return SourceProgress::Done;
                    }
                    if slice.lookups == 0 {
                        return SourceProgress::More;
                    }
                    slice.lookups -= 1;
                    self.state = self.begin(&index, &probe, self.probe.range.start);
                }
                State::Scan { set, .. } if self.retired == Some(set) => self.state = State::Next,
                State::Scan { set, token, from } => {
                    let Some(partners) = self.partners(set) else {
                        self.state = State::Next;
                        continue;
                    };
                    let place = (token, from);
                    let scan = self
                        .scan(&index, &probe, set, place, &partners, chunk, capacity, &mut slice);
                    match scan {
                        Some((token, from)) => {
                            self.state = State::Scan { set, token, from };
                            return SourceProgress::More;
                        }
                        None => self.state = State::Itself { set },
                    }
                }
                State::Itself { set } => {
                    if index.spec.pairing == Pairing::Unordered {
                        if chunk.candidates.len() >= capacity {
                            return SourceProgress::More;
                        }
                        self.push_itself(&probe, set, chunk);
                    }
                    self.state = State::Next;
                }
            }
        }
    }

    fn retire(&mut self, probe: SetId) {
        self.retired = Some(probe);
    }

    fn add_to(&self, funnel: &mut Funnel) {
        funnel.postings += self.postings;
        funnel.prefix_pairs += self.passed;
        funnel.candidates += self.candidates;
    }
}

/// What is left of a time slice.
struct Slice {
    postings: usize,
    lookups: usize,
}

impl PositionalSource {
    /// Takes up a probe set.
    fn begin(&mut self, index: &PositionalIndex, probe: &SetCollection, set: SetId) -> State {
        let Some(partners) = self.partners(set) else {
            // Nor has any other set of the run partners.
            let end = self.run.as_ref().map_or(set + 1, |run| run.end);
            self.probe.range.start = end.min(self.probe.range.end);
            return State::Next;
        };
        self.probe.range.start += 1;
        self.probes = match self.probes.checked_add(1) {
            Some(number) => number,
            None => {
                self.met_by.fill(0);
                1
            }
        };
        let tokens = probe.tokens(set);
        let prefix = known_prefix(probe, set, &partners.bounds);
        let words = index.postings.words();
        self.signatures.clear();
        self.signatures.resize(prefix, SuffixSignature::default());
        let mut signature = SuffixSignature::default();
        if words > 0 {
            tokens[prefix..].iter().for_each(|&t| add_token(&mut signature, words, t));
            for (place, &token) in tokens[..prefix].iter().enumerate().rev() {
                index.postings.prefetch(token);
                self.signatures[place] = signature;
                add_token(&mut signature, words, token);
            }
        }
        State::Scan { set, token: 0, from: 0 }
    }

    /// The build sets that the probe set may match by key and size; in a self-join, those before
    /// it.
    fn partners(&mut self, set: SetId) -> Option<Partners> {
        if self.run.as_ref().is_none_or(|run| set >= run.end) {
            let (run, ids) = self.probe.sets.runs().of_set(set)?;
            let partners = self.bounds.get(run.size).map(|bounds| Partners {
                sets: self.index.build.runs().sets(run.key, bounds.least, bounds.greatest),
                criterion: Arc::new(Criterion::new(&bounds)),
                bounds,
            });
            let partners = partners.filter(|p| !p.sets.is_empty());
            self.run = Some(ProbeRun { end: ids.end, partners });
        }
        let mut partners = self.run.as_ref()?.partners.clone()?;
        if self.index.spec.pairing == Pairing::Unordered {
            // The set itself comes last: see `push_itself`.
            partners.sets.end = partners.sets.end.min(set);
        }
        Some(partners)
    }

    /// Adds candidates from the given prefix token and posting on; where to go on when the chunk
    /// is full or the slice used up.
    #[allow(clippy::too_many_arguments)]
    fn scan(
        &mut self,
        index: &PositionalIndex,
        probe: &SetCollection,
        set: SetId,
        (token, from): (usize, usize),
        partners: &Partners,
        chunk: &mut CandidateChunk,
        capacity: usize,
        slice: &mut Slice,
    ) -> Option<(usize, usize)> {
        let tokens = probe.tokens(set);
        let unfiltered = matches!(*partners.criterion, Criterion::Any);
        let mut from = from;
        for place in token..self.signatures.len() {
            let list = index.postings.list(tokens[place]);
            let stretch = stretch(&list, &partners.sets);
            let mut at = stretch.start.max(from);
            from = 0;
            slice.lookups = slice.lookups.saturating_sub(1);
            let position = ProbePosition {
                partners: &partners.sets,
                behind: (tokens.len() - place - 1) as u32,
                signature: &self.signatures[place],
            };
            while at < stretch.end {
                let room = capacity.saturating_sub(chunk.candidates.len());
                let end = stretch.end.min(at + STRIDE.min(room).min(slice.postings));
                if end == at || slice.lookups == 0 {
                    return Some((place, at));
                }
                let words = index.postings.words();
                let simd = index.spec.simd;
                let criterion = &*partners.criterion;
                let found = scan(simd, words, list, at..end, criterion, position, &mut self.hits);
                slice.postings -= end - at;
                self.postings += (end - at) as u64;
                self.passed += found as u64;
                at = end;
                for &posting in &self.hits[..found] {
                    let build = list.sets()[posting as usize];
                    let met_by = &mut self.met_by[build as usize];
                    if *met_by == self.probes {
                        continue;
                    }
                    *met_by = self.probes;
                    let (probe_at, build_at) = match unfiltered {
                        true => (0, 0),
                        false => (place as u32, list.position(posting as usize)),
                    };
                    let required = partners.bounds.required(index.build.size(build));
                    let candidate = Candidate { build, overlap: 0, required, probe_at, build_at };
                    self.candidates += 1;
                    chunk.push(set, candidate);
                }
            }
        }
        None
    }

    /// A set matches itself when its size is admissible at all.
    fn push_itself(&mut self, probe: &SetCollection, set: SetId, chunk: &mut CandidateChunk) {
        let Some(bounds) = self.bounds.get(probe.size(set)) else {
            return;
        };
        let size = probe.size(set);
        if (bounds.least..=bounds.greatest).contains(&size) {
            self.candidates += 1;
            let required = bounds.required(size);
            let candidate =
                Candidate { build: set, overlap: size, required, probe_at: size, build_at: size };
            chunk.push(set, candidate);
        }
    }
}

/// The postings of a list whose sets may lie in `range`.
#[inline]
fn stretch(list: &List<'_>, range: &Range<SetId>) -> Range<usize> {
    if list.len() <= SHORT {
        return 0..list.len();
    }
    let sets = list.sets();
    let start = sets.partition_point(|&s| s < range.start);
    start..start + sets[start..].partition_point(|&s| s < range.end)
}

/// How many known tokens the probe prefix has. Unknown tokens are the rarest and come first.
fn known_prefix(probe: &SetCollection, set: SetId, bounds: &SizeBounds) -> usize {
    let known = bounds.prefix.saturating_sub(probe.unknown(set)) as usize;
    known.min(probe.tokens(set).len())
}
