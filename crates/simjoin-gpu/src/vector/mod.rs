//! The nested loop on devices.
//!
//! The device prepares its copy of the build side ([`columns`]): every vector as halves (`f16`), with
//! bounds that its products are compared with, as `kernels/vector_bounds.cuh` says. Rows (probe
//! vectors) meet columns (build vectors) in tiles of products; what a product neither rejects nor
//! proves to match is decided in `f64` on the device, in the order of DataFusion's functions. A pair
//! whose value is not a number comes back undecided, and the host decides it.
//!
//! ```text
//! cursor                         device (queue shared by all partitions)
//! unit ─► plan: strips, units ─► prepare rows ─► products ─► hits ─► decide in f64 ─► matches ─┐
//!           ▲                                        │                                        │
//!           └── units without room for hits ◄────────┘       match buffer ◄── inbox ◄─────────┘
//! ```
//!
//! Hits and matches have bounded room. A unit (a strip of rows and some stages of columns) that finds
//! none counts for nothing and is done again; one that has too many alone is split, and in the end
//! decided pair by pair. [`crate::offload::tiles`] has these jobs, and [`crate::offload`] their way to devices
//! and back.
//!
//! Self-joins of few dimensions whose vectors have boxes multiply only groups of 16 vectors in reach of
//! each other (`kernels/vector_boxed.cuh`). A device has the boxes beside its columns ([`boxes`]).
//!
//! Where the numbers of the build side are integers of 8 bits, or are less a centre, products of those
//! are exact and quicker (`kernels/vector_integers.cuh`). A kernel looks at them ([`range`]).
//!
//! The nearest vectors of vectors are found by kernels of their own ([`nearest`]).
//!
//! A device has vectors of one number of dimensions, that of most. Keys with others are left to the
//! CPU. Where the build side does not fit on the devices, columns travel with the works as rows do, and
//! are prepared there.

mod abi;
mod boxes;
mod columns;
mod copies;
mod estimate;
mod fallback;
mod filter;
mod join;
pub(super) mod nearest;
mod pairs;
mod plan;
mod probe;
mod range;
mod resident;
mod shape;
mod strategies;
#[cfg(test)]
pub mod tests;
mod travel;
mod values;
mod work;

use std::sync::Arc;

use self::columns::{Preparable, Preparation, PreparedColumns};
pub use self::estimate::estimate;
use self::fallback::VectorsOnCpu;
use self::filter::{OwnReach, Pieces, TilesOfVectors};
pub use self::join::VectorDevices;
use self::join::{LEAST_ROWS, role, rows_of_work};
use self::plan::{PlanLimits, unit_stages};
pub use self::strategies::{OPENER, STRATEGIES};

use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::metric::{Joining, Metric};
use simjoin_core::vector::middle::{Middle, is_usual, spread};
use simjoin_core::vector::nearest::NearestOnDevices;

pub use self::shape::NumberType;
pub use self::shape::{VectorKernel, VectorShape};
use self::work::VectorJob;
use crate::engine::{PrepareContext, PreparedJoin};
use crate::error::Result;
use crate::offload::tiles::TileJoin;
use crate::offload::{EachDevice, Offload, OnCpu, OnDevice, PreparedOffload};
use crate::runtime::DeviceError;
use crate::util::cancel::CancelFlag;

/// The search of nearest vectors.
pub static NEAREST: &dyn NearestOnDevices = &nearest::NearestSearch;

/// Numbers of rows that travel with a work, at most: a thread converts them in a millisecond or two.
const MOST_NUMBERS: u64 = 1 << 20;
/// Rows that travel with a work, at most.
const MOST_ROWS: u64 = 1 << 17;

/// A kernel that filters in place of the devices' own.
#[derive(Debug, Clone, Copy)]
pub struct OtherKernel<'a> {
    pub shape: VectorShape,
    /// The words of the kernel's own index; none where it has none.
    pub index: &'a [u32],
}

/// Prepares the build side on the devices of a join.
///
/// # Errors
///
/// Where no device has the memory, or all have failed. The devices have noted why.
pub fn prepare(
    build: &Arc<Vectors>,
    joining: Joining,
    join: &Arc<VectorDevices>,
    other: Option<OtherKernel<'_>>,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let VectorDevices { devices, settings, pieces, .. } = &**join;
    let mut settings = *settings;
    if let Some(OtherKernel { shape, .. }) = other {
        settings.form = Preparation { shape, centre: 0, ..settings.form };
    }
    let Joining { threshold, orders, spec } = joining;
    let (centre, limit) = centre(build, &settings.form, context.cancel)?;
    settings.form.limit = limit;
    let preparation = &settings.form;
    let self_join = devices.self_join;
    let resident = self_join && pieces.is_none();
    let reach = match resident && other.is_none() {
        true => OwnReach::of(build, preparation.shape.stage_columns, context)?,
        false => None,
    };
    let prepared = match pieces {
        Some(_) => {
            let on = |multiprocessors| OnDevice { resident: None, multiprocessors };
            devices.iter().map(|device| Some(on(device.multiprocessors()))).collect()
        }
        None => join.columns_on_each(
            preparation,
            Preparable {
                count: build.len(),
                centre: &centre,
                index: other.map_or(&[], |other| other.index),
                boxes: build.boxes().zip(reach.as_ref().map(OwnReach::reach)),
            },
        )?,
    };
    let pieces = pieces.map(|columns| {
        let centre = centre.iter().map(|number| number.to_bits()).collect();
        Pieces { columns, centre: Arc::new(centre) }
    });
    let family = TilesOfVectors {
        threshold,
        orders,
        pairing: spec.pairing(),
        tiling: tiling(build, preparation, devices.memory, resident),
        pieces,
        reach,
    };
    let filter =
        TileJoin { build: Arc::clone(build), settings, resident, devices: prepared, family };
    let cpu = VectorsOnCpu { build: Arc::clone(build), join: joining };
    let offload = Offload {
        build: Arc::clone(build) as _,
        need: spec.need,
        pairing: spec.pairing(),
        tuning: spec.tuning,
        devices: Arc::clone(devices),
        filter,
        on_cpu: OnCpu::new(cpu, context.reservation),
    };
    Ok(Arc::new(PreparedOffload::new(offload)))
}

impl VectorDevices {
    /// The vectors on each device as the kernels read them, and the device's multiprocessors; `None`
    /// where it has failed.
    fn columns_on_each(
        &self,
        preparation: &Preparation,
        given: Preparable<'_>,
    ) -> Result<EachDevice<VectorJob>, DeviceError> {
        let how = (preparation, role(self.devices.self_join));
        self.devices.on_each(|number, device| {
            let vectors = self.copies.get(number).cloned().flatten();
            let vectors = vectors.ok_or(DeviceError::NoDevice)?;
            let resident = Some(PreparedColumns::prepare(device, vectors, how, given)?);
            Ok(OnDevice { resident, multiprocessors: device.multiprocessors() })
        })
    }
}

/// By dimension, what the kernels subtract, none for products; and how far from it vectors are far from
/// most.
fn centre(
    build: &Vectors,
    preparation: &Preparation,
    cancel: &CancelFlag,
) -> Result<(Vec<f64>, f64)> {
    let dimensions = preparation.dimensions;
    Ok(match (preparation.threshold.metric, preparation.shape.numbers) {
        (Metric::Euclidean, NumberType::Halves) => middle(build, dimensions, true, cancel)?,
        (Metric::InnerProduct, NumberType::Halves) => middle(build, dimensions, false, cancel)?,
        (Metric::Euclidean, NumberType::Integers) => {
            (vec![preparation.centre.into(); dimensions as usize], f64::INFINITY)
        }
        (Metric::InnerProduct | Metric::Cosine, _) => (vec![], f64::INFINITY),
    })
}

/// The limits by which plans are cut. Rows that are not `resident` travel with their work.
fn tiling(build: &Vectors, preparation: &Preparation, memory: u64, resident: bool) -> PlanLimits {
    /// The time of a work, in which the device takes up nothing else, in nanoseconds.
    const SLICE: f64 = 1e7;
    let Preparation { shape, dimensions, .. } = *preparation;
    let rows = rows_of_work(preparation, memory).min(MOST_NUMBERS / u64::from(dimensions.max(1)));
    PlanLimits {
        shape,
        dimensions,
        unit_stages: unit_stages(build.len(), &shape),
        most_pairs: (SLICE * shape.rate(dimensions)) as u64,
        most_rows: match resident {
            true => u32::MAX,
            false => rows.clamp(LEAST_ROWS, MOST_ROWS) as u32,
        },
    }
}

/// The middle of most vectors, by dimension, and how far from it vectors are far from most. The middle is of
/// whole numbers where all numbers of the sample are whole, so that differences stay exact.
fn middle(
    vectors: &Vectors,
    dimensions: u32,
    is_moved: bool,
    cancel: &CancelFlag,
) -> Result<(Vec<f64>, f64)> {
    const SAMPLED: usize = 1 << 10;
    let some = spread(0..vectors.len(), SAMPLED).map(|item| vectors.vector(item));
    let some = some.filter(|vector| vector.len() == dimensions as usize && is_usual(*vector));
    let whole = some.clone().flatten().all(|number| number.fract() == 0.0);
    let Middle { mut centre, limit, .. } = Middle::of(some, is_moved, cancel)?;
    centre.resize(if is_moved { dimensions as usize } else { 0 }, 0.0);
    centre.iter_mut().for_each(|mean| *mean = if whole { mean.round() } else { *mean });
    // That of a few equal vectors is no limit.
    Ok((centre, if limit > 0.0 { limit } else { f64::INFINITY }))
}
