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
//! loaded when a device is first asked for; its absence is an error, never a panic. Without the
//! feature `cuda` the same names exist and there is no device.

mod error;
mod images;
mod work;

#[cfg(feature = "cuda")]
mod device;
#[cfg(not(feature = "cuda"))]
mod disabled;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod memory;
#[cfg(feature = "cuda")]
mod module;
#[cfg(feature = "cuda")]
mod queue;
#[cfg(feature = "cuda")]
mod resident;
#[cfg(feature = "cuda")]
mod stage;
#[cfg(feature = "cuda")]
mod start;
#[cfg(all(test, feature = "cuda"))]
pub(crate) mod tests;

#[cfg(feature = "cuda")]
pub use device::Device;
#[cfg(not(feature = "cuda"))]
pub use disabled::Device;
#[cfg(not(feature = "cuda"))]
pub(crate) use disabled::{PinnedBuffer, Resident, Results, Stage};
pub use error::DeviceError;
#[cfg(feature = "cuda")]
pub(crate) use images::Aligned;
pub(crate) use images::{Images, images};
#[cfg(feature = "cuda")]
pub(crate) use memory::PinnedBuffer;
#[cfg(feature = "cuda")]
pub(crate) use module::Kernel;
#[cfg(feature = "cuda")]
pub(crate) use resident::Resident;
#[cfg(feature = "cuda")]
pub(crate) use stage::{Results, Stage};
pub(crate) use work::{DeviceWork, Grid, Pod, Times, Usage};
