//! The structures of the host and the kernels of large sets. `kernels/large_abi.cuh` declares the same in
//! CUDA C++; see there for what the fields mean. Addresses are device addresses, 0 where there is nothing.

use crate::runtime::Pod;
use crate::set::device::abi::{Found, Sets};

/// Rows of one key and size, and the columns that they admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct LargeRun {
    pub first: u32,
    pub start: u32,
    pub end: u32,
}

/// The work that the kernels of a job have done.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct LargeTally {
    pub found: Found,
    pub next_light: u32,
    pub next_heavy: u32,
    pub stopped: u32,
    pub reserved: u32,
}

/// Rows and columns of which all overlaps are counted.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct LargeWork {
    pub rows: Sets,
    pub columns: Sets,
    pub overlaps: u64,
    pub cuts: u64,
    pub row_starts: u64,
    pub column_starts: u64,
    pub row_bits: u64,
    pub column_bits: u64,
    pub runs: u64,
    pub row_sizes: u64,
    pub column_sizes: u64,
    pub matches: u64,
    pub seen: u64,
    pub probe_rows: u64,
    pub build_rows: u64,
    pub tally: u64,
    pub threshold: f64,
    pub row_count: u32,
    pub column_count: u32,
    pub first_row: u32,
    pub first_column: u32,
    pub same: u32,
    pub run_count: u32,
    pub range_count: u32,
    pub job_ranges: u32,
    pub slice_first: u32,
    pub slice_end: u32,
    pub chunk_count: u32,
    pub job_chunks: u32,
    pub postings: u32,
    pub lists: u32,
    /// By [`simjoin_core::set::Measure::ALL`].
    pub measure: u32,
    pub second: u32,
    pub decided_first: u32,
    pub decided_count: u32,
    pub capacity: u32,
    pub reserved: u32,
}

/// Rows and columns of a tile of bits.
pub(super) const LARGE_TILE: u32 = 128;
/// Bits of a chunk.
pub(super) const CHUNK_BITS: u32 = 1024;
/// Bytes of the bits of a set in a chunk.
pub(super) const CHUNK_BYTES: u64 = CHUNK_BITS as u64 / 8;
/// Words of shared memory of a block that multiplies bits, and its threads.
pub(super) const PRODUCT_WORDS: u32 = 4 * LARGE_TILE * CHUNK_BITS / 32;
pub(super) const PRODUCT_THREADS: u32 = 128;

const _: () = assert!(size_of::<LargeRun>() == 12);
const _: () = assert!(size_of::<LargeTally>() == 48 && size_of::<LargeWork>() == 232);

// SAFETY: fields of 4 bytes, any bits are values.
unsafe impl Pod for LargeRun {}
// SAFETY: fields of 8 bytes, then four of 4; any bits are values.
unsafe impl Pod for LargeTally {}
