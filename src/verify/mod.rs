//! Verification: the exact decision over candidates.
//!
//! [`CpuVerifier`] merges sets on the filter's own thread. [`DeviceVerifier`] packs candidates into
//! chunks that a GPU decides while the filter goes on:
//!
//! ```text
//!  filter thread                             device (queue shared by all partitions)
//!  chunk of candidates ─► Pack ─► full ────► copy ─► kernel ─► matches ─┐
//!        │                                                              │
//!        └─► CpuVerifier, where no chunk is free or the device failed   │
//!  match buffer ◄──────────────── inbox ◄───────────────────────────────┘
//! ```

mod cpu;
mod device_join;
mod device_verifier;
mod inbox;
mod intersect;
mod pack;

pub use cpu::CpuVerifier;
pub use device_join::{DeviceJoin, DeviceRequest};
pub use device_verifier::DeviceVerifier;
pub use intersect::intersect;
