//! Planning: from a similarity predicate in a logical plan to the operator.
//!
//! ```text
//! __simjoin_marker() OR …  ──► marker ──► optimizer ──► convert ──► narrow ──► physical
//! (SIMJOIN)                    wraps the    (stock)     Join to      drops     SimJoinNode to
//!                              conjunct                 SimJoinNode  columns   SetSimilarityJoinExec
//! ```
//!
//! [`predicate`] says what a similarity predicate is and which threshold it comes to; [`cost`]
//! chooses between a hash join and the operator; [`declined`] shows in EXPLAIN why a join was
//! left alone. [`SimJoinQueryPlanner`] ties them together.

mod convert;
mod cost;
mod declined;
mod logical;
mod marker;
mod narrow;
mod physical;
mod planner;
mod predicate;

pub use declined::SimilarityJoinDeclinedExec;
pub use logical::{SharedInput, SimJoinNode, column_name};
pub use marker::{MARKER_FUNCTION, MarkSimilarityJoins, functions as marker_functions, insist};
pub use physical::SimJoinPlanner;
pub use planner::SimJoinQueryPlanner;

#[cfg(test)]
mod tests;
