//! The prepared build side on a device: what rows are tested with, and, in a self-join, the rows.

use std::sync::Arc;

use simjoin_core::vector::boxes::Boxes;
use simjoin_core::vector::metric::{Metric, Threshold};
use simjoin_core::vector::nan::Sign;
use simjoin_core::vector::order::Reach;

use crate::offload::tiles::TileForm;
use crate::offload::{Arena, run};
use crate::runtime::{Device, DeviceError, LaunchGrid, Resident, Stage};
use crate::vector::abi::{
    BOUNDS_BYTES, NEGATIVE_MISSES, OCTET, POSITIVE_MISSES, Preparing, STEP_BYTES, SUM_BOUNDS_BYTES,
    TERM_BYTES, UNDECIDED, VectorBoxes, VectorSide,
};
use crate::vector::boxes::BoxArrays;
use crate::vector::resident::ResidentVectors;
use crate::vector::shape::{NumberType, VECTORS, VectorShape};

/// Threads of a block that prepares.
const PREPARING_THREADS: u32 = 256;

/// The settings by which the vectors of a join are prepared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Preparation {
    pub threshold: Threshold,
    pub shape: VectorShape,
    pub dimensions: u32,
    /// The number that is subtracted from all numbers, for distances of integers.
    pub centre: i32,
    /// Vectors of greater norms, once they are moved, are far from most.
    pub limit: f64,
}

/// The arrays of prepared vectors, and how kernels fill them.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreparedArrays {
    preparing: Preparing,
    /// The kernels find the greatest norm first.
    measures: bool,
    integers: bool,
    /// The address of the greatest norm.
    pub greatest: u64,
    /// The boxes around the vectors, where the kernel reads some.
    boxes: Option<BoxArrays>,
}

/// Addresses of vectors as they were given.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given {
    pub values: u64,
    pub present: u64,
    pub centre: u64,
    pub count: u32,
    pub wide: bool,
}

/// The side of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Columns,
    /// Columns that are rows, too.
    Both,
    /// Rows for columns whose greatest norm is at this address.
    Rows(u64),
}

impl From<Preparation> for TileForm {
    fn from(Preparation { shape, .. }: Preparation) -> Self {
        Self {
            strip_rows: shape.strip_rows,
            stage_items: shape.stage_columns,
            dense_stage_items: shape.dense().stage_columns,
            pairs_of_hit: 1,
            ends_with_itself: false,
            undecided: Some(UNDECIDED),
            leaves_hits: false,
        }
    }
}

impl Preparation {
    /// Declares the arrays of vectors when they are prepared. Strips and stages are read to their ends.
    pub(super) fn declare(
        &self,
        arena: &mut Arena<'_>,
        given: Given,
        role: Role,
    ) -> PreparedArrays {
        let Self { threshold, shape, dimensions, .. } = *self;
        let VectorShape { strip_rows, stage_columns, box_chunks, .. } = shape;
        let count = u64::from(given.count);
        // The first row of a strip may lie in front of the first that counts.
        let strips = count + u64::from(strip_rows) + u64::from(shape.strip_step());
        let padded = match role {
            Role::Columns => count.next_multiple_of(stage_columns.into()),
            Role::Both => strips.next_multiple_of(stage_columns.into()),
            Role::Rows(_) => strips.next_multiple_of(OCTET.into()),
        };
        let steps = shape.numbers.steps(dimensions);
        let step_bytes = STEP_BYTES * u64::from(steps);
        let (each, tail) = match shape.numbers {
            NumberType::Halves => (step_bytes, STEP_BYTES),
            NumberType::Integers => (step_bytes + TERM_BYTES, SUM_BOUNDS_BYTES),
        };
        let own = arena.zeroed::<u64>(1);
        let integers = shape.numbers == NumberType::Integers;
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
            numbers: arena.room_of(padded, each),
            tails: if role == Role::Columns { 0 } else { arena.room_of(padded, tail) },
            bounds: arena.room_of(padded, BOUNDS_BYTES),
            stage_sure: match role {
                Role::Rows(_) => 0,
                Role::Columns | Role::Both => arena.room::<u32>(padded / u64::from(stage_columns)),
            },
            bound: threshold.bound,
            rounding: shape.products().rounding(),
            count: given.count,
            padded: padded as u32,
            dimensions,
            steps,
            blocked: shape.blocked.into(),
            metric: threshold.metric as u32,
            wide: given.wide.into(),
            stage_columns,
            nan_misses,
            reserved: 0,
        };
        let has_boxes = shape.reads_boxes() && role == Role::Both;
        let boxes = has_boxes.then(|| BoxArrays::declare(arena, padded as u32, box_chunks));
        PreparedArrays { preparing, measures, integers, greatest: own, boxes }
    }
}

impl PreparedArrays {
    /// Has the kernels prepare the vectors.
    ///
    /// # Safety
    ///
    /// The addresses are those of the vectors, of a centre and of the arrays declared, in memory of this
    /// stage, where the greatest norm is 0.
    pub(super) unsafe fn launch(
        &self,
        stage: &mut Stage<'_>,
        multiprocessors: u32,
    ) -> Result<(), DeviceError> {
        let Self { preparing, measures, integers, .. } = *self;
        // Eight lanes have a vector.
        let blocks = (preparing.padded / OCTET).div_ceil(PREPARING_THREADS / 64);
        let blocks = blocks.clamp(1, 8 * multiprocessors);
        let grid = LaunchGrid { blocks, threads: PREPARING_THREADS, shared_words: 0 };
        let names = [
            measures.then_some("vectors_measure"),
            Some(if integers { "vectors_prepare_integers" } else { "vectors_prepare" }),
            (preparing.stage_sure != 0).then_some("vectors_stages"),
        ];
        for name in names.into_iter().flatten() {
            let kernel = stage.kernel(&VECTORS, name)?;
            // SAFETY: the kernels take a `Preparing`, of which the caller says that it holds.
            unsafe { stage.launch(kernel, grid, preparing)? };
        }
        Ok(())
    }

    /// The vectors, the first of which has number `first`.
    pub(super) fn side(&self, first: u32, row_counts: u64) -> VectorSide {
        let Preparing { values, numbers, tails, bounds, padded, wide, .. } = self.preparing;
        VectorSide { values, numbers, tails, bounds, row_counts, first, padded, wide, reserved: 0 }
    }

    /// The vectors as columns.
    pub(super) fn columns(&self, first: u32, row_counts: u64, centre: u64) -> VectorColumns {
        VectorColumns {
            side: self.side(first, row_counts),
            stage_sure: self.preparing.stage_sure,
            greatest: self.greatest,
            centre,
            ..VectorColumns::default()
        }
    }
}

/// Columns as works need them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VectorColumns {
    pub side: VectorSide,
    /// The address of the greatest bounds of stages.
    pub stage_sure: u64,
    /// The addresses of the greatest norm and of the centre.
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
    /// The boxes around the vectors, and around their stages.
    pub boxes: Option<(&'a Boxes, &'a Reach)>,
}

/// The arrays of a prepared build side.
#[derive(Debug)]
struct Declared {
    prepared: PreparedArrays,
    centre: u64,
    index: u64,
}

impl Declared {
    fn new<'a>(
        arena: &mut Arena<'a>,
        (preparation, role): (&Preparation, Role),
        given: Given,
        index: &'a [u32],
    ) -> Self {
        let centre = arena.room::<f64>(preparation.dimensions.into());
        let prepared = preparation.declare(arena, Given { centre, ..given }, role);
        let index = if index.is_empty() { 0 } else { arena.copied(index) };
        Self { prepared, centre, index }
    }
}

/// The vectors of a collection on a device, prepared.
#[derive(Debug)]
pub(super) struct PreparedColumns {
    vectors: ResidentVectors,
    memory: Resident,
    columns: VectorColumns,
}

impl PreparedColumns {
    /// The bytes that prepared vectors take on a device, beside the vectors.
    pub(super) fn bytes_of(preparation: &Preparation, count: u32, role: Role) -> u64 {
        let mut arena = Arena::at(0);
        Declared::new(&mut arena, (preparation, role), Given { count, ..Given::default() }, &[]);
        arena.bytes()
    }

    /// Prepares vectors that are on the device, and waits for it.
    ///
    /// # Errors
    ///
    /// [`DeviceError::OutOfMemory`] where they do not fit.
    pub(super) fn prepare(
        device: &Arc<Device>,
        vectors: ResidentVectors,
        how: (&Preparation, Role),
        Preparable { count, centre, index, boxes }: Preparable<'_>,
    ) -> Result<Arc<Self>, DeviceError> {
        let (values, present, wide) = (vectors.values(), vectors.present(), vectors.are_wide());
        let given = Given { values, present, centre: 0, count, wide };
        let mut arena = Arena::at(0);
        let places = Declared::new(&mut arena, how, given, index);
        let of_boxes = match (places.prepared.boxes, boxes) {
            (None, _) => None,
            (Some(arrays), Some((boxes, stages))) => Some(arrays.ends(boxes, stages)),
            (Some(_), None) => {
                return Err(DeviceError::Internal("vectors without boxes".to_string()));
            }
        };
        let what = "the prepared vectors of the join";
        let memory = device.resident(what, arena.bytes(), |upload| {
            arena.upload(upload)?;
            for ends in of_boxes.iter().flatten() {
                upload.copy_filled(ends.place, ends.len(), |places, to| ends.write(places, to))?;
            }
            upload.copy_each(places.centre, centre.len(), |i| centre[i].to_bits())
        })?;
        let mut arena = Arena::at(memory.address());
        let Declared { prepared, centre, index } = Declared::new(&mut arena, how, given, index);
        let limit = boxes.map_or(f32::INFINITY, |(boxes, _)| boxes.limit);
        let boxes = prepared.boxes.map(|arrays| arrays.boxes(limit)).unwrap_or_default();
        let columns = VectorColumns { index, boxes, ..prepared.columns(0, vectors.rows(), centre) };
        let this = Arc::new(Self { vectors, memory, columns });
        let (holds, multiprocessors) = (Arc::clone(&this), device.multiprocessors());
        run(device, move |stage| {
            if !holds.is_at(stage) {
                return Err(DeviceError::Internal("vectors of another device are prepared".into()));
            }
            // SAFETY: the work holds the vectors and the memory of all arrays, to which the centre and
            // a greatest norm of 0 have been copied.
            unsafe { prepared.launch(stage, multiprocessors) }
        })?;
        Ok(this)
    }

    /// The vectors as columns.
    pub(super) fn columns(&self) -> VectorColumns {
        self.columns
    }

    /// Whether a work at this stage can read them.
    pub(super) fn is_at(&self, stage: &Stage<'_>) -> bool {
        self.vectors.is_at(stage) && stage.has(&self.memory)
    }
}
