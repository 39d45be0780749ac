//! Tiles of a given form, for measurements and tests.

use std::sync::Arc;

use simjoin_core::set::bitmap::Front;
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::SignatureScheme;
use simjoin_core::set::join_spec::JoinSpec;

use crate::engine::{PrepareContext, PreparedJoin};
use crate::error::Result;
use crate::set::bitmap::strategy::on_cpu;
use crate::set::bitmap::{self, Fit, Residence, TileKernel};
use crate::set::device::DeviceJoin;

/// `bitmap` on a device with a given kernel, width and union.
#[derive(Debug, Clone, Copy)]
pub struct FixedTiles {
    /// The instructions by which signatures are compared.
    pub kernel: TileKernel,
    /// Words of a signature: 8, 16 or 32.
    pub width: u32,
    /// Sets of a column: 1, 2 or 4.
    pub members: u32,
    /// Hits that a work has room for; `None`: as for any join.
    pub capacity: Option<u32>,
    /// Whether the sets stay on the device.
    pub residence: Residence,
}

impl FixedTiles {
    /// Prepares a join on a device.
    ///
    /// # Errors
    ///
    /// Where the device lacks the memory or fails.
    pub fn prepare_on_device(
        &self,
        build: &Arc<SetCollection>,
        spec: JoinSpec,
        join: &Arc<DeviceJoin>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Self { kernel, width, members, capacity, residence } = *self;
        let mut fit = Fit::new(kernel, width, members, &spec, join.devices.memory);
        fit.capacity = capacity.unwrap_or(fit.capacity);
        let cpu = on_cpu(build, spec, SignatureScheme::fit(build), Front::LEAST, context);
        Ok(bitmap::prepare(build, spec, join, (fit, residence), cpu)?)
    }
}
