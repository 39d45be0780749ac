//! Evaluating a bound at single values of a function, by DataFusion's own evaluator.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, cast};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExprRef, create_physical_expr};

use crate::spec::{VALUE_NAME, value_array};

/// The column that stands for the function.
pub(crate) const SCORE: &str = VALUE_NAME;

/// The properties of a session by which constants are evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constants<'a> {
    pub props: &'a ExecutionProps,
    pub config: &'a Arc<ConfigOptions>,
}

/// Evaluates a bound at one value of the function.
///
/// Values are addressed by integer keys in the same order: the bit patterns of an `f64`, mirrored for
/// negative numbers, or the integers themselves.
pub(crate) struct Evaluator {
    data_type: DataType,
    predicate: PhysicalExprRef,
    schema: SchemaRef,
}

impl Evaluator {
    /// `data_type` is the type of the function's value.
    pub(crate) fn try_new(
        data_type: DataType,
        bound: &Expr,
        constants: Constants<'_>,
    ) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![Field::new(SCORE, data_type.clone(), false)]));
        let df_schema = DFSchema::try_from(Arc::clone(&schema))?;
        let folded = fold_constants(bound.clone(), constants)?;
        let predicate = create_physical_expr(
            &folded,
            &df_schema,
            constants.props,
            &PhysicalPlanningContext::default(),
        )?;
        Ok(Self { data_type, predicate, schema })
    }

    /// The key of a value of the function, or of the value of its type that is next to it.
    pub(crate) fn key(&self, value: f64) -> i64 {
        match self.data_type {
            DataType::Int32 => i64::from(value as i32),
            DataType::Int64 => value as i64,
            _ => mirrored(value.to_bits() as i64),
        }
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: i64) -> f64 {
        match self.data_type.is_integer() {
            true => key as f64,
            false => f64::from_bits(mirrored(key) as u64),
        }
    }

    fn evaluate(&self, key: i64) -> Result<ArrayRef> {
        let score = value_array(vec![self.value(key)], &self.data_type)?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![score])?;
        self.predicate.evaluate(&batch)?.into_array(1)
    }

    /// Whether the bound holds at `key`; NULL counts as not.
    pub(crate) fn truth(&self, key: i64) -> Result<bool> {
        let result = self.evaluate(key)?;
        match result.as_boolean_opt() {
            Some(truth) => Ok(truth.is_valid(0) && truth.value(0)),
            None => exec_err!("the similarity predicate is a {}", result.data_type()),
        }
    }
}

/// Whether a condition without columns holds; one that cannot be evaluated counts as such that does.
pub(crate) fn holds(condition: &Expr, constants: Constants<'_>) -> bool {
    let evaluator = Evaluator::try_new(DataType::Float64, condition, constants);
    evaluator.and_then(|evaluator| evaluator.truth(0)).unwrap_or(true)
}

/// The value of an expression without columns as a double; `None` where it is NULL, no number, or cannot be evaluated.
pub(crate) fn value_of(expr: &Expr, constants: Constants<'_>) -> Option<f64> {
    let number = cast(expr.clone(), DataType::Float64);
    let evaluator = Evaluator::try_new(DataType::Float64, &number, constants).ok()?;
    let value = evaluator.evaluate(0).ok()?;
    let value = value.as_primitive_opt::<Float64Type>()?;
    value.is_valid(0).then(|| value.value(0))
}

/// Whether an expression without columns is NULL.
pub(crate) fn is_null_constant(expr: &Expr, constants: Constants<'_>) -> bool {
    let is_null = expr.clone().is_null();
    let evaluator = Evaluator::try_new(DataType::Float64, &is_null, constants);
    evaluator.and_then(|evaluator| evaluator.truth(0)).unwrap_or(false)
}

/// From the bits of an `f64` to a number in the order of the values, and back: -0.0 lies below 0.0.
fn mirrored(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Folds the parts of `expr` that read no column, such as `0.3 * 2` or `now()`, and leaves the
/// comparison and the casts of the function as they are.
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
