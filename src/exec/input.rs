//! The sources of the rows of a join.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;

use crate::spec::Side;

/// The source of the rows of the join.
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
    /// The plans that give the rows, in the order of their sides.
    pub(crate) fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match self {
            JoinInput::Two { left, right, .. } => vec![left, right],
            JoinInput::Itself { input, .. } => vec![input],
        }
    }

    /// The input with other plans in the place of its [children](Self::children).
    ///
    /// # Errors
    ///
    /// An internal error when they are more, or fewer.
    pub(crate) fn with_children(&self, children: &[Arc<dyn ExecutionPlan>]) -> Result<Self> {
        Ok(match (self, children) {
            (JoinInput::Two { build, partitions, .. }, [left, right]) => JoinInput::Two {
                left: Arc::clone(left),
                right: Arc::clone(right),
                build: *build,
                partitions: *partitions,
            },
            (JoinInput::Itself { partitions, .. }, [input]) => {
                JoinInput::Itself { input: Arc::clone(input), partitions: *partitions }
            }
            _ => return internal_err!("a join got {} children", children.len()),
        })
    }

    /// The input, whose output has the given number of partitions.
    pub(crate) fn with_partitions(&self, partitions: usize) -> Self {
        match self {
            JoinInput::Two { left, right, build, .. } => JoinInput::Two {
                left: Arc::clone(left),
                right: Arc::clone(right),
                build: *build,
                partitions,
            },
            JoinInput::Itself { input, .. } => {
                JoinInput::Itself { input: Arc::clone(input), partitions }
            }
        }
    }

    /// The plan that gives the rows of `side`.
    pub fn side(&self, side: Side) -> &Arc<dyn ExecutionPlan> {
        match (self, side) {
            (JoinInput::Two { left, .. }, Side::Left) => left,
            (JoinInput::Two { right, .. }, Side::Right) => right,
            (JoinInput::Itself { input, .. }, _) => input,
        }
    }
}
