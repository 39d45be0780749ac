//! NVIDIA GPUs, through their driver alone: a runtime that knows no join.
//!
//! A [`Device`] is opened once for the process. It has pinned host memory ([`PinnedBuffer`]),
//! memory that stays ([`Resident`]), programs by their [`Images`], and a queue that takes work of
//! any type ([`DeviceWork`]) from any thread, copies and computes several works at once, and
//! answers each exactly once.
//!
//! ```text
//! any thread       launcher         device                             collector
//! work ─► queue ─► issue(Stage) ─► slot: copy ─► kernel ─► note ─► finish(Results) ─► answer
//! ```
//!
//! The families of joins define the work: what a chunk is and which kernel reads it. The driver is
//! loaded when a device is first asked for; its absence is an error, never a panic.

mod device;
mod driver;
mod error;
mod images;
mod memory;
mod module;
mod pod;
mod queue;
mod resident;
mod stage;
mod start;
mod usage;
mod work;

#[cfg(test)]
pub mod tests;

pub use device::Device;
pub use error::DeviceError;
#[doc(hidden)]
pub use images::Aligned;
pub use images::{Images, images};
pub use memory::PinnedBuffer;
pub use module::{Kernel, LaunchGrid};
pub use pod::Pod;
pub use resident::{Resident, Upload};
pub use stage::{Results, Stage};
pub use usage::{Times, Usage};
pub use work::DeviceWork;
