//! Joins with nearest rows: from the marked ON to a node, and from the node to a similarity join.

use std::num::{IntErrorKind, NonZeroUsize};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{NullEquality, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, Filter, Join, JoinConstraint, LogicalPlan, Operator, Projection,
};

use super::bands::block_by_bands;
use super::candidates::candidates;
use super::marker::internal_call;
use super::necessary::{Condition, call_of_pair, numbers_alone};
use super::predicate::{
    Comparison, ConjunctShape, Constants, JoinInputs, side_of, similarity_call,
};
use super::rest::{OtherConditions, never, output_of};
use crate::families::Families;
use crate::functions::is_cosine_distance;
use crate::plan::columns::reaches_outside;
use crate::plan::logical::SetSimilarityJoin;
use crate::plan::relations::{ClauseWords, NearestNode};
use crate::spec::{Nearest, Need, Order, Predicate, Side};
use crate::sql::{CANDIDATES_FUNCTION, COUNT_FUNCTION, DISTANCE_FUNCTION, SIMILARITY_FUNCTION};

/// A correct join, for error messages.
pub(super) const EXAMPLE: &str = "a SIMJOIN b NEAREST 10 BY SIMILARITY jaccard(a.toks, b.toks)";

/// Whether the ON of a join holds a NEAREST clause.
pub(super) fn is_nearest(join: &Join) -> bool {
    let is_count = |e: &Expr| count_of(e).is_some();
    join.filter.iter().any(|filter| split_binary(filter, Operator::Or).into_iter().any(is_count))
}

/// The arguments of the function before the number, and the number.
fn count_of(expr: &Expr) -> Option<(bool, bool, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return None };
    match internal_call(without_cast(left), COUNT_FUNCTION)? {
        [insists, with_ties] => {
            let flag = |e: &Expr| matches!(e, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
            Some((flag(insists), flag(with_ties), right))
        }
        _ => None,
    }
}

/// Whether less is better, and the score.
fn score_of(expr: &Expr) -> Option<(bool, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::LtEq, right }) = expr else {
        return None;
    };
    let Expr::ScalarFunction(ScalarFunction { func, .. }) = without_cast(left) else { return None };
    match func.name() {
        DISTANCE_FUNCTION => Some((true, right)),
        SIMILARITY_FUNCTION => Some((false, right)),
        _ => None,
    }
}

fn without_cast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(Cast { expr, .. }) => without_cast(expr),
        // The optimizer keeps the name of what it folds.
        Expr::Alias(alias) => without_cast(&alias.expr),
        other => other,
    }
}

/// The node of a join whose ON holds a NEAREST clause.
pub(super) fn nearest_node(join: Join, families: &Families) -> Result<LogicalPlan> {
    let malformed = || plan_err!("a NEAREST clause cannot be read; for example: {EXAMPLE}");
    let Some(filter) = &join.filter else { return malformed() };
    let alternatives = split_binary(filter, Operator::Or);
    let [count, score, condition @ ..] = alternatives.as_slice() else { return malformed() };
    let Some(((insists, with_ties, count), (is_distance, score))) =
        count_of(count).zip(score_of(score))
    else {
        return malformed();
    };
    if !join.on.is_empty() || is_cut_off(condition) {
        return plan_err!(
            "the ON of a NEAREST clause was optimized before it was analyzed; build the session with \
             datafusion_simjoin::install"
        );
    }
    let condition = match condition {
        [] => None,
        [marker, condition @ ..] if internal_call(marker, CANDIDATES_FUNCTION).is_some() => {
            disjunction(condition.iter().map(|e| (*e).clone()))
        }
        // The score ends at an OR: it is a condition itself.
        _ => return plan_err!("NEAREST ranks by a number, and the score is a condition: {score}"),
    };
    let score = match insists {
        true => checked_score(score, is_distance, &join, families)?,
        false => score.clone(),
    };
    let (inputs, condition) = candidates(&join, condition)?;
    let node = NearestNode::try_new(
        inputs,
        join.join_type,
        ClauseWords { insists, with_ties, is_distance },
        count.clone(),
        score,
        condition,
    )?;
    Ok(node.into_plan())
}

/// Whether the condition is gone from behind its marker, as a condition that is false goes from an OR.
fn is_cut_off(condition: &[&Expr]) -> bool {
    matches!(condition, [marker] if internal_call(marker, CANDIDATES_FUNCTION).is_some())
}

/// The score of a SIMJOIN: a function of a family, or an expression of such functions, in which a NaN is as NULL.
///
/// # Errors
///
/// A plan error for a score that no search finds.
fn checked_score(
    score: &Expr,
    is_distance: bool,
    join: &Join,
    families: &Families,
) -> Result<Expr> {
    let sides = JoinInputs { left: join.left.schema(), right: join.right.schema(), families };
    match known(score, is_distance, sides) {
        Ok(_) => Ok(score.clone()),
        Err(_) if is_of_several(score, sides) => numbers_alone(score, families),
        Err(reason) => plan_err!(
            "SIMJOIN … NEAREST cannot run: {score}: {reason}; a correct example: {EXAMPLE}; JOIN in \
             place of SIMJOIN compares every pair"
        ),
    }
}

/// Whether a score is more than one function, and has one of both sides in it.
fn is_of_several(score: &Expr, sides: JoinInputs<'_>) -> bool {
    match score {
        Expr::Alias(alias) => is_of_several(&alias.expr, sides),
        _ if similarity_call(score, sides.families).is_some() || complement(score).is_some() => {
            false
        }
        _ => call_of_pair(score, sides).is_some(),
    }
}

/// The score as a function of a family over an argument of each side, or why it is none.
fn known(
    score: &Expr,
    is_distance: bool,
    sides: JoinInputs<'_>,
) -> Result<Box<Comparison>, String> {
    let mut score = score;
    while let Expr::Alias(alias) = score {
        score = &alias.expr;
    }
    let (score, is_complement) = match complement(score) {
        Some(distance) => (distance, true),
        None => (score, false),
    };
    let Some((function, ..)) = similarity_call(score, sides.families) else {
        let names: Vec<&str> = sides.families.functions().map(|f| f.name()).collect();
        return Err(format!("it is no call of one of {}, cosine_similarity", names.join(", ")));
    };
    let is_by_distance = (function.info().order == Order::Distance) != is_complement;
    let (found, wanted) = match is_by_distance {
        true => ("distance", "DISTANCE"),
        false => ("similarity", "SIMILARITY"),
    };
    if is_distance != is_by_distance {
        let name = if is_complement { format!("1 - {function}") } else { function.to_string() };
        return Err(format!("{name} is a {found}; write BY {wanted}"));
    }
    match Comparison::find(&never(score, sides.families), sides) {
        ConjunctShape::Comparison(found) => Ok(found),
        ConjunctShape::Declined(reason) => Err(reason),
        ConjunctShape::Other => Err("it reads no columns of both sides".to_string()),
    }
}

/// The `cosine_distance` in 1 minus it, also below `nanvl(…, NULL)`, which `cosine_similarity` is. The difference of
/// any two of its values is that of the distances, without rounding: both rank rows alike, and tie alike.
fn complement(score: &Expr) -> Option<&Expr> {
    match score {
        Expr::Alias(alias) => complement(&alias.expr),
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nanvl" => {
            match args.as_slice() {
                [value, Expr::Literal(other, _)] if other.is_null() => complement(value),
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
            let is_cosine = |expr: &Expr| match expr {
                Expr::ScalarFunction(call) => is_cosine_distance(&call.func),
                _ => false,
            };
            (is_one(left) && is_cosine(right)).then_some(right.as_ref())
        }
        _ => None,
    }
}

fn is_one(expr: &Expr) -> bool {
    match without_cast(expr) {
        Expr::Literal(value, _) => {
            matches!(value.cast_to(&DataType::Float64), Ok(ScalarValue::Float64(Some(1.0))))
        }
        _ => false,
    }
}

/// Numbers from here on are whole.
const MOST: f64 = 18_446_744_073_709_551_616.0;

/// The number of neighbours of a node.
pub(crate) fn nearest_of(node: &NearestNode) -> Result<Nearest> {
    let wrong = |found: &dyn std::fmt::Display| {
        plan_err!(
            "NEAREST takes a positive number of rows, a constant or a parameter; found {found}"
        )
    };
    let count = |count| Ok(Nearest { count, with_ties: node.words.with_ties });
    let Expr::Literal(value, _) = without_cast(&node.count) else { return wrong(&node.count) };
    // Numbers beyond BIGINT are of other types.
    let is_whole = match value {
        ScalarValue::Decimal128(_, _, 0) | ScalarValue::Decimal256(_, _, 0) => true,
        ScalarValue::Float64(Some(value)) if *value >= MOST && value.is_finite() => {
            return count(NonZeroUsize::MAX);
        }
        other => other.data_type().is_integer(),
    };
    let digits = match is_whole {
        true => value.cast_to(&DataType::Utf8)?.try_as_str().flatten().map(str::to_string),
        false => None,
    };
    let Some(digits) = digits else { return wrong(value) };
    match digits.parse::<NonZeroUsize>() {
        Ok(found) => count(found),
        // More than there are rows.
        Err(e) if *e.kind() == IntErrorKind::PosOverflow => count(NonZeroUsize::MAX),
        Err(_) => wrong(&digits),
    }
}

/// The node as a similarity join by a function of a family; `None` where no family knows the score.
///
/// A comparison of the score with a constant in the condition bounds it.
pub(super) fn as_similarity_join(
    node: &NearestNode,
    families: &Families,
    constants: Constants<'_>,
) -> Result<Option<SetSimilarityJoin>> {
    let sides = JoinInputs { left: node.left.schema(), right: node.right.schema(), families };
    let Ok(score) = known(&node.score, node.words.is_distance, sides) else { return Ok(None) };
    let (call, arguments) = (score.call, score.arguments);
    let bound = call.function.widest_bound().0;
    let mut predicate = Predicate::new(call, bound).without_nan();
    let mut conjuncts = vec![];
    for conjunct in node.condition.iter().flat_map(split_conjunction) {
        let bounds = |found: &Comparison| found.call == call && found.arguments == arguments;
        let threshold = match Comparison::find(conjunct, sides) {
            ConjunctShape::Comparison(found) if bounds(&found) => found.reduce(constants).ok(),
            ConjunctShape::Comparison(_) | ConjunctShape::Other => None,
            ConjunctShape::Declined(_) => Condition::read(conjunct, sides, constants, true)
                .and_then(|condition| condition.necessary().ok())
                .and_then(|found| found.into_iter().find(|(found, _)| bounds(found)))
                .map(|(_, bound)| bound),
        };
        let Some(threshold) = threshold else {
            conjuncts.push(conjunct.clone());
            continue;
        };
        if predicate.with_bound(threshold.value).implies(&predicate) {
            predicate.bound = threshold.value;
        }
        if !threshold.exact {
            conjuncts.push(conjunct.clone());
        }
    }
    let join = as_join(node)?;
    let rest = match OtherConditions::split(&join, conjuncts.into_iter())? {
        Ok(rest) => rest,
        Err(reason) => {
            return plan_err!("NEAREST cannot run: {reason}; a correct example: {EXAMPLE}");
        }
    };
    let node = SetSimilarityJoin {
        left: Arc::clone(&node.left),
        right: Arc::clone(&node.right),
        shared: None,
        predicate,
        conjunct: node.score.clone(),
        note: None,
        join_type: node.join_type,
        arguments,
        on: rest.on,
        null_equality: join.null_equality,
        side_filters: rest.side_filters,
        residual: rest.residual,
        need: Need::Nearest(nearest_of(node)?),
        output: output_of(&join),
        schema: Arc::clone(&join.schema),
    };
    block_by_bands(node).map(Some)
}

/// A filter above a join with nearest rows, with its conditions of left rows below the join: they leave
/// whole rankings out. `None` where there are none.
pub(super) fn filter_left_rows(filter: &Filter) -> Result<Option<LogicalPlan>> {
    // The optimizer puts a projection of columns in between.
    let (input, projection) = match filter.input.as_ref() {
        LogicalPlan::Projection(projection)
            if projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) =>
        {
            (projection.input.as_ref(), Some(projection))
        }
        other => (other, None),
    };
    let Some(node) = SetSimilarityJoin::of(input) else { return Ok(None) };
    if !matches!(node.need, Need::Nearest(_)) {
        return Ok(None);
    }
    let (left, right) = (node.left.schema(), node.right.schema());
    let mut of_left = vec![];
    let mut others = vec![];
    for conjunct in split_conjunction(&filter.predicate) {
        let moves = side_of(conjunct, left, right) == Some(Side::Left)
            && !conjunct.is_volatile()
            && !reaches_outside(conjunct)?;
        if moves { &mut of_left } else { &mut others }.push(conjunct.clone());
    }
    let Some(predicate) = conjunction(of_left) else { return Ok(None) };
    let mut node = node.clone();
    node.left = Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, node.left)?));
    let mut plan = node.into_plan();
    if let Some(Projection { expr, schema, .. }) = projection {
        let (expr, schema) = (expr.clone(), Arc::clone(schema));
        let projection = Projection::try_new_with_schema(expr, Arc::new(plan), schema)?;
        plan = LogicalPlan::Projection(projection);
    }
    Ok(Some(match conjunction(others) {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?),
        None => plan,
    }))
}

/// The condition of a node, by the sides that its conjuncts read.
pub(crate) fn rest_of(node: &NearestNode) -> Result<OtherConditions> {
    let conjuncts = node.condition.iter().flat_map(split_conjunction).cloned();
    match OtherConditions::split(&as_join(node)?, conjuncts)? {
        Ok(rest) => Ok(rest),
        Err(reason) => plan_err!("NEAREST cannot run: {reason}"),
    }
}

/// A plain join of the inputs of a node, with its schema.
pub(crate) fn as_join(node: &NearestNode) -> Result<Join> {
    Join::try_new(
        Arc::clone(&node.left),
        Arc::clone(&node.right),
        vec![],
        None,
        node.join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )
}
