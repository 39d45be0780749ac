//! A node that says, in EXPLAIN, why a similarity join is left to a stock join.
//!
//! The operator stands above the join only while the plan is shown, and passes everything through.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use crate::exec::hands_on::hands_on_rows;

/// The logical node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DeclinedNode {
    input: Arc<LogicalPlan>,
    reason: String,
}

impl DeclinedNode {
    pub(crate) fn new(input: LogicalPlan, reason: String) -> Self {
        Self { input: Arc::new(input), reason }
    }

    pub(crate) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// `plan`, or the join below it where it is such a node. Planning treats both alike, so that
    /// EXPLAIN shows the plan that runs.
    pub(crate) fn seen_through(plan: &LogicalPlan) -> &LogicalPlan {
        match plan {
            LogicalPlan::Extension(extension) => {
                extension.node.as_any().downcast_ref::<Self>().map_or(plan, |node| &node.input)
            }
            other => other,
        }
    }
}

impl PartialOrd for DeclinedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let order = self.reason.cmp(&other.reason);
        if order.is_eq() { self.input.partial_cmp(&other.input) } else { Some(order) }
    }
}

impl UserDefinedLogicalNodeCore for DeclinedNode {
    fn name(&self) -> &str {
        "SimilarityJoinDeclined"
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
        write!(f, "SimilarityJoinDeclined: reason={}", self.reason)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) if inputs.is_empty() => Ok(Self::new(input, self.reason.clone())),
            _ => internal_err!("SimilarityJoinDeclined has one input"),
        }
    }
}

/// The physical node.
#[derive(Debug, Clone)]
pub struct SimilarityJoinDeclinedExec {
    input: Arc<dyn ExecutionPlan>,
    reason: String,
}

impl SimilarityJoinDeclinedExec {
    /// Passes the rows of `input` on; EXPLAIN shows `reason`.
    pub fn new(input: Arc<dyn ExecutionPlan>, reason: String) -> Self {
        Self { input, reason }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Self::new(input, self.reason.clone()))
    }

    /// Why the operator does not run the join.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl DisplayAs for SimilarityJoinDeclinedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "reason={}", self.reason),
            _ => write!(f, "SimilarityJoinDeclined: reason={}", self.reason),
        }
    }
}

impl ExecutionPlan for SimilarityJoinDeclinedExec {
    fn name(&self) -> &str {
        "SimilarityJoinDeclined"
    }

    hands_on_rows!();

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let schema = self.input.schema();
        let fields = schema.fields();
        // DataFusion 55 finds the columns of a filter by name (apache/datafusion issue 25244).
        let names: HashSet<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        match names.len() == fields.len() {
            true => FilterDescription::from_children(parent_filters, &self.children()),
            false => Ok(FilterDescription::all_unsupported(&parent_filters, &self.children())),
        }
    }
}
