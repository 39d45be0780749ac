//! Inputs of a join that is run as several, where two readings may give other rows.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

/// An input that all nodes of its number read at once
/// ([`ReadOnceExec`](crate::exec::ReadOnceExec)).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) struct ReadOnceNode {
    input: Arc<LogicalPlan>,
    /// The number of the input, among those of its statement.
    pub(crate) number: usize,
}

impl ReadOnceNode {
    pub(crate) fn plan_over(input: Arc<LogicalPlan>, number: usize) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(Self { input, number }) })
    }

    /// Whether a plan is such a node.
    pub(crate) fn is(plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().is::<Self>(),
            _ => false,
        }
    }
}

impl UserDefinedLogicalNodeCore for ReadOnceNode {
    fn name(&self) -> &str {
        "ReadOnce"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadOnce: number={}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) if inputs.is_empty() => {
                Ok(Self { input: Arc::new(input), number: self.number })
            }
            _ => internal_err!("ReadOnce has one input"),
        }
    }
}
