//! The structures of the host and the kernels of joins of texts. `kernels/text_abi.cuh` declares the same in
//! CUDA C++; see there for what the fields mean. Addresses are device addresses, 0 where there is nothing.

use crate::runtime::Pod;

/// Fills up the last word of a text.
pub(super) const NO_CODE: u8 = 0x40;
/// Rows of a strip, columns of a stage, and the most stages of a unit.
pub(super) const STRIP: u32 = 32;
pub(super) const STAGE: u32 = 64;
pub(super) const MAX_STAGES: u32 = 128;
/// [`Match::detail`](crate::engine::Match::detail) of a pair that the host decides.
pub(super) const UNDECIDED: u32 = u32::MAX;

/// Texts on a device.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct TextSide {
    pub words: u64,
    pub starts: u64,
    pub lens: u64,
    pub pages: u64,
    pub signatures: u64,
    pub row_counts: u64,
    pub first: u32,
    pub reserved: u32,
}

/// Texts to be signed.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct TextSigning {
    pub words: u64,
    pub starts: u64,
    pub lens: u64,
    pub bits: u64,
    pub signatures: u64,
    pub boxes: u64,
    pub count: u32,
    pub reserved: u32,
}

/// Rows of one run, and the columns that these admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct TextRun {
    pub first: u32,
    pub start: u32,
    pub end: u32,
    pub first_class: u32,
    pub end_class: u32,
    pub table: u32,
}

/// The work that the kernels of one job have done.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct TextTally {
    pub matches: u64,
    pub cross: u64,
    pub squares: u64,
    pub rows: u64,
    pub given: u64,
    pub tests: u64,
    pub compared: u64,
    pub next: u32,
    pub redone: u32,
}

/// A work: the only argument of the kernels that test and decide.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct TextWork {
    pub rows: TextSide,
    pub columns: TextSide,
    pub classes: u64,
    pub stage_classes: u64,
    pub boxes: u64,
    pub table: u64,
    pub runs: u64,
    pub units: u64,
    pub redo: u64,
    pub matches: u64,
    pub seen: u64,
    pub tally: u64,
    pub first_row: u32,
    pub end_row: u32,
    pub first_probe: u32,
    pub column_count: u32,
    pub run_count: u32,
    pub unit_count: u32,
    pub capacity: u32,
    pub room: u32,
    pub enough: u32,
    pub unordered: u32,
    pub decides: u32,
    pub reserved: u32,
}

const _: () = assert!(size_of::<TextSide>() == 56 && size_of::<TextSigning>() == 56);
const _: () = assert!(size_of::<TextRun>() == 24);
const _: () = assert!(size_of::<TextTally>() == 64 && size_of::<TextWork>() == 240);

// SAFETY: fields of 4 bytes, any bits are values.
unsafe impl Pod for TextRun {}
// SAFETY: fields of 8 bytes, then two of 4; any bits are values.
unsafe impl Pod for TextTally {}
