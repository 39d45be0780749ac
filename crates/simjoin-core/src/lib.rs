//! Exact similarity joins of sets, texts and vectors over Arrow arrays, on the CPU and on GPUs.
//!
//! ```text
//! predicate ─► engine: family ─► matcher ─► strategy ─► cursor ─► matches
//!                 ▲          set, string, vector: rules, items, strategies
//!                 └─ values (Arrow columns), memory, error, simd, util
//!              offload ─► gpu: devices, queues, kernels
//! ```
//!
//! No part of the crate knows SQL or a query engine. The feature `datafusion` has the errors and the memory
//! of DataFusion as those of this crate. Its interface is that of the operator of `datafusion-simjoin`, and
//! changes with it.

#![allow(rustdoc::private_intra_doc_links)]
// The interface is for the operator: a collection that it never asks for emptiness has no `is_empty`, what it
// names a kernel by is a type parameter, and what the methods of a trait of kernels need is said at the trait.
#![allow(
    clippy::extra_unused_type_parameters,
    clippy::len_without_is_empty,
    clippy::missing_safety_doc,
    clippy::new_without_default
)]
#![warn(unreachable_pub)]

#[cfg(feature = "datafusion")]
mod datafusion;
pub mod engine;
pub mod error;
pub mod gpu;
pub mod memory;
pub mod offload;
pub mod predicate;
pub mod set;
pub mod simd;
pub mod string;
pub mod tuning;
pub mod util;
pub mod values;
pub mod vector;

#[cfg(test)]
#[path = "../../../tests/emulator/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod emulator;
#[cfg(test)]
#[path = "../tests/harness/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod harness;
#[cfg(test)]
#[path = "../../../tests/structure/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod structure;
#[cfg(test)]
mod structure_tests;
