//! Left vectors that searches of the same rows among other right rows share.

use std::sync::Arc;

use parking_lot::Mutex;

use super::forms::Forms;
use super::written::Written;
use crate::memory::Reservation;
use crate::vector::nearest::side::SideColumn;

/// The left vectors as they are compared, in the order of their numbers.
#[derive(Debug)]
pub(super) struct WrittenRows {
    pub forms: Arc<Forms>,
    pub rows: Written,
    /// The memory of the rows.
    pub _memory: Reservation,
}

/// Left vectors, for searches of the same rows among other right rows.
#[derive(Debug, Default)]
pub(crate) struct KeptVectors {
    side: Mutex<Option<Arc<SideColumn>>>,
    written: Mutex<Option<Arc<WrittenRows>>>,
}

impl KeptVectors {
    pub(crate) fn side(&self) -> Option<Arc<SideColumn>> {
        self.side.lock().clone()
    }

    pub(crate) fn keep_side(&self, side: &Arc<SideColumn>) {
        *self.side.lock() = Some(Arc::clone(side));
    }

    pub(super) fn written(&self) -> Option<Arc<WrittenRows>> {
        self.written.lock().clone()
    }

    pub(super) fn keep_written(&self, written: &Arc<WrittenRows>) {
        *self.written.lock() = Some(Arc::clone(written));
    }
}
