//! The queue of a device, on a GPU or the emulator, with works of two types: order, overlap,
//! faults.

mod answers;
mod faults;
mod opening;

pub(crate) use crate::device_harness::Lent;
pub(crate) use crate::device_harness::works::{FILL, Inbox};
use crate::emulator::Emulator;
use crate::runtime::{Device, DeviceError};
