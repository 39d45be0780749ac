//! The arrays of a collection that lie on devices. [`super::resident`] fills them.

use std::sync::Arc;

use crate::offload::Copies;
use crate::runtime::{Device, Resident};

/// The copies of one collection.
pub(super) type VectorCopies = Copies<DeviceCopy>;

/// The arrays that lie on one device.
#[derive(Debug, Default)]
pub(super) struct DeviceCopy {
    pub numbers: Option<Arc<CopiedNumbers>>,
    /// The number of rows of each vector.
    pub rows: Option<Arc<Resident>>,
}

/// The numbers of vectors of some dimensions, and which items are such vectors.
#[derive(Debug)]
pub(super) struct CopiedNumbers {
    pub memory: Resident,
    pub dimensions: u32,
    pub wide: bool,
    /// Where the bits lie, unless all items are present.
    pub present: Option<u64>,
}

impl DeviceCopy {
    /// Forgets the copies on the device from before it was lost.
    pub(super) fn forget_lost(&mut self, device: &Device) {
        self.numbers.take_if(|numbers| !device.has(&numbers.memory));
        self.rows.take_if(|rows| !device.has(rows));
    }

    /// The bytes that they take there.
    pub(super) fn bytes(&self) -> u64 {
        let numbers = self.numbers.as_ref().map_or(0, |numbers| numbers.memory.bytes());
        numbers + self.rows.as_ref().map_or(0, |rows| rows.bytes())
    }
}
