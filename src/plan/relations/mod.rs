//! Table functions over pairs: `connected_components`, `representatives`, `one_to_one`, and those that stand for queries
//! over them (`written`): `thresholds`, `evaluate`, `compare`.
//!
//! ```text
//! FROM one_to_one((SELECT …)) ─► planner: plans the query inside
//!                                function: a projection brings its columns into the form of the operator
//!                                node: a logical node, through DataFusion's optimizer
//!                                connect: a similarity join below components gives what connects
//!                                physical: an operator of results
//! ```
//!
//! `lift` keeps the optimizer from filtering the input of a function by conditions of its rows.
//! `nearest` is the node of a join with nearest rows.

mod connect;
mod function;
mod lift;
mod nearest;
mod node;
mod node_type;
mod ordered;
mod physical;
mod planner;
mod written;

pub(crate) use connect::connect_pairs;
pub use function::{PairFunction, ScoreOrder};
pub use lift::LiftConditions;
pub use nearest::{ClauseWords, NearestNode};
pub use node::PairsNode;
pub(crate) use physical::plan_pairs;
pub use planner::PairFunctionPlanner;
pub use written::label_is;
