//! An inverted index whose works have little room.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use simjoin_core::engine::{DevicePlace, PrepareContext, PreparedJoin};
use simjoin_core::error::Result;
use simjoin_core::set::SetJoin;
use simjoin_gpu::set::bwjoin::{self, CandidateLookup, FixedLimits};

use super::place_of;
use crate::harness::sets::{Forced, forced};

/// An index with given room and budgets.
#[derive(Debug)]
pub(crate) struct FixedIndex {
    lookup: Arc<dyn CandidateLookup>,
    limits: FixedLimits,
}

impl FixedIndex {
    /// A lookup with room for many candidates.
    pub(crate) fn roomy(lookup: Arc<dyn CandidateLookup>) -> Self {
        let limits = FixedLimits { capacity: 1 << 16, budget: u64::MAX, row_budget: u64::MAX };
        Self { lookup, limits }
    }

    /// A lookup with buffers so small that rows are left, among others.
    pub(crate) fn drawn(rng: &mut StdRng, lookup: Arc<dyn CandidateLookup>) -> Self {
        let limits = FixedLimits {
            capacity: *[1, 200, 1 << 16].choose(rng).unwrap(),
            budget: *[1000, 20_000, u64::MAX].choose(rng).unwrap(),
            row_budget: *[32, 200, u64::MAX].choose(rng).unwrap(),
        };
        Self { lookup, limits }
    }
}

/// Probe sets of a unit.
pub(crate) const RANGES: [u32; 3] = [3, 64, u32::MAX];

forced!(FixedIndex);

impl Forced for FixedIndex {
    fn prepare(
        &self,
        join: &SetJoin,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let device = place_of(place)?;
        let lookup = Arc::clone(&self.lookup);
        bwjoin::prepare_within(lookup, self.limits, join, device.as_ref(), context)
    }
}
