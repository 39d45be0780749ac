//! Conditions in the place of those that cannot drive the operator, for the messages that refuse these.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, TryCast};

use super::similarity_call;
use crate::families::Families;
use crate::spec::{Function, Order};

/// A condition in the place of `conjunct`, as the end of a message; `None` where none is known.
pub(super) fn instead(conjunct: &Expr, families: &Families) -> Option<String> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return None };
    let (value, op, bound) = match (number(right), number(left)) {
        (Some(bound), _) => (left, *op, bound),
        (None, Some(bound)) => (right, op.swap()?, bound),
        (None, None) => return None,
    };
    if !matches!(op, Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt | Operator::Eq) {
        return None;
    }
    of_one(value, op, bound, families)
        .or_else(|| of_extreme(value, op, bound, families))
        .or_else(|| of_sum(value, op, bound, families))
}

/// The value of a constant, below casts.
fn number(expr: &Expr) -> Option<f64> {
    match uncast(expr) {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Float64).ok()? {
            ScalarValue::Float64(number) => number.filter(|number| number.is_finite()),
            _ => None,
        },
        Expr::Negative(expr) => number(expr).map(|number| -number),
        _ => None,
    }
}

fn uncast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => uncast(&alias.expr),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => uncast(expr),
        other => other,
    }
}

/// Whether a comparison bounds the function from the side of similar values.
fn bounds(function: Function, op: Operator) -> bool {
    match function.info().order {
        Order::Similarity => matches!(op, Operator::GtEq | Operator::Gt | Operator::Eq),
        Order::Distance => matches!(op, Operator::LtEq | Operator::Lt | Operator::Eq),
    }
}

/// The comparison of the function itself where `value op bound` compares an expression of one call of it
/// and constants: `1 - f <= 0.1` is `f >= 0.9`.
fn of_one(value: &Expr, op: Operator, bound: f64, families: &Families) -> Option<String> {
    let value = uncast(value);
    if let Some((function, ..)) = similarity_call(value, families) {
        let comparison = format!("{value} {op} {}", decimal(bound));
        return bounds(function, op).then(|| format!("; compare it by itself: {comparison}"));
    }
    let (inner, op, bound) = match value {
        Expr::Negative(inner) => (inner.as_ref(), op.swap()?, -bound),
        Expr::BinaryExpr(BinaryExpr { left, op: arithmetic, right }) => {
            match (number(left), arithmetic, number(right)) {
                (Some(k), Operator::Plus, _) => (right.as_ref(), op, bound - k),
                (_, Operator::Plus, Some(k)) => (left.as_ref(), op, bound - k),
                (Some(k), Operator::Minus, _) => (right.as_ref(), op.swap()?, k - bound),
                (_, Operator::Minus, Some(k)) => (left.as_ref(), op, bound + k),
                (Some(k), Operator::Multiply, _) if k != 0.0 => {
                    (right.as_ref(), if k > 0.0 { op } else { op.swap()? }, bound / k)
                }
                (_, Operator::Multiply, Some(k)) if k != 0.0 => {
                    (left.as_ref(), if k > 0.0 { op } else { op.swap()? }, bound / k)
                }
                (_, Operator::Divide, Some(k)) if k != 0.0 => {
                    (left.as_ref(), if k > 0.0 { op } else { op.swap()? }, bound * k)
                }
                // Of positive values, as of 1 / (1 + d).
                (Some(k), Operator::Divide, _) if k > 0.0 && bound > 0.0 => {
                    (right.as_ref(), op.swap()?, k / bound)
                }
                _ => return None,
            }
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => match (func.name(), args.as_slice())
        {
            ("round", [inner]) => (inner, op, rounded(bound, op, 0.0)?),
            ("round", [inner, digits]) => (inner, op, rounded(bound, op, number(digits)?)?),
            ("sqrt", [inner]) if bound >= 0.0 => (inner, op, bound * bound),
            ("power" | "pow", [inner, two]) if number(two) == Some(2.0) && bound >= 0.0 => {
                (inner, op, bound.sqrt())
            }
            _ => return None,
        },
        _ => return None,
    };
    of_one(inner, op, bound, families)
}

/// The least or greatest value that is rounded to `bound`.
fn rounded(bound: f64, op: Operator, digits: f64) -> Option<f64> {
    let half = 0.5 * 10f64.powf(-digits);
    match op {
        Operator::GtEq => Some(bound - half),
        Operator::LtEq => Some(bound + half),
        _ => None,
    }
}

/// The conditions on the parts of `least(…)` and `greatest(…)`.
fn of_extreme(value: &Expr, op: Operator, bound: f64, families: &Families) -> Option<String> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = uncast(value) else { return None };
    let (from_below, from_above) =
        (matches!(op, Operator::GtEq | Operator::Gt), matches!(op, Operator::LtEq | Operator::Lt));
    let all = match func.name() {
        "least" => from_below,
        "greatest" => from_above,
        _ => return None,
    };
    if !from_below && !from_above {
        return None;
    }
    let parts: Vec<String> =
        args.iter().map(|part| format!("{} {op} {}", uncast(part), decimal(bound))).collect();
    let drives = |part: &Expr| {
        similarity_call(uncast(part), families).is_some_and(|(function, ..)| bounds(function, op))
    };
    match all {
        true => args.iter().any(drives).then(|| format!("; write {}", parts.join(" AND "))),
        false => Some(format!("; {ALTERNATIVES}")),
    }
}

/// The way round an OR.
pub(super) const ALTERNATIVES: &str = "put the pairs (a.id, b.id) of a join for each alternative together by UNION, \
     which keeps each of them once";

/// A part of a sum of similarities.
struct Term<'a> {
    weight: f64,
    call: &'a Expr,
}

/// The bounds of the parts that follow from a bound of their weighted sum, as each other part is at most 1.
fn of_sum(value: &Expr, op: Operator, bound: f64, families: &Families) -> Option<String> {
    if !matches!(op, Operator::GtEq | Operator::Gt) {
        return None;
    }
    let mut terms = vec![];
    let rest = bound - collect_terms(uncast(value), 1.0, families, &mut terms)?;
    if terms.len() < 2 {
        return None;
    }
    let all: f64 = terms.iter().map(|term| term.weight).sum();
    let bounds: Vec<String> = terms
        .iter()
        .filter_map(|Term { weight, call }| {
            // Rounded down, so that no pair is lost.
            let least = (rest - (all - weight)) / weight;
            let least = (least * 1000.0 - 1e-6).floor() / 1000.0;
            (least > 0.0 && least < 1.0).then(|| format!("{call} >= {least}"))
        })
        .collect();
    (!bounds.is_empty()).then(|| {
        format!(
            "; bounds of its parts that follow from it can stand beside it: AND {}",
            bounds.join(" AND ")
        )
    })
}

/// Adds the terms of a sum, each a similarity of at most 1 with a positive weight, and returns the sum of
/// the constants; `None` for other expressions.
fn collect_terms<'a>(
    value: &'a Expr,
    weight: f64,
    families: &Families,
    terms: &mut Vec<Term<'a>>,
) -> Option<f64> {
    if let Some(constant) = number(value) {
        return Some(weight * constant);
    }
    let value = uncast(value);
    if let Some((function, ..)) = similarity_call(value, families) {
        terms.push(Term { weight, call: value });
        return (function.extremes() == [0.0, 1.0] && weight > 0.0).then_some(0.0);
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = value else { return None };
    match (number(left), op, number(right)) {
        (_, Operator::Plus, _) => Some(
            collect_terms(left, weight, families, terms)?
                + collect_terms(right, weight, families, terms)?,
        ),
        (Some(k), Operator::Multiply, _) => collect_terms(right, weight * k, families, terms),
        (_, Operator::Multiply, Some(k)) => collect_terms(left, weight * k, families, terms),
        (_, Operator::Divide, Some(k)) if k != 0.0 => {
            collect_terms(left, weight / k, families, terms)
        }
        _ => None,
    }
}

/// A number as one writes it, without the noise of its computation.
fn decimal(number: f64) -> String {
    let rounded: f64 = format!("{number:.12}").parse().unwrap_or(number);
    format!("{rounded}")
}
