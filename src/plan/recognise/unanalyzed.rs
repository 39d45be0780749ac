//! Keeps marked joins from an optimizer that runs before the analyzer.
//!
//! DataFusion optimizes the query of PREPARE without analyzing it, and analyzes it for each EXECUTE.
//! Before [`MarkSimilarityJoins`](super::MarkSimilarityJoins) has run, the ON of a SIMJOIN is a
//! condition that the optimizer may move, simplify and drop:
//!
//! ```text
//! PREPARE ─► [`KeepUnanalyzed`]: query with markers ─► leaf ─► optimizer (finds nothing to do)
//! EXECUTE ─► values for the leaf's parameters ─► [`RestoreUnanalyzed`]: leaf ─► query
//!         ─► analyzer ─► optimizer
//! ```
//!
//! So a prepared query has the plan of the same query with values in place of its parameters.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, ParamValues, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::analyzer::function_rewrite::ApplyFunctionRewrites;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use super::marker::needs_analysis;

/// A query that is not analyzed yet. To the optimizer it is a leaf, whose expressions are the
/// parameters of the query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct UnanalyzedNode {
    query: Arc<LogicalPlan>,
    /// The placeholders of the query, each once, in the order of their names.
    parameters: Vec<Expr>,
}

impl UnanalyzedNode {
    fn try_new(query: LogicalPlan) -> Result<Self> {
        let mut parameters = BTreeMap::new();
        query.apply_with_subqueries(|plan| {
            plan.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::Placeholder(Placeholder { id, .. }) = expr {
                        parameters.entry(id.clone()).or_insert_with(|| expr.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(Self { query: Arc::new(query), parameters: parameters.into_values().collect() })
    }

    /// Whether `plan` is such a node.
    pub(crate) fn is_in(plan: &LogicalPlan) -> bool {
        Self::of(plan).is_some()
    }

    fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl PartialOrd for UnanalyzedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for UnanalyzedNode {
    fn name(&self) -> &str {
        "UnanalyzedQuery"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.query.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.parameters.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<_> = self.parameters.iter().map(ToString::to_string).collect();
        write!(f, "UnanalyzedQuery: parameters=[{}]", parameters.join(", "))
    }

    /// The node whose parameters have values in the query where `exprs` are literals.
    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        let mut values = HashMap::new();
        for (parameter, value) in self.parameters.iter().zip(&exprs) {
            let Expr::Placeholder(Placeholder { id, .. }) = parameter else { continue };
            let mut value = value;
            while let Expr::Alias(alias) = value {
                value = &alias.expr;
            }
            match value {
                Expr::Literal(value, metadata) => {
                    // As DataFusion looks it up, without the dollar sign.
                    let name = id.get(1..).unwrap_or_default().to_string();
                    values.insert(name, ScalarAndMetadata::new(value.clone(), metadata.clone()));
                }
                Expr::Placeholder(_) => {}
                other => return internal_err!("{other} is no value for the parameter {id}"),
            }
        }
        if values.is_empty() {
            return Ok(self.clone());
        }
        if values.len() < self.parameters.len() {
            return internal_err!("a query gets values for all of its parameters at once");
        }
        let query = Arc::unwrap_or_clone(Arc::clone(&self.query));
        Self::try_new(query.replace_params_with_values(&ParamValues::Map(values))?)
    }
}

/// Keeps queries with markers from the rules behind it.
#[derive(Debug, Default)]
pub struct KeepUnanalyzed;

impl KeepUnanalyzed {
    /// The name of the rule.
    pub const NAME: &'static str = "keep_unanalyzed_similarity_joins";
}

impl OptimizerRule for KeepUnanalyzed {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // An analyzed plan, which is any but that of PREPARE, has no markers.
        if !needs_analysis(&plan)? {
            return Ok(Transformed::no(plan));
        }
        match plan {
            // What is no query stays to be seen.
            LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Statement(_) => plan.map_children(keep),
            query => keep(query),
        }
    }
}

fn keep(query: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node = Arc::new(UnanalyzedNode::try_new(query)?);
    Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
}

/// Puts the queries that [`KeepUnanalyzed`] kept in their places again, before other analyzer rules.
#[derive(Debug)]
pub struct RestoreUnanalyzed {
    rewrites: Vec<Arc<dyn FunctionRewrite + Send + Sync>>,
}

impl RestoreUnanalyzed {
    /// The name of the rule.
    pub const NAME: &'static str = "restore_unanalyzed_similarity_joins";

    /// A rule for an analyzer that rewrites functions before its rules, as it could not do inside of
    /// the queries.
    pub fn new(rewrites: Vec<Arc<dyn FunctionRewrite + Send + Sync>>) -> Self {
        Self { rewrites }
    }
}

impl AnalyzerRule for RestoreUnanalyzed {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let restored = restore(plan)?;
        match restored.transformed && !self.rewrites.is_empty() {
            true => {
                ApplyFunctionRewrites::new(self.rewrites.clone()).analyze(restored.data, config)
            }
            false => Ok(restored.data),
        }
    }
}

/// `plan` with the queries that its prepared statements are.
pub fn restored(plan: LogicalPlan) -> Result<LogicalPlan> {
    restore(plan).data()
}

fn restore(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|plan| {
        Ok(match UnanalyzedNode::of(&plan) {
            Some(node) => Transformed::yes(Arc::unwrap_or_clone(Arc::clone(&node.query))),
            None => Transformed::no(plan),
        })
    })
}
