//! The crate has no devices. The harness of its tests opens them where a crate above it has some.

use std::sync::Arc;

use crate::engine::DevicePlace;
use crate::harness::sets::{OnDevice, Sides};
use crate::set::JoinSpec;

pub(crate) fn place(_: &Sides, _: OnDevice, _: &JoinSpec) -> Arc<dyn DevicePlace> {
    unreachable!("a test of simjoin-core asks for a device")
}
