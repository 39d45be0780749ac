//! An index as it is prepared for cursors.

use std::sync::Arc;

use super::built::VectorIndex;
use super::cursor::IndexWorker;
use crate::engine::{Cursor, PreparedJoin, UnitCursor};
use crate::error::Result;
use crate::memory::Memory;
use crate::vector::metric::Joining;

/// A join through an index.
#[derive(Debug)]
pub(in crate::vector) struct PreparedIndex {
    pub index: Arc<VectorIndex>,
    pub joining: Joining,
}

impl PreparedJoin for PreparedIndex {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let index = Arc::clone(&self.index);
        let worker = IndexWorker::try_new(index, self.joining, reservation.new_empty())?;
        Ok(Box::new(UnitCursor::new(worker, self.joining.spec.tuning)))
    }

    fn probe_rows(&self) -> usize {
        // A row takes some microseconds, or tens of them.
        1 << 9
    }
}
