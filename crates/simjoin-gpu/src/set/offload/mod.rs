//! Joins of sets that run wholly on devices: what signature tiles and filters by inverted index
//! share, besides [the way of their jobs](crate::offload).

#[cfg(test)]
pub mod tests;
mod travel;

use std::sync::Arc;

use crate::error::Result;
use crate::memory::Memory;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::itself::SelfMatches;
use simjoin_core::set::join_spec::JoinSpec;
use simjoin_core::set::nested_loop::NestedLoop;

pub(in crate::set) use self::travel::TravellingSets;
use crate::engine::{
    Cursor, MatchBuffer, MatchNeed, Pairing, PrepareContext, PreparedJoin, RowPairCounts,
};
use crate::offload::{Counted, CpuJoin, Itself, OnCpu, Wanted};
use crate::set::device::abi::Found;

/// The join of sets on the CPU for what devices fail to do.
struct SetsOnCpu<P> {
    build: Arc<SetCollection>,
    spec: JoinSpec,
    prepare: P,
}

/// The join on the CPU. `prepare` grows the reservation of its context by what it keeps for a join
/// with `build`.
pub fn on_cpu(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    reservation: &dyn Memory,
    prepare: impl Fn(JoinSpec, PrepareContext<'_>) -> Result<Arc<dyn PreparedJoin>>
    + Send
    + Sync
    + 'static,
) -> OnCpu {
    OnCpu::new(SetsOnCpu { build: Arc::clone(build), spec, prepare }, reservation)
}

impl<P> SetsOnCpu<P> {
    fn spec(&self, wanted: Wanted) -> JoinSpec {
        if wanted == Wanted::Join {
            return self.spec;
        }
        let need = match self.spec.need {
            MatchNeed::Count => MatchNeed::Pairs,
            need => need,
        };
        JoinSpec { need, pairing: Pairing::All, ..self.spec }
    }
}

impl<P> CpuJoin for SetsOnCpu<P>
where
    P: Fn(JoinSpec, PrepareContext<'_>) -> Result<Arc<dyn PreparedJoin>> + Send + Sync + 'static,
{
    fn prepare(
        &self,
        wanted: Wanted,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        (self.prepare)(self.spec(wanted), context)
    }

    fn unprepared(&self, wanted: Wanted) -> Box<dyn Cursor> {
        NestedLoop::new(Arc::clone(&self.build), self.spec(wanted)).cursor()
    }

    fn least_bytes(&self) -> usize {
        NestedLoop::footprint(&self.build)
    }
}

impl Itself for SelfMatches {
    fn give(&mut self, matches: &mut MatchBuffer, given: &mut u64) -> Result<bool> {
        Ok(self.give(matches, given))
    }
}

impl From<Found> for Counted {
    /// No kernel that filters looks for matches of sets with themselves.
    fn from(found: Found) -> Self {
        let rows = RowPairCounts::cross(found.cross);
        Self { matches: found.matches, rows }
    }
}
