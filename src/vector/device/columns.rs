//! The prepared build side on a device: what rows are tested with, and, in a self-join, the rows.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use crate::gpu::{Device, DeviceError, DeviceWork, Grid, Resident, Results, Stage, Usage};
use crate::offload::Layout;
use crate::vector::device::abi::{
    BOUNDS_BYTES, NEGATIVE_MISSES, OCTET, POSITIVE_MISSES, Preparing, STEP_BYTES, SUM_BOUNDS_BYTES,
    TERM_BYTES, VectorBoxes, VectorSide,
};
use crate::vector::device::boxes::BoxPlaces;
use crate::vector::device::resident::ResidentVectors;
use crate::vector::device::shape::{Numbers, VECTORS, VectorShape};
use crate::vector::metric::{Metric, Threshold};
use crate::vector::nan::Sign;
use crate::vector::order::{Boxes, Reach};

/// Threads of a block that prepares.
const PREPARING_THREADS: u32 = 256;

/// How the vectors of a join are prepared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Preparation {
    pub threshold: Threshold,
    pub shape: VectorShape,
    pub dimensions: u32,
    /// Of distances of integers: what is subtracted from all numbers.
    pub centre: i32,
    /// Vectors of greater norms, once they are moved, are far from most.
    pub limit: f64,
}

/// Where the arrays of prepared vectors lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreparedPlaces {
    /// Vectors with those behind them that match nothing.
    pub padded: u32,
    numbers: u64,
    tails: Option<u64>,
    bounds: u64,
    stage_sure: Option<u64>,
    /// The greatest norm.
    pub greatest: u64,
    /// The boxes around them, where the kernel reads some.
    boxes: Option<BoxPlaces>,
}

/// Addresses of vectors as they were given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub values: u64,
    pub present: u64,
    pub centre: u64,
    pub count: u32,
    pub wide: bool,
}

/// Of which side vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Columns,
    /// Columns that are rows, too.
    Both,
    /// Rows for columns whose greatest norm is at this address.
    Rows(u64),
}

impl Preparation {
    /// Where `count` vectors lie when they are prepared. Strips and stages are read to their ends.
    pub(super) fn places(&self, layout: &mut Layout, count: u32, role: Role) -> PreparedPlaces {
        let VectorShape { strip_rows, stage_columns, box_chunks, .. } = self.shape;
        // The first row of a strip may lie in front of the first that counts.
        let strips = u64::from(count) + u64::from(strip_rows) + u64::from(self.shape.strip_step());
        let padded = match role {
            Role::Columns => u64::from(count).next_multiple_of(stage_columns.into()),
            Role::Both => strips.next_multiple_of(stage_columns.into()),
            Role::Rows(_) => strips.next_multiple_of(OCTET.into()),
        };
        let steps = STEP_BYTES * u64::from(self.shape.numbers.steps(self.dimensions));
        let (each, tail) = match self.shape.numbers {
            Numbers::Halves => (steps, STEP_BYTES),
            Numbers::Integers => (steps + TERM_BYTES, SUM_BOUNDS_BYTES),
        };
        let numbers = layout.add(padded, each);
        let tails = (role != Role::Columns).then(|| layout.add(padded, tail));
        let bounds = layout.add(padded, BOUNDS_BYTES);
        let stages = padded / u64::from(stage_columns);
        let is_columns = matches!(role, Role::Columns | Role::Both);
        let stage_sure = is_columns.then(|| layout.add(stages, 4));
        let greatest = layout.add(1, 8);
        let padded = padded as u32;
        let has_boxes = self.shape.reads_boxes() && role == Role::Both;
        let boxes = has_boxes.then(|| BoxPlaces::add(layout, padded, box_chunks));
        PreparedPlaces { padded, numbers, tails, bounds, stage_sure, greatest, boxes }
    }

    /// Has the kernels prepare vectors in memory at `start`.
    ///
    /// # Safety
    ///
    /// There is memory for all arrays, the greatest norm there is 0, and the addresses are those of
    /// `given.count` vectors and of a centre.
    pub(super) unsafe fn launch(
        &self,
        stage: &mut Stage<'_>,
        (start, places): (u64, &PreparedPlaces),
        given: Given,
        role: Role,
        multiprocessors: u32,
    ) -> Result<(), DeviceError> {
        let Self { threshold, shape, dimensions, .. } = *self;
        let at = |place: u64| start + place;
        let optional = |place: Option<u64>| place.map_or(0, at);
        let own = at(places.greatest);
        let integers = shape.numbers == Numbers::Integers;
        // Rows are scaled by what is known of the columns.
        let (greatest, measures) = match (threshold.metric, role) {
            _ if integers => (own, false),
            (Metric::Cosine, _) => (0, false),
            (Metric::Euclidean | Metric::InnerProduct, Role::Rows(columns)) => (columns, false),
            (_, Role::Columns | Role::Both) => (own, true),
        };
        let misses = |sign| threshold.admits_nan(sign) == Some(false);
        let nan_misses = if misses(Sign::Positive) { POSITIVE_MISSES } else { 0 }
            | if misses(Sign::Negative) { NEGATIVE_MISSES } else { 0 };
        let preparing = Preparing {
            values: given.values,
            present: given.present,
            centre: if threshold.metric == Metric::Euclidean { given.centre } else { 0 },
            greatest,
            limit: self.limit,
            numbers: at(places.numbers),
            tails: optional(places.tails),
            bounds: at(places.bounds),
            stage_sure: optional(places.stage_sure),
            bound: threshold.bound,
            rounding: shape.products().rounding(),
            count: given.count,
            padded: places.padded,
            dimensions,
            steps: shape.numbers.steps(dimensions),
            blocked: shape.blocked.into(),
            metric: threshold.metric as u32,
            wide: given.wide.into(),
            stage_columns: shape.stage_columns,
            nan_misses,
            reserved: 0,
        };
        // Eight lanes have a vector.
        let blocks = (places.padded / OCTET).div_ceil(PREPARING_THREADS / 64);
        let blocks = blocks.clamp(1, 8 * multiprocessors);
        let grid = Grid { blocks, threads: PREPARING_THREADS, shared_words: 0 };
        let names = [
            measures.then_some("vectors_measure"),
            Some(if integers { "vectors_prepare_integers" } else { "vectors_prepare" }),
            places.stage_sure.map(|_| "vectors_stages"),
        ];
        for name in names.into_iter().flatten() {
            let kernel = stage.kernel(&VECTORS, name)?;
            // SAFETY: the kernels take a `Preparing`, of which the caller says that it holds.
            unsafe { stage.launch(kernel, grid, preparing)? };
        }
        Ok(())
    }
}

impl PreparedPlaces {
    /// The vectors in memory at `start`, the first of which has number `first`. `values`: the address of
    /// their numbers as they were given, `wide`: whether these are `f64`.
    pub(super) fn side(
        &self,
        start: u64,
        first: u32,
        (values, wide): (u64, bool),
        row_counts: u64,
    ) -> VectorSide {
        VectorSide {
            values,
            numbers: start + self.numbers,
            tails: self.tails.map_or(0, |tails| start + tails),
            bounds: start + self.bounds,
            row_counts,
            first,
            padded: self.padded,
            wide: wide.into(),
            reserved: 0,
        }
    }

    /// The address of the greatest bounds of stages.
    pub(super) fn stage_sure(&self, start: u64) -> u64 {
        self.stage_sure.map_or(0, |place| start + place)
    }
}

/// Columns as works need them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub side: VectorSide,
    /// The address of the greatest bounds of stages.
    pub stage_sure: u64,
    /// Those of the greatest norm and of the centre.
    pub greatest: u64,
    pub centre: u64,
    /// The address of the kernel's own index; 0 where it has none.
    pub index: u64,
    /// The boxes around them, where the kernel reads some.
    pub boxes: VectorBoxes,
}

/// Vectors that are prepared on a device, with what lies beside them there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Preparable<'a> {
    pub count: u32,
    /// By dimension, what is subtracted; none for products.
    pub centre: &'a [f64],
    /// The words of the kernel's own index; none where it has none.
    pub index: &'a [u32],
    /// Those around them, and around their stages.
    pub boxes: Option<(&'a Boxes, &'a Reach)>,
}

/// The vectors of a collection on a device, prepared.
#[derive(Debug)]
pub(super) struct PreparedColumns {
    vectors: ResidentVectors,
    memory: Resident,
    places: PreparedPlaces,
    centre: u64,
    index: Option<u64>,
    /// That of the boxes.
    limit: f32,
}

impl PreparedColumns {
    fn layout(preparation: &Preparation, count: u32, role: Role) -> (PreparedPlaces, u64, Layout) {
        let mut layout = Layout::default();
        let places = preparation.places(&mut layout, count, role);
        let centre = layout.add(preparation.dimensions.into(), 8);
        (places, centre, layout)
    }

    /// The bytes that prepared vectors take on a device, beside the vectors.
    pub(super) fn bytes_of(preparation: &Preparation, count: u32, role: Role) -> u64 {
        Self::layout(preparation, count, role).2.end()
    }

    /// Prepares vectors that are on the device, and waits for it.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where they do not fit.
    pub(super) fn prepare(
        device: &Arc<Device>,
        vectors: ResidentVectors,
        (preparation, role): (&Preparation, Role),
        given: Preparable<'_>,
    ) -> Result<Self, DeviceError> {
        let Preparable { count, centre, index: words, boxes } = given;
        let (places, at, mut layout) = Self::layout(preparation, count, role);
        let index =
            (!words.is_empty()).then(|| layout.add(words.len() as u64, size_of::<u32>() as u64));
        let bytes = layout.end();
        let of_boxes = match (places.boxes, boxes) {
            (None, _) => None,
            (Some(places), Some((boxes, stages))) => Some(places.ends(boxes, stages)),
            (Some(_), None) => {
                return Err(DeviceError::Internal("vectors without boxes".to_string()));
            }
        };
        let memory = device.resident("the prepared vectors of the join", bytes, |upload| {
            upload.copy(places.greatest, &[0_u64])?;
            if let Some(place) = index {
                upload.copy(place, words)?;
            }
            for ends in of_boxes.iter().flatten() {
                upload.copy_filled(ends.place, ends.len(), |places, to| ends.write(places, to))?;
            }
            upload.copy_each(at, centre.len(), |i| centre[i].to_bits())
        })?;
        let limit = boxes.map_or(f32::INFINITY, |(boxes, _)| boxes.limit);
        let this = Arc::new(Self { vectors, memory, places, centre: at, index, limit });
        let (sender, receiver) = channel();
        let multiprocessors = device.multiprocessors();
        let (holds, preparation) = (Arc::clone(&this), *preparation);
        let work = PrepareWork { preparation, role, count, multiprocessors, holds, sender };
        device.submit(Box::new(work));
        let lost = || DeviceError::Internal("preparing vectors has no answer".to_string());
        receiver.recv().map_err(|_| lost())??;
        // The work is dropped before it answers.
        Arc::try_unwrap(this).map_err(|_| lost())
    }

    /// The vectors as columns.
    pub(super) fn columns(&self) -> Columns {
        let start = self.memory.address();
        let given = (self.vectors.values(), self.are_wide());
        Columns {
            side: self.places.side(start, 0, given, self.vectors.rows()),
            stage_sure: self.places.stage_sure(start),
            greatest: start + self.places.greatest,
            centre: self.centre(),
            index: self.index.map_or(0, |place| start + place),
            boxes: self.places.boxes.map(|boxes| boxes.at(start, self.limit)).unwrap_or_default(),
        }
    }

    /// The address of the centre.
    fn centre(&self) -> u64 {
        self.memory.address() + self.centre
    }

    /// Whether the numbers are `f64`.
    fn are_wide(&self) -> bool {
        self.vectors.are_wide()
    }

    /// Whether a work at this stage can read them.
    pub(super) fn is_at(&self, stage: &Stage<'_>) -> bool {
        self.vectors.is_at(stage) && stage.has(&self.memory)
    }
}

/// Fills [`PreparedColumns`].
#[derive(Debug)]
struct PrepareWork {
    preparation: Preparation,
    role: Role,
    count: u32,
    multiprocessors: u32,
    holds: Arc<PreparedColumns>,
    sender: Sender<Result<(), DeviceError>>,
}

impl DeviceWork for PrepareWork {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let columns = &*self.holds;
        if !columns.is_at(stage) {
            return Err(DeviceError::Internal(
                "vectors of another device are prepared".to_string(),
            ));
        }
        let given = Given {
            values: columns.vectors.values(),
            present: columns.vectors.present(),
            centre: columns.centre(),
            count: self.count,
            wide: columns.are_wide(),
        };
        let to = (columns.memory.address(), &columns.places);
        // SAFETY: the work holds the vectors and the memory of all arrays, to which the centre and a
        // greatest norm of 0 have been copied.
        unsafe { self.preparation.launch(stage, to, given, self.role, self.multiprocessors) }
    }

    fn finish(&mut self, _: &mut Results<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let Self { holds, sender, .. } = *self;
        drop(holds);
        // The receiver waits.
        let _ = sender.send(outcome.map(|_| ()));
    }
}
