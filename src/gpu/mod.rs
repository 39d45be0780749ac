//! NVIDIA GPUs, through their driver alone.
//!
//! A [`Device`] is opened once for the process. Token sets either stay on it ([`ResidentSets`]) or
//! travel with the candidates. Filter threads fill chunks of candidates in pinned memory
//! ([`Staging`]) and submit them as [`Job`]s to the queue of the device, which copies and computes
//! several at once and answers each through its [`Reply`].
//!
//! ```text
//! filter threads            launcher                   device                 collector
//! Staging ─► Job ─► queue ─► slot: copy to device ─► kernel ─► Found ─► copy matches back ─► Reply
//! ```
//!
//! The driver is loaded when a device is first asked for; its absence is an error, never a panic.
//! Without the feature `cuda` the same names exist and there is no device. The kernels are in
//! `kernels/`, what they and the host agree on in [`abi`].

pub mod abi;
mod error;
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
mod job;
mod launch;
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
mod staging;

#[cfg(feature = "cuda")]
mod device;
#[cfg(not(feature = "cuda"))]
mod disabled;
#[cfg(feature = "cuda")]
mod driver;
mod images;
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
mod kernels;
#[cfg(feature = "cuda")]
mod memory;
#[cfg(feature = "cuda")]
mod module;
#[cfg(feature = "cuda")]
mod queue;
#[cfg(feature = "cuda")]
mod resident;
#[cfg(feature = "cuda")]
mod slot;
#[cfg(all(test, feature = "cuda"))]
mod tests;

#[cfg(feature = "cuda")]
pub use device::Device;
#[cfg(not(feature = "cuda"))]
pub use disabled::{Device, ResidentSets};
pub use error::DeviceError;
pub use images::{Aligned, Images};
pub use job::{Form, Job, Launch, Layout, Outcome, Reply, Times};
pub use launch::ChunkShape;
#[cfg(feature = "cuda")]
pub use resident::ResidentSets;
pub use staging::{Capacities, Pod, Section, Staging};

#[cfg(not(feature = "cuda"))]
use disabled as memory;
