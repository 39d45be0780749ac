//! Planning: from a similarity predicate in a logical plan to the operator.
//!
//! ```text
//! SIMJOIN ─► marker ──► optimizer ─► convert ───► scores ──► counts ──► self_join ──► physical
//!            wraps the  (stock)      Join to      measures   count(*)   two scans     a node becomes
//!            conjunct                SetSimilarityJoin  of the     without    become one    the operator
//!                                                 match      pairs
//! ```
//!
//! `recognise` finds similarity predicates: `unanalyzed` keeps marked joins from an optimizer that
//! runs first, `bands` makes keys of conditions by which two values are near, `predicate` says what a similarity predicate is and which threshold it comes to, `cost` chooses between a hash join and the operator, `declined` shows in EXPLAIN why a
//! join was left alone. `rewrite` holds the passes over the node, the last of which, `narrow`,
//! drops columns that the others free. `sources` leaves computing an argument to the operator.
//! `readings` says what two readings of one input have in common; `distribute` shares a join among
//! the tasks of a cluster.
//! `ranked` plans joins with nearest rows by a score of several functions.
//! `relations` has the table functions over pairs. `aliases` parts the names of a plan that was optimized before
//! from those of the next optimizer.
//! [`SimJoinQueryPlanner`] ties them together.

mod aliases;
pub(crate) mod columns;
mod compile;
pub(crate) mod distribute;
pub(crate) mod logical;
pub(crate) mod numbers;
pub(crate) mod physical;
pub(crate) mod planner;
mod ranked;
pub(crate) mod readings;
pub(crate) mod recognise;
pub(crate) mod relations;
pub(crate) mod rewrite;
pub(crate) mod sources;
#[cfg(test)]
mod tests;

pub use aliases::NumberAliases;
pub use distribute::ClusterPlanning;
pub use logical::{SetSimilarityJoin, SharedInput, column_name};
pub use physical::SimJoinPlanner;
pub use planner::SimJoinQueryPlanner;
pub use recognise::{
    KeepUnanalyzed, MarkSimilarityJoins, RestoreUnanalyzed, SimilarityJoinDeclinedExec, insist,
    internal_functions,
};
pub use relations::{
    ClauseWords, LiftConditions, NearestNode, PairFunction, PairFunctionPlanner, PairsNode,
    ScoreOrder, label_is,
};
