//! Nearest vectors on devices.
//!
//! ```text
//! numbers ─► halves ─► the best of groups of a sample ─► a threshold for each row
//!                                                              │ rows that are columns: sorted by it,
//!                                                              ▼ half of the pairs
//!       neighbours ◄─ f64 ◄─ the few near the k-th ◄─ buckets ◄─ pairs that pass, with their sums
//! ```
//!
//! `kernels/nearest_bounds.cuh` has the proofs. One work does all of it, for a band of rows: all of them, the share of
//! one of several devices, or as many as there is room for. The rows of a band that are columns come first among them,
//! so that pairs within the band serve both directions. Where too many pairs pass, as of vectors that halves cannot
//! tell apart, the search finds nothing and says so; a row whose neighbours alone had no room is not served.

mod abi;
mod arrays;
mod fetch;
mod launch;
mod plan;
mod side;
#[cfg(test)]
mod tests;
mod work;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use simjoin_core::vector::bands::{Bands, NeighbourBand};
use simjoin_core::vector::metric::Metric;
use simjoin_core::vector::nearest::{Declined, NearestOnDevices, NearestVectors};

use self::arrays::DeviceSearch;
use self::plan::{
    MOST_NEIGHBOURS, SampledStages, estimated_work, expected_pairs, found_room, padded, room, units,
};
use self::side::DeviceSide;
use self::work::{FoundNeighbours, search};
use crate::engine::{DeviceChoice, DeviceRequest, GpuOptions};
use crate::memory::Memory;
use crate::offload::{Devices, OpenDevices};
use crate::runtime::{Device, DeviceError};
use crate::tuning::Size;
use crate::vector::probe::kernel_of;
use crate::vector::shape::{NEAREST, VECTORS, VectorKernel, VectorShape};

impl From<DeviceError> for Declined {
    fn from(error: DeviceError) -> Self {
        Self(error.to_string())
    }
}

/// The search on devices.
#[derive(Debug)]
pub(super) struct NearestSearch;

impl NearestOnDevices for NearestSearch {
    fn is_open(&self) -> bool {
        Device::opened(0).is_some()
    }

    fn may_find(&self, neighbours: usize, right: u32, dimensions: u32) -> bool {
        let shape = VectorShape::new(VectorKernel::Warpgroups, dimensions);
        (1..=MOST_NEIGHBOURS).contains(&neighbours)
            && dimensions > 0
            && SampledStages::of(right, neighbours as u32, &shape).is_some()
    }

    fn find(
        &self,
        vectors: &NearestVectors<'_>,
        choice: DeviceChoice,
        options: &GpuOptions,
        reservation: &dyn Memory,
    ) -> Result<Bands, Declined> {
        let (left, itself) = (vectors.left.count(), vectors.right.is_none());
        let right = vectors.right.map_or(left, |right| right.count());
        let neighbours = vectors.neighbours as u32;
        let failures = Arc::new(Mutex::new(String::new()));
        let told = Arc::clone(&failures);
        let request = DeviceRequest {
            choice,
            self_join: itself,
            work: estimated_work([left, right], itself, neighbours, vectors.dimensions),
            on_failure: Arc::new(move |what| *told.lock() = format!(", {what}")),
        };
        let sides = OpenDevices::open(&request, options, |open| {
            SidesOnDevices::on(open, vectors, options, &request)
        })?;
        let bands = sides.find(reservation)?;
        let seconds = bands.iter().map(|band| band.nanos as f64).sum::<f64>() / 1e9;
        let device = format!("{}{}, kernels {seconds:.3} s", sides.devices, failures.lock());
        Ok(Bands { device, bands })
    }
}

/// Sides on devices, and what searches of them share.
struct SidesOnDevices<'a> {
    vectors: &'a NearestVectors<'a>,
    devices: Devices,
    /// By device, the left and the right vectors.
    sides: Vec<[Arc<DeviceSide>; 2]>,
    shape: VectorShape,
    /// The bytes that a search may take.
    memory: u64,
    centre: Arc<Vec<u64>>,
}

/// The reason why a band of rows has no neighbours.
enum Unfound {
    /// The pairs that pass had no room.
    NoRoom(Declined),
    Refused(Declined),
}

/// Room for so many times the pairs that are expected to pass; more where that was too little.
const ROOMS: [u64; 2] = [2, 16];

impl<'a> SidesOnDevices<'a> {
    /// Copies the sides to devices.
    ///
    /// # Errors
    ///
    /// Where no device can be used.
    fn on(
        mut open: OpenDevices,
        vectors: &'a NearestVectors<'a>,
        options: &GpuOptions,
        request: &DeviceRequest,
    ) -> Result<Self, DeviceError> {
        open.load(&VECTORS)?;
        open.load(&NEAREST)?;
        open.each(|device| match kernel_of(device)? {
            VectorKernel::Warpgroups => Ok(()),
            _ => Err(DeviceError::Unsupported {
                name: device.name().to_string(),
                capability: device.capability(),
                needed: "9.0",
            }),
        })?;
        // A band may go to any device, so it suits the smallest.
        let memory = open.limits(options.memory_limit, |_| 0)?.into_iter().min().unwrap_or(0);
        let dimensions = vectors.dimensions;
        let has_form = options.integers && vectors.metric == Metric::Euclidean;
        let of_integers = VectorShape::of_integers(VectorKernel::Warpgroups, dimensions);
        let of_integers = of_integers.filter(|_| has_form);
        let copies = open.each(|device| {
            let copy = |side| DeviceSide::upload(device, side, dimensions, memory / 2);
            let left = copy(vectors.left)?;
            let right = vectors.right.map_or_else(|| Ok(Arc::clone(&left)), copy)?;
            let centre = match of_integers {
                Some(_) => {
                    let range = left.range(device, dimensions)?;
                    range.with(right.range(device, dimensions)?).centre(vectors.metric)
                }
                None => None,
            };
            Ok(([left, right], centre))
        })?;
        let (sides, centres): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
        // All have the same numbers.
        let (shape, centre) = match centres.first().copied().flatten().zip(of_integers) {
            Some((centre, shape)) => (shape, vec![f64::from(centre); dimensions as usize]),
            None => {
                let shape = VectorShape::new(VectorKernel::Warpgroups, dimensions);
                (shape, vectors.centre.clone())
            }
        };
        let taken = sides.first().map_or(0, |[left, right]| {
            let right = vectors.right.map_or(0, |_| right.memory().bytes());
            left.memory().bytes() + right
        });
        Ok(Self {
            vectors,
            devices: Devices::new(open, memory, None, request),
            sides,
            shape,
            memory: memory.saturating_sub(taken),
            centre: Arc::new(centre.iter().map(|number| number.to_bits()).collect()),
        })
    }

    fn find(&self, reservation: &dyn Memory) -> Result<Vec<NeighbourBand>, Declined> {
        let mut reason = Declined("too little memory".to_string());
        for times in ROOMS {
            let Some(width) = self.width(times) else { break };
            match self.find_in_bands(width, times, reservation)? {
                Ok(bands) => return Ok(bands),
                Err(Unfound::NoRoom(why)) => reason = why,
                Err(Unfound::Refused(why)) => return Err(why),
            }
        }
        Err(reason)
    }

    /// The rows of a band: a device's share, or as many of it as there is room for.
    fn width(&self, times: u64) -> Option<u32> {
        const LEAST: Size<u32> = Size { usual: 1 << 14, small: 64 };
        let mut width = self.vectors.left.count().div_ceil(self.devices.len() as u32).max(1);
        let device = self.devices.iter().next()?;
        let fits = |width: u32| {
            let search = self.search(0, device, 0..width, times);
            search.is_some_and(|search| search.bytes() <= self.memory)
        };
        while !fits(width) {
            width = width.div_ceil(2);
            if width < self.vectors.tuning.size(LEAST) {
                return None;
            }
        }
        Some(width)
    }

    /// Finds the neighbours of rows in bands, each on one of the devices.
    fn find_in_bands(
        &self,
        width: u32,
        times: u64,
        reservation: &dyn Memory,
    ) -> Result<Result<Vec<NeighbourBand>, Unfound>, DeviceError> {
        let count = self.vectors.left.count();
        let bands = (0..count).step_by(width as usize);
        let bands = bands.map(|first| first..count.min(first.saturating_add(width))).collect();
        let has_failed = AtomicBool::new(false);
        let found = self.devices.share(bands, |number, device, rows: &Range<u32>| {
            // The other bands are looked for in vain.
            if has_failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let Some(search) = self.search(number, device, rows.clone(), times) else {
                let why = Declined("too few vectors in a sample".to_string());
                return Ok(Some(Err(Unfound::Refused(why))));
            };
            let found = self.run(device, search, reservation)?;
            has_failed.fetch_or(found.is_err(), Ordering::Relaxed);
            Ok(Some(found))
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The search for the neighbours of some rows on a device.
    fn search(
        &self,
        number: usize,
        device: &Device,
        rows: Range<u32>,
        times: u64,
    ) -> Option<DeviceSearch> {
        let [left, right] = self.sides.get(number)?;
        let (shape, same) = (self.shape, self.vectors.right.is_none());
        let neighbours = self.vectors.neighbours as u32;
        let (count, columns) = (rows.end - rows.start, right.count);
        let sample = SampledStages::of(columns, neighbours, &shape)?;
        let stage = shape.stage_columns;
        let expected = expected_pairs(count, columns, neighbours, sample, stage);
        let list_room = room(expected, times, self.vectors.tuning);
        Some(DeviceSearch {
            metric: self.vectors.metric,
            dimensions: self.vectors.dimensions,
            shape,
            multiprocessors: device.multiprocessors(),
            neighbours,
            with_ties: self.vectors.with_ties,
            sample,
            same,
            centre: Arc::clone(&self.centre),
            left: Arc::clone(left),
            right: Arc::clone(right),
            sampled: units(count, sample.stages, &shape, false),
            tiles: units(count, padded(columns) / stage, &shape, same),
            list_room,
            bucket_room: list_room,
            found_room: found_room(count, neighbours, self.vectors.with_ties),
            rows,
            tuning: self.vectors.tuning,
        })
    }

    /// Runs a search; the reason where it finds nothing.
    fn run(
        &self,
        device: &Device,
        of: DeviceSearch,
        reservation: &dyn Memory,
    ) -> Result<Result<NeighbourBand, Unfound>, DeviceError> {
        let (rows, judge, bytes) = (of.rows.clone(), of.judge(), of.bytes());
        let (found, memory) = search(device, of, reservation.new_empty())?;
        // The queue keeps the memory for the next works, which seldom need as much.
        if bytes > self.memory / 4 {
            device.trim();
        }
        if let Some(why) = judge.failure(&found.tally) {
            let is_final = found.tally.unusual > 0 || found.tally.unbounded > 0;
            let why = Declined(why.to_string());
            return Ok(Err(if is_final { Unfound::Refused(why) } else { Unfound::NoRoom(why) }));
        }
        if found.refused {
            return Ok(Err(Unfound::Refused(Declined("host memory was refused".to_string()))));
        }
        let FoundNeighbours { starts, counts, columns, values, nanos, .. } = found;
        Ok(Ok(NeighbourBand { rows, starts, counts, columns, values, memory, nanos }))
    }
}
