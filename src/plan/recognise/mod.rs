//! Recognising similarity joins in a logical plan.

mod candidates;
mod conjuncts;
pub(crate) mod context;
pub(crate) mod convert;
pub(crate) mod cost;
pub(crate) mod declined;
pub(crate) mod marker;
pub(crate) mod nearest;
mod necessary;
pub(crate) mod predicate;
pub(crate) mod rest;
pub(crate) mod unanalyzed;
mod union;

pub use declined::SimilarityJoinDeclinedExec;
pub use marker::{MarkSimilarityJoins, functions as marker_functions, insist};
pub use unanalyzed::{KeepUnanalyzed, RestoreUnanalyzed};
