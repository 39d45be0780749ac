//! Planning: from a similarity predicate in a logical plan to the operator.

mod logical;

pub use logical::{SharedInput, SimJoinNode, column_name};
