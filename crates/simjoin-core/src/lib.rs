//! Exact similarity joins of sets, weighted sets, texts and vectors over Arrow arrays.
//!
//! The types at the root join columns in memory: a [`Join`] finds the pairs of rows that are similar enough,
//! a [`Nearest`] the nearest rows of each row.
//!
//! ```
//! use simjoin_core::{Join, Measure};
//!
//! let lists = [vec![1, 2, 3], vec![7, 8], vec![3, 2, 1, 4]];
//! let pairs = Join::new(Measure::Jaccard, 0.7).self_join(&lists)?;
//! // left | right | score
//! //    0 |     2 |  0.75
//! assert_eq!((pairs[0].left, pairs[0].right, pairs[0].score), (0, 2, 0.75));
//! assert_eq!(pairs.len(), 1);
//! # Ok::<(), simjoin_core::Error>(())
//! ```
//!
//! The modules below them are for the operator of `datafusion-simjoin`, and change with it:
//!
//! ```text
//! library: Join, Nearest, columns, pairs
//!    ▼
//! predicate ─► engine: family ─► matcher ─► strategy ─► cursor ─► matches
//!                 ▲          set, weighted, string, vector: rules, items, strategies
//!                 └─ values (Arrow columns), top (the best k), memory, error, simd, tuning, util
//! ```
//!
//! No part of the crate knows SQL, a query engine or a device: `simjoin-gpu` has strategies for GPUs. The feature `datafusion` has the errors and the memory
//! of DataFusion as those of this crate.

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
mod library;
pub mod memory;
pub mod predicate;
pub mod set;
pub mod simd;
pub mod string;
pub mod top;
pub mod tuning;
pub mod util;
pub mod values;
pub mod vector;
pub mod weighted;

pub use engine::DeviceChoice;
pub use error::{Error, Result};
pub use library::{Column, Devices, Element, Join, Measure, Nearest, Pair, Pairs, Row, SelfPairs};
pub use util::cancel::CancelFlag;

#[cfg(test)]
extern crate self as simjoin_core;
#[cfg(test)]
#[path = "../tests/harness/no_devices.rs"]
mod device_harness;
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

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
