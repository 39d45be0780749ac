//! Planning: from a similarity predicate in a logical plan to the operator.

mod columns;
mod counts;
mod logical;
mod narrow;
#[cfg(test)]
mod rewrite_tests;
mod score_push;
mod scores;
mod self_join;

pub use counts::push_into_joins;
pub use logical::{SharedInput, SimJoinNode, column_name};
pub use narrow::narrow_outputs;
pub use scores::take_from_match;
pub use self_join::share_inputs;
