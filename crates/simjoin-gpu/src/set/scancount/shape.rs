//! The sizes that the kernels of large sets are compiled for.

use crate::runtime::{Images, images};

/// The kernels of large sets.
pub(in crate::set) static LARGE: Images = images!("large");

/// A kernel that counts light tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LightShape {
    pub name: &'static str,
    /// Rows and columns of a tile.
    pub tile: u32,
    pub threads: u32,
    /// Tokens of rows that a block has room for, and lists of them, a power of two.
    pub postings: u32,
    pub lists: u32,
    /// Blocks of a multiprocessor.
    pub blocks: u32,
}

impl LightShape {
    /// A block has all shared memory of a multiprocessor of compute capability 9.0.
    pub(super) const LARGE: Self = Self {
        name: "large_light_192",
        tile: 192,
        threads: 1024,
        postings: 5120,
        lists: 8192,
        blocks: 1,
    };
    /// The shape for any device.
    pub(super) const SMALL: Self = Self {
        name: "large_light_64",
        tile: 64,
        threads: 256,
        postings: 2048,
        lists: 2048,
        blocks: 2,
    };

    /// The one for devices of a capability.
    pub(super) fn of(capability: (i32, i32)) -> Self {
        match capability {
            (9, 0) => Self::LARGE,
            _ => Self::SMALL,
        }
    }

    /// Words of dynamic shared memory of a block.
    pub(super) fn shared_words(&self) -> u32 {
        self.tile * self.tile + 2 * self.postings + self.lists
    }
}
