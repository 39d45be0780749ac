//! Bounds that follow from conditions of several similarities.
//!
//! ```text
//! 0.6 * jaccard(…) + 0.4 * levenshtein_similarity(…) >= 0.85
//!        │ parts.rs: the functions of both sides, equalities of the sides
//!        ▼
//! best_case.rs: the condition over one value, with the best values of all others
//!        │ bisection, by DataFusion's evaluator
//!        ├──► jaccard(…) >= 0.75: necessary, and by exact.rs enough where nothing else is in the condition
//!        ▼ none is
//! cover.rs: bounds of some parts, one of which each answer meets
//! implied.rs: whether such a bound is enough
//! rounds.rs: both for a score that is compared with ever worse thresholds
//! ```
//!
//! A bound leaves out pairs alone that the condition refuses: the condition is evaluated for the others.

mod best_case;
mod constants;
mod cover;
mod exact;
mod implied;
mod parts;
mod rounds;
#[cfg(test)]
mod tests;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, lit, not, when};
use datafusion::prelude::ident;

use self::best_case::{BestCase, Given, score};
pub(super) use self::cover::{Clause, WEAK, cover, strong_cover};
use self::parts::Parts;
pub(crate) use self::rounds::{DrivenBy, Driver, RankedScore, ScoreRound};
use crate::families::Families;
use crate::plan::numbers::is_number;
use crate::plan::recognise::predicate::{
    Comparison, ComparisonBound, Constants, JoinInputs, SCORE, holds, is_compared,
    is_null_constant, side_of, similarity_call,
};
use crate::spec::{Order, Side};

/// A condition that is no comparison of one function.
pub(super) struct Condition<'a> {
    condition: &'a Expr,
    sides: JoinInputs<'a>,
    constants: Constants<'a>,
    /// Whether a NaN stands for NULL.
    nan_is_null: bool,
    parts: Parts,
    null_with: Vec<Vec<Expr>>,
}

impl<'a> Condition<'a> {
    /// Reads a condition; `None` where it has no function of both sides.
    pub(super) fn read(
        condition: &'a Expr,
        sides: JoinInputs<'a>,
        constants: Constants<'a>,
        nan_is_null: bool,
    ) -> Option<Self> {
        let parts = Parts::of(condition, sides).ok()?;
        if !parts.measures.iter().any(|measure| measure.is_of_pair) {
            return None;
        }
        let strict = |call: &Expr| null_with(call, sides, constants);
        let null_with = parts.measures.iter().map(|measure| strict(&measure.call)).collect();
        Some(Self { condition, sides, constants, nan_is_null, parts, null_with })
    }

    /// The case in which nothing is known of any part.
    fn best_case(&self) -> BestCase<'_> {
        let Self { parts, null_with, nan_is_null, .. } = self;
        BestCase {
            parts,
            given: vec![Given::Any; parts.measures.len()],
            is_unmet: vec![false; parts.equalities.len()],
            nan_is_null: *nan_is_null,
            null_with,
        }
    }

    /// Whether the condition may be true in a case; an error counts as true.
    fn may_hold(&self, case: &BestCase<'_>) -> bool {
        holds(&case.truth(self.condition), self.constants)
    }

    /// Whether a pair may be an answer for which a measure is NULL or, compared in DataFusion's order, NaN.
    fn admits_no_number(&self, place: usize, case: &BestCase<'_>) -> bool {
        let function = self.parts.measures[place].function;
        let mut others = vec![Given::Null];
        if function.may_be_nan() && !self.nan_is_null {
            others.extend([Given::Nan(f64::NAN.abs()), Given::Nan(-f64::NAN.abs())]);
        }
        others.into_iter().any(|given| {
            let mut case = case.clone();
            case.given[place] = given;
            self.may_hold(&case)
        })
    }

    /// The equalities of both sides that follow from the condition: blocking keys.
    pub(super) fn keys(&self) -> Vec<Expr> {
        let equalities = self.parts.equalities.iter().enumerate();
        let is_key = |place: usize| {
            let mut case = self.best_case();
            case.is_unmet[place] = true;
            !self.may_hold(&case)
        };
        let keys = equalities.filter(|(place, _)| is_key(*place));
        keys.map(|(_, equality)| equality.condition.clone()).collect()
    }

    /// The comparisons that follow from the condition with their bounds, one for each function whose value is bounded by
    /// it; or why there are none.
    pub(super) fn necessary(&self) -> Result<Vec<(Comparison, ComparisonBound)>, String> {
        self.bounds(&self.best_case())
    }

    /// The comparisons that follow where clauses of a cover are not met.
    pub(super) fn necessary_beside(&self, unmet: &[Clause]) -> Vec<Expr> {
        let mut case = self.best_case();
        for clause in unmet {
            self.leave_unmet(clause, &mut case);
        }
        let found = self.bounds(&case).unwrap_or_default();
        found.into_iter().map(|(found, bound)| self.comparison(&found, bound.value)).collect()
    }

    /// A part of the condition as one of its own.
    fn of_part<'p>(&self, part: &'p Expr) -> Option<Condition<'p>>
    where
        'a: 'p,
    {
        Condition::read(part, self.sides, self.constants, self.nan_is_null)
    }

    /// Makes a case that of the pairs that do not meet a clause.
    fn leave_unmet(&self, clause: &Clause, case: &mut BestCase<'_>) {
        match clause {
            Clause::Alternative(_) => {}
            Clause::Equal(equality) => {
                if let Some(place) = self.parts.equality(&equality.condition) {
                    case.is_unmet[place] = true;
                }
            }
            Clause::Bound { place, below, .. } => case.given[*place] = Given::AtMost(*below),
        }
    }

    /// The comparison of a function with a bound.
    fn comparison(&self, found: &Comparison, bound: f64) -> Expr {
        let measure = self.parts.measure(&found.measured).map(|place| &self.parts.measures[place]);
        let data_type = measure.map_or(DataType::Float64, |measure| measure.data_type.clone());
        let bound = lit(score(bound, &data_type));
        match found.call.function.info().order {
            Order::Similarity => found.measured.clone().gt_eq(bound),
            Order::Distance => found.measured.clone().lt_eq(bound),
        }
    }

    /// The comparisons that follow in a case, of functions of which it knows nothing.
    fn bounds(&self, base: &BestCase<'_>) -> Result<Vec<(Comparison, ComparisonBound)>, String> {
        let mut found = vec![];
        let (mut reasons, mut nulls) = (vec![], vec![]);
        for (place, measure) in self.parts.measures.iter().enumerate() {
            if !measure.is_of_pair || base.given[place] != Given::Any {
                continue;
            }
            let mut case = base.clone();
            if self.admits_no_number(place, &case) {
                nulls.push(measure.call.to_string());
                continue;
            }
            case.given[place] = Given::Score;
            let mut bound = case.truth(self.condition);
            if measure.function.may_be_nan() {
                let info = measure.function.info();
                case.given[place] = Given::AtMost(match info.order {
                    Order::Similarity => f64::NEG_INFINITY,
                    Order::Distance => f64::INFINITY,
                });
                if self.may_hold(&case) {
                    reasons.push(format!("{}: {}", measure.call, info.least_similar));
                    continue;
                }
                bound = among_numbers(bound, info.order);
            }
            let comparison =
                Comparison::necessary(&measure.call, bound, self.sides).and_then(|comparison| {
                    let bound = comparison.reduce(self.constants)?;
                    let exact = exact::is_exact(self.condition, measure);
                    Ok((comparison, ComparisonBound { exact, ..bound }))
                });
            match comparison {
                Ok(bounded) => found.push(bounded),
                Err(reason) => reasons.push(format!("{}: {reason}", measure.call)),
            }
        }
        if let [first, others @ ..] = nulls.as_slice() {
            let others = match others.len() {
                0 => String::new(),
                others => format!(", or one of {others} others,"),
            };
            reasons.insert(0, format!("pairs for which {first}{others} is NULL may satisfy it"));
        }
        match found.is_empty() {
            // Where nothing is known of a part, nothing else follows.
            true => {
                let unbounded = base.unbounded(self.condition);
                Err(unbounded.unwrap_or_else(|| reasons.join("; ")))
            }
            false => Ok(found),
        }
    }
}

/// A condition of the column [`SCORE`] that counts a NaN as what lies beyond all numbers on its side of them, as
/// nothing is to follow from it.
fn among_numbers(condition: Expr, order: Order) -> Expr {
    let is_above = |number: f64| ident(SCORE).gt(lit(number));
    let is_below = |number: f64| ident(SCORE).lt(lit(number));
    let [is_similar, is_far] = match order {
        Order::Similarity => [is_above(f64::INFINITY), is_below(f64::NEG_INFINITY)],
        Order::Distance => [is_below(f64::NEG_INFINITY), is_above(f64::INFINITY)],
    };
    is_similar.or(not(is_far).and(condition))
}

/// The first call of a function of both sides in a condition from which bounds may follow.
pub(super) fn call_of_pair(condition: &Expr, sides: JoinInputs<'_>) -> Option<Expr> {
    let measures = Parts::of(condition, sides).ok()?.measures;
    measures.into_iter().find(|measure| measure.is_of_pair).map(|measure| measure.call)
}

/// A condition of SIMJOIN, in which a NaN is as NULL.
///
/// # Errors
///
/// When an expression cannot be built.
pub(super) fn numbers_alone(condition: &Expr, families: &Families) -> Result<Expr> {
    if is_compared(condition, families) {
        return Ok(condition.clone());
    }
    let number = |expr: Expr| match similarity_call(&expr, families) {
        Some((function, ..)) if function.may_be_nan() => {
            let number = when(is_number(expr.clone()), expr).end()?;
            Ok(Transformed::new(number, true, TreeNodeRecursion::Jump))
        }
        _ => Ok(Transformed::no(expr)),
    };
    condition.clone().transform_down(number).data()
}

/// The arguments of a call and the columns in them, as far as each is NULL only where the call is.
fn null_with(call: &Expr, sides: JoinInputs<'_>, constants: Constants<'_>) -> Vec<Expr> {
    let Some((_, first, second)) = similarity_call(call, sides.families) else { return vec![] };
    let mut found = vec![];
    for argument in [first, second] {
        found.push(argument.clone());
        let schema = match side_of(argument, sides.left, sides.right) {
            Some(Side::Left) => sides.left,
            _ => sides.right,
        };
        for column in argument.column_refs() {
            let column = Expr::Column(column.clone());
            let Ok(data_type) = column.get_type(schema) else { continue };
            let Ok(null) = ScalarValue::try_from(&data_type) else { continue };
            let of_null = argument.clone().transform(|expr| {
                Ok(match expr == column {
                    true => Transformed::yes(Expr::Literal(null.clone(), None)),
                    false => Transformed::no(expr),
                })
            });
            if of_null.data().is_ok_and(|of_null| is_null_constant(&of_null, constants)) {
                found.push(column);
            }
        }
    }
    found
}
