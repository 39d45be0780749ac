//! The plan node.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, not_impl_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};

use super::spec::{Side, SimilarityJoin};
use crate::config::SimJoinOptions;

/// Where the rows of the join come from.
#[derive(Debug, Clone)]
pub enum JoinInput {
    /// Two inputs; the build side is collected and indexed, the other streams.
    Two { left: Arc<dyn ExecutionPlan>, right: Arc<dyn ExecutionPlan>, build: Side },
    /// One input that is both sides: the same argument, blocking keys and side filters on both,
    /// all over the schema of `input`. The output has `partitions` partitions.
    Itself { input: Arc<dyn ExecutionPlan>, partitions: usize },
}

/// An exact set-similarity join.
#[derive(Debug)]
pub struct SetSimilarityJoinExec {
    input: JoinInput,
    join: SimilarityJoin,
    options: SimJoinOptions,
    properties: Arc<PlanProperties>,
}

impl SetSimilarityJoinExec {
    /// Plans `join` over `input` with the options of the session.
    pub fn try_new(
        input: JoinInput,
        join: SimilarityJoin,
        options: SimJoinOptions,
    ) -> Result<Self> {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&join.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Ok(Self { input, join, options, properties })
    }
}

impl DisplayAs for SetSimilarityJoinExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetSimilarityJoinExec: {}", self.join.predicate)
    }
}

impl ExecutionPlan for SetSimilarityJoinExec {
    fn name(&self) -> &str {
        "SetSimilarityJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match &self.input {
            JoinInput::Two { left, right, .. } => vec![left, right],
            JoinInput::Itself { input, .. } => vec![input],
        }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = match &self.input {
            JoinInput::Two { build, .. } => {
                let right = children.remove(1);
                JoinInput::Two { left: children.remove(0), right, build: *build }
            }
            JoinInput::Itself { partitions, .. } => {
                JoinInput::Itself { input: children.remove(0), partitions: *partitions }
            }
        };
        Ok(Arc::new(Self::try_new(input, self.join.clone(), self.options.clone())?))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        not_impl_err!("under construction")
    }
}
