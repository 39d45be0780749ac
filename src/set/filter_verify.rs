//! Joins made of two halves: a filter that proposes candidates and a verifier that decides.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::engine::{
    Cursor, DevicePlace, Estimate, Funnel, Join, MatchBuffer, Pairing, Placement, PreparedJoin,
    ProbeUnit, Progress, Strategy, Terms, UnitQueue,
};
use crate::set::costs::{self, Parts, Verification};
use crate::set::filter::{
    PositionalIndex, PrefixIndex, ProbeSignature, SignatureScheme, Signatures,
};
use crate::set::verify::candidates::CandidateChunk;
use crate::set::{
    CandidateSource, CpuVerifier, DeviceJoin, DeviceVerifier, JoinSpec, PrepareContext,
    SelfMatches, SetCollection, SetId, SetJoin, SetUnit, SourceProgress, Verified, Verifier,
};

/// Candidates from an inverted index over prefixes, verified by merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterVerify {
    /// Prefix and length filter (Bayardo, Ma, Srikant: "Scaling up all pairs similarity search",
    /// WWW 2007).
    AllPairs,
    /// And the positional filter (Xiao, Wang, Lin, Yu: "Efficient similarity joins for near
    /// duplicate detection", WWW 2008).
    PPJoin,
}

impl Strategy for FilterVerify {
    fn name(&self) -> &'static str {
        match self {
            Self::AllPairs => "allpairs",
            Self::PPJoin => "ppjoin",
        }
    }

    fn runs_on(&self, _: Placement) -> bool {
        true
    }

    fn estimate(&self, join: &mut dyn Join, terms: &Terms<'_>) -> Result<Estimate> {
        let join: &mut SetJoin = join.of_mut()?;
        if join.is_long() {
            join.sample(terms.context)?;
        }
        let parts = |placement: Placement, verification: Verification| {
            terms.has(placement).then(|| self.cheapest(join, verification))
        };
        let cpu = parts(Placement::Cpu, Verification::Cpu);
        // Verification there pays nowhere that has been measured: only joins that name it get it.
        let gpu = terms.is_only.then(|| parts(Placement::Gpu, Verification::Device)).flatten();
        let cost = |parts: Option<Parts>| parts.map(|parts| parts.cost);
        Ok(Estimate::new(cost(cpu), cost(gpu), PlacedParts { cpu, gpu }))
    }

    fn prepare(
        &self,
        join: &dyn Join,
        estimate: &Estimate,
        device: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let join: &SetJoin = join.of()?;
        let device = DeviceJoin::of(device)?;
        let PlacedParts { cpu, gpu } = *estimate.parts()?;
        let parts = if device.is_some() { gpu } else { cpu };
        let Some(parts) = parts else { return self.prepare_join(join, device.as_ref(), context) };
        self.prepare_parts(join, parts, device.as_ref(), context)
    }
}

/// The cheapest parts in the placements that were compared.
#[derive(Debug, Clone, Copy)]
struct PlacedParts {
    cpu: Option<Parts>,
    gpu: Option<Parts>,
}

impl FilterVerify {
    /// The parts that take the least time where candidates are verified there.
    pub(crate) fn cheapest(self, join: &SetJoin, place: Verification) -> Parts {
        match self {
            Self::AllPairs => costs::all_pairs(join, place),
            Self::PPJoin => costs::positional(join, place),
        }
    }

    /// The join with its cheapest parts, in place of a strategy for which the devices lack the memory.
    pub(crate) fn prepare_join(
        self,
        join: &SetJoin,
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let place = if device.is_some() { Verification::Device } else { Verification::Cpu };
        self.prepare_parts(join, self.cheapest(join, place), device, context)
    }

    fn prepare_parts(
        self,
        join: &SetJoin,
        Parts { words, signed, .. }: Parts,
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let scheme = signed.then(|| join.scheme());
        self.prepare_with(Arc::clone(&join.build), join.spec, (words, scheme), device, context)
    }
}

impl FilterVerify {
    /// The join with posting signatures of `words` words of 32 bits (those of PPJoin: 0, 1, 2 or
    /// 4) and, where there is a scheme, the bitmap filter.
    pub(crate) fn prepare_with(
        self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        (words, scheme): (usize, Option<SignatureScheme>),
        device: Option<&Arc<DeviceJoin>>,
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
        };
        let signatures = match scheme {
            Some(scheme) => Some(Arc::new(Signatures::try_new(&build, scheme, context)?)),
            None => None,
        };
        let verifiers = Verifiers::new(build, spec, device);
        Ok(Arc::new(PreparedFilterVerify { index, signatures, verifiers }))
    }
}

#[derive(Debug)]
enum FilterIndex {
    Prefix(Arc<PrefixIndex>),
    Positional(Arc<PositionalIndex>),
}

#[derive(Debug)]
struct PreparedFilterVerify {
    index: FilterIndex,
    signatures: Option<Arc<Signatures>>,
    verifiers: Verifiers,
}

impl PreparedJoin for PreparedFilterVerify {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let pairing = self.verifiers.spec.pairing;
        let signatures = self.signatures.clone().map(|all| SignatureFilter::new(all, pairing));
        let behind = &self.verifiers;
        match &self.index {
            FilterIndex::Prefix(index) => {
                behind.open(|| PrefixIndex::source(index, reservation), signatures, reservation)
            }
            FilterIndex::Positional(index) => {
                behind.open(|| PositionalIndex::source(index, reservation), signatures, reservation)
            }
        }
    }
}

/// Makes the verifiers of a join, each behind a source of candidates.
#[derive(Debug)]
pub(crate) struct Verifiers {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    /// Where candidates are verified, if not on the CPU.
    device: Option<Arc<DeviceJoin>>,
}

impl Verifiers {
    pub(crate) fn new(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        device: Option<&Arc<DeviceJoin>>,
    ) -> Self {
        Self { build, spec, device: device.map(Arc::clone) }
    }

    /// A cursor over a source. The device verifier is made last: where it gets no memory, the CPU
    /// verifies instead.
    pub(crate) fn open<S: CandidateSource + 'static>(
        &self,
        source: impl FnOnce() -> Result<S>,
        signatures: Option<SignatureFilter>,
        reservation: &MemoryReservation,
    ) -> Result<Box<dyn Cursor>> {
        let (build, spec) = (&self.build, self.spec);
        let mut capacity = spec.candidate_chunk;
        if let Some(join) = &self.device {
            // Larger chunks would be cut.
            capacity = capacity.min(join.chunk_capacity());
        }
        reservation.try_grow(CandidateChunk::footprint(capacity))?;
        let source = source()?;
        let device = match &self.device {
            None => None,
            Some(join) => {
                let mut verifier = DeviceVerifier::new(join, build, spec, reservation);
                verifier.try_reserve()?.then_some(verifier)
            }
        };
        let verifier: Box<dyn Verifier> = match device {
            None => Box::new(CpuVerifier::new(Arc::clone(build), spec)),
            Some(verifier) => Box::new(verifier),
        };
        Ok(Box::new(FilterVerifyCursor::new(source, signatures, verifier, spec, capacity)))
    }
}

/// The bitmap filter: drops candidates whose signatures rule them out.
#[derive(Debug)]
pub(crate) struct SignatureFilter {
    signatures: Arc<Signatures>,
    pairing: Pairing,
    probe: ProbeSignature,
}

impl SignatureFilter {
    /// Candidates whose signatures are asked for ahead of their turn.
    const AHEAD: usize = 8;

    pub(crate) fn new(signatures: Arc<Signatures>, pairing: Pairing) -> Self {
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

/// Drives a source, the bitmap filter where it pays, and a verifier over one chunk at a time.
pub(crate) struct FilterVerifyCursor<S> {
    source: S,
    signatures: Option<SignatureFilter>,
    verifier: Box<dyn Verifier>,
    /// The chunk while the verifier does not hold it.
    idle: Option<CandidateChunk>,
    capacity: usize,
    units: UnitQueue<SetUnit>,
    spec: JoinSpec,
    /// The sets of the unit being filtered that match themselves, until they are given.
    itself: Option<SelfMatches>,
    self_matches: u64,
    /// The unit being filtered, and its sets.
    filtered: Option<(u32, Arc<SetCollection>)>,
    /// The cursor has asked for input since the last unit came.
    asked: bool,
    filter_nanos: u64,
    verify_nanos: u64,
    /// Since when the cursor waits for a device.
    waiting: Option<Instant>,
    wait_nanos: u64,
}

impl<S: CandidateSource> FilterVerifyCursor<S> {
    /// A cursor that filters at most `capacity` candidates at a time.
    pub(crate) fn new(
        source: S,
        signatures: Option<SignatureFilter>,
        verifier: Box<dyn Verifier>,
        spec: JoinSpec,
        capacity: usize,
    ) -> Self {
        Self {
            source,
            signatures,
            verifier,
            idle: Some(CandidateChunk::new(Arc::default())),
            capacity,
            units: UnitQueue::default(),
            spec,
            itself: None,
            self_matches: 0,
            filtered: None,
            asked: false,
            filter_nanos: 0,
            verify_nanos: 0,
            waiting: None,
            wait_nanos: 0,
        }
    }

    /// Takes up the next unit once the former one is filtered, and gives its sets that match
    /// themselves; `false` where the buffer is full.
    fn begin(&mut self, matches: &mut MatchBuffer) -> bool {
        if self.filtered.is_none()
            && let Some(unit) = self.units.pop()
        {
            self.verifier.begin(unit.number, unit.range.clone());
            self.filtered = Some((unit.number, Arc::clone(&unit.sets)));
            self.itself = SelfMatches::of(&unit, &self.spec);
            self.source.start(unit);
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
        chunk.ends_unit = self.source.fill(chunk, self.capacity) == SourceProgress::Done;
        if let Some(signatures) = &mut self.signatures {
            signatures.filter(chunk);
        }
        if chunk.ends_unit {
            self.filtered = None;
        }
        true
    }

    /// Whether the source has done all units that have been fed, and more may follow.
    fn wants_input(&self) -> bool {
        self.filtered.is_none() && self.units.is_empty() && !self.units.is_finished()
    }
}

impl<S: CandidateSource> Cursor for FilterVerifyCursor<S> {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        let unit = SetUnit::of(&unit)?;
        self.source.admit(&unit)?;
        self.units.push(unit);
        self.asked = false;
        // Since then the cursor has waited for the unit, not for the device.
        self.waiting = None;
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, cx: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        if let Some(since) = self.waiting.take() {
            self.wait_nanos += since.elapsed().as_nanos() as u64;
        }
        let mut start = Instant::now();
        if self.idle.is_some() && !self.begin(matches) {
            return Poll::Ready(Ok(Progress::Full));
        }
        if let Some(mut chunk) = self.idle.take() {
            if self.fill(&mut chunk) {
                let filtered = Instant::now();
                self.filter_nanos += (filtered - start).as_nanos() as u64;
                start = filtered;
                self.verifier.submit(chunk);
            } else {
                self.idle = Some(chunk);
                if self.wants_input() && !std::mem::replace(&mut self.asked, true) {
                    return Poll::Ready(Ok(Progress::NeedsInput));
                }
                self.verifier.flush();
            }
        }
        let verified = self.verifier.poll_verified(cx, matches);
        let now = Instant::now();
        self.verify_nanos += (now - start).as_nanos() as u64;
        let Poll::Ready(verified) = verified else {
            self.waiting = Some(now);
            return Poll::Pending;
        };
        Poll::Ready(Ok(match verified? {
            Verified::Chunk(chunk) => {
                self.idle = Some(chunk);
                self.asked = self.wants_input();
                if self.asked { Progress::NeedsInput } else { Progress::Yield }
            }
            Verified::More if matches.is_full() => Progress::Full,
            Verified::More => Progress::Yield,
            Verified::Idle => self.units.progress(),
        }))
    }

    fn retire(&mut self, unit: u32, probe: SetId) {
        if self.filtered.as_ref().is_some_and(|(filtered, _)| *filtered == unit) {
            self.source.retire(probe);
        }
    }

    fn funnel(&self) -> Funnel {
        let mut funnel = Funnel {
            filter_nanos: self.filter_nanos,
            verify_nanos: self.verify_nanos,
            ..Funnel::default()
        };
        funnel.device.wait_nanos = self.wait_nanos;
        funnel.matches = self.self_matches;
        self.source.add_to(&mut funnel);
        self.verifier.add_to(&mut funnel);
        funnel
    }
}
