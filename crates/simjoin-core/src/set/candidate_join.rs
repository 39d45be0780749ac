//! Joins made of two halves: a filter that proposes candidates, and the verifier of the CPU.

use std::sync::Arc;
use std::time::Instant;

use crate::engine::{
    Cursor, Funnel, MatchBuffer, Pairing, PrepareContext, PreparedJoin, UnitCursor, Worker,
    WorkerProgress,
};
use crate::error::Result;
use crate::memory::Memory;
use crate::set::candidate_source::{CandidateFilter, CandidateSource, SourceProgress};
use crate::set::candidates::CandidateChunk;
use crate::set::collection::SetCollection;
use crate::set::filter::{ProbeSignature, SignatureScheme, Signatures};
use crate::set::itself::SelfMatches;
use crate::set::join_spec::{JoinSpec, SetUnit};
use crate::set::runs::SetId;
use crate::set::verify::CpuVerifier;

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
    pub fn signed(
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
    pub fn candidates(&self, capacity: usize, reservation: &dyn Memory) -> Result<Candidates> {
        reservation.try_grow(CandidateChunk::footprint(capacity))?;
        let source = Arc::clone(&self.filter).open(reservation)?;
        let signatures = self.signatures.clone();
        let signatures = signatures.map(|all| SignatureFilter::new(all, self.spec.pairing));
        Ok(Candidates { source, signatures, capacity })
    }

    pub fn build(&self) -> &Arc<SetCollection> {
        &self.build
    }

    pub fn spec(&self) -> &JoinSpec {
        &self.spec
    }
}

impl PreparedJoin for CandidateJoin {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let candidates = self.candidates(self.spec.candidate_chunk, reservation)?;
        Ok(cursor_of(candidates, Arc::clone(&self.build), self.spec))
    }
}

/// The candidates of a source, behind the bitmap filter where it pays.
pub struct Candidates {
    pub source: Box<dyn CandidateSource>,
    pub signatures: Option<SignatureFilter>,
    /// Candidates that are filtered at a time.
    pub capacity: usize,
}

impl Candidates {
    /// Fills an empty chunk with candidates of the unit that the source has begun.
    pub fn fill(&mut self, chunk: &mut CandidateChunk) {
        chunk.ends_unit = self.source.fill(chunk, self.capacity) == SourceProgress::Done;
        if let Some(signatures) = &mut self.signatures {
            signatures.filter(chunk);
        }
    }
}

/// The bitmap filter: drops candidates whose signatures rule them out.
#[derive(Debug)]
pub struct SignatureFilter {
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
struct FilterVerifyWorker {
    candidates: Candidates,
    verifier: CpuVerifier,
    /// The chunk while the verifier does not hold it.
    idle: Option<CandidateChunk>,
    spec: JoinSpec,
    /// The number of the unit, and its sets.
    unit: (u32, Arc<SetCollection>),
    /// The sets of the unit that match themselves, until they are given.
    itself: Option<SelfMatches>,
    self_matches: u64,
    verify_nanos: u64,
}

/// A cursor over candidates, which the CPU verifies.
pub(in crate::set) fn cursor_of(
    candidates: Candidates,
    build: Arc<SetCollection>,
    spec: JoinSpec,
) -> Box<dyn Cursor> {
    let worker = FilterVerifyWorker {
        candidates,
        verifier: CpuVerifier::new(build, spec),
        idle: Some(CandidateChunk::default()),
        spec,
        unit: (0, Arc::default()),
        itself: None,
        self_matches: 0,
        verify_nanos: 0,
    };
    Box::new(UnitCursor::new(worker, spec.tuning))
}

impl Worker for FilterVerifyWorker {
    type Items = SetCollection;

    fn admit(&mut self, unit: &SetUnit) -> Result<()> {
        self.candidates.source.admit(unit)
    }

    fn begin(&mut self, unit: SetUnit) -> Result<()> {
        self.unit = (unit.number, Arc::clone(&unit.items));
        self.itself = SelfMatches::of(&unit, &self.spec);
        self.candidates.source.start(unit);
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        if !SelfMatches::give_rest(&mut self.itself, matches, &mut self.self_matches) {
            return Ok(WorkerProgress::Full);
        }
        if let Some(mut chunk) = self.idle.take() {
            let (number, sets) = &self.unit;
            chunk.restart(*number, Arc::clone(sets));
            self.candidates.fill(&mut chunk);
            self.verifier.submit(chunk);
        }
        let started = Instant::now();
        let verified = self.verifier.verify(matches);
        self.verify_nanos += started.elapsed().as_nanos() as u64;
        let Some(chunk) = verified else {
            return Ok(if matches.is_full() { WorkerProgress::Full } else { WorkerProgress::More });
        };
        let ends_unit = chunk.ends_unit;
        self.idle = Some(chunk);
        Ok(if ends_unit { WorkerProgress::Done } else { WorkerProgress::More })
    }

    fn retire(&mut self, probe: SetId) {
        self.candidates.source.retire(probe);
    }

    fn funnel(&self) -> Funnel {
        let mut funnel = Funnel {
            verify_nanos: self.verify_nanos,
            matches: self.self_matches,
            ..Funnel::default()
        };
        self.candidates.source.add_to(&mut funnel);
        self.verifier.add_to(&mut funnel);
        funnel
    }
}
