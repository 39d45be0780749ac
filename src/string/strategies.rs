//! The strategies of texts.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::boxes::Boxes;
use super::cursor::StringWorker;
use super::join::StringJoin;
use super::neighbours::{Neighbourhoods, edits};
use super::threshold::Threshold;
use crate::engine::{
    Cost, Cursor, Estimate, NoDevices, Placement, PrepareContext, PreparedJoin, Strategy, Terms,
    UnitCursor,
};

/// Every strategy that `auto` compares, in the order in which equal estimates are preferred.
pub(crate) static STRATEGIES: [&dyn Strategy<StringJoin>; 3] =
    [&BOXES, &NESTED_LOOP, &Neighbourhoods];

/// The strategies of a threshold: deletions serve few edits alone.
pub(super) fn of(threshold: Threshold) -> &'static [&'static dyn Strategy<StringJoin>] {
    match edits(threshold) {
        Some(_) => &STRATEGIES,
        None => &STRATEGIES[..2],
    }
}

/// Boxes around similar texts rule out most of them, lanes compare the others.
static BOXES: Lanes = Lanes { name: "boxes", uses_boxes: true };
/// Lanes compare all texts whose lengths allow a match.
static NESTED_LOOP: Lanes = Lanes { name: "nested-loop", uses_boxes: false };

/// Compares 64 texts of one length with a probe text at a time.
#[derive(Debug)]
struct Lanes {
    name: &'static str,
    uses_boxes: bool,
}

impl Strategy<StringJoin> for Lanes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn estimate(&self, join: &mut StringJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let cpu = match terms.has(Placement::Cpu) {
            true => Some(Cost::cpu(join.sampled_cost(self.uses_boxes, terms.context)?)),
            false => None,
        };
        Ok(Estimate::new(cpu, None, ()))
    }

    fn prepare(
        &self,
        join: &StringJoin,
        _: &Estimate,
        _: Option<&Arc<NoDevices>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let mut join = join.clone();
        let boxes = join.boxes(context)?;
        Ok(Arc::new(Prepared { join: Arc::new(join), boxes, uses_boxes: self.uses_boxes }))
    }
}

/// A join by lanes.
#[derive(Debug)]
struct Prepared {
    join: Arc<StringJoin>,
    boxes: Arc<Boxes>,
    uses_boxes: bool,
}

impl PreparedJoin for Prepared {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let finder = self.join.finder(&self.boxes, self.uses_boxes);
        let worker = StringWorker::try_new(Arc::clone(&self.join), finder, reservation.new_empty());
        Ok(Box::new(UnitCursor::new(worker?)))
    }
}
