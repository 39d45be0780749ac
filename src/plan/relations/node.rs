//! The logical node of a table function over pairs.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use super::PairFunction;

/// A [`PairFunction`] over a plan whose columns are in the form of its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairsNode {
    function: PairFunction,
    input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
}

impl PairsNode {
    pub(crate) fn try_new(function: PairFunction, input: LogicalPlan) -> Result<Self> {
        let schema = function.schema(input.schema())?;
        Ok(Self { function, input: Arc::new(input), schema })
    }

    /// The function.
    pub fn function(&self) -> &PairFunction {
        &self.function
    }

    pub(crate) fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// The node as a logical plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl Hash for PairsNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
        self.input.hash(state);
    }
}

impl PartialOrd for PairsNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.function.partial_cmp(&other.function) {
            Some(Ordering::Equal) => self.input.partial_cmp(&other.input),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for PairsNode {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.function)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) if inputs.is_empty() => Self::try_new(self.function.clone(), input),
            _ => internal_err!("{} has one input", self.function.name()),
        }
    }
}
