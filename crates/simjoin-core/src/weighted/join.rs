//! What the strategies of a join share.

use std::sync::Arc;

use super::collection::WeightedSets;
use super::limits::WeightLimits;
use crate::engine::{MatchSpec, Pairing};

/// A join with its build side.
#[derive(Debug, Clone)]
pub(super) struct WeightedJoin {
    pub(super) build: Arc<WeightedSets>,
    pub(super) limits: WeightLimits,
    pub(super) spec: MatchSpec,
}

impl WeightedJoin {
    /// The part of all pairs of a probe and a build set that is looked at.
    pub(super) fn share_of_pairs(&self) -> f64 {
        match self.spec.pairing() {
            Pairing::Unordered => 0.5,
            Pairing::All => 1.0,
        }
    }
}
