//! Filters on the CPU whose candidates devices verify.
//!
//! The names are those of the filters on the CPU: `ppjoin` and `allpairs` run there, and on a GPU where a join
//! names them and a device is to be had. Verification there pays nowhere that has been measured.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::engine::{
    Estimate, Placement, PrepareContext, PreparedJoin, Strategy, Terms, required_device,
};
use crate::error::Result;
use crate::set::costs::Verification;
use crate::set::filter_verify::FilterVerify;
use crate::set::{DeviceJoin, SetJoin};

/// A filter whose candidates are verified on a GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verified(pub FilterVerify);

impl Strategy<SetJoin> for Verified {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn placement(&self) -> Placement {
        Placement::Gpu
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        if join.is_long() {
            join.sample(terms.context)?;
        }
        let parts = self.0.cheapest(join, Verification::Device);
        Ok(Estimate::new(Some(parts.cost), parts))
    }

    fn prepare(
        &self,
        join: &SetJoin,
        estimate: &Estimate,
        device: Option<&Arc<DeviceJoin>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        self.0.prepare_parts(join, *estimate.parts()?, Some(required_device(device)?), context)
    }
}
