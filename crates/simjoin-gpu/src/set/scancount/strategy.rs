//! The strategy `scancount` on devices.

use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::join_spec::JoinSpec;
use simjoin_core::set::scancount;

use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::offload::OnCpu;
use crate::runtime::Device;
use crate::set::bitmap;
use crate::set::device::{DeviceJoin, OPENER};
use crate::set::offload;
use crate::set::scancount::{CutChoice, estimate, prepare};

/// The strategy `scancount` on devices, which serves large sets.
#[derive(Debug)]
pub(in crate::set) struct LargeSets;

impl Strategy<SetJoin> for LargeSets {
    fn name(&self) -> &'static str {
        "scancount"
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<SetJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let of = |join: &SetJoin, found: &scancount::Frequencies| {
            estimate(join, found.light_share, found.heavy)
        };
        let is_open = Device::opened(0).is_some();
        Ok(Estimate::new(Some(scancount::cost(join, terms, is_open, of)?), ()))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        _: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let device = &required_place::<DeviceJoin>(place)?;
        let (build, spec) = (&join.build, join.spec);
        let on_cpu = || on_cpu(build, spec, context);
        match prepare(build, spec, device, CutChoice::Cheapest, on_cpu, context)? {
            Ok(prepared) => Ok(prepared),
            // The devices lack the memory for large sets.
            Err(_) if device.devices.demanded && !device.devices.have_failed() => {
                bitmap::on_devices(join, device, context)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The join on the CPU for what devices fail to do.
pub(super) fn on_cpu(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    context: PrepareContext<'_>,
) -> OnCpu {
    let sets = Arc::clone(build);
    offload::on_cpu(build, spec, context.reservation, move |spec, context| {
        scancount::prepare(Arc::clone(&sets), spec, context)
    })
}
