//! The strategies of texts on devices.

use std::sync::Arc;

use simjoin_core::string::join::StringJoin;

use super::estimate::estimate;
use super::{StringDevices, prepare};
use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::offload::Opener;

/// Every strategy on devices that `auto` compares.
pub static STRATEGIES: &[&dyn Strategy<StringJoin>] = &[&BoxesOnDevices];

/// Opens the devices of joins of texts.
static OPENER: Opener<StringJoin> = Opener(|join, request| {
    Ok(StringDevices::open(&join.build, join.threshold, &join.spec, request)?)
});

/// Boxes on devices.
#[derive(Debug)]
struct BoxesOnDevices;

impl Strategy<StringJoin> for BoxesOnDevices {
    fn name(&self) -> &'static str {
        "boxes"
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<StringJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut StringJoin, terms: &Terms<'_>) -> Result<Estimate> {
        let work = join.sampled_work(true, terms.context)?;
        Ok(Estimate::new(Some(estimate(join, &work)), ()))
    }

    fn prepare(
        &self,
        join: &StringJoin,
        _: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        prepare(join, &required_place(place)?, context)
    }
}
