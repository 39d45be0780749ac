//! Similarity predicates: recognising them in a conjunct and reducing them to one threshold.
//!
//! A conjunct such as `CAST(jaccard(a.x, b.y) AS REAL) >= 0.66666668` is kept as the analyzer
//! coerced it, with its casts and decimals. [`Comparison::find`] sees its shape: which measure,
//! which argument on which side, in which direction it bounds. [`Comparison::reduce`] then
//! searches, with DataFusion's own evaluator, for the least value of the measure with which it is
//! true. Folding the literal to `Float64` instead would change answers: DataFusion compares a
//! `Float64` with a decimal as `Decimal(30, 15)`, and rounds it in a cast to `Float32`.

mod evaluate;
#[cfg(test)]
mod tests;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Between, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, TryCast};

pub use evaluate::Constants;
use evaluate::{Evaluator, SCORE};

use crate::functions::measure_of;
use crate::set::Measure;
use crate::spec::{MeasureCall, Side};

/// In which direction a conjunct bounds the measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// `>=` or `>`: true from some value on.
    AtLeast,
    /// `=`, or the two bounds of BETWEEN: the lower bound is implied, and is not all.
    Implied,
}

/// A conjunct that bounds a measure of one left and one right argument from below.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub call: MeasureCall,
    /// The arguments by side.
    pub arguments: [Expr; 2],
    /// The call of the measure as it stands in the conjunct.
    pub measured: Expr,
    direction: Direction,
    /// The lower bound, with the measure replaced by the column [`SCORE`].
    lower_bound: Expr,
    /// Whether a TRY_CAST turns large values into NULL.
    tries: bool,
}

/// What a conjunct is to the planner.
#[derive(Debug, Clone)]
pub enum Shape {
    /// No similarity of both sides occurs in it.
    Other,
    /// A lower bound, so the operator may be able to run it.
    Comparison(Box<Comparison>),
    /// It holds a similarity of both sides which cannot drive the operator: why.
    Declined(String),
}

/// The least qualifying value of a [`Comparison`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// `t*`: positive, or NaN when no value qualifies.
    pub value: f64,
    /// Whether `measure >= t*` says all that the conjunct says. Otherwise the conjunct must also
    /// be evaluated on the matched pairs.
    pub exact: bool,
}

/// The side whose columns `expr` reads, if it reads columns of exactly one.
pub fn side_of(expr: &Expr, left: &DFSchema, right: &DFSchema) -> Option<Side> {
    let mut found = None;
    for column in expr.column_refs() {
        let side = match (left.is_column_from_schema(column), right.is_column_from_schema(column)) {
            (true, false) => Side::Left,
            (false, true) => Side::Right,
            _ => return None,
        };
        if found.is_some_and(|other| other != side) {
            return None;
        }
        found = Some(side);
    }
    found
}

/// The measure that `expr` calls and its two arguments.
pub fn measure_call(expr: &Expr) -> Option<(Measure, &Expr, &Expr)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let [first, second] = args.as_slice() else { return None };
    Some((measure_of(func)?, first, second))
}

/// `expr` as a measure of the two given arguments (left, right), in either order.
pub fn call_over(expr: &Expr, arguments: &[Expr; 2]) -> Option<MeasureCall> {
    let (measure, first, second) = measure_call(expr)?;
    let [left, right] = arguments;
    let side = if first == left && second == right {
        Side::Left
    } else if first == right && second == left {
        if measure.is_symmetric() { Side::Left } else { Side::Right }
    } else {
        return None;
    };
    Some(MeasureCall { measure, first: side })
}

/// Whether a measure occurs anywhere in `expr`.
pub fn mentions_measure(expr: &Expr) -> bool {
    let mut found = false;
    // The closure returns no error, so neither does the walk.
    let _ = expr.apply(|e| {
        found |= measure_call(e).is_some();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

impl Comparison {
    /// Reads the shape of `conjunct` in a join of `left` and `right`.
    pub fn find(conjunct: &Expr, left: &DFSchema, right: &DFSchema) -> Shape {
        if !mentions_measure(conjunct) {
            return Shape::Other;
        }
        match unalias(conjunct) {
            Expr::BinaryExpr(BinaryExpr { left: l, op, right: r }) => {
                Self::of_operator(conjunct, l, *op, r, left, right)
            }
            // NOT (f < c), which holds for the same rows as f >= c.
            Expr::Not(negated) => match unalias(negated) {
                Expr::BinaryExpr(BinaryExpr { left: l, op, right: r }) => match op.negate() {
                    Some(op) => Self::of_operator(conjunct, l, op, r, left, right),
                    None => nested(conjunct, left, right),
                },
                _ => nested(conjunct, left, right),
            },
            Expr::Between(Between { expr, negated: false, low, high }) => {
                Self::with_scored(conjunct, expr, &[low, high], left, right, |scored| {
                    (Direction::Implied, scored.gt_eq(low.as_ref().clone()))
                })
            }
            _ => nested(conjunct, left, right),
        }
    }

    /// The shape of `l op r`, which `conjunct` is or comes to.
    fn of_operator(
        conjunct: &Expr,
        l: &Expr,
        op: Operator,
        r: &Expr,
        left: &DFSchema,
        right: &DFSchema,
    ) -> Shape {
        // Normalised to the measure on the left; `c <= f` is `f >= c`.
        let (scored, constant, op, swapped) = match (mentions_measure(l), op.swap()) {
            (true, _) => (l, r, op, false),
            (false, Some(op)) => (r, l, op, true),
            (false, None) => return nested(conjunct, left, right),
        };
        let (direction, op) = match op {
            Operator::GtEq | Operator::Gt => (Direction::AtLeast, op),
            Operator::Eq => (Direction::Implied, Operator::GtEq),
            Operator::Lt | Operator::LtEq => {
                let reason = "it bounds the similarity from above only, which dissimilar rows \
                              satisfy";
                return about_pairs(conjunct, left, right, reason);
            }
            _ => return nested(conjunct, left, right),
        };
        Self::with_scored(conjunct, scored, &[constant], left, right, |scored| {
            let bound = if swapped {
                let op = if op == Operator::Gt { Operator::Lt } else { Operator::LtEq };
                BinaryExpr::new(Box::new(constant.clone()), op, Box::new(scored))
            } else {
                BinaryExpr::new(Box::new(scored), op, Box::new(constant.clone()))
            };
            (direction, Expr::BinaryExpr(bound))
        })
    }

    fn with_scored(
        conjunct: &Expr,
        scored: &Expr,
        constants: &[&Expr],
        left: &DFSchema,
        right: &DFSchema,
        lower_bound: impl FnOnce(Expr) -> (Direction, Expr),
    ) -> Shape {
        let Scored { chain, measured, tries } = match through_casts(scored) {
            Ok(found) => found,
            Err(reason) => return about_pairs(conjunct, left, right, &reason),
        };
        let Some((measure, first, second)) = measure_call(measured) else {
            return nested(conjunct, left, right);
        };
        let arguments = match (side_of(first, left, right), side_of(second, left, right)) {
            (Some(Side::Left), Some(Side::Right)) => [first.clone(), second.clone()],
            (Some(Side::Right), Some(Side::Left)) => [second.clone(), first.clone()],
            // Both arguments on one side: a filter of that side, not a similarity of the two.
            (Some(_), Some(_)) => return Shape::Other,
            _ => {
                return about_pairs(
                    conjunct,
                    left,
                    right,
                    &format!(
                        "each argument of {measure} must read columns of one side of the join, \
                         one argument the left side and the other the right"
                    ),
                );
            }
        };
        if arguments.iter().any(|a| a.contains_outer()) {
            return Shape::Declined(
                "an argument reads columns of an outer query (a correlated subquery)".to_string(),
            );
        }
        if let Some(volatile) = arguments.iter().find(|a| a.is_volatile()) {
            return Shape::Declined(format!(
                "the argument {volatile} is volatile: it may change from one evaluation to the \
                 next"
            ));
        }
        for constant in constants {
            if let Some(reason) = not_constant(constant) {
                return Shape::Declined(format!("the threshold {constant} {reason}"));
            }
        }
        let swapped = !measure.is_symmetric() && side_of(first, left, right) == Some(Side::Right);
        let call = MeasureCall { measure, first: if swapped { Side::Right } else { Side::Left } };
        let (direction, lower_bound) = lower_bound(chain);
        let measured = measured.clone();
        Shape::Comparison(Box::new(Self {
            call,
            arguments,
            measured,
            direction,
            lower_bound,
            tries,
        }))
    }

    /// The least value of the measure with which the conjunct can hold, or why it cannot drive
    /// the operator.
    pub fn reduce(&self, constants: Constants<'_>) -> Result<Threshold, String> {
        let evaluator = Evaluator::try_new(self.call.measure, &self.lower_bound, constants)
            .map_err(|e| format!("the threshold cannot be evaluated: {}", e.strip_backtrace()))?;
        // A cast may overflow for large values, which fails the query for a pair that has one.
        // Such values count as qualifying here, and the conjunct stays to raise the error.
        match evaluator.truth(0) {
            Ok(false) => {}
            Ok(true) => {
                return Err("disjoint sets, whose similarity is 0, satisfy it; the threshold \
                            must be above 0"
                    .to_string());
            }
            Err(e) => {
                return Err(format!("the threshold cannot be evaluated: {}", e.strip_backtrace()));
            }
        }
        let qualifies = |key| evaluator.truth(key).unwrap_or(true);
        let (mut least, mut greatest) = (0, evaluator.greatest());
        let overflows = evaluator.truth(greatest).is_err();
        if !qualifies(greatest) {
            return Ok(Threshold { value: f64::NAN, exact: true });
        }
        // Invariant: `least` does not qualify, `greatest` does.
        while greatest - least > 1 {
            let middle = least + (greatest - least) / 2;
            if qualifies(middle) {
                greatest = middle;
            } else {
                least = middle;
            }
        }
        Ok(Threshold {
            value: evaluator.value(greatest),
            exact: self.direction == Direction::AtLeast && !overflows && !self.tries,
        })
    }
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unalias(&alias.expr),
        other => other,
    }
}

/// A measure under a chain of casts.
struct Scored<'a> {
    /// The chain over the column [`SCORE`]. A TRY_CAST stands in it as a CAST, whose error marks
    /// the values from which on the TRY_CAST gives NULL.
    chain: Expr,
    measured: &'a Expr,
    tries: bool,
}

/// Follows aliases and monotone casts down to what they wrap, or says which cast ends the search.
fn through_casts(expr: &Expr) -> Result<Scored<'_>, String> {
    let (inner, field, tries) = match expr {
        Expr::Alias(alias) => return through_casts(&alias.expr),
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        measured => {
            let chain = Expr::Column(Column::new_unqualified(SCORE));
            return Ok(Scored { chain, measured, tries: false });
        }
    };
    if !is_monotone_target(field.data_type()) {
        return Err(format!(
            "a cast of the similarity to {} does not keep its order",
            field.data_type()
        ));
    }
    let scored = through_casts(inner)?;
    let chain = Cast { expr: Box::new(scored.chain), field: Arc::clone(field) };
    Ok(Scored { chain: Expr::Cast(chain), measured: scored.measured, tries: tries || scored.tries })
}

/// Numeric types: casts to them never reverse the order of values.
fn is_monotone_target(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn not_constant(expr: &Expr) -> Option<&'static str> {
    if expr.any_column_refs() || expr.contains_outer() {
        return Some("is not constant: it reads columns");
    }
    if expr.is_volatile() {
        return Some("is volatile, so it has no one value");
    }
    let subquery = expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    });
    // `exists` fails only when its closure does.
    subquery.unwrap_or(true).then_some("is a subquery, whose value is not known when planning")
}

/// `Declined(reason)` if a similarity of both sides occurs in `conjunct`, else `Other`.
fn about_pairs(conjunct: &Expr, left: &DFSchema, right: &DFSchema, reason: &str) -> Shape {
    let both_sides = |e: &Expr| {
        let columns = e.column_refs();
        columns.iter().any(|c| left.is_column_from_schema(c))
            && columns.iter().any(|c| right.is_column_from_schema(c))
    };
    match conjunct.exists(|e| Ok(measure_call(e).is_some() && both_sides(e))) {
        Ok(true) => Shape::Declined(reason.to_string()),
        _ => Shape::Other,
    }
}

/// The reason for a similarity that is not directly compared.
fn nested(conjunct: &Expr, left: &DFSchema, right: &DFSchema) -> Shape {
    let reason = match unalias(conjunct) {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            "the similarity stands under OR; it must be a condition of its own, joined by AND"
        }
        Expr::Not(_) => {
            "the similarity stands under NOT; write the comparison that is meant instead"
        }
        _ => "the similarity must be compared by >=, >, =, or BETWEEN with a constant",
    };
    about_pairs(conjunct, left, right, reason)
}

/// How few pairs a lower bound leaves, to choose the one that drives: the least ratio of set
/// sizes that it admits, then the threshold. Greater is better.
pub fn selectivity(measure: Measure, threshold: f64) -> (f64, f64) {
    if threshold.is_nan() {
        return (f64::INFINITY, f64::INFINITY);
    }
    let ratio = match measure {
        Measure::Jaccard => threshold,
        Measure::Dice => threshold / (2.0 - threshold),
        Measure::Cosine => threshold * threshold,
        // These bound one size at most.
        Measure::Containment => 0.0,
        Measure::OverlapCoefficient => -1.0,
        Measure::Overlap => -2.0,
    };
    (ratio, threshold)
}
