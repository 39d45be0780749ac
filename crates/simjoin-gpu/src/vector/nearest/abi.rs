//! The arguments of the kernels that find nearest vectors: `kernels/nearest_abi.cuh` in Rust.

use crate::runtime::Pod;
use crate::vector::abi::{VectorTally, VectorWork};

/// Rows by their thresholds: bins.
pub(super) const BINS: u64 = 1 << 16;

/// The work and the findings of all kernels of a search.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct NearestTally {
    pub bests: VectorTally,
    pub pairs: VectorTally,
    pub most_off: u32,
    pub most_square: u32,
    pub unusual: u32,
    pub unbounded: u32,
    pub unserved: u32,
    pub lowest: u32,
    pub highest: u32,
    pub reserved: u32,
    pub kept: u64,
    pub compared: u64,
    pub found: u64,
}

/// Vectors to be prepared.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct NearestPreparing {
    pub values: u64,
    pub centre: u64,
    pub greatest: u64,
    pub order: u64,
    pub numbers: u64,
    pub tails: u64,
    pub tally: u64,
    pub count: u32,
    pub padded: u32,
    pub dimensions: u32,
    pub steps: u32,
    pub blocked: u32,
    pub metric: u32,
    pub wide: u32,
    pub reserved: u32,
}

/// An order of vectors.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct NearestShuffle {
    pub order: u64,
    pub count: u32,
    pub stride: u32,
    pub first: u32,
    pub reserved: u32,
}

/// Counts to be summed up.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct NearestSum {
    pub counts: u64,
    pub starts: u64,
    pub next: u64,
    pub count: u64,
}

/// A search: the argument of all other kernels.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct NearestWork {
    pub tiles: VectorWork,
    pub groups: u64,
    pub thresholds: u64,
    pub row_order: u64,
    pub column_order: u64,
    pub bins: u64,
    pub bin_next: u64,
    pub bin_lowest: u64,
    pub sorted_order: u64,
    pub sorted_thresholds: u64,
    pub list: u64,
    pub list_keys: u64,
    pub counts: u64,
    pub starts: u64,
    pub next: u64,
    pub buckets: u64,
    pub found_starts: u64,
    pub found_counts: u64,
    pub found_columns: u64,
    pub found_values: u64,
    pub summary: u64,
    pub gamma: f64,
    pub bucket_room: u64,
    pub found_room: u32,
    pub row_count: u32,
    pub row_padded: u32,
    pub neighbours: u32,
    pub group_count: u32,
    pub group_stages: u32,
    pub sample_stages: u32,
    pub with_ties: u32,
    pub integers: u32,
    pub reserved: u32,
}

const _: () = assert!(size_of::<NearestTally>() == 200 && size_of::<NearestPreparing>() == 88);
const _: () = assert!(size_of::<NearestShuffle>() == 24 && size_of::<NearestSum>() == 32);
const _: () = assert!(size_of::<NearestWork>() == 520);

// SAFETY: fields of 8 bytes, or of 4 in even number; any bits are values.
unsafe impl Pod for NearestTally {}
