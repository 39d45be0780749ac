//! Planning: from a similarity predicate in a logical plan to the operator.
//!
//! ```text
//! __simjoin_marker() OR …  ──► marker ──► optimizer ──► convert ──► scores ──► physical
//! (SIMJOIN)                    wraps the    (stock)     Join to      counts     SimJoinNode to
//!                              conjunct                 SimJoinNode  self_join  SetSimilarityJoinExec
//!                                                                    narrow
//! ```
//!
//! After conversion, measures above a join are taken from its matches, counts are pushed into it,
//! the two sides of a self-join become one, and columns that nobody reads any more are dropped.
//!
//! [`predicate`] says what a similarity predicate is and which threshold it comes to; [`cost`]
//! chooses between a hash join and the operator; [`declined`] shows in EXPLAIN why a join was
//! left alone. [`SimJoinQueryPlanner`] ties them together.

mod columns;
mod convert;
mod cost;
mod counts;
mod declined;
mod logical;
mod marker;
mod narrow;
mod physical;
mod planner;
mod predicate;
#[cfg(test)]
mod rewrite_tests;
mod scores;
mod self_join;
#[cfg(test)]
mod tests;

pub use counts::push_into_joins;
pub use declined::SimilarityJoinDeclinedExec;
pub use logical::{SharedInput, SimJoinNode, column_name};
pub use marker::{MARKER_FUNCTION, MarkSimilarityJoins, functions as marker_functions, insist};
pub use narrow::narrow_outputs;
pub use physical::SimJoinPlanner;
pub use planner::SimJoinQueryPlanner;
pub use scores::take_from_match;
pub use self_join::share_inputs;
