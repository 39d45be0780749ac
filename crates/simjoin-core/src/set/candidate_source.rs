//! The sources of candidates: the filtering half of a join by filter and verification.

use std::fmt::Debug;
use std::sync::Arc;

use crate::engine::Funnel;
use crate::error::Result;
use crate::memory::Memory;
use crate::set::candidates::CandidateChunk;
use crate::set::join_spec::SetUnit;
use crate::set::runs::SetId;

/// The progress of a candidate source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceProgress {
    /// The chunk is full, or the time slice used up.
    More,
    /// The probe sets have no further candidate.
    Done,
}

/// Makes the sources of a join, one for each cursor.
pub trait CandidateFilter: Debug + Send + Sync {
    /// A source of candidates; its memory is added to `reservation`.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    fn open(self: Arc<Self>, reservation: &dyn Memory) -> Result<Box<dyn CandidateSource>>;
}

/// Proposes candidates.
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
