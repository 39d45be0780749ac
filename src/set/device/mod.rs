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

//!
//! A chunk is a [`VerifyJob`], one type of work for the device's queue: candidates, and sets that
//! are not resident ([`ResidentSets`]), in pinned memory ([`Staging`]). The kernels are in
//! `kernels/`, what they and the host agree on in [`abi`].

pub(crate) mod abi;
pub(crate) mod inbox;
pub(crate) mod join;
mod launch;
pub(crate) mod pack;
mod published;
mod resident;
mod staging;
#[cfg(test)]
mod tests;
pub(crate) mod units;
pub(crate) mod verifier;
mod work;

pub use join::DeviceJoin;
pub(crate) use launch::ChunkShape;
pub use launch::{Launch, Layout};
pub(crate) use resident::DeviceCopies;
pub(crate) use resident::ResidentSets;
pub use staging::{Capacities, Section, Staging};
pub use verifier::DeviceVerifier;
pub use work::{Form, Outcome, Reply, VerifyJob};
