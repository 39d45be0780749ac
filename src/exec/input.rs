//! Where the rows of a join come from.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::spec::Side;

/// Where the rows of the join come from.
#[derive(Debug, Clone)]
pub enum JoinInput {
    /// Two inputs; the build side is collected and indexed, the other streams. The output has
    /// `partitions` partitions, or those of the probe input where it has more. In the modes other
    /// than [`JoinMode::Shared`](super::JoinMode::Shared) it always has those of the probe input.
    Two {
        /// The rows of the left side.
        left: Arc<dyn ExecutionPlan>,
        /// The rows of the right side.
        right: Arc<dyn ExecutionPlan>,
        /// The build side.
        build: Side,
        /// The fewest partitions of the output, at least 1.
        partitions: usize,
    },
    /// One input that is both sides: the same argument, blocking keys and side filters on both,
    /// all over the schema of `input`. The output has `partitions` partitions.
    Itself {
        /// The rows of both sides.
        input: Arc<dyn ExecutionPlan>,
        /// The partitions of the output, at least 1.
        partitions: usize,
    },
}

impl JoinInput {
    /// The plan that gives the rows of `side`.
    pub fn side(&self, side: Side) -> &Arc<dyn ExecutionPlan> {
        match (self, side) {
            (JoinInput::Two { left, .. }, Side::Left) => left,
            (JoinInput::Two { right, .. }, Side::Right) => right,
            (JoinInput::Itself { input, .. }, _) => input,
        }
    }
}
