//! Strategies of sets on devices.

mod draw;
mod fixed_index;
pub(crate) mod on_devices;
mod place;
pub(crate) mod without_memory;

pub(crate) use self::draw::sets;
pub(crate) use self::fixed_index::{FixedIndex, RANGES};
pub(crate) use self::place::{on_device, place, place_of};
