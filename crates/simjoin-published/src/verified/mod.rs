//! Filters on the CPU whose candidates devices verify.
//!
//! The names are those of the filters on the CPU: `ppjoin` and `allpairs` run there, and on a GPU where a join
//! names them and a device is to be had. Verification there pays nowhere that has been measured.
//!
//! ```text
//! verifier.rs   a filter on the CPU, and devices that decide its candidates
//! devices.rs    the room of these for chunks         pack.rs     candidates, as they travel
//! launch.rs     the kernels, layouts.rs those of the literature
//! work.rs       a chunk as work for a device         staging.rs  its memory on the host
//! ```

pub mod abi;
mod devices;
mod launch;
mod layouts;
mod pack;
mod shape;
mod staging;
#[cfg(test)]
mod tests;
mod verifier;
mod work;

use std::sync::Arc;

use simjoin_gpu::set::device::{OPENER, sending};

use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::set::SetJoin;
use crate::set::filter_verify::FilterVerify;

pub use self::launch::{Launch, Layout};
pub use self::shape::{ChunkShape, Form};
pub use self::staging::{Capacities, Section, Staging};
pub use self::verifier::verified_on_devices;
pub use self::work::{Outcome, Reply, VerifyJob};

/// A filter whose candidates are verified on a GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verified(pub FilterVerify);

impl Strategy<SetJoin> for Verified {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<SetJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        if join.is_long() {
            join.sample(terms.context)?;
        }
        let parts = self.0.cheapest(join, sending);
        Ok(Estimate::new(Some(parts.cost), parts))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let candidates = self.0.candidates(join, *estimate.parts()?, context)?;
        verified_on_devices(candidates, &required_place(place)?, context.reservation)
    }
}
