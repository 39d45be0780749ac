//! The shape of the tiles that a device tests, and the rate of these tests.

use crate::runtime::{Images, images};

/// The kernels of tiles.
pub(in crate::set) static TILES: Images = images!("tiles", "sm_90a");

/// The instructions by which signatures are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileKernel {
    /// Population counts of a thread.
    Counts,
    /// One-bit matrix products of a warp (compute capability 8.0 to 9.0).
    Products,
    /// The kernel of a warpgroup (compute capability 9.0).
    Warpgroups,
}

/// Widths of signatures, in words of 32 bits.
pub(super) const WIDTHS: [u32; 3] = [8, 16, 32];

/// A kernel for one width of signatures: the sizes that it is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TileShape {
    pub kernel: TileKernel,
    /// Words of a signature, one of [`WIDTHS`].
    pub width: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Rows of a strip and columns of a stage.
    pub strip_rows: u32,
    pub stage_columns: u32,
    /// Blocks that a multiprocessor runs at a time.
    pub blocks: u32,
    /// Words of dynamic shared memory of a block: in front of the hits, and for the hits of a unit.
    pub shared_words: u32,
    pub room: u32,
}

impl TileKernel {
    /// The fastest one on devices of a capability. On later devices than those measured one-bit
    /// products may be emulated.
    pub fn of(capability: (i32, i32)) -> Self {
        match capability {
            (9, 0) => Self::Warpgroups,
            (8, _) => Self::Products,
            _ => Self::Counts,
        }
    }

    /// Pairs tested in a nanosecond by a multiprocessor, with signatures of `width` words. Measured
    /// on an H200 with 132 multiprocessors.
    pub(super) fn rate(self, width: u32) -> f64 {
        let [at_256, at_512, at_1024] = match self {
            Self::Counts => [500.0, 255.0, 125.0],
            Self::Products => [9500.0, 6000.0, 3500.0],
            Self::Warpgroups => [15500.0, 11500.0, 6900.0],
        };
        let pairs = match width {
            8 => at_256,
            16 => at_512,
            _ => at_1024,
        };
        pairs / 132.0
    }
}

impl TileShape {
    pub(super) fn new(kernel: TileKernel, width: u32) -> Self {
        match kernel {
            TileKernel::Counts => Self {
                kernel,
                width,
                threads: 64,
                strip_rows: 64 * (32 / width),
                stage_columns: 32,
                blocks: 16,
                shared_words: 0,
                room: 1 << 10,
            },
            TileKernel::Products => Self {
                kernel,
                width,
                threads: 128,
                strip_rows: if width == 32 { 256 } else { 512 },
                stage_columns: 128,
                blocks: 3,
                shared_words: 0,
                room: 1 << 12,
            },
            TileKernel::Warpgroups => Self {
                kernel,
                width,
                threads: 384,
                strip_rows: if width == 32 { 384 } else { 768 },
                stage_columns: 192,
                blocks: 1,
                // A ring of four stages.
                shared_words: 4 * 192 * width,
                room: 1 << 14,
            },
        }
    }

    /// The name of the kernel.
    pub(super) fn name(&self) -> &'static str {
        match (self.kernel, self.width) {
            (TileKernel::Counts, 8) => "tiles_count_256",
            (TileKernel::Counts, 16) => "tiles_count_512",
            (TileKernel::Counts, _) => "tiles_count_1024",
            (TileKernel::Products, 8) => "tiles_product_256",
            (TileKernel::Products, 16) => "tiles_product_512",
            (TileKernel::Products, _) => "tiles_product_1024",
            (TileKernel::Warpgroups, 8) => "tiles_warpgroup_256",
            (TileKernel::Warpgroups, 16) => "tiles_warpgroup_512",
            (TileKernel::Warpgroups, _) => "tiles_warpgroup_1024",
        }
    }
}
