//! The copies of a collection on devices, as they lie beside the collection.

use std::sync::Arc;

use crate::offload::Copies;
use crate::runtime::{Device, Resident};

/// The copies of one collection. [`ResidentSets`](super::ResidentSets) makes them.
pub(super) type DeviceCopies = Copies<DeviceCopy>;

/// The arrays that lie on one device.
#[derive(Debug, Default)]
pub(super) struct DeviceCopy {
    /// Offsets, then tokens.
    pub sets: Option<Arc<Resident>>,
    /// The number of rows of each set.
    pub rows: Option<Arc<Resident>>,
}

impl DeviceCopy {
    /// Forgets the copies on the device from before it was lost.
    pub(super) fn forget_lost(&mut self, device: &Device) {
        self.sets.take_if(|sets| !device.has(sets));
        self.rows.take_if(|rows| !device.has(rows));
    }

    /// The bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        [&self.sets, &self.rows].into_iter().flatten().map(|resident| resident.bytes()).sum()
    }
}
