//! PPJoin's candidates: prefix, length and positional filter over posting lists with signatures.
//!
//! Xiao, Wang, Lin, Yu: "Efficient similarity joins for near duplicate detection", WWW 2008. Where
//! PPJoin counts the common prefix tokens of every pair that it meets, this source decides each
//! posting by itself ([`crate::set::filter::postings`]): no counter is kept, and a pair that passes
//! is noted so that it becomes a candidate once.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Funnel, Pairing, PrepareContext};
use crate::error::Result;
use crate::memory::{Memory, Reservation, copies};
use crate::set::candidate_source::{CandidateFilter, CandidateSource, SourceProgress};
use crate::set::candidates::{Candidate, CandidateChunk};
use crate::set::collection::SetCollection;
use crate::set::filter::allpairs::known_prefix;
use crate::set::filter::postings::{
    Criterion, Hints, LISTS_AHEAD, Place, PostingHit, ProbePrefix, Scratch, SignaturePostings,
    SuffixSignature, sign_suffixes,
};
use crate::set::filter::size_bounds::{SizeBounds, SizeBoundsCache};
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::{Run, SetId};
use crate::simd::prefetch;
use crate::tuning::Size;

/// Postings looked at in one time slice: a millisecond or two.
const POSTINGS_PER_SLICE: Size = Size { usual: 1 << 22, small: 29 };
/// Lists looked up, and sets taken up, in one time slice.
const LISTS_PER_SLICE: Size = Size { usual: 1 << 15, small: 7 };
/// The number of sets by which the offsets of posting lists are asked for ahead, and their
/// postings.
const OFFSETS_AHEAD: SetId = 8;
const POSTINGS_AHEAD: SetId = 4;
/// The number of hits by which the mark of a build set is asked for ahead.
const HITS_AHEAD: usize = 8;
/// Hits gathered before they become candidates.
const HITS: Size = Size { usual: 1 << 10, small: 16 };

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
        let prefix = |run: Run| spec.indexed_prefix(run.size);
        let postings = SignaturePostings::try_new(&build, words, prefix, context)?;
        Ok(Self { build, spec, postings })
    }

    /// A source of candidates; its memory is added to `reservation`.
    pub fn source(this: &Arc<Self>, reservation: &dyn Memory) -> Result<PositionalSource> {
        const TOKEN_BYTES: usize = PositionalSource::TOKEN_BYTES;
        let sets = this.build.len() as usize;
        let hits = this.spec.tuning.size(HITS);
        let hints = this.postings.hint_count();
        reservation.try_grow(SizeBoundsCache::footprint(this.build.runs()))?;
        // Of two inputs, a probe batch may hold longer sets.
        let signatures = reservation.new_empty();
        signatures.try_grow(this.build.runs().greatest_size() as usize * TOKEN_BYTES)?;
        Ok(PositionalSource {
            index: Arc::clone(this),
            bounds: SizeBoundsCache::new(&this.spec, this.build.runs()),
            met_by: copies(reservation, sets, 0)?,
            probes: 0,
            hints: Hints(copies(reservation, hints, 0)?),
            hits: copies(reservation, hits, PostingHit::default())?,
            pending: 0..0,
            pending_of: 0,
            reservation: signatures,
            prefix: 0,
            signatures: vec![],
            probe: SetUnit::default(),
            run: None,
            state: State::Next,
            retired: None,
            postings: 0,
            passed: 0,
            candidates: 0,
        })
    }
}

impl CandidateFilter for PositionalIndex {
    fn open(self: Arc<Self>, reservation: &dyn Memory) -> Result<Box<dyn CandidateSource>> {
        Ok(Box::new(Self::source(&self, reservation)?))
    }
}

/// The probe sets of one key and size.
#[derive(Debug)]
struct ProbeRun {
    /// Up to here the ids have this key and size.
    end: SetId,
    /// `None` when they have no partners.
    partners: Option<PartnerSets>,
}

#[derive(Debug)]
struct PartnerSets {
    /// The build sets of the same key and admissible size.
    sets: Range<SetId>,
    bounds: Arc<SizeBounds>,
    criterion: Criterion,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The next probe set is `probe.range.start`.
    Next,
    /// Scanning the lists of a probe set's prefix from a place on.
    Scan { set: SetId, from: Place },
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
    hints: Hints,
    hits: Vec<PostingHit>,
    /// Hits that are no candidates yet, and the probe set that they are of.
    pending: Range<usize>,
    pending_of: SetId,
    /// For what depends on the probe sets: `signatures`.
    reservation: Reservation,
    /// Known prefix tokens of the current probe set, and the signatures behind each: the first
    /// ones of `signatures`, and of no meaning where postings have none.
    prefix: usize,
    signatures: Vec<SuffixSignature>,
    probe: SetUnit,
    run: Option<ProbeRun>,
    state: State,
    retired: Option<SetId>,
    postings: u64,
    passed: u64,
    candidates: u64,
}

impl CandidateSource for PositionalSource {
    fn admit(&mut self, probe: &SetUnit) -> Result<()> {
        let longest = probe.items.runs().greatest_size() as usize;
        let bytes = longest * Self::TOKEN_BYTES;
        match bytes > self.reservation.size() {
            true => self.reservation.try_resize(bytes),
            false => Ok(()),
        }
    }

    fn start(&mut self, probe: SetUnit) {
        let longest = probe.items.runs().greatest_size() as usize;
        if longest > self.signatures.capacity() {
            self.signatures.clear();
            self.signatures.reserve_exact(longest);
        }
        self.probe = probe;
        self.run = None;
        self.state = State::Next;
        self.pending = 0..0;
        self.retired = None;
    }

    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress {
        let index = Arc::clone(&self.index);
        let sets = Arc::clone(&self.probe.items);
        let mut postings_left = index.spec.tuning.size(POSTINGS_PER_SLICE);
        let mut lists_left = index.spec.tuning.size(LISTS_PER_SLICE);
        loop {
            if !self.pending.is_empty() {
                if self.retired == Some(self.pending_of) {
                    self.pending = 0..0;
                } else if !self.propose(&index, chunk, capacity) {
                    return SourceProgress::More;
                }
            }
            match self.state {
                State::Next => {
                    let Range { start: set, end } = self.probe.range;
                    if set >= end {
                        return SourceProgress::Done;
                    }
                    if lists_left == 0 {
                        return SourceProgress::More;
                    }
                    lists_left -= 1;
                    if self.run.as_ref().is_none_or(|run| set >= run.end) {
                        self.run = self.run_of(&index, &sets, set);
                    }
                    match &self.run {
                        &Some(ProbeRun { partners: Some(ref partners), end: run_end }) => {
                            let prefix = known_prefix(&sets, set, &partners.bounds).len();
                            let end = run_end.min(end);
                            self.probe.range.start += 1;
                            self.ask_ahead(&index, &sets, set..end, prefix);
                            self.begin(&index, sets.tokens(set), prefix);
                            self.state = State::Scan { set, from: (0, 0) };
                        }
                        // Nor has any other set of the run partners.
                        Some(run) => self.probe.range.start = run.end.min(end),
                        None => self.probe.range.start += 1,
                    }
                }
                State::Scan { set, .. } if self.retired == Some(set) => self.state = State::Next,
                State::Scan { set, from } => {
                    let Some(ProbeRun { partners: Some(partners), .. }) = &self.run else {
                        self.state = State::Next;
                        continue;
                    };
                    if postings_left == 0 || lists_left == 0 {
                        return SourceProgress::More;
                    }
                    let admissible = &partners.sets;
                    let end = match index.spec.pairing {
                        Pairing::All => admissible.end,
                        Pairing::Unordered => admissible.end.min(set),
                    };
                    let prefix = ProbePrefix {
                        tokens: sets.tokens(set),
                        signatures: &self.signatures[..self.prefix],
                        partners: &(admissible.start..end),
                    };
                    let (simd, criterion) = (index.spec.simd, &partners.criterion);
                    let scratch = Scratch { hints: &mut self.hints, hits: &mut self.hits };
                    let scanned =
                        index.postings.scan(simd, criterion, prefix, from, postings_left, scratch);
                    postings_left = postings_left.saturating_sub(scanned.postings);
                    lists_left = lists_left.saturating_sub(scanned.lists);
                    self.postings += scanned.postings as u64;
                    self.passed += scanned.hits as u64;
                    (self.pending, self.pending_of) = (0..scanned.hits, set);
                    self.state = match scanned.rest {
                        Some(from) => State::Scan { set, from },
                        None => State::Next,
                    };
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

impl PositionalSource {
    /// The bytes for each token of the longest probe set.
    pub const TOKEN_BYTES: usize = size_of::<SuffixSignature>();

    /// The partners and bounds that probe sets of one key and size share.
    fn run_of(
        &mut self,
        index: &PositionalIndex,
        sets: &SetCollection,
        set: SetId,
    ) -> Option<ProbeRun> {
        let (run, ids) = sets.runs().of_set(set)?;
        let partners = self.bounds.get(run.size).map(|bounds| PartnerSets {
            sets: index.build.runs().sets(run.key, bounds.least, bounds.greatest),
            criterion: Criterion::new(&bounds),
            bounds,
        });
        let partners = partners.filter(|p| !p.sets.is_empty());
        Some(ProbeRun { end: ids.end, partners })
    }

    /// Takes up a probe set: signs what stands behind each token of its prefix.
    fn begin(&mut self, index: &PositionalIndex, tokens: &[u32], prefix: usize) {
        self.probes = match self.probes.checked_add(1) {
            Some(number) => number,
            None => {
                self.met_by.fill(0);
                1
            }
        };
        let words = index.postings.words();
        self.prefix = prefix;
        if self.signatures.len() < prefix {
            self.signatures.resize(prefix, SuffixSignature::default());
        }
        for &token in tokens[..prefix].iter().skip(LISTS_AHEAD) {
            index.postings.prefetch(token);
        }
        let signatures = &mut self.signatures;
        sign_suffixes(tokens, 0..prefix, words, |place, signature| signatures[place] = signature);
    }

    /// Asks for the first lists of sets that come soon, which lie anywhere in memory: for their
    /// offsets, and later, when these have come, for their postings. `rest` are the sets from the
    /// current one on that share its bounds.
    #[inline]
    fn ask_ahead(
        &self,
        index: &PositionalIndex,
        sets: &SetCollection,
        rest: Range<SetId>,
        prefix: usize,
    ) {
        let first = |ahead: SetId| {
            let set = rest.start.saturating_add(ahead);
            let tokens = if set < rest.end { sets.tokens(set) } else { &[] };
            &tokens[..tokens.len().min(prefix).min(LISTS_AHEAD)]
        };
        first(OFFSETS_AHEAD).iter().for_each(|&token| index.postings.prefetch(token));
        for &token in first(POSTINGS_AHEAD) {
            index.postings.prefetch_list(token, &self.hints);
        }
    }

    /// Turns pending hits into candidates, each build set once; whether the chunk had room.
    fn propose(
        &mut self,
        index: &PositionalIndex,
        chunk: &mut CandidateChunk,
        capacity: usize,
    ) -> bool {
        let Some(ProbeRun { partners: Some(partners), .. }) = &self.run else {
            return true;
        };
        let hits = &self.hits[..self.pending.end];
        while let Some(&hit) = hits.get(self.pending.start) {
            if chunk.candidates.len() >= capacity {
                return false;
            }
            self.pending.start += 1;
            if let Some(later) = hits.get(self.pending.start + HITS_AHEAD) {
                prefetch(self.met_by.as_ptr().wrapping_add(later.build as usize));
            }
            let met_by = &mut self.met_by[hit.build as usize];
            if std::mem::replace(met_by, self.probes) == self.probes {
                continue;
            }
            let size = hit.build_size().unwrap_or_else(|| index.build.size(hit.build));
            let required = partners.bounds.required(size);
            let PostingHit { build, build_at, probe_at, .. } = hit;
            self.candidates += 1;
            let candidate = Candidate { build, overlap: 0, required, probe_at, build_at };
            chunk.push(self.pending_of, candidate);
        }
        true
    }
}
