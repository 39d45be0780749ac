//! Signature tiles: `bitmap` placed on a device.
//!
//! The device signs its copy of the build side ([`columns`]) and tests signatures against
//! signatures in tiles of rows (probe sets) and columns (build sets, or unions of up to four
//! neighbours). A pair whose row hides `h` tokens behind its bits passes where
//! `popcount(row & column) + h` is at least the least overlap that any pair of the tile requires;
//! with unions, no member of a column that fails can match. What passes meets the bound of both
//! plain signatures, then its tokens are compared, on the device too.
//!
//! ```text
//! cursor                         device (queue shared by all partitions)
//! unit ─► plan: strips, units ─► sign rows ─► test tiles ─► hits ─► decide ─► matches ─┐
//!           ▲                                     │                                    │
//!           └── units without room for hits ◄─────┘     match buffer ◄── inbox ◄───────┘
//! ```
//!
//! Hits and matches have bounded room. A unit (a strip and some stages of columns) that finds none
//! writes nothing and is done again; one that has too many alone is split, and in the end decided
//! pair by pair. [`crate::offload::tiles`] has these jobs, and [`crate::offload`] their way to devices and
//! back.
//!
//! Where the build side does not fit on the devices, columns travel with the works as rows do, and
//! are signed there ([`pieces`]).

mod abi;
mod columns;
mod filter;
mod fit;
mod fixed;
mod pieces;
mod plan;
mod scheme;
mod shape;
mod strategy;
#[cfg(test)]
pub(in crate::set) mod tests;
mod work;

use std::sync::Arc;

use self::abi::MOST_OVERLAP;
use self::columns::{Signatures, SignedColumns};
use self::filter::TilesOfSets;
use self::fit::{Fit, estimate};
pub use self::fixed::FixedTiles;
use self::pieces::Pieces;
use self::plan::PlanLimits;
#[cfg(test)]
pub(in crate::set) use self::shape::TILES;
pub use self::shape::TileKernel;
pub(in crate::set) use self::strategy::{BitmapTiles, on_devices};
use self::work::{JobSettings, SetJob, SignatureForm};
use crate::engine::{MatchNeed, Pairing, PreparedJoin};
use crate::offload::tiles::TileJoin;
use crate::offload::{EachDevice, Offload, OnCpu, OnDevice, PreparedOffload};
use crate::runtime::{Device, DeviceError};
use crate::set::device::{DeviceJoin, ResidentSets};
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::join_spec::JoinSpec;

/// Whether the sets stay on the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// The sets stay where they fit.
    IfRoom,
    /// The sets travel with the works, in the smallest pieces that there are: for measurements and tests.
    Never,
}

/// Signs the build side on the devices of a join. Where it does not fit it travels with the works.
/// `on_cpu` does what devices fail to do.
///
/// # Errors
///
/// Where no device has the memory, or all have failed. The join has noted why.
fn prepare(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    join: &Arc<DeviceJoin>,
    (fit, residence): (Fit, Residence),
    on_cpu: OnCpu,
) -> Result<Arc<dyn PreparedJoin>, DeviceError> {
    let settings = settings(build, &spec, join, &fit);
    let tiling = PlanLimits::new(build, &settings.form.signatures, join.devices.memory);
    let (devices, pieces) =
        match residence == Residence::IfRoom && fits(build, join, &settings, &tiling) {
            true => (sign(build, join, &settings, &tiling)?, None),
            false => {
                let smallest = residence != Residence::IfRoom;
                let pieces = cut(build, &settings, &tiling, join.devices.memory, smallest)
                    .inspect_err(|error| join.devices.note_unfit("tiles", error))?;
                let devices = join.devices.iter().map(|device| {
                    let multiprocessors = device.multiprocessors();
                    Some(OnDevice { resident: None, multiprocessors })
                });
                (devices.collect(), Some(pieces))
            }
        };
    let build = Arc::clone(build);
    let resident = join.has_probe() && pieces.is_none();
    let family = TilesOfSets { spec, tiling, pieces };
    let filter = TileJoin { build: Arc::clone(&build), settings, resident, devices, family };
    let devices = Arc::clone(&join.devices);
    let (need, pairing) = (spec.need, spec.pairing);
    let offload = Offload { build, need, pairing, tuning: spec.tuning, devices, filter, on_cpu };
    Ok(Arc::new(PreparedOffload::new(offload)))
}

/// The build side signed on every device.
fn sign(
    build: &SetCollection,
    join: &DeviceJoin,
    settings: &JobSettings,
    tiling: &PlanLimits,
) -> Result<EachDevice<SetJob>, DeviceError> {
    join.on_each(|device, sets| {
        let signed =
            SignedColumns::sign(device, build, sets, &settings.form.signatures, &tiling.sizes)?;
        let multiprocessors = device.multiprocessors();
        Ok(OnDevice { resident: Some(signed), multiprocessors })
    })
}

/// Whether sets and signatures fit on the devices of a join, beside its works.
fn fits(
    build: &SetCollection,
    join: &DeviceJoin,
    settings: &JobSettings,
    tiling: &PlanLimits,
) -> bool {
    let works = Device::SLOTS as u64 * settings.buffer_bytes();
    let signed = SignedColumns::bytes_of(build, &settings.form.signatures, &tiling.sizes);
    let sets = ResidentSets::bytes_of(build, join.counts_rows);
    let bytes = sets.saturating_add(signed).saturating_add(works);
    join.has_build() && bytes <= join.devices.memory && is_small(build)
}

/// Whether overlaps are within what kernels compare.
fn is_small(build: &SetCollection) -> bool {
    build.runs().greatest_size() < MOST_OVERLAP
}

/// The pieces of a build side that does not fit.
fn cut(
    build: &SetCollection,
    settings: &JobSettings,
    tiling: &PlanLimits,
    memory: u64,
    smallest: bool,
) -> Result<Pieces, DeviceError> {
    match is_small(build) {
        true => Pieces::cut(build, settings, tiling, memory, smallest),
        false => Err(DeviceError::OutOfMemory {
            what: "tiles of the largest sets of the join",
            bytes: u64::from(build.runs().greatest_size()) * size_of::<u32>() as u64,
            free: memory,
        }),
    }
}

/// The settings of a join's jobs.
fn settings(build: &SetCollection, spec: &JoinSpec, join: &DeviceJoin, fit: &Fit) -> JobSettings {
    let average = build.token_count() as f64 / f64::from(build.len().max(1));
    let signatures = Signatures {
        shape: fit.shape,
        scheme: scheme::TileScheme::new(build, fit.shape.width),
        members: fit.members,
    };
    JobSettings {
        form: SignatureForm { signatures, exact: spec.need == MatchNeed::Scores },
        capacity: fit.capacity,
        dense_pairs: fit::compared_in_slice(average),
        counts: spec.need == MatchNeed::Count,
        first_only: spec.need == MatchNeed::Exists,
        same: join.devices.self_join && spec.pairing == Pairing::Unordered,
    }
}
