//! Table functions over pairs: `connected_components`, `representatives`, `one_to_one`.
//!
//! ```text
//! FROM one_to_one((SELECT …)) ─► planner: plans the query inside
//!                                function: a projection brings its columns into the form of the operator
//!                                node: a logical node, through DataFusion's optimizer
//!                                physical: an operator of results
//! ```

mod function;
mod node;
mod physical;
mod planner;

pub use function::{PairFunction, ScoreOrder};
pub use node::PairsNode;
pub(crate) use physical::plan_pairs;
pub use planner::PairFunctionPlanner;
