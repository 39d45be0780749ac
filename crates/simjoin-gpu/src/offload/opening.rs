//! The opening of devices for joins, and of one for later joins.
//!
//! Opening a device takes some hundred milliseconds, which a short join does not save. But a process
//! that repeats such joins would stay on the CPU for ever. So what its joins would have saved on an open
//! device is added up, and once that comes to the time of opening one, it is opened in the background:
//! the joins have lost no more than twice what they had lost with a device from the start on (Karlin,
//! Manasse, Rudolph, Sleator: "Competitive snoopy caching", Algorithmica 1988).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::runtime::Handle;

use crate::engine::{DeviceOpener, DevicePlace, DeviceRequest};
use crate::error::Result;
use crate::runtime::Device;

/// Opens devices for the joins of a family, by a function.
pub struct Opener<J>(pub fn(&J, &DeviceRequest) -> Result<Arc<dyn DevicePlace>>);

impl<J> fmt::Debug for Opener<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}

impl<J> DeviceOpener<J> for Opener<J> {
    fn open(&self, join: &J, request: &DeviceRequest) -> Result<Arc<dyn DevicePlace>> {
        (self.0)(join, request)
    }

    fn is_open(&self) -> bool {
        Device::opened(0).is_some()
    }

    fn note_loss(&self, nanos: f64) {
        note_loss(nanos);
    }
}

/// Makes a type whose field `devices` are [`Devices`](super::Devices) a place that strategies run at.
macro_rules! device_place {
    ($type:ty) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.devices.fmt(f)
            }
        }

        impl $crate::engine::DevicePlace for $type {
            fn has_refused(&self) -> bool {
                self.devices.have_refused()
            }

            fn start_times(&self) -> $crate::engine::StartTimes {
                self.devices.start_times()
            }
        }
    };
}

pub(crate) use device_place;

/// The nanoseconds that joins of this process would have saved.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Whether a device has been opened for later joins, or was not there: it is tried once.
static IS_TRIED: AtomicBool = AtomicBool::new(false);

/// Notes that a join on the CPU would take so many nanoseconds less on the first device, if that were
/// open. The runtime waits at its end for the device that it opens.
fn note_loss(nanos: f64) {
    let (Some(opening), Ok(runtime)) = (Device::time_to_begin(0), Handle::try_current()) else {
        return;
    };
    if nanos <= 0.0 || Device::opened(0).is_some() {
        return;
    }
    let lost = LOST.fetch_add(nanos.min(1e18) as u64, Ordering::Relaxed) as f64 + nanos;
    if lost >= opening.as_nanos() as f64 && !IS_TRIED.swap(true, Ordering::Relaxed) {
        runtime.spawn_blocking(|| drop(Device::open(0)));
    }
}
