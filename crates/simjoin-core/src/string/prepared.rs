//! A join by lanes, prepared.

use std::sync::Arc;

use super::boxes::StringBoxes;
use super::cursor::StringWorker;
use super::join::StringJoin;
use crate::engine::{Cursor, PrepareContext, PreparedJoin, UnitCursor};
use crate::error::Result;
use crate::memory::Memory;

/// A join by lanes.
#[derive(Debug)]
pub struct PreparedLanes {
    join: Arc<StringJoin>,
    boxes: Arc<StringBoxes>,
    uses_boxes: bool,
}

impl PreparedLanes {
    /// A join with its index. `uses_boxes`: boxes rule texts out.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub fn new(
        mut join: StringJoin,
        uses_boxes: bool,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let boxes = join.boxes(context)?;
        Ok(Self { join: Arc::new(join), boxes, uses_boxes })
    }
}

impl PreparedJoin for PreparedLanes {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let finder = self.join.finder(&self.boxes, self.uses_boxes);
        let worker = StringWorker::try_new(Arc::clone(&self.join), finder, reservation.new_empty());
        Ok(Box::new(UnitCursor::new(worker?, self.join.spec.tuning)))
    }
}
