//! Copies of a collection on devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::runtime::Device;

/// The copies of one collection, by the ordinal of their device. They lie beside the collection, for
/// every type of work, partition and join, and are freed with it. Each copy has a lock of its own: a
/// thread that finds a copy in the making waits for it, and copies to several devices are made side
/// by side.
#[derive(Debug)]
pub struct Copies<T>(Mutex<BTreeMap<u32, Arc<Mutex<T>>>>);

impl<T> Default for Copies<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> Copies<T> {
    /// The copy on a device, which may be empty.
    pub fn on(&self, device: &Device) -> Arc<Mutex<T>> {
        Arc::clone(self.0.lock().entry(device.ordinal()).or_default())
    }

    /// Forgets all copies. A copy in use stays until its last user drops it.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}
