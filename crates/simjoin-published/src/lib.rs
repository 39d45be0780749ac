//! Strategies that only comparisons run: systems of the literature, and techniques that win nowhere.
//!
//! A strategy of this crate has its name in `simjoin.strategy`, and gives the same answers as every
//! other; `auto` never takes it. The strategies are made of the families' own parts. The families know nothing
//! of them: a session hands them over.
//!
//! | module | | useful for |
//! |---|---|---|
//! | `groupjoin` | GroupJoin on the CPU, whose candidates a GPU may verify: `groupjoin` | collections with many equal prefixes, where it beats `ppjoin` by little |
//! | `indexed` | published filters by inverted index on a GPU: `bwjoin-published`, `fgssjoin`, `sf-gssjoin` | comparison with `bwjoin` |
//! | `points` | published joins of points on a GPU: `nested-loop-published`, `directory-published` | comparison with `nested-loop` and `directory` |
//! | `verified` | filters on the CPU, whose candidates a GPU verifies: `ppjoin` and `allpairs` where they run there | comparison with `bwjoin` and `bitmap` |
//! | `intersection` | techniques for intersections of large sets on a GPU | `cargo bench --bench suite -- large`; no join runs them |

#![allow(rustdoc::private_intra_doc_links)]
#![warn(unreachable_pub)]

mod groupjoin;
mod indexed;
pub mod intersection;
mod points;
pub mod verified;

#[cfg(test)]
#[path = "../../simjoin-gpu/tests/harness/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod device_harness;
#[cfg(test)]
#[path = "../../../tests/emulator/mod.rs"]
#[allow(dead_code, unreachable_pub)]
mod emulator;
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

pub(crate) use simjoin_core::{engine, error, memory, set, tuning, vector};
#[cfg(test)]
pub(crate) use simjoin_core::{simd, util};

use self::groupjoin::{GroupJoin, Verification};
use self::indexed::PublishedIndex;
use self::points::PublishedPoints;
use self::verified::Verified;
use crate::engine::Strategy;
use crate::set::SetJoin;
use crate::set::filter_verify::FilterVerify;
use crate::vector::join::VectorJoin;

/// The strategies of sets.
pub static OF_SETS: &[&dyn Strategy<SetJoin>] = &[
    &Verified(FilterVerify::PPJoin),
    &Verified(FilterVerify::AllPairs),
    &GroupJoin(Verification::Cpu),
    &GroupJoin(Verification::Device),
    &PublishedIndex::Bwjoin,
    &PublishedIndex::FgssJoin,
    &PublishedIndex::SfGssJoin,
];

/// The strategies of distances between vectors.
pub static OF_DISTANCES: &[&dyn Strategy<VectorJoin>] =
    &[&PublishedPoints::Loop, &PublishedPoints::Directory];
