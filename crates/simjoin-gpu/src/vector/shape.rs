//! The kernels that filter, and how they cut rows and columns.

use simjoin_core::vector::boxes::{BLOCK_ITEMS, Boxes};

use crate::runtime::{Images, images};
use crate::vector::abi::OCTET;
use crate::vector::boxes::{BOX_CHUNK, BOX_STAGE, MOST_BOX_CHUNKS};

/// The kernels of joins of vectors.
pub(super) static VECTORS: Images = images!("vectors", "sm_90a");
/// The kernels that find nearest vectors.
pub(super) static NEAREST: Images = images!("nearest", "sm_90a");

/// The error of a step of 16 products, relative to the sum of their magnitudes: of the matrix
/// instructions of warpgroups, which single products stay below, and of those of warps.
const WGMMA_ROUNDING: f64 = 6.5625 / (1 << 23) as f64;
const MMA_ROUNDING: f64 = 16.0 / (1 << 23) as f64;

/// Vectors of more dimensions are no integers to the kernels (`kernels/vector_integers.cuh`).
const MOST_INTEGER_DIMENSIONS: u32 = 4096;

/// The type of the numbers of vectors for the kernels that filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberType {
    /// `f16`, with the six places of their bounds.
    Halves,
    /// Integers of 8 bits: the numbers of the columns, less a centre.
    Integers,
}

impl NumberType {
    /// The steps of products, of 32 bytes of each vector, of vectors of some dimensions.
    pub(super) fn steps(self, dimensions: u32) -> u32 {
        match self {
            Self::Halves => (dimensions + 6).div_ceil(16),
            Self::Integers => dimensions.div_ceil(32),
        }
    }
}

/// The instructions by which vectors are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorKernel {
    /// Products of threads.
    Plain,
    /// Matrix products of a warp (compute capability 8.0 and later).
    Warps,
    /// The kernel of warpgroups (compute capability 9.0).
    Warpgroups,
}

/// A kernel that tests rows against stages of columns, for vectors of some steps.
#[derive(Debug, Clone, Copy)]
pub struct VectorShape {
    pub kernel: VectorKernel,
    pub numbers: NumberType,
    /// The program that has the kernel, and the kernel's name there.
    pub program: &'static Images,
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
    /// Chunks of coordinates of the boxes around vectors that the kernel reads; 0 where it reads none.
    pub box_chunks: u32,
    /// Whether the kernel has an index of its own ([`Preparable::index`](super::columns::Preparable)),
    /// whose address it gets in place of listed stages, and decides what it finds there.
    pub has_index: bool,
}

impl VectorKernel {
    /// The quickest one on devices of a compute capability.
    pub(super) fn of(capability: (i32, i32)) -> Self {
        match capability {
            (9, 0) => Self::Warpgroups,
            (8, _) => Self::Warps,
            _ => Self::Plain,
        }
    }

    /// The error of a step of 16 products that its bounds take for granted, relative to the sum of
    /// their magnitudes.
    pub(super) fn rounding(self) -> f64 {
        match self {
            Self::Plain | Self::Warpgroups => WGMMA_ROUNDING,
            Self::Warps => MMA_ROUNDING,
        }
    }

    /// The kernel that finds the greatest such error of a device, and its threads. Products of threads
    /// round as the language says.
    pub(super) fn probe(self) -> Option<(&'static str, u32)> {
        match self {
            Self::Plain => None,
            Self::Warps => Some(("vectors_probe", 32)),
            Self::Warpgroups => Some(("vectors_probe_warpgroup", 128)),
        }
    }

    /// The kernel that takes the place of one whose instructions round otherwise.
    pub(super) fn next_slower(self) -> Self {
        match self {
            Self::Warpgroups => Self::Warps,
            Self::Warps | Self::Plain => Self::Plain,
        }
    }

    /// The kernel of all devices, where these are the quickest ones.
    pub(super) fn of_all(kernels: &[Self]) -> Self {
        let first = kernels.first().copied();
        let common = first.filter(|first| kernels.iter().all(|kernel| kernel == first));
        common.unwrap_or(Self::Plain)
    }
}

/// By steps, from one on: the kernel that keeps rows of them in registers, and the stages in its ring.
const OF_ROWS: [(&str, u32); 9] = [
    ("vectors_rows_1", 8),
    ("vectors_rows_2", 8),
    ("vectors_rows_3", 8),
    ("vectors_rows_4", 6),
    ("vectors_rows_5", 5),
    ("vectors_rows_6", 4),
    ("vectors_rows_7", 3),
    ("vectors_rows_8", 3),
    ("vectors_rows_9", 3),
];

/// The kernels for integers.
const OF_INTEGERS: [(&str, u32); 9] = [
    ("vectors_integers_1", 8),
    ("vectors_integers_2", 8),
    ("vectors_integers_3", 8),
    ("vectors_integers_4", 6),
    ("vectors_integers_5", 5),
    ("vectors_integers_6", 4),
    ("vectors_integers_7", 3),
    ("vectors_integers_8", 3),
    ("vectors_integers_9", 3),
];

/// By steps, from one on: the kernel that tests what boxes of few vectors leave, and its blocks on a
/// multiprocessor.
const OF_BOXES: [(&str, u32); 2] = [("vectors_boxed_1", 4), ("vectors_boxed_2", 3)];
/// The blocks of a strip of these kernels, one for each warp.
const BOXED_WARPS: u32 = 8;

/// Columns of a stage of warpgroups.
const STAGE: u32 = 256;
/// Columns of what a stage with boxes is cut into where each pair is decided.
const DENSE_COLUMNS: u32 = BOX_STAGE / 16;

impl VectorShape {
    /// The shape of a kernel for vectors of some dimensions.
    pub(super) fn new(kernel: VectorKernel, dimensions: u32) -> Self {
        match kernel {
            VectorKernel::Plain => Self {
                kernel,
                numbers: NumberType::Halves,
                program: &VECTORS,
                name: "vectors_plain",
                threads: 128,
                blocks: 4,
                strip_rows: 64,
                stage_columns: 64,
                blocked: false,
                shared_words: 0,
                box_chunks: 0,
                has_index: false,
            },
            VectorKernel::Warps => Self {
                kernel,
                numbers: NumberType::Halves,
                program: &VECTORS,
                name: "vectors_mma",
                threads: 256,
                blocks: 2,
                strip_rows: 128,
                stage_columns: 128,
                blocked: false,
                shared_words: 0,
                box_chunks: 0,
                has_index: false,
            },
            VectorKernel::Warpgroups => Self::of_warpgroups(NumberType::Halves.steps(dimensions)),
        }
    }

    /// For columns of integers of 8 bits; `None` where there is no kernel for them, or that of halves is
    /// quicker.
    pub(super) fn of_integers(kernel: VectorKernel, dimensions: u32) -> Option<Self> {
        /// Steps of halves, which an H200 multiplies in no more time than integers.
        const QUICK_STEPS: u32 = 2;
        if !(1..=MOST_INTEGER_DIMENSIONS).contains(&dimensions) {
            return None;
        }
        let numbers = NumberType::Integers;
        let steps = numbers.steps(dimensions);
        match kernel {
            VectorKernel::Plain => None,
            VectorKernel::Warps => {
                let name = "vectors_mma_integers";
                Some(Self { numbers, name, ..Self::new(kernel, dimensions) })
            }
            VectorKernel::Warpgroups if NumberType::Halves.steps(dimensions) <= QUICK_STEPS => None,
            VectorKernel::Warpgroups => {
                let (name, ring) = *OF_INTEGERS.get(steps as usize - 1)?;
                // A stage comes with a word for each of its columns.
                let shared_words = STAGE * (8 * steps + 1) * ring;
                Some(Self { numbers, name, shared_words, ..Self::of_warpgroups(1) })
            }
        }
    }

    fn of_warpgroups(steps: u32) -> Self {
        let kept = OF_ROWS.get(steps.saturating_sub(1) as usize);
        // A step of a column is 32 bytes, eight words; stages of long vectors come in four blocks.
        let (name, strip_rows, blocked, shared_words) = match kept {
            Some((name, ring)) => (*name, 256, false, STAGE * 8 * steps * ring),
            None => ("vectors_shared", 192, true, 4 * (192 + STAGE) * 32),
        };
        Self {
            kernel: VectorKernel::Warpgroups,
            numbers: NumberType::Halves,
            program: &VECTORS,
            name,
            threads: 384,
            blocks: 1,
            strip_rows,
            stage_columns: STAGE,
            blocked,
            shared_words,
            box_chunks: 0,
            has_index: false,
        }
    }

    /// For a self-join, each unordered pair once, of vectors with boxes; `None` where there is no kernel
    /// that reads these.
    pub(super) fn of_boxes(kernel: VectorKernel, dimensions: u32, boxes: &Boxes) -> Option<Self> {
        let numbers = NumberType::Halves;
        let (name, blocks) = *OF_BOXES.get(numbers.steps(dimensions) as usize - 1)?;
        let box_chunks = boxes.dims.div_ceil(BOX_CHUNK);
        let reads_them = (1..=MOST_BOX_CHUNKS).contains(&box_chunks);
        (reads_them && kernel != VectorKernel::Plain).then_some(Self {
            kernel,
            numbers,
            program: &VECTORS,
            name,
            threads: 32 * BOXED_WARPS,
            blocks,
            strip_rows: BLOCK_ITEMS * BOXED_WARPS,
            stage_columns: BOX_STAGE,
            blocked: false,
            shared_words: 0,
            box_chunks,
            has_index: false,
        })
    }

    /// Whether the kernel reads boxes around vectors.
    pub(super) fn reads_boxes(&self) -> bool {
        self.box_chunks > 0
    }

    /// Strips begin at multiples of it.
    pub(super) fn strip_step(&self) -> u32 {
        if self.reads_boxes() { BLOCK_ITEMS } else { OCTET }
    }

    /// The instructions by which the kernel multiplies: those that read boxes do so by warps everywhere.
    pub(super) fn products(&self) -> VectorKernel {
        if self.reads_boxes() { VectorKernel::Warps } else { self.kernel }
    }

    /// The shape of units whose pairs are decided one by one: room for all their matches is kept, so
    /// stages that few matches are expected of are cut.
    pub(super) fn dense(&self) -> Self {
        let stage_columns = if self.reads_boxes() { DENSE_COLUMNS } else { self.stage_columns };
        Self { stage_columns, ..*self }
    }

    /// Pairs of a strip and a stage.
    pub(super) fn tile_pairs(&self) -> u64 {
        u64::from(self.strip_rows) * u64::from(self.stage_columns)
    }

    /// Pairs that a device of 132 multiprocessors tests in a nanosecond, of vectors of some dimensions.
    pub(super) fn rate(&self, dimensions: u32) -> f64 {
        /// Products of numbers; and pairs at most, whose products or sums of integers are compared one
        /// by one.
        const PLAIN: f64 = 5000.0;
        const WARPS: f64 = 60_000.0;
        const WARPGROUPS: f64 = 300_000.0;
        const PRODUCTS: f64 = 10_000.0;
        const SUMS: f64 = 5000.0;
        /// Pairs that a kernel with an index passes by.
        const INDEXED: f64 = 1e7;
        /// By steps, pairs of strips and stages in reach, most of which smaller boxes pass by: an H200
        /// takes 0.10 s for 4e12 of them (11.8 million uniform vectors of 8 dimensions), 0.08 s for 3.6e12
        /// (the same number in five clusters), 27 ms for 6.8e11 of 18 dimensions.
        const BOXED: [f64; 2] = [40_000.0, 20_000.0];
        if self.has_index {
            return INDEXED;
        }
        if self.reads_boxes() {
            let steps = self.numbers.steps(dimensions) as usize;
            return BOXED[steps.clamp(1, BOXED.len()) - 1];
        }
        let products = match self.kernel {
            VectorKernel::Plain => PLAIN,
            VectorKernel::Warps => WARPS,
            VectorKernel::Warpgroups => WARPGROUPS,
        };
        let pairs = match self.numbers {
            NumberType::Halves => PRODUCTS,
            NumberType::Integers => SUMS,
        };
        // Steps of integers are as quick, and of twice as many.
        (products / f64::from(16 * self.numbers.steps(dimensions))).min(pairs)
    }
}
