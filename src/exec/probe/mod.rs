//! The probe side: one partition's way from input rows to output batches.
//!
//! ```text
//!  ProbeSource ── probe batch ──► Cursor ── matches ──► Answer ── output batches ──►
//!  stream slices,        (crate::engine)       (crate::exec::answer)
//!  ranges, segments
//! ```
//!
//! [`ProbeStream`] drives the three. It feeds the cursor a further batch whenever the cursor asks
//! for one, and keeps a few batches open while a device works on their matches: `stream` says how
//! many, `source` how their memory is reserved and what happens where it is short.

pub(crate) mod source;
pub(crate) mod stream;

pub(crate) use source::ProbeInput;
pub(crate) use stream::{ProbeSetup, ProbeStream};
