//! Planning: from a similarity predicate in a logical plan to the operator.
//!
//! ```text
//! SIMJOIN ──► marker ──► optimizer ──► convert ──► scores ──► counts ──► self_join ──► physical
//!             wraps the    (stock)     Join to     measures   count(*)   two scans     SimJoinNode to
//!             conjunct                 SimJoinNode of the     without    become one    SetSimilarityJoinExec
//!                                                  match      pairs
//! ```
//!
//! `predicate` says what a similarity predicate is and which threshold it comes to; `cost`
//! chooses between a hash join and the operator; `declined` shows in EXPLAIN why a join was left
//! alone; `readings` says what two readings of one input have in common; `distribute` shares a join
//! among the tasks of a cluster; `narrow` drops columns that the passes free.
//! [`SimJoinQueryPlanner`] ties them together.

mod columns;
mod convert;
mod cost;
mod counts;
mod declined;
mod distribute;
mod logical;
mod marker;
mod narrow;
mod physical;
mod planner;
mod predicate;
mod readings;
mod score_push;
mod scores;
mod self_join;

#[cfg(test)]
mod rewrite_tests;
#[cfg(test)]
mod tests;

pub use declined::SimilarityJoinDeclinedExec;
pub use distribute::ClusterPlanning;
pub use logical::{SharedInput, SimJoinNode, column_name};
pub use marker::{MarkSimilarityJoins, functions as marker_functions, insist};
pub use physical::SimJoinPlanner;
pub use planner::SimJoinQueryPlanner;
