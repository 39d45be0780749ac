//! The strategies of texts.

use std::sync::Arc;

use super::deletion_join::Neighbourhoods;
use super::device::{self, StringDevices};
use super::join::StringJoin;
use super::prepared::Prepared;
use super::threshold::Threshold;
use crate::engine::{
    Cost, Estimate, Join, Placement, PrepareContext, PreparedJoin, Strategy, Terms, required_device,
};
use crate::error::Result;

impl Join for StringJoin {
    type Devices = StringDevices;
}

/// Every strategy that `auto` compares, in the order in which equal estimates are preferred.
pub static STRATEGIES: [&dyn Strategy<StringJoin>; 4] =
    [&BOXES, &BoxesOnDevices, &NESTED_LOOP, &Neighbourhoods];

/// The strategies of a threshold: deletions serve few edits alone.
pub(super) fn of(threshold: Threshold) -> &'static [&'static dyn Strategy<StringJoin>] {
    match threshold.deletions() {
        Some(_) => &STRATEGIES,
        None => &STRATEGIES[..3],
    }
}

/// Boxes around similar texts rule out most of them, lanes compare the others.
static BOXES: Lanes = Lanes { name: "boxes", uses_boxes: true };
/// Lanes compare all texts whose lengths allow a match.
static NESTED_LOOP: Lanes = Lanes { name: "nested-loop", uses_boxes: false };

/// Compares 64 texts of one length with a probe text at a time.
#[derive(Debug)]
pub(super) struct Lanes {
    name: &'static str,
    uses_boxes: bool,
}

impl Strategy<StringJoin> for Lanes {
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
        _: Option<&Arc<StringDevices>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(Prepared::new(join.clone(), self.uses_boxes, context)?))
    }
}

/// Boxes on devices.
#[derive(Debug)]
struct BoxesOnDevices;

impl Strategy<StringJoin> for BoxesOnDevices {
    fn name(&self) -> &'static str {
        BOXES.name()
    }

    fn placement(&self) -> Placement {
        Placement::Gpu
    }

    fn estimate(&self, join: &mut StringJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let work = join.sampled_work(true, terms.context)?;
        Ok(Estimate::new(Some(device::estimate(join, &work)), ()))
    }

    fn prepare(
        &self,
        join: &StringJoin,
        _: &Estimate,
        devices: Option<&Arc<StringDevices>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        device::prepare(join, required_device(devices)?, context)
    }
}
