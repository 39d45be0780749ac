//! The devices of a join of vectors, with the build side there.

use std::sync::Arc;

use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::metric::Threshold;

use crate::engine::{Collection, DeviceRequest, MatchNeed, MatchSpec, Pairing};
use crate::offload::tiles::{bytes_of_job, capacity};
use crate::offload::{Devices, OpenDevices, device_place};
use crate::runtime::{Device, DeviceError};
use crate::vector::abi::{OCTET, STEP_BYTES};
use crate::vector::boxes::boxes_to_read;
use crate::vector::columns::{Preparation, PreparedColumns, Role};
use crate::vector::probe::{is_exact_enough, kernel_of};
use crate::vector::range::prepared_as_integers;
use crate::vector::resident::ResidentVectors;
use crate::vector::shape::{NumberType, VECTORS, VectorKernel, VectorShape};
use crate::vector::work::JobSettings;

/// Rows that travel with a work, at least.
pub(super) const LEAST_ROWS: u64 = 64;

/// The devices of a join, with the vectors of the build side.
#[derive(Debug)]
pub struct VectorDevices {
    pub(super) devices: Arc<Devices>,
    /// The copy of the vectors on each device.
    pub(super) copies: Vec<Option<ResidentVectors>>,
    pub(super) settings: JobSettings,
    /// Where the build side does not fit: the columns that travel with a work.
    pub(super) pieces: Option<u32>,
}

device_place!(VectorDevices);

/// The dimensions of most items whose key has vectors of one length.
pub(super) fn common_dimensions(vectors: &Vectors) -> u32 {
    let mut counts = std::collections::BTreeMap::<u32, usize>::new();
    for run in vectors.runs().iter().filter(|run| run.lens[0] == run.lens[1]) {
        *counts.entry(run.lens[0]).or_default() += run.items.len();
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(0, |(dimensions, _)| dimensions)
}

impl VectorDevices {
    /// The dimensions of the vectors on the devices.
    pub fn dimensions(&self) -> u32 {
        self.settings.form.dimensions
    }

    /// Whether the build side lies on the devices. Otherwise it travels with the works.
    pub fn hold_columns(&self) -> bool {
        self.pieces.is_none()
    }

    /// Whether works count matches.
    pub fn count_matches(&self) -> bool {
        self.settings.counts
    }

    /// Gives works room for `capacity` hits where it says so, and, where it `travels`, lets the build side
    /// travel with the works: for tests.
    #[doc(hidden)]
    pub fn restrict(&mut self, capacity: Option<u32>, travels: bool) {
        self.settings.capacity = capacity.unwrap_or(self.settings.capacity);
        if travels {
            let Preparation { shape, dimensions, .. } = &mut self.settings.form;
            if shape.reads_boxes() {
                *shape = VectorShape::new(shape.kernel, *dimensions);
            }
            self.pieces = Some(shape.stage_columns);
        }
    }

    /// Opens the devices that the request names, and brings the build side there. Where it does not
    /// fit it travels with the works.
    ///
    /// # Errors
    ///
    /// Where no device can be used, or a work does not fit.
    pub(super) fn open(
        build: &Vectors,
        threshold: Threshold,
        spec: &MatchSpec,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        OpenDevices::open(request, &spec.gpu, |open| {
            Self::on(open, build, (threshold, spec), None, request)
        })
    }

    /// The join on devices that are open, with a given kernel or the quickest one.
    ///
    /// # Errors
    ///
    /// Where none can be used, or a work does not fit.
    pub fn on(
        mut open: OpenDevices,
        build: &Vectors,
        (threshold, spec): (Threshold, &MatchSpec),
        kernel: Option<VectorKernel>,
        request: &DeviceRequest,
    ) -> Result<Arc<Self>, DeviceError> {
        let there = |device: &Device| ResidentVectors::bytes_on(device, build);
        open.load(&VECTORS)?;
        let limits = open.limits(spec.gpu.memory_limit, there)?;
        // A work may go to any device, so it suits the smallest.
        let memory = limits.into_iter().min().unwrap_or(0);
        let dimensions = common_dimensions(build);
        let self_join = request.self_join;
        let join = Shaped { build, threshold, spec, memory, dimensions, self_join };
        let (kernel, boxed) = join.kernel(kernel, &mut open)?;
        let counts_rows =
            spec.need == MatchNeed::Count && !(self_join && build.groups().has_no_repeats());
        let least = ResidentVectors::bytes_of(build, dimensions, counts_rows);
        let fits = |bytes: u64, beside: u64| bytes.saturating_add(beside) <= memory;
        let plain = VectorShape::new(kernel, dimensions);
        // Numbers may be twice as wide as thought, and boxes are no reason for them to travel.
        let boxed = boxed.map(|shape| join.with(shape));
        let boxed = boxed.filter(|(_, beside)| fits(least.saturating_mul(2), *beside));
        let (mut settings, beside) = boxed.unwrap_or_else(|| join.with(plain));
        let preparation = settings.form;
        let unfit = |bytes: u64| DeviceError::OutOfMemory {
            what: "the vectors of the join",
            bytes: bytes.saturating_add(beside),
            free: memory,
        };
        let copies = open.place("the vectors", |device| {
            if !fits(least, beside) {
                return Ok(None);
            }
            let vectors = ResidentVectors::on(device, build, dimensions, counts_rows)?;
            let bytes = vectors.bytes();
            if !fits(bytes, beside) {
                return Err(unfit(bytes));
            }
            // Boxes leave less to be tested than integers save.
            let integers = match spec.gpu.integers && !preparation.shape.reads_boxes() {
                true => prepared_as_integers(device, &vectors, preparation, build.len())?,
                false => None,
            };
            Ok(Some((vectors, integers)))
        })?;
        // All have the same numbers.
        let integers = copies.iter().flatten().next().and_then(|(_, integers)| *integers);
        let copies: Vec<_> = copies.into_iter().map(|copy| copy.map(|(copy, _)| copy)).collect();
        // Integers take no more room than halves.
        settings.form = integers.unwrap_or(settings.form);
        let pieces = match copies.iter().any(Option::is_some) {
            true => None,
            false => {
                (settings, _) = join.with(plain);
                Some(columns_of_work(build, &settings, memory).ok_or_else(|| unfit(least))?)
            }
        };
        let remark = pieces.map(|_| "vectors travel in pieces");
        let devices = Arc::new(Devices::new(open, memory, remark, request));
        Ok(Arc::new(Self { devices, copies, settings, pieces }))
    }
}

/// A bound on the bytes that a vector takes in the memory of a work.
fn travelling_bytes(preparation: &Preparation) -> u64 {
    let dimensions = preparation.dimensions;
    let steps = NumberType::Halves.steps(dimensions);
    8 * u64::from(dimensions) + STEP_BYTES * u64::from(steps + 1) + 32
}

/// The rows that a work has room for, besides the last strip.
pub(super) fn rows_of_work(preparation: &Preparation, memory: u64) -> u64 {
    let rows = bytes_of_job(memory) / 8 / travelling_bytes(preparation);
    rows.saturating_sub(u64::from(preparation.shape.strip_rows + OCTET))
}

/// The columns that travel with a work, in whole stages; `None` where it has no room for a stage, or
/// some keys have vectors of other dimensions.
fn columns_of_work(build: &Vectors, settings: &JobSettings, memory: u64) -> Option<u32> {
    let preparation = &settings.form;
    let stage = u64::from(preparation.shape.stage_columns);
    let columns = bytes_of_job(memory) / 4 / travelling_bytes(preparation) / stage * stage;
    let is_alike = build.runs().iter().all(|run| run.lens == [preparation.dimensions; 2]);
    let has_room = settings.buffer_bytes() <= bytes_of_job(memory) / 2
        && rows_of_work(preparation, memory) >= LEAST_ROWS;
    (is_alike && has_room && columns > 0).then(|| columns.min(1 << 30) as u32)
}

/// The role of the build side for the kernels.
pub(super) fn role(self_join: bool) -> Role {
    if self_join { Role::Both } else { Role::Columns }
}

/// A join that kernels of several shapes may do.
struct Shaped<'a> {
    build: &'a Vectors,
    threshold: Threshold,
    spec: &'a MatchSpec,
    /// The bytes of a device that there are.
    memory: u64,
    dimensions: u32,
    self_join: bool,
}

impl Shaped<'_> {
    /// The kernel that is given or the quickest one, and the shape that reads the boxes around the
    /// vectors, if that had better be taken and all devices round its products as its bounds take for
    /// granted.
    fn kernel(
        &self,
        given: Option<VectorKernel>,
        open: &mut OpenDevices,
    ) -> Result<(VectorKernel, Option<VectorShape>), DeviceError> {
        let kernel = match given {
            Some(kernel) => kernel,
            None => VectorKernel::of_all(&open.each(kernel_of)?),
        };
        let boxed = boxes_to_read(self.build, self.spec.pairing(), self.spec.tuning)
            .filter(|_| self.self_join)
            .and_then(|boxes| VectorShape::of_boxes(kernel, self.dimensions, boxes));
        let Some(shape) = boxed.filter(|_| given.is_none()) else { return Ok((kernel, boxed)) };
        let exact = open.each(|device| is_exact_enough(device, shape.products()))?;
        Ok((kernel, boxed.filter(|_| exact.iter().all(|exact| *exact))))
    }

    /// The settings of jobs of a shape, and the bytes that a device needs beside the vectors.
    fn with(&self, shape: VectorShape) -> (JobSettings, u64) {
        let Self { build, threshold, dimensions, .. } = *self;
        let settings = self.settings(Preparation {
            threshold,
            shape,
            dimensions,
            centre: 0,
            limit: f64::INFINITY,
        });
        let columns = PreparedColumns::bytes_of(&settings.form, build.len(), role(self.self_join));
        (settings, columns.saturating_add(Device::SLOTS as u64 * settings.buffer_bytes()))
    }

    /// The settings of the join's jobs.
    fn settings(&self, preparation: Preparation) -> JobSettings {
        /// Nanoseconds of an H200 for a pair that `f64` decides: always, and for each dimension; and the
        /// time of a work, in which the device takes up nothing else.
        const PAIR: f64 = 0.05;
        const DIMENSION: f64 = 0.0004;
        const SLICE: f64 = 1e7;
        let Self { spec, memory, self_join, .. } = *self;
        let pair = PAIR + DIMENSION * f64::from(preparation.dimensions);
        JobSettings {
            form: preparation,
            capacity: capacity(memory, spec.gpu.candidate_memory, 1),
            dense_pairs: (SLICE / pair) as u64,
            counts: spec.need == MatchNeed::Count,
            first_only: spec.need == MatchNeed::Exists,
            same: self_join && spec.pairing() == Pairing::Unordered,
        }
    }
}
