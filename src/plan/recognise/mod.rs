//! Recognising similarity joins in a logical plan.

mod bands;
mod candidates;
mod conjuncts;
pub(crate) mod context;
pub(crate) mod convert;
pub(crate) mod cost;
mod covered;
pub(crate) mod declined;
pub(crate) mod marker;
pub(crate) mod nearest;
pub(crate) mod necessary;
pub(crate) mod parts;
pub(crate) mod predicate;
pub(crate) mod read_once;
pub(crate) mod rest;
pub(crate) mod unanalyzed;
mod union;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub use declined::SimilarityJoinDeclinedExec;
pub use marker::{MarkSimilarityJoins, insist};
pub use unanalyzed::{KeepUnanalyzed, RestoreUnanalyzed};

/// The functions that plans have between themselves, to be registered in a session.
pub fn internal_functions() -> Vec<Arc<ScalarUDF>> {
    marker::functions().into_iter().chain(bands::functions()).collect()
}
