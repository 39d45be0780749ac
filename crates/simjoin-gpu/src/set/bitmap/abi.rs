//! The structures of the host and the kernels of signature tiles. `kernels/tile_abi.cuh` declares the
//! same in CUDA C++; see there for what the fields mean. Addresses are device addresses, 0 where
//! there is nothing.

use crate::runtime::Pod;
use crate::set::device::abi::{Found, Sets};

/// Sets to be signed.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Signing {
    pub sets: Sets,
    pub words: u64,
    pub hidden: u64,
    pub classes: u64,
    pub sizes: u64,
    pub size_count: u32,
    pub count: u32,
    pub padded: u32,
    pub width: u32,
    pub universe: u32,
    pub owned: u32,
    pub hashed_log: u32,
    pub reserved: u32,
}

/// Signed sets to be made columns.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Uniting {
    pub words: u64,
    pub unions: u64,
    pub classes: u64,
    pub stage_classes: u64,
    pub count: u32,
    pub padded: u32,
    pub width: u32,
    pub members: u32,
    pub stages: u32,
    pub stage_sets: u32,
}

/// Signed sets.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Signed {
    pub sets: Sets,
    pub words: u64,
    pub hidden: u64,
}

/// Rows of one key and size, and the columns that these admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RowRun {
    pub first: u32,
    pub start: u32,
    pub end: u32,
    pub table: u32,
}

/// Rows that a block tests together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Strip {
    pub first: u32,
    pub table: u32,
}

/// The most stages of a unit.
pub(super) const MAX_STAGES: u32 = 128;
/// In a table of required overlaps: no pair matches.
pub(super) const NEVER: u32 = u32::MAX;
/// Overlaps that columns require are below this.
pub(super) const MOST_OVERLAP: u32 = 1 << 30;
/// Sets whose words lie together.
pub(super) const OCTET: u32 = 8;

/// The work that the kernels of a job have done.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Tally {
    pub found: Found,
    pub hits: u64,
    pub tests: u64,
    pub compared: u64,
    pub next: u32,
    pub redone: u32,
}

/// A work: the only argument of the kernels that test and decide.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct TileWork {
    pub rows: Signed,
    pub columns: Signed,
    pub classes: u64,
    pub stage_classes: u64,
    pub unions: u64,
    pub table: u64,
    pub runs: u64,
    pub strips: u64,
    pub units: u64,
    pub hits: u64,
    pub redo: u64,
    pub matches: u64,
    pub seen: u64,
    pub probe_rows: u64,
    pub build_rows: u64,
    pub tally: u64,
    pub first_row: u32,
    pub end_row: u32,
    pub first_probe: u32,
    pub column_count: u32,
    pub run_count: u32,
    pub unit_count: u32,
    pub width: u32,
    pub members: u32,
    pub strip_rows: u32,
    pub stage_columns: u32,
    pub capacity: u32,
    pub room: u32,
    pub same: u32,
    pub exact: u32,
    pub decides: u32,
    pub reserved: u32,
}

const _: () = assert!(size_of::<Signing>() == 80 && size_of::<Uniting>() == 56);
const _: () = assert!(size_of::<Tally>() == 64 && size_of::<TileWork>() == 240);

// SAFETY: fields of 4 bytes, any bits are values.
unsafe impl Pod for RowRun {}
// SAFETY: as above.
unsafe impl Pod for Strip {}
// SAFETY: fields of 8 bytes, then two of 4; any bits are values.
unsafe impl Pod for Tally {}
