//! The strategies of texts.

use std::sync::Arc;

use super::deletion_join::Neighbourhoods;
use super::join::StringJoin;
use super::prepared::PreparedLanes;
use super::threshold::Threshold;
use crate::engine::{Cost, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms};
use crate::error::Result;

/// Every strategy on the CPU that `auto` compares, in the order in which equal estimates are preferred.
pub static STRATEGIES: [&dyn Strategy<StringJoin>; 3] = [&BOXES, &NESTED_LOOP, &Neighbourhoods];

/// The strategies of a threshold: deletions serve few edits alone.
pub(super) fn of(threshold: Threshold) -> &'static [&'static dyn Strategy<StringJoin>] {
    match threshold.deletions() {
        Some(_) => &STRATEGIES,
        None => &STRATEGIES[..2],
    }
}

/// Boxes around similar texts rule out most of them, lanes compare the others.
static BOXES: LaneStrategy = LaneStrategy { name: "boxes", uses_boxes: true };
/// Lanes compare all texts whose lengths allow a match.
static NESTED_LOOP: LaneStrategy = LaneStrategy { name: "nested-loop", uses_boxes: false };

/// Compares 64 texts of one length with a probe text at a time.
#[derive(Debug)]
pub(super) struct LaneStrategy {
    name: &'static str,
    uses_boxes: bool,
}

impl Strategy<StringJoin> for LaneStrategy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn estimate(&self, join: &mut StringJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let work = join.sampled_work(self.uses_boxes, terms.context)?;
        Ok(Estimate::new(Some(Cost::cpu(work.cpu)), ()))
    }

    fn prepare(
        &self,
        join: &StringJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(PreparedLanes::new(join.clone(), self.uses_boxes, context)?))
    }
}
