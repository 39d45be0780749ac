//! The structures of the host and the kernels of joins of vectors. `kernels/vector_abi.cuh` declares the
//! same in CUDA C++; see there for what the fields mean. Addresses are device addresses, 0 where
//! there is nothing.

use crate::runtime::Pod;

/// Rows that a prepared array is read in together: arrays and strips begin at multiples of it.
pub(super) const OCTET: u32 = 8;
/// The most columns of a unit.
pub(super) const MAX_UNIT_COLUMNS: u32 = 1 << 15;
/// [`Match::detail`](crate::engine::Match::detail) of a pair that the host decides.
pub(super) const UNDECIDED: u32 = 1;
/// Bytes of `VectorBounds`, and of the halves of a step of a vector.
pub(super) const BOUNDS_BYTES: u64 = 8;
pub(super) const STEP_BYTES: u64 = 32;
/// Bytes of what sums of integers begin with for a vector as a column, and of a `SumBounds`.
pub(super) const TERM_BYTES: u64 = 4;
pub(super) const SUM_BOUNDS_BYTES: u64 = 8;
/// Numbers of a [`NumberRange`] are integers of smaller magnitude.
pub(super) const RANGE_OFFSET: i32 = 1 << 20;

/// Vectors to be prepared.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Preparing {
    pub values: u64,
    pub present: u64,
    pub centre: u64,
    pub greatest: u64,
    pub limit: f64,
    pub numbers: u64,
    pub tails: u64,
    pub bounds: u64,
    pub stage_sure: u64,
    pub bound: f64,
    pub rounding: f64,
    pub count: u32,
    pub padded: u32,
    pub dimensions: u32,
    pub steps: u32,
    pub blocked: u32,
    pub metric: u32,
    pub wide: u32,
    pub stage_columns: u32,
    pub nan_misses: u32,
    pub reserved: u32,
}

/// Bits of `Preparing::nan_misses`.
pub(super) const POSITIVE_MISSES: u32 = 1;
pub(super) const NEGATIVE_MISSES: u32 = 2;

/// Vectors whose numbers are looked at.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Ranging {
    pub values: u64,
    pub present: u64,
    pub range: u64,
    pub count: u32,
    pub dimensions: u32,
    pub wide: u32,
    pub reserved: u32,
}

/// The range of their numbers: integers from `RANGE_OFFSET - below` to `above - RANGE_OFFSET`, where
/// these are not 0, and whether there are others.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct NumberRange {
    pub below: u32,
    pub above: u32,
    pub others: u32,
    pub reserved: u32,
}

/// A question about the rounding of a device.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Probe {
    pub greatest: u64,
    pub steps: u32,
    pub reserved: u32,
}

/// Prepared vectors.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct VectorSide {
    pub values: u64,
    pub numbers: u64,
    pub tails: u64,
    pub bounds: u64,
    pub row_counts: u64,
    pub first: u32,
    pub padded: u32,
    pub wide: u32,
    pub reserved: u32,
}

/// Rows of one key, and the columns that they meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct VectorRun {
    pub first: u32,
    pub start: u32,
    pub end: u32,
}

/// The work that the kernels of one job have done.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct VectorTally {
    pub matches: u64,
    pub cross: u64,
    pub squares: u64,
    pub rows: u64,
    pub hits: u64,
    pub tests: u64,
    pub compared: u64,
    pub undecided: u64,
    pub next: u32,
    pub redone: u32,
}

/// Boxes around prepared vectors.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct VectorBoxes {
    pub groups: u64,
    pub blocks: u64,
    pub stages: u64,
    pub chunks: u32,
    pub limit: f32,
}

/// A work: the only argument of the kernels that filter and decide.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct VectorWork {
    pub rows: VectorSide,
    pub columns: VectorSide,
    pub stage_sure: u64,
    pub runs: u64,
    pub units: u64,
    pub stages: u64,
    pub hits: u64,
    pub failed: u64,
    pub redo: u64,
    pub matches: u64,
    pub seen: u64,
    pub tally: u64,
    pub bound: f64,
    pub first_row: u32,
    pub end_row: u32,
    pub first_probe: u32,
    pub column_count: u32,
    pub run_count: u32,
    pub unit_count: u32,
    pub dimensions: u32,
    pub steps: u32,
    pub blocked: u32,
    pub metric: u32,
    pub strip_rows: u32,
    pub stage_columns: u32,
    pub capacity: u32,
    pub room: u32,
    pub chunk: u32,
    pub undecided_room: u32,
    pub same: u32,
    pub counts_sure: u32,
    pub boxes: VectorBoxes,
}

const _: () = assert!(size_of::<Preparing>() == 128 && size_of::<VectorSide>() == 56);
const _: () = assert!(size_of::<Probe>() == 16);
const _: () = assert!(size_of::<Ranging>() == 40 && size_of::<NumberRange>() == 16);
const _: () = assert!(size_of::<VectorRun>() == 12);
const _: () = assert!(size_of::<VectorTally>() == 72 && size_of::<VectorWork>() == 304);
const _: () = assert!(size_of::<VectorBoxes>() == 32);

// SAFETY: fields of 4 bytes, any bits are values.
unsafe impl Pod for VectorRun {}
// SAFETY: as above.
unsafe impl Pod for NumberRange {}
// SAFETY: fields of 8 bytes, then two of 4; any bits are values.
unsafe impl Pod for VectorTally {}
