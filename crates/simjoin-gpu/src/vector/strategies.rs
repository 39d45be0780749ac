//! The strategies of vectors on devices.

use std::sync::Arc;

use simjoin_core::vector::join::VectorJoin;

use super::estimate::estimate;
use super::{VectorDevices, prepare};
use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::offload::Opener;

/// Every strategy on devices that `auto` compares.
pub static STRATEGIES: &[&dyn Strategy<VectorJoin>] = &[&LoopOnDevices];

/// Opens the devices of joins of vectors.
pub static OPENER: Opener<VectorJoin> = Opener(|VectorJoin { build, joining, .. }, request| {
    Ok(VectorDevices::open(build, joining.threshold, &joining.spec, request)?)
});

/// The nested loop on devices.
#[derive(Debug)]
struct LoopOnDevices;

impl Strategy<VectorJoin> for LoopOnDevices {
    fn name(&self) -> &'static str {
        "nested-loop"
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<VectorJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut VectorJoin, _: &Terms<'_>) -> Result<Estimate> {
        let joining = &join.joining;
        let cost = estimate(&join.build, joining.threshold, &joining.spec);
        Ok(Estimate::new(Some(cost), ()))
    }

    fn prepare(
        &self,
        join: &VectorJoin,
        _: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        prepare(&join.build, join.joining, &required_place(place)?, None, context)
    }
}
