//! The structures of the host and the kernels of filters by inverted index. `kernels/index_abi.cuh`
//! declares the same in CUDA C++; see there for what the fields mean. Addresses are device addresses,
//! 0 where there is nothing.

use crate::runtime::{Images, Pod, images};
use crate::set::device::abi::{Found, Sets};

/// The kernels of filters by inverted index.
pub(in crate::set) static INDEXED: Images = images!("indexed");

/// Build sets of one key and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct IndexRun {
    pub first: u32,
    pub prefix: u32,
    pub size_class: u32,
    pub reserved: u32,
    pub posting: u64,
}

/// Postings, field by field.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Postings {
    pub sets: u64,
    pub places: u64,
    pub signatures: u64,
}

/// A part of the build sets to be indexed.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Indexing {
    pub sets: Sets,
    pub runs: u64,
    pub classes: u64,
    pub unsorted: Postings,
    pub sorted: Postings,
    pub tokens: u64,
    pub numbers: u64,
    pub next_tokens: u64,
    pub next_numbers: u64,
    pub counts: u64,
    pub offsets: u64,
    pub first_posting: u64,
    pub posting_count: u32,
    pub run_count: u32,
    pub first_set: u32,
    pub end_set: u32,
    pub universe: u32,
    pub shift: u32,
    pub tiles: u32,
    pub reserved: u32,
}

/// Rows of one key and size, and the columns that these admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct ProbeRun {
    pub first: u32,
    pub start: u32,
    pub end: u32,
    pub table: u32,
    pub size: u32,
    pub prefix: u32,
}

/// A row, and how far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RowState {
    pub row: u32,
    pub place: u32,
    pub from: u32,
}

/// Bytes of a candidate.
pub(super) const CANDIDATE_BYTES: u64 = 16;
/// Bits of a digit of the sort, and the postings that a block of `SORT_THREADS` moves at a time.
pub(super) const DIGIT_BITS: u32 = 4;
pub(super) const SORT_THREADS: u32 = 256;
pub(super) const SORT_TILE: u32 = 8 * SORT_THREADS;

/// The work that the kernels of a job have done.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct IndexTally {
    pub found: Found,
    pub postings: u64,
    pub hits: u64,
    pub gap: u64,
    pub compared: u64,
    pub next: u32,
    pub redone: u32,
}

/// A work: the only argument of the kernels that filter and decide.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct IndexWork {
    pub rows: Sets,
    pub columns: Sets,
    pub classes: u64,
    pub sizes: u64,
    pub offsets: u64,
    pub postings: Postings,
    pub runs: u64,
    pub table: u64,
    pub states: u64,
    pub candidates: u64,
    pub redo: u64,
    pub cells: u64,
    pub matches: u64,
    pub seen: u64,
    pub probe_rows: u64,
    pub build_rows: u64,
    pub tally: u64,
    pub budget: u64,
    pub row_budget: u64,
    pub first_row: u32,
    pub row_count: u32,
    pub first_probe: u32,
    pub run_count: u32,
    pub part_first: u32,
    pub part_end: u32,
    pub capacity: u32,
    pub same: u32,
    pub exact: u32,
    pub reserved: u32,
}

const _: () = assert!(size_of::<Indexing>() == 168 && size_of::<IndexWork>() == 224);
const _: () = assert!(size_of::<IndexRun>() == 24 && size_of::<IndexTally>() == 72);

// SAFETY: fields of 4 bytes, then one of 8; any bits are values.
unsafe impl Pod for IndexRun {}
// SAFETY: fields of 4 bytes, any bits are values.
unsafe impl Pod for ProbeRun {}
// SAFETY: as above.
unsafe impl Pod for RowState {}
// SAFETY: fields of 8 bytes, then two of 4; any bits are values.
unsafe impl Pod for IndexTally {}
