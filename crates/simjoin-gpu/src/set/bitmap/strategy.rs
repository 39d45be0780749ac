//! The strategy `bitmap` on devices.

use std::sync::Arc;

use simjoin_core::set::bitmap::{self, Front, best_front};
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::SignatureScheme;
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::join_spec::JoinSpec;

use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::offload::OnCpu;
use crate::set::bitmap::{Fit, Residence, estimate, prepare};
use crate::set::device::{DeviceJoin, OPENER};
use crate::set::offload;

/// The strategy `bitmap` on devices, in tiles.
#[derive(Debug)]
pub(in crate::set) struct BitmapTiles;

impl Strategy<SetJoin> for BitmapTiles {
    fn name(&self) -> &'static str {
        "bitmap"
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<SetJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        bitmap::sample(join, terms)?;
        Ok(Estimate::new(Some(estimate(join)), ()))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        _: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        on_devices(join, &required_place(place)?, context)
    }
}

/// Tiles on the devices of a join. The build side travels in pieces where it does not fit.
///
/// # Errors
///
/// Where no device has room for a piece, or all have failed.
pub(in crate::set) fn on_devices(
    join: &SetJoin,
    device: &Arc<DeviceJoin>,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let (build, spec) = (&join.build, join.spec);
    let fit = Fit::choose(build, &spec, device, &join.statistics, context.threads)?;
    let (front, _) = best_front(join, &[]);
    let on_cpu = on_cpu(build, spec, join.scheme(), front, context);
    Ok(prepare(build, spec, device, (fit, Residence::IfRoom), on_cpu)?)
}

/// Blocks on the CPU for what devices fail to do.
pub(super) fn on_cpu(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    scheme: SignatureScheme,
    front: Front,
    context: PrepareContext<'_>,
) -> OnCpu {
    let sets = Arc::clone(build);
    offload::on_cpu(build, spec, context.reservation, move |spec, context| {
        bitmap::prepare(Arc::clone(&sets), spec, scheme.clone(), front, context)
    })
}
