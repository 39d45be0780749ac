//! Evaluating a lower bound at single values of the measure, by DataFusion's own evaluator.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExprRef, create_physical_expr};

use crate::set::Measure;

/// The column that stands for the measure.
pub(crate) const SCORE: &str = "similarity";

/// What the evaluation of constants needs of the session.
#[derive(Debug, Clone, Copy)]
pub struct Constants<'a> {
    pub props: &'a ExecutionProps,
    pub config: &'a Arc<ConfigOptions>,
}

/// Evaluates a lower bound at one value of the measure.
///
/// Values are addressed by ordered integer keys: bit patterns of non-negative `f64`, or the
/// integers of an overlap themselves.
pub(crate) struct Evaluator {
    measure: Measure,
    predicate: PhysicalExprRef,
    schema: SchemaRef,
}

impl Evaluator {
    pub(crate) fn try_new(
        measure: Measure,
        lower_bound: &Expr,
        constants: Constants<'_>,
    ) -> Result<Self> {
        let data_type = if measure.is_integer() { DataType::Int64 } else { DataType::Float64 };
        let schema = Arc::new(Schema::new(vec![Field::new(SCORE, data_type, false)]));
        let df_schema = DFSchema::try_from(Arc::clone(&schema))?;
        let folded = fold_constants(lower_bound.clone(), constants)?;
        let predicate = create_physical_expr(
            &folded,
            &df_schema,
            constants.props,
            &PhysicalPlanningContext::default(),
        )?;
        Ok(Self { measure, predicate, schema })
    }

    /// The key of the greatest value that the measure takes.
    pub(crate) fn greatest(&self) -> u64 {
        if self.measure.is_integer() { u64::from(u32::MAX) } else { 1_f64.to_bits() }
    }

    pub(crate) fn value(&self, key: u64) -> f64 {
        if self.measure.is_integer() { key as f64 } else { f64::from_bits(key) }
    }

    /// Whether the bound holds at `key`; NULL counts as not.
    pub(crate) fn truth(&self, key: u64) -> Result<bool> {
        let score: ArrayRef = if self.measure.is_integer() {
            Arc::new(Int64Array::from(vec![i64::try_from(key).unwrap_or(i64::MAX)]))
        } else {
            Arc::new(Float64Array::from(vec![f64::from_bits(key)]))
        };
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![score])?;
        let result = self.predicate.evaluate(&batch)?.into_array(1)?;
        match result.as_boolean_opt() {
            Some(truth) => Ok(truth.is_valid(0) && truth.value(0)),
            None => exec_err!("the similarity predicate is a {}", result.data_type()),
        }
    }
}

/// Folds the parts of `expr` that read no column, such as `0.3 * 2` or `now()`, and leaves the
/// comparison and the casts of the measure as they are.
fn fold_constants(expr: Expr, constants: Constants<'_>) -> Result<Expr> {
    let context = SimplifyContext::builder()
        .with_query_execution_start_time(constants.props.query_execution_start_time)
        .with_config_options(Arc::clone(constants.config))
        .build();
    let simplifier = ExprSimplifier::new(context);
    expr.transform_down(|e| {
        if e.any_column_refs() || matches!(e, Expr::Literal(..)) {
            return Ok(Transformed::no(e));
        }
        let folded = simplifier.simplify(e)?;
        Ok(Transformed::new(folded, true, TreeNodeRecursion::Jump))
    })
    .data()
}
