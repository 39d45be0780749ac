//! Similarity predicates: recognising them in a conjunct and reducing them to one threshold.
//!
//! A conjunct such as `CAST(jaccard(a.x, b.y) AS REAL) >= 0.66666668` is kept as the analyzer
//! coerced it, with its casts and decimals. [`Comparison::find`] sees its shape: which function,
//! which argument on which side, in which direction it bounds. [`Comparison::reduce`] then
//! searches, with DataFusion's own evaluator, for the least similar value of the function with
//! which it is true. Folding the literal to `Float64` instead would change answers: DataFusion
//! compares a `Float64` with a decimal as `Decimal(30, 15)`, and rounds it in a cast to `Float32`.

mod evaluate;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::{Between, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, TryCast};

pub(crate) use evaluate::{Constants, Evaluator, SCORE, holds, is_null_constant, value_of};

use crate::families::Families;
use crate::plan::logical::score_type;
use crate::spec::{Call, Function, Order, Side};

/// The part of a conjunct that its bound tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundCoverage {
    /// All: a similarity that is `>=` or `>` a constant, a distance that is `<=` or `<` one.
    All,
    /// A part, of `=` or the two bounds of BETWEEN.
    Part,
}

/// A conjunct that bounds a function of one left and one right argument, a similarity from below or
/// a distance from above.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub call: Call,
    /// The arguments by side.
    pub arguments: [Expr; 2],
    /// The call of the function as it stands in the conjunct.
    pub measured: Expr,
    /// The type of the function's value.
    pub data_type: DataType,
    extent: BoundCoverage,
    /// The bound, with the function replaced by the column [`SCORE`].
    bound: Expr,
    /// Whether a TRY_CAST turns large values into NULL.
    tries: bool,
}

/// The kind of a conjunct for the planner.
#[derive(Debug, Clone)]
pub(crate) enum ConjunctShape {
    /// No similarity of both sides occurs in it.
    Other,
    /// A bound, so the operator may be able to run it.
    Comparison(Box<Comparison>),
    /// A similarity of both sides which cannot drive the operator: why.
    Declined(String),
}

/// The least similar value that satisfies a [`Comparison`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ComparisonBound {
    /// `t*`; NaN when no value qualifies.
    pub value: f64,
    /// Whether the bound `t*` says all that the conjunct says. Otherwise the conjunct must also
    /// be evaluated on the matched pairs.
    pub exact: bool,
}

/// The inputs of a join, and the families of the session.
#[derive(Clone, Copy)]
pub(crate) struct JoinInputs<'a> {
    pub left: &'a DFSchema,
    pub right: &'a DFSchema,
    pub families: &'a Families,
}

/// The side whose columns `expr` reads, if it reads columns of exactly one.
pub(crate) fn side_of(expr: &Expr, left: &DFSchema, right: &DFSchema) -> Option<Side> {
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

/// The function of a family that `expr` calls and its two arguments.
pub(crate) fn similarity_call<'e>(
    expr: &'e Expr,
    families: &Families,
) -> Option<(Function, &'e Expr, &'e Expr)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let [first, second] = args.as_slice() else { return None };
    Some((families.function_of(func)?, first, second))
}

/// `expr` as a function of the two given arguments (left, right), in either order.
pub(crate) fn call_over(expr: &Expr, arguments: &[Expr; 2], families: &Families) -> Option<Call> {
    let (function, first, second) = similarity_call(expr, families)?;
    let [left, right] = arguments;
    let side = if first == left && second == right {
        Side::Left
    } else if first == right && second == left {
        if function.is_ordered() { Side::Right } else { Side::Left }
    } else {
        return None;
    };
    Some(Call { function, first: side })
}

/// Whether a function of a family occurs anywhere in `expr`.
pub(crate) fn mentions_similarity(expr: &Expr, families: &Families) -> bool {
    let mut found = false;
    // The closure returns no error, so neither does the walk.
    let _ = expr.apply(|e| {
        found |= similarity_call(e, families).is_some();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// Whether a condition compares a function of a family by itself, below casts.
pub(crate) fn is_compared(condition: &Expr, families: &Families) -> bool {
    let is_call = |expr: &Expr| {
        through_casts(expr).is_ok_and(|scored| similarity_call(scored.measured, families).is_some())
    };
    match unalias(condition) {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => is_call(left) || is_call(right),
        Expr::Between(Between { expr, .. }) => is_call(expr),
        Expr::Not(inner) => is_compared(inner, families),
        _ => false,
    }
}

impl Comparison {
    /// Reads the shape of `conjunct` in a join of `sides`.
    pub(crate) fn find(conjunct: &Expr, sides: JoinInputs<'_>) -> ConjunctShape {
        if !mentions_similarity(conjunct, sides.families) {
            return ConjunctShape::Other;
        }
        match unalias(conjunct) {
            Expr::BinaryExpr(BinaryExpr { left: l, op, right: r }) => {
                Self::of_operator(conjunct, l, *op, r, sides)
            }
            // NOT (f < c), which holds for the same rows as f >= c.
            Expr::Not(negated) => match unalias(negated) {
                Expr::BinaryExpr(BinaryExpr { left: l, op, right: r }) => match op.negate() {
                    Some(op) => Self::of_operator(conjunct, l, op, r, sides),
                    None => nested(conjunct, sides),
                },
                _ => nested(conjunct, sides),
            },
            Expr::Between(Between { expr, negated: false, low, high }) => {
                Self::with_scored(conjunct, expr, &[low, high], sides, |function, scored| {
                    Ok(match function.info().order {
                        Order::Similarity => {
                            (BoundCoverage::Part, scored.gt_eq(low.as_ref().clone()))
                        }
                        Order::Distance => {
                            (BoundCoverage::Part, scored.lt_eq(high.as_ref().clone()))
                        }
                    })
                })
            }
            _ => nested(conjunct, sides),
        }
    }

    /// The shape of `l op r`, which `conjunct` is or comes to.
    fn of_operator(
        conjunct: &Expr,
        l: &Expr,
        op: Operator,
        r: &Expr,
        sides: JoinInputs<'_>,
    ) -> ConjunctShape {
        // Normalised to the function on the left; `c <= f` is `f >= c`.
        let (scored, constant, op, swapped) =
            match (mentions_similarity(l, sides.families), op.swap()) {
                (true, _) => (l, r, op, false),
                (false, Some(op)) => (r, l, op, true),
                (false, None) => return nested(conjunct, sides),
            };
        let comparable = matches!(
            op,
            Operator::GtEq | Operator::Gt | Operator::Lt | Operator::LtEq | Operator::Eq
        );
        if !comparable {
            return nested(conjunct, sides);
        }
        Self::with_scored(conjunct, scored, &[constant], sides, |function, scored| {
            let (extent, op) = match (op, function.info().order) {
                (Operator::Eq, Order::Similarity) => (BoundCoverage::Part, Operator::GtEq),
                (Operator::Eq, Order::Distance) => (BoundCoverage::Part, Operator::LtEq),
                (Operator::Lt | Operator::LtEq, Order::Similarity) => {
                    return Err("it bounds the similarity from above only, which dissimilar rows \
                                satisfy");
                }
                (Operator::Gt | Operator::GtEq, Order::Distance) => {
                    return Err("it bounds the distance from below only, which distant rows \
                                satisfy");
                }
                (op, _) => (BoundCoverage::All, op),
            };
            let (scored, constant) = (Box::new(scored), Box::new(constant.clone()));
            Ok((
                extent,
                Expr::BinaryExpr(match (swapped, op.swap()) {
                    (true, Some(op)) => BinaryExpr::new(constant, op, scored),
                    _ => BinaryExpr::new(scored, op, constant),
                }),
            ))
        })
    }

    fn with_scored(
        conjunct: &Expr,
        scored: &Expr,
        constants: &[&Expr],
        sides: JoinInputs<'_>,
        bound: impl FnOnce(Function, Expr) -> Result<(BoundCoverage, Expr), &'static str>,
    ) -> ConjunctShape {
        let Scored { chain, measured, tries } = match through_casts(scored) {
            Ok(found) => found,
            Err(reason) => return about_pairs(conjunct, sides, &reason),
        };
        let Some((function, ..)) = similarity_call(measured, sides.families) else {
            return nested(conjunct, sides);
        };
        let (extent, bound) = match bound(function, chain) {
            Ok(found) => found,
            Err(reason) => return about_pairs(conjunct, sides, reason),
        };
        let found = match Self::of_call(measured, bound, sides) {
            Ok(Some(found)) => found,
            // Both arguments on one side: a filter of that side, not a similarity of the two.
            Ok(None) => return ConjunctShape::Other,
            Err(reason) => return about_pairs(conjunct, sides, &reason),
        };
        for constant in constants {
            if let Some(reason) = not_constant(constant) {
                return ConjunctShape::Declined(format!(
                    "the threshold {constant} {reason}; a constant bound of {measured} beside it can \
                     drive the join{}",
                    relative_to_lengths(function)
                ));
            }
        }
        ConjunctShape::Comparison(Box::new(Self { extent, tries, ..found }))
    }

    /// A bound that follows from a condition with a call: `bound` is the best case of the condition over the column
    /// [`SCORE`].
    pub(crate) fn necessary(
        call: &Expr,
        bound: Expr,
        sides: JoinInputs<'_>,
    ) -> Result<Self, String> {
        let found = Self::of_call(call, bound, sides)?;
        found.ok_or_else(|| "its arguments are of one side".to_string())
    }

    /// A bound of a call; `None` where both arguments are of one side.
    fn of_call(
        measured: &Expr,
        bound: Expr,
        JoinInputs { left, right, families }: JoinInputs<'_>,
    ) -> Result<Option<Self>, String> {
        let Some((function, first, second)) = similarity_call(measured, families) else {
            return Err(format!("{measured} is no function of a family"));
        };
        let arguments = match (side_of(first, left, right), side_of(second, left, right)) {
            (Some(Side::Left), Some(Side::Right)) => [first.clone(), second.clone()],
            (Some(Side::Right), Some(Side::Left)) => [second.clone(), first.clone()],
            (Some(_), Some(_)) => return Ok(None),
            _ => {
                return Err(format!(
                    "each argument of {function} must read columns of one side of the join, \
                     one argument the left side and the other the right"
                ));
            }
        };
        if arguments.iter().any(|a| a.contains_outer()) {
            let reason = "an argument reads columns of an outer query (a correlated subquery)";
            return Err(reason.to_string());
        }
        if let Some(volatile) = arguments.iter().find(|a| a.is_volatile()) {
            return Err(format!(
                "the argument {volatile} is volatile: it may change from one evaluation to the \
                 next"
            ));
        }
        let swapped = function.is_ordered() && side_of(first, left, right) == Some(Side::Right);
        let call = Call { function, first: if swapped { Side::Right } else { Side::Left } };
        let data_type = score_type(function, &arguments, [left, right]);
        let data_type = data_type.map_err(|error| error.strip_backtrace())?;
        let (measured, extent) = (measured.clone(), BoundCoverage::Part);
        Ok(Some(Self { call, arguments, measured, data_type, extent, bound, tries: false }))
    }

    /// The least similar value of the function with which the conjunct can hold, or why it cannot
    /// drive the operator.
    pub(crate) fn reduce(&self, constants: Constants<'_>) -> Result<ComparisonBound, String> {
        let function = self.call.function;
        let fails = |e: DataFusionError| {
            let advice = if self.compares_decimals() { "; write it as a DOUBLE" } else { "" };
            format!("the threshold cannot be evaluated: {}{advice}", e.strip_backtrace())
        };
        let evaluator = Evaluator::try_new(self.data_type.clone(), &self.bound, constants);
        let evaluator = evaluator.map_err(fails)?;
        let [mut refused, mut admitted] = function.extremes().map(|value| evaluator.key(value));
        // A cast may overflow for large values, which fails the query for a pair that has one.
        // Such values count as qualifying here, and the conjunct stays to raise the error.
        if evaluator.truth(refused).map_err(fails)? {
            return Err(function.info().least_similar.to_string());
        }
        let qualifies = |key| evaluator.truth(key).unwrap_or(true);
        let overflows = evaluator.truth(admitted).is_err();
        if !qualifies(admitted) {
            return Ok(ComparisonBound { value: f64::NAN, exact: true });
        }
        // Invariant: `refused` does not qualify, `admitted` does.
        while refused.abs_diff(admitted) > 1 {
            let middle = refused.midpoint(admitted);
            if qualifies(middle) {
                admitted = middle;
            } else {
                refused = middle;
            }
        }
        let value = evaluator.value(admitted);
        if value.is_nan() {
            // NaN lies beyond infinity, on the side of its sign.
            let beyond_all = match function.info().order {
                Order::Similarity => value.is_sign_positive(),
                Order::Distance => value.is_sign_negative(),
            };
            let satisfied =
                if beyond_all { "only NaN satisfies" } else { "every number satisfies" };
            return Err(format!("{satisfied} it; the threshold must be a number"));
        }
        Ok(ComparisonBound {
            value,
            exact: self.extent == BoundCoverage::All && !overflows && !self.tries,
        })
    }

    /// Whether values are cast to decimals, which overflow where values are large.
    fn compares_decimals(&self) -> bool {
        let is_decimal =
            |e: &Expr| matches!(e, Expr::Cast(cast) if cast.field.data_type().is_decimal());
        // `exists` fails only when its closure does.
        self.bound.exists(|e| Ok(is_decimal(e))).unwrap_or(false)
    }
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unalias(&alias.expr),
        other => other,
    }
}

/// A function of a family under a chain of casts.
struct Scored<'a> {
    /// The chain over the column [`SCORE`]. A TRY_CAST stands in it as a CAST, whose error marks
    /// the values from which on the TRY_CAST gives NULL.
    chain: Expr,
    measured: &'a Expr,
    tries: bool,
}

/// Follows aliases and monotone casts down to the wrapped expression, or names the cast that ends
/// the search.
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
        return Err(format!("a cast to {} does not keep the order of values", field.data_type()));
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

/// The way round a threshold that follows the lengths of the texts.
fn relative_to_lengths(function: Function) -> &'static str {
    match function.name() {
        "levenshtein" => ", or levenshtein_similarity, which is relative to the lengths",
        _ => "",
    }
}

/// The function of a similarity of both sides that occurs in `conjunct`.
pub(crate) fn function_of_pairs(conjunct: &Expr, sides: JoinInputs<'_>) -> Option<Function> {
    let JoinInputs { left, right, families } = sides;
    let both_sides = |e: &Expr| {
        let columns = e.column_refs();
        columns.iter().any(|c| left.is_column_from_schema(c))
            && columns.iter().any(|c| right.is_column_from_schema(c))
    };
    let mut found = None;
    let searched = conjunct.apply(|e| {
        found = similarity_call(e, families).filter(|_| both_sides(e)).map(|call| call.0);
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    // `apply` fails only when its closure does.
    searched.ok().and(found)
}

/// `Declined(reason)` if a similarity of both sides occurs in `conjunct`, else `Other`.
fn about_pairs(conjunct: &Expr, sides: JoinInputs<'_>, reason: &str) -> ConjunctShape {
    match function_of_pairs(conjunct, sides) {
        Some(_) => ConjunctShape::Declined(reason.to_string()),
        None => ConjunctShape::Other,
    }
}

/// The reason for a similarity that is not directly compared.
fn nested(conjunct: &Expr, sides: JoinInputs<'_>) -> ConjunctShape {
    let Some(function) = function_of_pairs(conjunct, sides) else { return ConjunctShape::Other };
    let (value, operators) = match function.info().order {
        Order::Similarity => ("similarity", ">=, >, ="),
        Order::Distance => ("distance", "<=, <, ="),
    };
    ConjunctShape::Declined(format!(
        "the {value} must be compared by {operators}, or BETWEEN with a constant"
    ))
}
