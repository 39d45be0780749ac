//! Verification on a GPU, beside the filter.
//!
//! [`DeviceVerifier`] packs candidates into chunks that a GPU decides while the filter goes on:
//!
//! ```text
//!  filter thread                             device (queue shared by all partitions)
//!  chunk of candidates ─► Pack ─► full ────► copy ─► kernel ─► matches ─┐
//!        │                                                              │
//!        └─► CpuVerifier, where no chunk is free or the device failed   │
//!  match buffer ◄──────────────── inbox ◄───────────────────────────────┘
//! ```
//!
//! Candidates of several units are on their way at the same time; `units` tells when all matches
//! of a unit have come back.

pub(crate) mod inbox;
pub(crate) mod join;
pub(crate) mod pack;
pub(crate) mod units;
pub(crate) mod verifier;

pub use join::DeviceJoin;
pub use verifier::DeviceVerifier;
