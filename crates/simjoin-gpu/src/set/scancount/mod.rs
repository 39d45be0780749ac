//! Overlaps of few, large sets, on a device: `scancount` placed there.
//!
//! As on the CPU ([`simjoin_core::set::scancount`]), rare tokens add to counters and frequent ones are bits.
//! A work has rows (probe sets) and columns (build sets), and a counter for each pair:
//!
//! ```text
//! light tokens ─► ranges ─► lists of a tile's rows, in shared memory ◄─ tokens of its columns
//!                                       └─► overlaps += 1
//! heavy tokens ─► bits ─► one-bit matrix products of tiles ─► overlaps += bits in common
//! overlaps ─► the measure itself, in doubles ─► matches
//! ```
//!
//! No index is written: sets ascend, so that the tokens of a range are a stretch of each set, which is
//! read once for each tile. Where light tokens end is a matter of cost (`cut`). All counts are
//! integers and add up; both memories, of starts of ranges and of bits, are bounded by slices.
//!
//! [`crate::offload`] has the way of jobs to devices and back.

mod abi;
mod cut;
mod filter;
mod shape;
mod strategy;
#[cfg(test)]
pub(in crate::set) mod tests;
mod work;

use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::join_spec::JoinSpec;
use simjoin_core::set::measure::Role;

use self::cut::{PairCounts, TokenCut, sizes};
use self::filter::LargeFilter;
use self::shape::LightShape;
pub(in crate::set) use self::strategy::LargeSets;
use self::work::{JobSettings, LargeDevice};
use crate::engine::{Cost, MatchNeed, Pairing, PrepareContext, PreparedJoin};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::{Offload, OnCpu, PreparedOffload};
use crate::runtime::{Device, DeviceError};
use crate::set::device::{DeviceJoin, ResidentSets, sending};

/// Pairs of a work at most, and the matches that it gives, unless a row may have more.
const CELLS: u64 = 1 << 26;
const MATCHES: u32 = 1 << 18;
/// Bytes of a work for each kind of array that may be cut, at least and at most.
const BYTES: (u64, u64) = (1 << 16, 2 << 30);

/// The choice of a cut of tokens.
#[derive(Debug, Clone, Copy)]
enum CutChoice {
    /// The cut of the least cost.
    Cheapest,
    /// A cut at a given first heavy token, with so little room that work is cut.
    #[cfg(test)]
    Fixed(tests::FixedLarge),
}

/// Brings a join to the devices that hold its build sets. `on_cpu` makes the join that does what they
/// fail to do. The inner error: no device has the memory, or all have failed; the join has noted why.
///
/// # Errors
///
/// Where memory is refused.
fn prepare(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    join: &Arc<DeviceJoin>,
    choice: CutChoice,
    on_cpu: impl FnOnce() -> OnCpu,
    context: PrepareContext<'_>,
) -> Result<Result<Arc<dyn PreparedJoin>, DeviceError>> {
    let settings = match settings(build, &spec, join) {
        Ok(settings) => settings,
        Err(error) => return Ok(Err(error)),
    };
    let (settings, cut) = match choice {
        CutChoice::Cheapest => (settings, cut(build, &settings, context.reservation)?),
        #[cfg(test)]
        CutChoice::Fixed(fixed) => fixed.apply(build, settings),
    };
    Ok(on_devices(build, spec, join, settings, cut, on_cpu()))
}

fn on_devices(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    join: &Arc<DeviceJoin>,
    settings: JobSettings,
    cut: TokenCut,
    on_cpu: OnCpu,
) -> Result<Arc<dyn PreparedJoin>, DeviceError> {
    let devices = join.on_each(|device, sets| {
        Ok(LargeDevice { resident: sets, multiprocessors: device.multiprocessors() })
    })?;
    let filter = LargeFilter {
        build: Arc::clone(build),
        spec,
        settings,
        cut: Arc::new(cut),
        column_sizes: Arc::new(sizes(build, 0..build.len())),
        tokens: share(join) / size_of::<u32>() as u64,
        resident: join.has_probe(),
        devices,
    };
    let (need, pairing) = (spec.need, spec.pairing);
    let (build, devices) = (Arc::clone(build), Arc::clone(&join.devices));
    let tuning = spec.tuning;
    let offload = Offload { build, need, pairing, tuning, devices, filter, on_cpu };
    Ok(Arc::new(PreparedOffload::new(offload)))
}

/// The bytes of a device that one kind of array of a work may take.
fn share(join: &DeviceJoin) -> u64 {
    (join.devices.memory / (8 * Device::SLOTS as u64)).clamp(BYTES.0, BYTES.1)
}

/// The settings of a join's jobs.
///
/// # Errors
///
/// Where the devices do not hold the build sets. The join notes why.
fn settings(
    build: &SetCollection,
    spec: &JoinSpec,
    join: &DeviceJoin,
) -> Result<JobSettings, DeviceError> {
    if !join.has_build() {
        let error = DeviceError::OutOfMemory {
            what: "the large sets of the join",
            bytes: ResidentSets::bytes_of(build, join.counts_rows),
            free: join.devices.memory,
        };
        join.devices.note_unfit("overlaps", &error);
        return Err(error);
    }
    let capabilities = join.devices.iter().map(|device| device.capability());
    let shapes = capabilities.map(LightShape::of);
    let shape = shapes.reduce(|a, b| if a == b { a } else { LightShape::SMALL });
    let share = share(join);
    Ok(JobSettings {
        shape: shape.unwrap_or(LightShape::SMALL),
        bounds: spec.bounds,
        second: spec.probe_role == Role::Second,
        cells: (share / 4).min(CELLS),
        capacity: MATCHES.max(build.len()),
        starts_bytes: share,
        bits_bytes: share,
        counts: spec.need == MatchNeed::Count,
        first_only: spec.need == MatchNeed::Exists,
        same: spec.pairing == Pairing::Unordered,
    })
}

/// Where the tokens of a join are cut. Grows the reservation by what making it takes.
fn cut(
    build: &SetCollection,
    settings: &JobSettings,
    reservation: &dyn Memory,
) -> Result<TokenCut> {
    let footprint = TokenCut::footprint(build);
    reservation.try_grow(footprint + build.len() as usize * size_of::<u32>())?;
    let cut = TokenCut::new(build, pairs(build, settings), &settings.shape);
    reservation.shrink(footprint.saturating_sub(cut.size_in_bytes()));
    Ok(cut)
}

/// The pairs of a work.
fn pairs(build: &SetCollection, settings: &JobSettings) -> PairCounts {
    let columns = f64::from(build.len().max(1));
    let rows = (settings.cells as f64 / columns).clamp(1.0, columns);
    PairCounts { rows, columns, same: settings.same && rows == columns }
}

/// The cost of the join on the device that is taken where none is named, as measured on an H200. Of the
/// tokens of all sets the share `light_share` adds to counters, and `heavy` tokens own bits.
fn estimate(join: &SetJoin, light_share: f64, heavy: f64) -> Cost {
    /// Nanoseconds for a light token in a tile; for a heavy token, as a bit that is written, and as one
    /// of a pair; for a pair; of a join besides.
    const LIGHT: f64 = 0.014;
    const BIT: f64 = 0.0002;
    const HEAVY: f64 = 1e-6;
    const PAIR: f64 = 0.01;
    const START: f64 = 2e6;
    let (statistics, spec) = (&join.statistics, &join.spec);
    let light = statistics.tokens * light_share;
    let tiles = (statistics.sets / f64::from(LightShape::LARGE.tile)).ceil();
    let pairs = statistics.admissible_pairs;
    let device = START
        + light * LIGHT * (tiles + 1.0)
        + heavy * (statistics.sets * BIT + pairs * HEAVY)
        + pairs * PAIR;
    let sent = sending(statistics, 0.0);
    let bytes = 4.0 * statistics.tokens + 16.0 * statistics.sets;
    let setup = match Device::opened(0) {
        _ if spec.gpu.memory_limit.is_some_and(|limit| bytes > limit as f64) => f64::INFINITY,
        Some(_) => 0.0,
        None => sent.setup,
    };
    Cost { device, setup, ..sent }
}
