//! Filters by inverted index, wholly on devices.
//!
//! The first tokens of the build sets are indexed on the device, from its copy of the sets
//! ([`index`]): by token, the sets that have it in their prefix, ascending and with them by key and
//! size, so that the partners of a row (a probe set) are one stretch of each list. Rows look their own
//! prefixes up, and the candidates are decided by their tokens. How a row finds its candidates is said
//! by a [`CandidateLookup`]: that of `bwjoin` has a warp a row, which decides each posting by itself, by
//! size, places and signature. Other lookups come from outside of the crate.
//!
//! A work has room for a fixed number of candidates. A row that finds none, or has read its share of
//! postings, is left with the first posting that is undecided, and goes on from there in a later work.

mod abi;
mod filter;
mod index;
mod lookup;
mod plan;
#[cfg(test)]
pub mod tests;
mod work;

use std::sync::Arc;

use crate::error::Result;

#[cfg(test)]
pub(in crate::set) use self::abi::INDEXED;
use self::filter::IndexFilter;
use self::index::{DeviceIndex, IndexShape, postings_within};
use self::lookup::indexed_tokens;
pub use self::lookup::{ByWarps, CandidateLookup, Launcher};
use self::plan::PlanLimits;
use self::work::JobSettings;
use crate::engine::{
    Cost, DeviceOpener, DevicePlace, Estimate, MatchNeed, Pairing, PrepareContext, PreparedJoin,
    Strategy, Terms, required_place,
};
use crate::offload::{Offload, OnCpu, OnDevice, PreparedOffload};
use crate::runtime::{Device, DeviceError};
use crate::set::bitmap;
use crate::set::device::{DeviceJoin, OPENER, ResidentSets, sending};
use crate::set::offload;
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::costs;
use simjoin_core::set::filter_verify::FilterVerify;
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::join_spec::JoinSpec;

/// Sets are smaller than this.
const MOST_SIZE: u32 = 1 << 30;
/// Candidates of a work, and its cells, at most.
const MOST_CANDIDATES: u64 = 1 << 24;
const MOST_CELLS: u64 = 1 << 28;
/// Rows of a work at most; tokens of rows that travel with it, at least and at most.
const MOST_ROWS: u32 = 1 << 18;
const TOKENS: (u64, u64) = (1 << 12, 1 << 24);

/// The strategy `bwjoin`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexedJoin;

/// The index on the devices of a join.
///
/// # Errors
///
/// Where no device has the memory, or all have failed. The join has noted why.
fn on_devices(
    build: &Arc<SetCollection>,
    spec: JoinSpec,
    join: &Arc<DeviceJoin>,
    settings: JobSettings,
    on_cpu: OnCpu,
) -> Result<Arc<dyn PreparedJoin>, DeviceError> {
    let shape = Arc::new(shape(build, &spec, join, &settings).inspect_err(|error| {
        join.devices.note_unfit("an index", error);
    })?);
    let devices = join.on_each(|device, sets| {
        let resident = DeviceIndex::make(device, sets, &shape)?;
        Ok(OnDevice { resident, multiprocessors: device.multiprocessors() })
    })?;
    let limits = limits(join, &settings, &shape);
    let (build, resident) = (Arc::clone(build), join.has_probe());
    let filter =
        IndexFilter { build: Arc::clone(&build), spec, settings, limits, resident, shape, devices };
    let (need, pairing, devices) = (spec.need, spec.pairing, Arc::clone(&join.devices));
    let offload = Offload { build, need, pairing, tuning: spec.tuning, devices, filter, on_cpu };
    Ok(Arc::new(PreparedOffload::new(offload)))
}

/// The settings of a join's jobs.
fn settings(lookup: Arc<dyn CandidateLookup>, spec: &JoinSpec, join: &DeviceJoin) -> JobSettings {
    let most = share(join) / (abi::CANDIDATE_BYTES + 12);
    let capacity = (spec.gpu.candidate_memory / abi::CANDIDATE_BYTES).min(most);
    let least = lookup.least_capacity();
    let (budget, row_budget) = lookup.budgets();
    JobSettings {
        lookup,
        capacity: capacity.clamp(least.into(), MOST_CANDIDATES) as u32,
        budget,
        row_budget,
        counts: spec.need == MatchNeed::Count,
        exact: spec.need == MatchNeed::Scores,
        first_only: spec.need == MatchNeed::Exists,
        same: join.devices.self_join && spec.pairing == Pairing::Unordered,
    }
}

/// The bytes of a device that a work may take: an eighth of a slot's share of the memory.
fn share(join: &DeviceJoin) -> u64 {
    join.devices.memory / (8 * Device::SLOTS as u64)
}

/// The parts and postings of the index of a join.
///
/// # Errors
///
/// Where sets and index do not fit on the devices, beside the works.
fn shape(
    build: &SetCollection,
    spec: &JoinSpec,
    join: &DeviceJoin,
    settings: &JobSettings,
) -> Result<IndexShape, DeviceError> {
    let lookup = &*settings.lookup;
    let prefix = |size: u32| indexed_tokens(lookup, spec, size);
    let too_large = |bytes| DeviceError::OutOfMemory {
        what: "the inverted index of the join",
        bytes,
        free: join.devices.memory,
    };
    let of_sets = ResidentSets::bytes_of(build, join.counts_rows);
    if !join.has_build() || build.runs().greatest_size() >= MOST_SIZE {
        return Err(too_large(of_sets));
    }
    let shape = IndexShape::new(
        build,
        prefix,
        lookup.part_sets(),
        postings_within(join.devices.memory / 8),
    );
    let bytes = of_sets.saturating_add(bytes_beside(join, settings, &shape));
    if bytes <= join.devices.memory { Ok(shape) } else { Err(too_large(bytes)) }
}

/// The bytes of an index and of the works, or, before these, of the postings that are sorted.
fn bytes_beside(join: &DeviceJoin, settings: &JobSettings, shape: &IndexShape) -> u64 {
    let (index, scratch) = shape.bytes();
    let rows =
        if settings.lookup.has_cells() { u64::from(limits(join, settings, shape).rows) } else { 0 };
    let cells = rows * u64::from(shape.greatest_part()) * size_of::<u32>() as u64;
    let works = Device::SLOTS as u64 * (settings.buffer_bytes() + cells);
    index.saturating_add(works.max(scratch))
}

/// The limits by which plans are cut.
fn limits(join: &DeviceJoin, settings: &JobSettings, shape: &IndexShape) -> PlanLimits {
    let cells = (2 * share(join) / size_of::<u32>() as u64).min(MOST_CELLS);
    let rows = match settings.lookup.has_cells() {
        true => (cells / u64::from(shape.greatest_part().max(1))).clamp(1, MOST_ROWS.into()) as u32,
        false => MOST_ROWS,
    };
    let tokens = (share(join) / size_of::<u32>() as u64).clamp(TOKENS.0, TOKENS.1);
    PlanLimits { rows, tokens }
}

/// The join on the CPU for what devices fail to do.
fn on_cpu(join: &SetJoin, context: PrepareContext<'_>) -> OnCpu {
    let ppjoin = FilterVerify::PPJoin;
    let words = ppjoin.cheapest(join, costs::on_cpu).words;
    let sets = Arc::clone(&join.build);
    offload::on_cpu(&join.build, join.spec, context.reservation, move |spec, context| {
        let words = (words, None);
        Ok(Arc::new(ppjoin.candidates_with(Arc::clone(&sets), spec, words, context)?))
    })
}

/// Prepares a join by an index on devices, which rows look up by `lookup`.
///
/// # Errors
///
/// When memory is refused, or the work cancelled; where demanded devices fail.
pub fn prepare(
    lookup: Arc<dyn CandidateLookup>,
    join: &SetJoin,
    device: &Arc<DeviceJoin>,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let (build, spec) = (&join.build, join.spec);
    context.reservation.try_grow(IndexShape::footprint(build))?;
    let on_cpu = on_cpu(join, context);
    match on_devices(build, spec, device, settings(lookup, &spec, device), on_cpu) {
        Ok(prepared) => Ok(prepared),
        Err(error) if device.devices.demanded && device.devices.have_failed() => Err(error.into()),
        // The devices lack the memory for an index.
        Err(_) if device.devices.demanded => bitmap::on_devices(join, device, context),
        Err(_) => FilterVerify::PPJoin.prepare_on_cpu(join, context),
    }
}

/// The room of the works of an index, where measurements and tests give it.
#[derive(Debug, Clone, Copy)]
pub struct FixedLimits {
    /// Candidates of a work, where its lookup takes so few.
    pub capacity: u32,
    /// Postings that a work reads, and a row.
    pub budget: u64,
    pub row_budget: u64,
}

/// [`prepare`] with given room. The CPU joins where a device that is not demanded lacks the memory.
///
/// # Errors
///
/// When memory is refused, or the work cancelled; where demanded devices fail.
pub fn prepare_within(
    lookup: Arc<dyn CandidateLookup>,
    FixedLimits { capacity, budget, row_budget }: FixedLimits,
    join: &SetJoin,
    device: Option<&Arc<DeviceJoin>>,
    context: PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>> {
    let cpu = || on_cpu(join, context);
    let Some(device) = device else { return cpu().into_prepared() };
    let capacity = capacity.max(lookup.least_capacity());
    let settings = settings(lookup, &join.spec, device);
    let settings = JobSettings { capacity, budget, row_budget, ..settings };
    match on_devices(&join.build, join.spec, device, settings, cpu()) {
        Ok(prepared) => Ok(prepared),
        Err(error) if device.devices.demanded => Err(error.into()),
        Err(_) => cpu().into_prepared(),
    }
}

impl Strategy<SetJoin> for IndexedJoin {
    fn name(&self) -> &'static str {
        "bwjoin"
    }

    fn devices(&self) -> Option<&'static dyn DeviceOpener<SetJoin>> {
        Some(&OPENER)
    }

    fn estimate(&self, join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
        estimate(join, terms)
    }

    fn prepare(
        &self,
        join: &SetJoin,
        _: &Estimate,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        prepare(Arc::new(ByWarps), join, &required_place(place)?, context)
    }
}

/// The cost of `bwjoin` on the device that is taken where none is named, as measured on an H200.
///
/// # Errors
///
/// When the work is cancelled.
pub fn estimate(join: &mut SetJoin, terms: &Terms<'_>) -> Result<Estimate> {
    if join.is_long() {
        join.sample(terms.context)?;
    }
    Ok(Estimate::new(Some(cost(join)), ()))
}

fn cost(join: &SetJoin) -> Cost {
    let (statistics, spec) = (&join.statistics, &join.spec);
    /// Nanoseconds for a posting that is indexed, and one that is read; for looking up a list, for a
    /// candidate; for a set of another input, whose batches are works of their own; of a join besides.
    const INDEX: f64 = 0.2;
    const READ: f64 = 0.03;
    const LOOKUP: f64 = 0.05;
    const CANDIDATE: f64 = 1.0;
    const TRAVELLING: f64 = 40.0;
    const START: f64 = 1.5e6;
    let travelling = if spec.pairing == Pairing::All { statistics.probed } else { 0.0 };
    let candidates = statistics.postings * join.suffix_share(1);
    let device = START
        + TRAVELLING * travelling
        + INDEX * statistics.indexed
        + LOOKUP * statistics.lookups
        + READ * statistics.postings
        + CANDIDATE * candidates;
    let sent = sending(statistics, 0.0);
    let bytes = 4.0 * statistics.tokens + 20.0 * statistics.sets + 16.0 * statistics.indexed;
    let setup = match Device::opened(0) {
        _ if spec.gpu.memory_limit.is_some_and(|limit| bytes > limit as f64) => f64::INFINITY,
        Some(_) => 0.0,
        None => sent.setup,
    };
    Cost { device, setup, ..sent }
}
