//! A union of joins in the place of one.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

/// A union of joins, through which no filter is pushed: two of its columns may have one name
/// ([`JoinPartsExec`](crate::exec::JoinPartsExec)).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) struct JoinPartsNode {
    union: Arc<LogicalPlan>,
}

impl JoinPartsNode {
    pub(crate) fn plan_over(union: LogicalPlan) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(Self { union: Arc::new(union) }) })
    }

    /// `plan`, or the union below it where it is such a node.
    pub(crate) fn seen_through(plan: &LogicalPlan) -> &LogicalPlan {
        match plan {
            LogicalPlan::Extension(extension) => {
                extension.node.as_any().downcast_ref::<Self>().map_or(plan, |node| &node.union)
            }
            other => other,
        }
    }
}

impl UserDefinedLogicalNodeCore for JoinPartsNode {
    fn name(&self) -> &str {
        "JoinParts"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.union]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.union.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinParts")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(union) if inputs.is_empty() => Ok(Self { union: Arc::new(union) }),
            _ => internal_err!("JoinParts has one input"),
        }
    }
}
