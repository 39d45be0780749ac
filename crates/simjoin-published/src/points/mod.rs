//! The published joins of points on a GPU (Böhm, Noll, Plant, Zherdin: Density-based clustering and
//! similarity join on graphics processors, BTW 2009), to compare with: by a nested loop, and by a
//! directory of quantiles. For distances. Both are kernels in place of the product's own filter; the way
//! to devices and back is that of every join of vectors.

mod directory;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use simjoin_gpu::runtime::{Images, images};
use simjoin_gpu::vector::{
    self as device, NumberType, OPENER, OtherKernel, VectorDevices, VectorKernel, VectorShape,
};

use self::directory::Directory;
use crate::engine::{
    DeviceOpener, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms,
    required_place,
};
use crate::error::Result;
use crate::vector::collection::Vectors;
use crate::vector::join::VectorJoin;
use crate::vector::metric::Joining;

/// The kernels of both joins.
static POINTS: Images = images!("published_points");

/// A published join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishedPoints {
    Loop,
    /// The directory, for statements that count, over columns that are finite and lie on the device;
    /// otherwise the loop.
    Directory,
}

const LOOP: VectorShape = VectorShape {
    kernel: VectorKernel::Plain,
    numbers: NumberType::Halves,
    program: &POINTS,
    name: "vectors_published_loop",
    threads: 128,
    blocks: 8,
    strip_rows: 128,
    stage_columns: 32,
    blocked: false,
    shared_words: 0,
    box_chunks: 0,
    has_index: false,
};
const DIRECTORY: VectorShape =
    VectorShape { name: "vectors_published_directory", has_index: true, ..LOOP };

impl PublishedPoints {
    /// The directory that the join walks; `None` where it is a loop.
    ///
    /// # Errors
    ///
    /// Where memory is refused, or the work cancelled.
    fn directory(
        self,
        build: &Vectors,
        devices: &VectorDevices,
        context: PrepareContext<'_>,
    ) -> Result<Option<Directory>> {
        match self {
            Self::Directory if devices.count_matches() && devices.hold_columns() => {
                Directory::of(build, devices.dimensions(), context)
            }
            Self::Loop | Self::Directory => Ok(None),
        }
    }

    /// Prepares the build side on the devices of a join.
    ///
    /// # Errors
    ///
    /// Where memory is refused, or no device has the memory. The devices have noted why.
    fn prepare_on(
        self,
        build: &Arc<Vectors>,
        joining: Joining,
        devices: &Arc<VectorDevices>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let directory = self.directory(build, devices, context)?;
        let kernel = match &directory {
            Some(directory) => OtherKernel { shape: DIRECTORY, index: &directory.words },
            None => OtherKernel { shape: LOOP, index: &[] },
        };
        device::prepare(build, joining, devices, Some(kernel), context)
    }
}

impl Strategy<VectorJoin> for PublishedPoints {
    fn name(&self) -> &'static str {
        match self {
            Self::Loop => "nested-loop-published",
            Self::Directory => "directory-published",
        }
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<VectorJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut VectorJoin, _: &Terms<'_>) -> Result<Estimate> {
        let joining = &join.joining;
        let cost = device::estimate(&join.build, joining.threshold, &joining.spec);
        Ok(Estimate::new(Some(cost), ()))
    }

    fn prepare(
        &self,
        join: &VectorJoin,
        _: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let VectorJoin { build, joining, .. } = join;
        self.prepare_on(build, *joining, &required_place(place)?, context)
    }
}
