//! Keeps conditions of the rows of a function of pairs above it.
//!
//! DataFusion pushes a condition without columns (`random() < 0.1`) below any node of an extension, which
//! cannot refuse it. Where its value may differ from row to row, a [`PairsNode`] takes it in, and this
//! rule, the last one of each pass, puts it above the node again.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::PairsNode;

/// Puts the conditions that [`PairsNode`]s have taken in above them.
#[derive(Debug, Default)]
pub struct LiftConditions;

impl LiftConditions {
    /// The name of the rule.
    pub const NAME: &'static str = "lift_conditions_of_pairs";
}

impl OptimizerRule for LiftConditions {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let lifted = match &plan {
            LogicalPlan::Extension(Extension { node }) => {
                node.as_any().downcast_ref::<PairsNode>().and_then(PairsNode::lifted).transpose()?
            }
            _ => None,
        };
        Ok(match lifted {
            Some(lifted) => Transformed::yes(lifted),
            None => Transformed::no(plan),
        })
    }
}
