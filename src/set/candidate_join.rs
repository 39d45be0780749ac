//! Joins made of two halves: a filter that proposes candidates, and the verifier of the CPU.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::{
    Cursor, Funnel, MatchBuffer, Pairing, PreparedJoin, ProbeUnit, Progress, UnitQueue,
};
use crate::set::filter::{ProbeSignature, SignatureScheme, Signatures};
use crate::set::{
    CandidateChunk, CandidateFilter, CandidateSource, CpuVerifier, JoinSpec, PrepareContext,
    SelfMatches, SetCollection, SetId, SetUnit, SourceProgress,
};

/// A prepared join whose filter proposes candidates.
#[derive(Debug)]
pub struct CandidateJoin {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    filter: Arc<dyn CandidateFilter>,
    signatures: Option<Arc<Signatures>>,
}

impl CandidateJoin {
    /// A join without the bitmap filter.
    pub fn new(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        filter: Arc<dyn CandidateFilter>,
    ) -> Self {
        Self { build, spec, filter, signatures: None }
    }

    /// The join with the bitmap filter, where there is a scheme.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(crate) fn signed(
        self,
        scheme: Option<SignatureScheme>,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let sign = |scheme| Signatures::try_new(&self.build, scheme, context).map(Arc::new);
        let signatures = scheme.map(sign).transpose()?;
        Ok(Self { signatures, ..self })
    }

    /// The candidates of one cursor, `capacity` of them at a time; their memory is added to `reservation`.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(in crate::set) fn candidates(
        &self,
        capacity: usize,
        reservation: &MemoryReservation,
    ) -> Result<Candidates> {
        reservation.try_grow(CandidateChunk::footprint(capacity))?;
        let source = Arc::clone(&self.filter).open(reservation)?;
        let signatures = self.signatures.clone();
        let signatures = signatures.map(|all| SignatureFilter::new(all, self.spec.pairing));
        Ok(Candidates { source, signatures, capacity })
    }

    pub(in crate::set) fn build(&self) -> &Arc<SetCollection> {
        &self.build
    }

    pub(in crate::set) fn spec(&self) -> &JoinSpec {
        &self.spec
    }
}

impl PreparedJoin for CandidateJoin {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let candidates = self.candidates(self.spec.candidate_chunk, reservation)?;
        Ok(Box::new(FilterVerifyCursor::new(candidates, Arc::clone(&self.build), self.spec)))
    }
}

/// The candidates of a source, behind the bitmap filter where it pays.
pub(in crate::set) struct Candidates {
    pub source: Box<dyn CandidateSource>,
    pub signatures: Option<SignatureFilter>,
    /// Candidates that are filtered at a time.
    pub capacity: usize,
}

impl Candidates {
    /// Fills an empty chunk with candidates of the unit that the source has begun.
    pub(in crate::set) fn fill(&mut self, chunk: &mut CandidateChunk) {
        chunk.ends_unit = self.source.fill(chunk, self.capacity) == SourceProgress::Done;
        if let Some(signatures) = &mut self.signatures {
            signatures.filter(chunk);
        }
    }
}

/// The bitmap filter: drops candidates whose signatures rule them out.
#[derive(Debug)]
pub(in crate::set) struct SignatureFilter {
    signatures: Arc<Signatures>,
    pairing: Pairing,
    probe: ProbeSignature,
}

impl SignatureFilter {
    /// Candidates whose signatures are asked for ahead of their turn.
    const AHEAD: usize = 8;

    fn new(signatures: Arc<Signatures>, pairing: Pairing) -> Self {
        Self { signatures, pairing, probe: ProbeSignature::default() }
    }

    fn filter(&mut self, chunk: &mut CandidateChunk) {
        let Self { signatures, pairing, probe } = self;
        let mut signed = None;
        chunk.retain(|sets, set, candidates| {
            let candidate = &candidates[0];
            if candidate.overlap >= candidate.required {
                return true;
            }
            if signed != Some(set) {
                match pairing {
                    Pairing::All => signatures.sign_probe(sets, set, probe),
                    Pairing::Unordered => signatures.copy_to_probe(set, probe),
                }
                signed = Some(set);
            }
            if let Some(later) = candidates.get(Self::AHEAD) {
                signatures.prefetch(later.build);
            }
            signatures.bound(probe, candidate.build) >= candidate.required
        });
    }
}

/// Drives candidates and the verifier of the CPU over one chunk at a time.
pub(in crate::set) struct FilterVerifyCursor {
    candidates: Candidates,
    verifier: CpuVerifier,
    /// The chunk while the verifier does not hold it.
    idle: Option<CandidateChunk>,
    units: UnitQueue<SetUnit>,
    spec: JoinSpec,
    /// The sets of the unit being filtered that match themselves, until they are given.
    itself: Option<SelfMatches>,
    self_matches: u64,
    /// The unit being filtered, and its sets.
    filtered: Option<(u32, Arc<SetCollection>)>,
    filter_nanos: u64,
    verify_nanos: u64,
}

impl FilterVerifyCursor {
    pub(in crate::set) fn new(
        candidates: Candidates,
        build: Arc<SetCollection>,
        spec: JoinSpec,
    ) -> Self {
        Self {
            candidates,
            verifier: CpuVerifier::new(build, spec),
            idle: Some(CandidateChunk::default()),
            units: UnitQueue::default(),
            spec,
            itself: None,
            self_matches: 0,
            filtered: None,
            filter_nanos: 0,
            verify_nanos: 0,
        }
    }

    /// Takes up the next unit once the former one is filtered, and gives its sets that match
    /// themselves; `false` where the buffer is full.
    fn begin(&mut self, matches: &mut MatchBuffer) -> bool {
        if self.filtered.is_none()
            && let Some(unit) = self.units.pop()
        {
            self.filtered = Some((unit.number, Arc::clone(&unit.sets)));
            self.itself = SelfMatches::of(&unit, &self.spec);
            self.candidates.source.start(unit);
        }
        if let Some(itself) = &mut self.itself {
            if !itself.give(matches, &mut self.self_matches) {
                return false;
            }
            self.itself = None;
        }
        true
    }

    /// Fills a chunk with candidates of the unit being filtered; `false` where the source has done
    /// all units.
    fn fill(&mut self, chunk: &mut CandidateChunk) -> bool {
        let Some((unit, sets)) = &self.filtered else { return false };
        chunk.restart(*unit, Arc::clone(sets));
        self.candidates.fill(chunk);
        if chunk.ends_unit {
            self.filtered = None;
        }
        true
    }

    /// Takes a chunk back whose candidates are decided.
    fn take(&mut self, chunk: CandidateChunk, matches: &mut MatchBuffer) -> Progress {
        if chunk.ends_unit {
            matches.complete(chunk.unit);
        }
        self.idle = Some(chunk);
        let has_unit = self.filtered.is_some() || !self.units.is_empty();
        match has_unit || self.units.is_finished() {
            true => Progress::Yield,
            false => Progress::NeedsInput,
        }
    }
}

impl Cursor for FilterVerifyCursor {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        let unit = SetUnit::of(&unit)?;
        self.candidates.source.admit(&unit)?;
        self.units.push(unit);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        let mut start = Instant::now();
        if self.idle.is_some() && !self.begin(matches) {
            return Poll::Ready(Ok(Progress::Full));
        }
        if let Some(mut chunk) = self.idle.take() {
            if !self.fill(&mut chunk) {
                self.idle = Some(chunk);
                return Poll::Ready(Ok(self.units.progress()));
            }
            let filtered = Instant::now();
            self.filter_nanos += (filtered - start).as_nanos() as u64;
            start = filtered;
            self.verifier.submit(chunk);
        }
        let verified = self.verifier.verify(matches);
        self.verify_nanos += start.elapsed().as_nanos() as u64;
        Poll::Ready(Ok(match verified {
            Some(chunk) => self.take(chunk, matches),
            None if matches.is_full() => Progress::Full,
            None => Progress::Yield,
        }))
    }

    fn retire(&mut self, unit: u32, probe: SetId) {
        if self.filtered.as_ref().is_some_and(|(filtered, _)| *filtered == unit) {
            self.candidates.source.retire(probe);
        }
    }

    fn funnel(&self) -> Funnel {
        let mut funnel = Funnel {
            filter_nanos: self.filter_nanos,
            verify_nanos: self.verify_nanos,
            matches: self.self_matches,
            ..Funnel::default()
        };
        self.candidates.source.add_to(&mut funnel);
        self.verifier.add_to(&mut funnel);
        funnel
    }
}
