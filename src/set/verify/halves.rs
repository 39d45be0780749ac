//! The two halves of a join by filter and verification: a source of candidates and a verifier.

use std::ops::Range;
use std::task::{Context, Poll};

use datafusion::common::Result;

use crate::engine::{Funnel, MatchBuffer};
use crate::set::verify::candidates::CandidateChunk;
use crate::set::{SetId, SetUnit};

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
    /// Reserves the memory of a unit on top of that of the units admitted before.
    fn admit(&mut self, _unit: &SetUnit) -> Result<()> {
        Ok(())
    }

    /// Begins with a unit that was admitted. The former unit is done.
    fn start(&mut self, unit: SetUnit);

    /// Adds at most `capacity - chunk.candidates.len()` candidates, working 5 ms at most.
    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress;

    /// No further candidate of this probe set of the unit is needed.
    fn retire(&mut self, probe: SetId);

    /// Adds the work done so far.
    fn add_to(&self, funnel: &mut Funnel);
}

/// How far a verifier came.
#[derive(Debug)]
pub enum Verified {
    /// The submitted chunk is taken up, and may be used again for the next one.
    Chunk(CandidateChunk),
    /// The match buffer is full, or the time slice used up.
    More,
    /// Every submitted candidate is decided, and every unit that has ended is complete.
    Idle,
}

/// The deciding half. It may hold any number of chunks on their way.
pub trait Verifier: Send {
    /// Chunks of a unit follow, whose probe sets are those of `range`.
    fn begin(&mut self, _unit: u32, _range: Range<SetId>) {}

    /// Takes a chunk. The verifier has given the former chunk back.
    fn submit(&mut self, chunk: CandidateChunk);

    /// No chunk follows for now: candidates that wait for others to join them are decided.
    fn flush(&mut self) {}

    /// Adds matches and completed units to the buffer, working 5 ms at most. `Pending` means that
    /// a device works, and will wake the task.
    fn poll_verified(
        &mut self,
        cx: &mut Context<'_>,
        matches: &mut MatchBuffer,
    ) -> Poll<Result<Verified>>;

    /// Adds the work done so far.
    fn add_to(&self, funnel: &mut Funnel);
}
