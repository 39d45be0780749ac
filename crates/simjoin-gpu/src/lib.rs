//! Similarity joins on NVIDIA GPUs.
//!
//! The crate has a strategy for each way in which `simjoin-core` finds pairs that a GPU does faster, and the
//! search of nearest vectors. They have the names of the strategies on the CPU that find their pairs in the
//! same way, and give the same answers. The families know nothing of them: a session hands them over
//! ([`set::STRATEGIES`], [`string::STRATEGIES`], [`vector::STRATEGIES`], [`vector::NEAREST`]).
//!
//! ```text
//! set, string, vector: strategies, columns on devices, jobs
//!        ▼
//!     offload: the way of jobs to devices and back
//!        ▼
//!     runtime: devices, queues, memory, kernels
//! ```
//!
//! ```
//! use simjoin_core::{DeviceChoice, Join, Measure};
//!
//! let lists = [vec![1, 2, 3], vec![7, 8], vec![3, 2, 1, 4]];
//! // On a GPU where one is there and pays.
//! let join = Join::new(Measure::Jaccard, 0.7).on(simjoin_gpu::DEVICES, DeviceChoice::Auto);
//! assert_eq!(join.self_join(&lists)?.len(), 1);
//! # Ok::<(), simjoin_core::Error>(())
//! ```
//!
//! A device is opened when a join first asks for it. A build needs no CUDA: the kernels come as images, from
//! `kernels/`, and the driver is loaded at run time.

#![allow(rustdoc::private_intra_doc_links)]
// The interface is for the operator and the crates beside it, and changes with them.
#![allow(
    clippy::extra_unused_type_parameters,
    clippy::len_without_is_empty,
    clippy::missing_safety_doc,
    clippy::new_without_default
)]
#![warn(unreachable_pub)]

pub mod offload;
pub mod runtime;
pub mod set;
pub mod string;
pub mod vector;

/// Everything that the crate adds to the searches of `simjoin-core`.
pub static DEVICES: Devices = Devices {
    of_sets: set::STRATEGIES,
    of_texts: string::STRATEGIES,
    of_vectors: vector::STRATEGIES,
    nearest_vectors: Some(vector::NEAREST),
};

use simjoin_core::Devices;
pub(crate) use simjoin_core::{engine, error, memory, tuning, util};
#[cfg(test)]
pub(crate) use simjoin_core::{predicate, simd};

#[cfg(test)]
#[path = "../../../tests/emulator/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod emulator;
#[cfg(test)]
extern crate self as simjoin_gpu;
#[cfg(test)]
#[path = "../tests/harness/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod device_harness;
#[cfg(test)]
#[path = "../../simjoin-core/tests/harness/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod harness;
#[cfg(test)]
#[path = "../../../tests/structure/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod structure;
#[cfg(test)]
mod structure_tests;
#[cfg(test)]
mod tests;
