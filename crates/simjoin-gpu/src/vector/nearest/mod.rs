//! Nearest vectors on a device.
//!
//! ```text
//! numbers ─► halves ─► the best of groups of a sample ─► a threshold for each row
//!                                                              │ rows that are columns: sorted by it,
//!                                                              ▼ half of the pairs
//!       neighbours ◄─ f64 ◄─ the few near the k-th ◄─ buckets ◄─ pairs that pass, with their sums
//! ```
//!
//! `kernels/nearest_bounds.cuh` has the proofs. One work does all of it. Rows go through it in bands where the
//! device has no room for all of them. Where too many pairs pass, as of vectors that halves cannot tell
//! apart, the search finds nothing and says so; a row whose neighbours alone had no room is not served.

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

use simjoin_core::vector::bands::{Bands, NeighbourBand};
use simjoin_core::vector::nearest::{Declined, NearestOnDevices, NearestVectors};

use self::arrays::DeviceSearch;
use self::plan::{MOST_NEIGHBOURS, SampledStages, expected_pairs, found_room, padded, room, units};
use self::side::DeviceSide;
use self::work::{FoundNeighbours, search};
use crate::engine::{DeviceChoice, GpuOptions};
use crate::memory::Memory;
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
        let ordinal = match choice {
            DeviceChoice::Cuda(Some(ordinals)) => ordinals.iter().next().unwrap_or(0),
            DeviceChoice::Cuda(None) | DeviceChoice::Auto | DeviceChoice::Cpu => 0,
        };
        let device = Device::open(ordinal)?;
        device.load(&VECTORS)?;
        device.load(&NEAREST)?;
        if kernel_of(&device)? != VectorKernel::Warpgroups {
            return Err(Declined("a device of another compute capability than 9.0".to_string()));
        }
        let memory = match options.memory_limit {
            Some(limit) => limit.min(device.total_memory()),
            None => device.free_memory()? / 10 * 9,
        };
        let dimensions = vectors.dimensions;
        let left = DeviceSide::upload(&device, vectors.left, dimensions, memory / 2)?;
        let right = match vectors.right {
            Some(right) => DeviceSide::upload(&device, right, dimensions, memory / 2)?,
            None => Arc::clone(&left),
        };
        let of_sides = [Some(&left), vectors.right.and(Some(&right))].into_iter().flatten();
        let taken: u64 = of_sides.map(|side| side.memory().bytes()).sum();
        let plan = DeviceSides {
            vectors,
            device: &device,
            left,
            right,
            shape: VectorShape::new(VectorKernel::Warpgroups, dimensions),
            memory: memory.saturating_sub(taken),
            centre: Arc::new(vectors.centre.iter().map(|number| number.to_bits()).collect()),
        };
        let bands = plan.find(reservation)?;
        let seconds = bands.iter().map(|band| band.nanos as f64).sum::<f64>() / 1e9;
        let device = format!("cuda:{ordinal} {}, kernels {seconds:.3} s", device.name());
        Ok(Bands { device, bands })
    }
}

/// Sides on a device, and what searches of them share.
struct DeviceSides<'a> {
    vectors: &'a NearestVectors<'a>,
    device: &'a Device,
    left: Arc<DeviceSide>,
    right: Arc<DeviceSide>,
    shape: VectorShape,
    /// The bytes that a search may take.
    memory: u64,
    centre: Arc<Vec<u64>>,
}

/// Room for so many times the pairs that are expected to pass; more where that was too little.
const ROOMS: [u64; 2] = [2, 16];

impl DeviceSides<'_> {
    fn find(&self, reservation: &dyn Memory) -> Result<Vec<NeighbourBand>, Declined> {
        let all = 0..self.left.count;
        let mut reason = Declined("too little memory".to_string());
        let whole = ROOMS.iter().map(|times| self.search(all.clone(), true, *times));
        let whole = whole.flatten().filter(|_| self.vectors.right.is_none());
        for search in whole.filter(|search| search.bytes() <= self.memory) {
            match self.run(search, reservation)? {
                Ok(band) => return Ok(vec![band]),
                Err(why) => reason = why,
            }
        }
        // Pairs that had no room in all of the memory have none in bands of rows either, mostly.
        if self.vectors.right.is_none() && reason.0 != "too little memory" {
            return Err(reason);
        }
        for times in ROOMS {
            match self.find_in_bands(times, reservation)? {
                Ok(bands) => return Ok(bands),
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// Finds the neighbours of one band of rows after the other, of as many rows as there is room for.
    fn find_in_bands(
        &self,
        times: u64,
        reservation: &dyn Memory,
    ) -> Result<Result<Vec<NeighbourBand>, Declined>, Declined> {
        const LEAST: Size<u32> = Size { usual: 1 << 14, small: 64 };
        let count = self.left.count;
        let mut width = count;
        let fits = |width: u32| {
            self.search(0..width, false, times).is_some_and(|search| search.bytes() <= self.memory)
        };
        while !fits(width) {
            width = width.div_ceil(2);
            if width < self.vectors.tuning.size(LEAST) {
                return Ok(Err(Declined("too little memory".to_string())));
            }
        }
        let mut bands = vec![];
        for first in (0..count).step_by(width.max(1) as usize) {
            let rows = first..count.min(first.saturating_add(width));
            let Some(search) = self.search(rows, false, times) else {
                return Err(Declined("too few vectors in a sample".to_string()));
            };
            match self.run(search, reservation)? {
                Ok(band) => bands.push(band),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(bands))
    }

    fn search(&self, rows: Range<u32>, same: bool, times: u64) -> Option<DeviceSearch> {
        let shape = self.shape;
        let neighbours = self.vectors.neighbours as u32;
        let (count, columns) = (rows.end - rows.start, self.right.count);
        let sample = SampledStages::of(columns, neighbours, &shape)?;
        let stage = shape.stage_columns;
        let expected = expected_pairs(count, columns, neighbours, sample, stage);
        let list_room = room(expected, times, self.vectors.tuning);
        Some(DeviceSearch {
            metric: self.vectors.metric,
            dimensions: self.vectors.dimensions,
            shape,
            multiprocessors: self.device.multiprocessors(),
            neighbours,
            with_ties: self.vectors.with_ties,
            sample,
            same,
            centre: Arc::clone(&self.centre),
            left: Arc::clone(&self.left),
            right: Arc::clone(&self.right),
            sampled: units(count, sample.stages, &shape, false),
            tiles: units(count, padded(columns) / stage, &shape, same),
            list_room,
            bucket_room: list_room,
            found_room: found_room(count, neighbours, self.vectors.with_ties),
            rows,
            tuning: self.vectors.tuning,
        })
    }

    /// Runs a search; the reason where its pairs had no room.
    fn run(
        &self,
        of: DeviceSearch,
        reservation: &dyn Memory,
    ) -> Result<Result<NeighbourBand, Declined>, Declined> {
        let rows = of.rows.clone();
        let had_room = |found: &FoundNeighbours, failure: Option<&'static str>| match failure {
            Some(why) if found.tally.unusual > 0 || found.tally.unbounded > 0 => {
                Err(Declined(why.to_string()))
            }
            Some(why) => Ok(Err(Declined(why.to_string()))),
            None => Ok(Ok(())),
        };
        let (judge, bytes) = (of.judge(), of.bytes());
        let (found, memory) = search(self.device, of, reservation.new_empty())?;
        // The queue keeps the memory for the next works, which seldom need as much.
        if bytes > self.memory / 4 {
            self.device.trim();
        }
        if let Err(why) = had_room(&found, judge.failure(&found.tally))? {
            return Ok(Err(why));
        }
        if found.refused {
            return Err(Declined("host memory was refused".to_string()));
        }
        let FoundNeighbours { starts, counts, columns, values, nanos, .. } = found;
        Ok(Ok(NeighbourBand { rows, starts, counts, columns, values, memory, nanos }))
    }
}
