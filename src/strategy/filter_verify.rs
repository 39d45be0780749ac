//! Joins made of two halves: a filter that proposes candidates and a verifier that decides.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;

use super::{
    Cost, Funnel, JoinSpec, JoinStrategy, MatchBuffer, MatchCursor, PrepareContext, PreparedJoin,
    ProbeSets, Progress, Statistics, costs,
};
use crate::filter::{
    GroupFilter, PositionalIndex, PrefixIndex, ProbeSignature, SignatureScheme, Signatures,
};
use crate::sets::{SetCollection, SetId};
use crate::verify::CpuVerifier;

/// A pair that passed the filters. Devices read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Candidate {
    pub build: SetId,
    /// Common tokens found so far: those in front of `probe_at` and `build_at`.
    pub overlap: u32,
    /// The least overlap with which the pair matches.
    pub required: u32,
    /// Where the merge resumes, in the known tokens of each set.
    pub probe_at: u32,
    pub build_at: u32,
}

/// The candidates of one probe set within a chunk: `start..` up to the next group's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CandidateGroup {
    pub probe: SetId,
    pub start: usize,
}

/// A bounded number of candidates, grouped by probe set. A probe set's candidates may span chunks.
#[derive(Debug)]
pub struct CandidateChunk {
    pub probe: Arc<SetCollection>,
    pub groups: Vec<CandidateGroup>,
    pub candidates: Vec<Candidate>,
}

impl CandidateChunk {
    fn new() -> Self {
        Self { probe: Arc::default(), groups: vec![], candidates: vec![] }
    }

    /// Adds a candidate of `probe`.
    #[inline]
    pub fn push(&mut self, probe: SetId, candidate: Candidate) {
        if self.groups.last().is_none_or(|g| g.probe != probe) {
            self.groups.push(CandidateGroup { probe, start: self.candidates.len() });
        }
        self.candidates.push(candidate);
    }

    /// Drops the candidates for which `keep` is false.
    fn retain(&mut self, mut keep: impl FnMut(&SetCollection, SetId, &[Candidate]) -> bool) {
        let mut kept = 0;
        for group in 0..self.groups.len() {
            let end = self.groups.get(group + 1).map_or(self.candidates.len(), |g| g.start);
            let CandidateGroup { probe, start } = self.groups[group];
            self.groups[group].start = kept;
            for place in start..end {
                if keep(&self.probe, probe, &self.candidates[place..end]) {
                    self.candidates[kept] = self.candidates[place];
                    kept += 1;
                }
            }
        }
        self.candidates.truncate(kept);
    }

    pub fn clear(&mut self) {
        self.groups.clear();
        self.candidates.clear();
    }

    fn footprint(capacity: usize) -> usize {
        capacity.next_power_of_two() * (size_of::<Candidate>() + size_of::<CandidateGroup>())
    }
}

/// How far a candidate source came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceProgress {
    /// The chunk is full, or the time slice used up.
    More,
    /// The probe sets have no further candidate.
    Done,
}

/// The filtering half.
pub trait CandidateSource: Send {
    fn start(&mut self, probe: ProbeSets) -> Result<()>;

    /// Adds at most `capacity - chunk.candidates.len()` candidates, working 5 ms at most.
    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress;

    /// No further candidate of this probe set is needed.
    fn retire(&mut self, probe: SetId);

    fn add_to(&self, funnel: &mut Funnel);
}

/// What a verifier has to say.
#[derive(Debug)]
pub enum Verified {
    /// The chunk is done; here it is, to be used again.
    Chunk(CandidateChunk),
    /// The match buffer is full, or the time slice used up.
    More,
    /// The chunk could not be verified (a device failed). None of its matches was given.
    Failed(CandidateChunk, DataFusionError),
}

/// The deciding half. It holds one chunk at a time.
pub trait Verifier: Send {
    /// Takes a chunk; the last one has been given back.
    fn submit(&mut self, chunk: CandidateChunk);

    /// Adds matches of the chunk to the buffer, working 5 ms at most.
    fn poll_verified(&mut self, cx: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Verified>;

    fn add_to(&self, funnel: &mut Funnel);
}

/// Candidates from an inverted index over prefixes, verified by merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterVerify {
    /// Prefix and length filter (Bayardo, Ma, Srikant: "Scaling up all pairs similarity search",
    /// WWW 2007).
    AllPairs,
    /// And the positional filter (Xiao, Wang, Lin, Yu: "Efficient similarity joins for near
    /// duplicate detection", WWW 2008).
    PPJoin,
    /// PPJoin's filters, once for all sets with the same prefix (Bouros, Ge, Mamoulis:
    /// "Spatio-textual similarity joins", PVLDB 2012).
    GroupJoin,
}

impl JoinStrategy for FilterVerify {
    fn name(&self) -> &'static str {
        match self {
            Self::AllPairs => "allpairs",
            Self::PPJoin => "ppjoin",
            Self::GroupJoin => "groupjoin",
        }
    }

    fn estimate(&self, statistics: &Statistics, spec: &JoinSpec) -> Cost {
        costs::estimate(*self, statistics, spec)
    }

    fn prepare(
        &self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        statistics: &Statistics,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let words = match self {
            Self::PPJoin => costs::postings(statistics, &spec).words,
            Self::AllPairs | Self::GroupJoin => 0,
        };
        let signed = costs::signatures_pay(*self, statistics, &spec);
        let scheme = signed.then(|| statistics.scheme(&build));
        self.prepare_with(build, spec, words, scheme, context)
    }
}

impl FilterVerify {
    /// The join with posting signatures of `words` words of 32 bits (those of PPJoin: 0, 1, 2 or
    /// 4) and, where there is a scheme, the bitmap filter.
    pub(super) fn prepare_with(
        self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        words: usize,
        scheme: Option<SignatureScheme>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let index = match self {
            Self::AllPairs => {
                let index = PrefixIndex::try_new(Arc::clone(&build), spec, context)?;
                FilterIndex::Prefix(Arc::new(index))
            }
            Self::PPJoin => {
                let index = PositionalIndex::try_new(Arc::clone(&build), spec, words, context)?;
                FilterIndex::Positional(Arc::new(index))
            }
            Self::GroupJoin => {
                let index = GroupFilter::try_new(Arc::clone(&build), spec, context)?;
                FilterIndex::Group(Arc::new(index))
            }
        };
        let signatures = match scheme {
            Some(scheme) => Some(Arc::new(Signatures::try_new(&build, scheme, context)?)),
            None => None,
        };
        Ok(Arc::new(PreparedFilterVerify { build, spec, index, signatures }))
    }
}

#[derive(Debug)]
enum FilterIndex {
    Prefix(Arc<PrefixIndex>),
    Positional(Arc<PositionalIndex>),
    Group(Arc<GroupFilter>),
}

#[derive(Debug)]
struct PreparedFilterVerify {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    index: FilterIndex,
    signatures: Option<Arc<Signatures>>,
}

impl PreparedJoin for PreparedFilterVerify {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn MatchCursor>> {
        let capacity = self.spec.candidate_chunk;
        reservation.try_grow(CandidateChunk::footprint(capacity))?;
        let verifier = CpuVerifier::new(Arc::clone(&self.build), self.spec);
        let signatures = self.signatures.clone().map(SignatureFilter::new);
        Ok(match &self.index {
            FilterIndex::Prefix(index) => {
                let source = PrefixIndex::source(index, reservation)?;
                Box::new(FilterVerifyCursor::new(source, signatures, verifier, capacity))
            }
            FilterIndex::Positional(index) => {
                let source = PositionalIndex::source(index, reservation)?;
                Box::new(FilterVerifyCursor::new(source, signatures, verifier, capacity))
            }
            FilterIndex::Group(index) => {
                let source = GroupFilter::source(index, reservation)?;
                Box::new(FilterVerifyCursor::new(source, signatures, verifier, capacity))
            }
        })
    }
}

/// The bitmap filter: drops candidates whose signatures rule them out.
#[derive(Debug)]
pub struct SignatureFilter {
    signatures: Arc<Signatures>,
    probe: ProbeSignature,
}

impl SignatureFilter {
    /// Candidates whose signatures are asked for ahead of their turn.
    const AHEAD: usize = 8;

    pub fn new(signatures: Arc<Signatures>) -> Self {
        Self { signatures, probe: ProbeSignature::default() }
    }

    fn filter(&mut self, chunk: &mut CandidateChunk) {
        let Self { signatures, probe } = self;
        let mut signed = None;
        chunk.retain(|sets, set, candidates| {
            let candidate = &candidates[0];
            if candidate.overlap >= candidate.required {
                return true;
            }
            if signed != Some(set) {
                signatures.sign_probe(sets, set, probe);
                signed = Some(set);
            }
            if let Some(later) = candidates.get(Self::AHEAD) {
                signatures.prefetch(later.build);
            }
            signatures.bound(probe, candidate.build) >= candidate.required
        });
    }
}

/// Drives a source, the bitmap filter where it pays, and a verifier over one chunk.
pub struct FilterVerifyCursor<S, V> {
    source: S,
    signatures: Option<SignatureFilter>,
    verifier: V,
    /// The chunk while the verifier does not hold it.
    idle: Option<CandidateChunk>,
    capacity: usize,
    source_done: bool,
    probe: Arc<SetCollection>,
    filter_nanos: u64,
    verify_nanos: u64,
}

impl<S, V> FilterVerifyCursor<S, V> {
    /// A cursor that verifies at most `capacity` candidates at a time.
    pub fn new(
        source: S,
        signatures: Option<SignatureFilter>,
        verifier: V,
        capacity: usize,
    ) -> Self {
        Self {
            source,
            signatures,
            verifier,
            idle: Some(CandidateChunk::new()),
            capacity,
            source_done: true,
            probe: Arc::default(),
            filter_nanos: 0,
            verify_nanos: 0,
        }
    }
}

impl<S: CandidateSource, V: Verifier> MatchCursor for FilterVerifyCursor<S, V> {
    fn start(&mut self, probe: ProbeSets) -> Result<()> {
        debug_assert!(self.idle.is_some(), "the former probe sets are not done");
        self.probe = Arc::clone(&probe.sets);
        self.source_done = false;
        self.source.start(probe)
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        matches: &mut MatchBuffer,
    ) -> Poll<Result<Progress>> {
        if let Some(mut chunk) = self.idle.take() {
            if self.source_done {
                self.idle = Some(chunk);
                return Poll::Ready(Ok(Progress::Done));
            }
            let start = Instant::now();
            chunk.clear();
            chunk.probe = Arc::clone(&self.probe);
            self.source_done = self.source.fill(&mut chunk, self.capacity) == SourceProgress::Done;
            if let Some(signatures) = &mut self.signatures {
                signatures.filter(&mut chunk);
            }
            self.filter_nanos += start.elapsed().as_nanos() as u64;
            self.verifier.submit(chunk);
        }
        let start = Instant::now();
        let verified = ready!(self.verifier.poll_verified(cx, matches));
        self.verify_nanos += start.elapsed().as_nanos() as u64;
        Poll::Ready(match verified {
            Verified::Chunk(chunk) => {
                self.idle = Some(chunk);
                Ok(if self.source_done { Progress::Done } else { Progress::Yield })
            }
            Verified::More if matches.is_full() => Ok(Progress::Full),
            Verified::More => Ok(Progress::Yield),
            Verified::Failed(_, error) => Err(error),
        })
    }

    fn retire(&mut self, probe: SetId) {
        self.source.retire(probe);
    }

    fn funnel(&self) -> Funnel {
        let mut funnel = Funnel {
            filter_nanos: self.filter_nanos,
            verify_nanos: self.verify_nanos,
            ..Funnel::default()
        };
        self.source.add_to(&mut funnel);
        self.verifier.add_to(&mut funnel);
        funnel
    }
}
