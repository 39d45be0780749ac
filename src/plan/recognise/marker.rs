//! The two internal functions that carry SIMJOIN's demand for the operator through the optimizer.
//!
//! SIMJOIN text becomes `JOIN … ON __simjoin_marker() OR <condition>`. The analyzer rule
//! [`MarkSimilarityJoins`] takes the marker out of the condition and wraps each similarity conjunct
//! as `__simjoin(<conjunct>, <function>, <number>)`, or fails with the reason. The wrapper is an
//! ordinary immutable function of both sides, so the optimizer moves it as it would move the
//! conjunct itself, and cannot drop it: it cannot evaluate a function of columns. The second
//! argument keeps the function known when the conjunct itself is folded (`>= NULL`). The number
//! names the join: the optimizer may copy a conjunct to where it is implied, and such copies need
//! no operator of their own once the join of that number has one.
//!
//! Both functions fail when they are executed: that only happens in a session without the rest
//! of this crate.

use std::sync::Arc;
use std::sync::LazyLock;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary, split_conjunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Join, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::families::Families;
use crate::plan::recognise::nearest::{EXAMPLE as NEAREST_EXAMPLE, is_nearest, nearest_node};
use crate::plan::recognise::necessary::call_of_pair;
use crate::plan::recognise::predicate::{Comparison, ConjunctShape, JoinInputs, function_of_pairs};
use crate::spec::{Function, Order};
use crate::sql::{
    CANDIDATES_FUNCTION, COUNT_FUNCTION, DISTANCE_FUNCTION, MARKER_FUNCTION, SIMILARITY_FUNCTION,
};

/// The function that wraps a similarity conjunct of a SIMJOIN.
const WRAPPER_FUNCTION: &str = "__simjoin";

/// A correct join, for error messages about no function in particular.
pub(crate) const EXAMPLE: &str = "a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.8";

static MARKER: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Internal::nullary(MARKER_FUNCTION, DataType::Boolean));

static WRAPPER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(3, Volatility::Immutable);
    Internal::function(WRAPPER_FUNCTION, signature, DataType::Boolean)
});

/// The functions of a NEAREST clause.
static NEAREST: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
    let flags = Signature::exact(vec![DataType::Boolean; 2], Volatility::Volatile);
    [
        Internal::function(COUNT_FUNCTION, flags, DataType::Int64),
        // Comparison casts NULL to the type of the score, and leaves the score.
        Internal::nullary(DISTANCE_FUNCTION, DataType::Null),
        Internal::nullary(SIMILARITY_FUNCTION, DataType::Null),
        Internal::nullary(CANDIDATES_FUNCTION, DataType::Boolean),
    ]
});

const NEAREST_FUNCTIONS: [&str; 4] =
    [COUNT_FUNCTION, DISTANCE_FUNCTION, SIMILARITY_FUNCTION, CANDIDATES_FUNCTION];

/// The internal functions, to be registered in a session.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    [&*MARKER, &*WRAPPER].into_iter().chain(&*NEAREST).map(Arc::clone).collect()
}

/// `condition`, marked so that the join whose ON it is must run as a similarity join.
pub fn insist(condition: Expr) -> Expr {
    MARKER.call(vec![]).or(condition)
}

/// A function that exists only while planning.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Internal {
    name: &'static str,
    signature: Signature,
    data_type: DataType,
}

impl Internal {
    fn function(name: &'static str, signature: Signature, data_type: DataType) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { name, signature, data_type }))
    }

    fn nullary(name: &'static str, data_type: DataType) -> Arc<ScalarUDF> {
        Self::function(name, Signature::nullary(Volatility::Volatile), data_type)
    }
}

impl ScalarUDFImpl for Internal {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!(
            "{} marks a SIMJOIN and cannot be executed: the session plans without the similarity \
             join; build it with datafusion_simjoin::install",
            self.name
        )
    }
}

pub(super) fn internal_call<'a>(expr: &'a Expr, name: &str) -> Option<&'a [Expr]> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    // By name: a plan that was serialised comes back with the session's instance.
    (func.name() == name).then_some(args.as_slice())
}

/// A similarity conjunct of a SIMJOIN.
#[derive(Debug, Clone)]
pub(crate) struct Wrapped<'a> {
    /// The conjunct as the optimizer left it.
    pub conjunct: &'a Expr,
    /// The call of the function.
    pub measured: &'a Expr,
    /// The join's number.
    pub join: i64,
}

/// Reads a wrapper.
pub(crate) fn unwrap(expr: &Expr) -> Option<Wrapped<'_>> {
    match internal_call(expr, WRAPPER_FUNCTION)? {
        [conjunct, measured, Expr::Literal(ScalarValue::Int64(Some(join)), _)] => {
            Some(Wrapped { conjunct, measured, join: *join })
        }
        _ => None,
    }
}

/// Whether `expr` holds a marker or a wrapper.
pub(crate) fn is_marked(expr: &Expr) -> bool {
    let internal = |e: &Expr| {
        internal_call(e, MARKER_FUNCTION).or(internal_call(e, WRAPPER_FUNCTION)).is_some()
    };
    expr.exists(|e| Ok(internal(e))).unwrap_or(true)
}

fn holds_marker(expr: &Expr) -> bool {
    expr.exists(|e| Ok(internal_call(e, MARKER_FUNCTION).is_some())).unwrap_or(true)
}

/// The function of a NEAREST clause that `expr` holds.
fn nearest_part(expr: &Expr) -> Option<&'static str> {
    let mut found = None;
    let _ = expr.apply(|e| {
        found = NEAREST_FUNCTIONS.into_iter().find(|name| internal_call(e, name).is_some());
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// Whether `plan` holds a join that [`MarkSimilarityJoins`] has not seen.
pub(super) fn needs_analysis(plan: &LogicalPlan) -> Result<bool> {
    use TreeNodeRecursion::{Continue, Stop};
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            found = holds_marker(expr) || nearest_part(expr).is_some();
            Ok(if found { Stop } else { Continue })
        })?;
        Ok(if found { Stop } else { Continue })
    })?;
    Ok(found)
}

/// Turns the marker of each SIMJOIN into wrappers of its similarity conjuncts.
///
/// The rule runs after type coercion, so that a conjunct has the casts with which it is evaluated.
#[derive(Debug)]
pub struct MarkSimilarityJoins {
    families: Families,
}

impl MarkSimilarityJoins {
    /// The name of the rule.
    pub const NAME: &'static str = "mark_similarity_joins";

    /// A rule that knows the functions of `families`.
    pub fn new(families: Families) -> Self {
        Self { families }
    }
}

impl AnalyzerRule for MarkSimilarityJoins {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // Beyond the numbers that the plan holds: a view may have been analyzed before.
        let mut number = greatest_number(&plan)?;
        plan.transform_up_with_subqueries(|plan| {
            let plan = match plan {
                LogicalPlan::Join(join) if is_nearest(&join) => {
                    return nearest_node(join, &self.families).map(Transformed::yes);
                }
                other => other,
            };
            let expressions = plan.expressions();
            if let Some(name) = expressions.iter().find_map(nearest_part) {
                return plan_err!(
                    "{name} stands in a {}; it belongs to the ON of a join with a NEAREST clause: \
                     {NEAREST_EXAMPLE}",
                    plan.display()
                );
            }
            if !expressions.iter().any(holds_marker) {
                return Ok(Transformed::no(plan));
            }
            match plan {
                LogicalPlan::Join(join) => {
                    number += 1;
                    wrap(join, &self.families, number).map(Transformed::yes)
                }
                other => plan_err!(
                    "{MARKER_FUNCTION} stands in a {}; it belongs to the ON of a SIMJOIN: {EXAMPLE}",
                    other.display()
                ),
            }
        })
        .data()
    }
}

/// The greatest number of a SIMJOIN in `plan`; 0 where there is none.
fn greatest_number(plan: &LogicalPlan) -> Result<i64> {
    let mut greatest = 0;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|e| {
                greatest = greatest.max(unwrap(e).map_or(0, |wrapped| wrapped.join));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(greatest)
}

fn wrap(mut join: Join, families: &Families, number: i64) -> Result<LogicalPlan> {
    let condition = join.filter.take().into_iter().flat_map(|filter| {
        split_conjunction(&filter).into_iter().map(without_marker).collect::<Vec<_>>()
    });
    let condition = conjunction(condition.flatten());
    let mut reasons = vec![];
    let mut function = None;
    let mut wrapped = 0;
    let mut conjuncts = vec![];
    for conjunct in condition.iter().flat_map(split_conjunction) {
        if holds_marker(conjunct) {
            return plan_err!("{MARKER_FUNCTION} stands inside {conjunct}; write {EXAMPLE}");
        }
        let (left, right) = (join.left.schema(), join.right.schema());
        let sides = JoinInputs { left, right, families };
        match Comparison::find(conjunct, sides) {
            ConjunctShape::Comparison(found) => {
                wrapped += 1;
                let number = Expr::Literal(ScalarValue::Int64(Some(number)), None);
                conjuncts.push(WRAPPER.call(vec![conjunct.clone(), found.measured, number]));
                continue;
            }
            // Bounds may follow from it: that is known once its constants are.
            ConjunctShape::Declined(_) if let Some(call) = call_of_pair(conjunct, sides) => {
                wrapped += 1;
                let number = Expr::Literal(ScalarValue::Int64(Some(number)), None);
                conjuncts.push(WRAPPER.call(vec![conjunct.clone(), call, number]));
                continue;
            }
            ConjunctShape::Declined(reason) => {
                function = function.or_else(|| function_of_pairs(conjunct, sides));
                reasons.push(format!("{conjunct}: {reason}"));
            }
            ConjunctShape::Other => {}
        }
        conjuncts.push(conjunct.clone());
    }
    if wrapped == 0 && reasons.is_empty() {
        return plan_err!(
            "SIMJOIN needs a similarity predicate over both sides in its ON, and found none: {}; for \
             example: {EXAMPLE}",
            predicates(families)
        );
    }
    if wrapped == 0 {
        return refuse(&reasons, function);
    }
    join.filter = conjunction(conjuncts);
    Ok(LogicalPlan::Join(join))
}

/// The error of a SIMJOIN that the operator cannot run, with an example of `function`, the first one
/// that its condition has.
pub(crate) fn refuse<T>(reasons: &[String], function: Option<Function>) -> Result<T> {
    let example = function.map_or_else(|| EXAMPLE.to_string(), Function::example);
    let reason = match reasons.iter().all(String::is_empty) {
        true => "no similarity is left in its condition once that is simplified".to_string(),
        false => reasons.join("; "),
    };
    plan_err!("SIMJOIN cannot run: {reason}; a correct example: {example}")
}

/// The predicates by which a session joins: each function with the direction of its bound.
fn predicates(families: &Families) -> String {
    let bounded = |order: Order, bound: &str| {
        let functions = families.functions().filter(|function| function.info().order == order);
        let names: Vec<&str> = functions.map(Function::name).collect();
        let (last, others) = names.split_last()?;
        let names = match others {
            [] => (*last).to_string(),
            others => format!("{} or {last}", others.join(", ")),
        };
        Some(format!("{names} {bound} a constant"))
    };
    let bounded = [bounded(Order::Similarity, ">="), bounded(Order::Distance, "<=")];
    bounded.into_iter().flatten().collect::<Vec<_>>().join(", or ")
}

/// `expr` without the marker among its alternatives; `None` when the marker is all it is.
fn without_marker(expr: &Expr) -> Option<Expr> {
    let alternatives = split_binary(expr, Operator::Or);
    if !alternatives.iter().any(|e| internal_call(e, MARKER_FUNCTION).is_some()) {
        return Some(expr.clone());
    }
    disjunction(
        alternatives.into_iter().filter(|e| internal_call(e, MARKER_FUNCTION).is_none()).cloned(),
    )
}
