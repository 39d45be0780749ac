//! The kernels that filter, and how they cut rows and columns.

use crate::gpu::{Images, images};

/// The kernels of joins of vectors.
pub(in crate::vector) static VECTORS: Images = images!("vectors", "sm_90a");

/// The error of a step of 16 products, relative to the sum of their magnitudes: of the matrix
/// instructions of warpgroups, which single products stay below.
const WGMMA_ROUNDING: f64 = 6.5625 / (1 << 23) as f64;

/// A kernel that tests rows against stages of columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VectorShape {
    pub name: &'static str,
    pub threads: u32,
    /// Blocks of a multiprocessor.
    pub blocks: u32,
    pub strip_rows: u32,
    pub stage_columns: u32,
    /// Whether vectors lie in blocks of steps.
    pub blocked: bool,
    /// Words of dynamic shared memory.
    pub shared_words: u32,
    pub rounding: f64,
}

/// The steps of 16 products of vectors of some dimensions, with the six places of their bounds.
pub(super) fn steps(dimensions: u32) -> u32 {
    (dimensions + 6).div_ceil(16)
}

impl VectorShape {
    /// By products of threads, on any device.
    const PLAIN: Self = Self {
        name: "vectors_plain",
        threads: 128,
        blocks: 4,
        strip_rows: 64,
        stage_columns: 64,
        blocked: false,
        shared_words: 0,
        rounding: WGMMA_ROUNDING,
    };

    /// The quickest on devices of a compute capability, for vectors of some steps.
    pub(super) fn of(_capability: (i32, i32), _steps: u32) -> Self {
        Self::PLAIN
    }

    /// The kernel for devices of which each has such a quickest one.
    pub(super) fn of_all(shapes: &[Self]) -> Self {
        let first = shapes.first().copied();
        first.filter(|first| shapes.iter().all(|shape| shape == first)).unwrap_or(Self::PLAIN)
    }

    /// Pairs of a strip and a stage.
    pub(super) fn tile_pairs(&self) -> u64 {
        u64::from(self.strip_rows) * u64::from(self.stage_columns)
    }

    /// Pairs that a device of 132 multiprocessors tests in a nanosecond, of vectors of some steps.
    pub(super) fn rate(&self, steps: u32) -> f64 {
        /// Products of numbers.
        const PLAIN: f64 = 5000.0;
        PLAIN / f64::from(16 * steps)
    }
}
