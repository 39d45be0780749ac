//! A join on devices, which its cursors share.

use std::sync::Arc;

use crate::engine::{Collection, Match, MatchNeed, Pairing, RowPairCounts};
use crate::offload::devices::Devices;
use crate::offload::fallback::OnCpu;
use crate::offload::unit::OpenUnit;
use crate::tuning::Tuning;

/// The state that the cursors of a join share.
#[derive(Debug)]
pub struct Offload<F> {
    pub build: Arc<dyn Collection>,
    pub need: MatchNeed,
    pub pairing: Pairing,
    pub tuning: Tuning,
    pub devices: Arc<Devices>,
    pub filter: F,
    /// Does what devices fail to do.
    pub on_cpu: OnCpu,
}

impl<F> Offload<F> {
    /// Whether devices count matches in place of giving them.
    pub(super) fn counts(&self) -> bool {
        self.need == MatchNeed::Count
    }

    /// The pairs of rows behind a match of a unit.
    pub(super) fn rows_of(&self, unit: &OpenUnit, found: &Match) -> RowPairCounts {
        let groups = [unit.probe.items.groups(), self.build.groups()];
        RowPairCounts::of(self.pairing, groups, [found.probe, found.build])
    }
}
