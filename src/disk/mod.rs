//! One store of rows on disk, for joins, nearest rows and best pairs.
//!
//! ```text
//! batches ─► writer: gathered, by band ─► segments, each in a file of its own ─► batches
//!                                              │ checked: a checksum for each block of a file
//! ```
//!
//! The bands, the notes beside each segment, and the segments that are in memory together are the callers'. Dropping
//! [`DiskRows`] deletes the files.

mod checked;
mod files;
mod segments;
mod writer;

pub(crate) use files::spill_manager;
pub(crate) use segments::{DiskRows, Segment};
pub(crate) use writer::{LEAST_BUFFER_BYTES, SegmentLimits, SegmentWriter, copies};
