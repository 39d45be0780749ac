//! The logical node of a table function over pairs.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, UserDefinedLogicalNodeCore};

use super::PairFunction;

/// A [`PairFunction`] over a plan whose columns are in the form of its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairsNode {
    function: PairFunction,
    input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
    /// A condition of the node's rows; see [`LiftConditions`](super::LiftConditions).
    condition: Option<Expr>,
}

impl PairsNode {
    /// A node of `function` over the pairs of `input`.
    ///
    /// # Errors
    ///
    /// The errors of [`PairFunction::over`].
    pub fn try_new(function: PairFunction, input: LogicalPlan) -> Result<Self> {
        let schema = function.schema(input.schema())?;
        Ok(Self { function, input: Arc::new(input), schema, condition: None })
    }

    /// The function.
    pub fn function(&self) -> &PairFunction {
        &self.function
    }

    pub(crate) fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// The condition that the optimizer has put between the node and its input, without having asked
    /// whether it is the same for all rows.
    fn pushed<'a>(&self, input: &'a LogicalPlan) -> Option<&'a Expr> {
        let LogicalPlan::Filter(Filter { predicate, input, .. }) = input else { return None };
        let is_pushed =
            predicate.is_volatile() && predicate.column_refs().is_empty() && *input == self.input;
        is_pushed.then_some(predicate)
    }

    /// The node below the condition that it has taken in; `None` where there is none.
    pub(super) fn lifted(&self) -> Option<Result<LogicalPlan>> {
        let condition = self.condition.clone()?;
        let node = Self { condition: None, ..self.clone() };
        let filter = Filter::try_new(condition, Arc::new(node.into_plan()));
        Some(filter.map(LogicalPlan::Filter))
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
        self.condition.hash(state);
    }
}

impl PartialOrd for PairsNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.function.partial_cmp(&other.function) {
            Some(Ordering::Equal) if self.condition == other.condition => {
                self.input.partial_cmp(&other.input)
            }
            Some(Ordering::Equal) => None,
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
            Some(input) if inputs.is_empty() => match self.pushed(&input) {
                Some(pushed) => {
                    let condition = conjunction(self.condition.iter().chain([pushed]).cloned());
                    Ok(Self { condition, ..self.clone() })
                }
                None => Ok(Self {
                    condition: self.condition.clone(),
                    ..Self::try_new(self.function.clone(), input)?
                }),
            },
            _ => internal_err!("{} has one input", self.function.name()),
        }
    }
}
