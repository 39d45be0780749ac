//! Rounds of a search for the best pairs by a score of several functions: drivers for ever worse scores.
//!
//! All pairs whose score is within the threshold of a round meet one of its drivers, which follow from the comparison of
//! the score with the threshold as from any other condition. The thresholds are shares of the way from the best score to
//! the score of rows that are alike in nothing.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, lit};

use super::best_case::{BestCase, Given};
use super::parts::Equality;
use super::{Clause, Condition, WEAK, cover, strong_cover};
use crate::plan::recognise::predicate::{
    Comparison, ConjunctShape, Constants, JoinInputs, similarity_call, value_of,
};
use crate::spec::{Function, Order, Predicate};

/// A step of the search.
#[derive(Debug)]
pub(crate) struct ScoreRound {
    /// The worst score of the pairs that the drivers find without exception; `None` where they find all candidates.
    pub threshold: Option<f64>,
    pub drivers: Vec<Driver>,
}

/// A condition by which a round finds pairs.
#[derive(Debug)]
pub(crate) struct Driver {
    pub by: DrivenBy,
    /// The condition that no driver before it in the round has found the pair.
    pub unmet: Option<Expr>,
}

/// The part of a score that drives.
#[derive(Debug)]
pub(crate) enum DrivenBy {
    /// A bound of a function.
    Bound {
        comparison: Box<Comparison>,
        predicate: Predicate,
        /// The best score that a pair may have, over the value of the function as the column
        /// [`SCORE`](crate::plan::recognise::predicate::SCORE).
        best: Option<Expr>,
    },
    /// An equality of the sides.
    Equality(Box<Equality>),
}

/// A score by which pairs are ranked.
#[derive(Clone, Copy)]
pub(crate) struct RankedScore<'a> {
    pub score: &'a Expr,
    pub data_type: &'a DataType,
    pub order: Order,
    pub sides: JoinInputs<'a>,
    pub constants: Constants<'a>,
    /// Whether a NaN stands for NULL.
    pub nan_is_null: bool,
}

/// The shares of the way from the best score to that of rows that are alike in nothing, at which thresholds lie.
const SHARES: [f64; 7] = [0.08, 0.2, 0.35, 0.5, 0.65, 0.8, 0.92];

/// The differences from the best score at which thresholds lie where there is no end of the way.
const DIFFERENCES: [f64; 8] = [0.015625, 0.0625, 0.25, 1.0, 4.0, 8.0, 16.0, 32.0];

impl RankedScore<'_> {
    /// The rounds of a search, those with the best scores first. The last one finds all candidates where a conjunct of
    /// their condition can drive.
    ///
    /// # Errors
    ///
    /// The reason why there are none.
    pub(crate) fn rounds(self, conjuncts: &[&Expr]) -> Result<Vec<ScoreRound>, String> {
        let mut rounds = vec![];
        let mut reason = None;
        match self.thresholds() {
            Ok(thresholds) => {
                for threshold in thresholds {
                    match self.within(threshold) {
                        Ok(drivers) => {
                            rounds.push(ScoreRound { threshold: Some(threshold), drivers });
                        }
                        Err(why) => {
                            reason = Some(why);
                            break;
                        }
                    }
                }
            }
            Err(why) => reason = Some(why),
        }
        // A NaN is as NULL in the score alone.
        let candidates = Self { nan_is_null: false, ..self };
        let all = conjuncts.iter().find_map(|conjunct| candidates.drivers(conjunct).ok());
        rounds.extend(all.map(|drivers| ScoreRound { threshold: None, drivers }));
        match (rounds.is_empty(), reason) {
            (true, Some(reason)) => Err(reason),
            (true, None) => Err("no bound follows from it".to_string()),
            (false, _) => Ok(rounds),
        }
    }

    /// The columns that are arguments of functions without which there is no score. Where one of them is NULL, so is the
    /// score.
    pub(crate) fn strict_columns(self) -> Vec<Expr> {
        let Ok(condition) = self.condition(self.score) else { return vec![] };
        let measures = condition.parts.measures.iter();
        let strict = measures.filter(|measure| is_strict(self.score, &measure.call));
        let arguments =
            strict.filter_map(|measure| similarity_call(&measure.call, self.sides.families));
        let arguments = arguments.flat_map(|(_, first, second)| [first, second]);
        let mut columns: Vec<Expr> = vec![];
        for argument in arguments {
            if matches!(argument, Expr::Column(_)) && !columns.contains(argument) {
                columns.push(argument.clone());
            }
        }
        columns
    }

    fn condition<'c>(&'c self, condition: &'c Expr) -> Result<Condition<'c>, String> {
        let found = Condition::read(condition, self.sides, self.constants, self.nan_is_null);
        found.ok_or_else(|| format!("{condition} has no function of both sides"))
    }

    fn thresholds(&self) -> Result<Vec<f64>, String> {
        let is_integer = match self.data_type {
            DataType::Float64 => false,
            DataType::Int32 | DataType::Int64 => true,
            other => return Err(format!("it is of type {other}; cast it to DOUBLE")),
        };
        let condition = self.condition(self.score)?;
        let end = |case: BestCase<'_>| -> Result<f64, String> {
            let best = case.best(self.score, self.order)?;
            Ok(value_of(&best, self.constants).unwrap_or(f64::NAN))
        };
        let [mut similar, mut dissimilar] = [condition.best_case(), condition.best_case()];
        for (place, measure) in condition.parts.measures.iter().enumerate() {
            let [least, most] = ends(measure.function);
            similar.given[place] = Given::AtMost(most);
            dissimilar.given[place] = Given::AtMost(least);
        }
        dissimilar.is_unmet.fill(true);
        let [best, worst] = [end(similar)?, end(dissimilar)?];
        if !best.is_finite() {
            return Err("it has no best value".to_string());
        }
        let sign = if self.order == Order::Similarity { -1.0 } else { 1.0 };
        let range = (worst - best).abs();
        let mut thresholds: Vec<f64> = match range.is_finite() && range < f64::from(i32::MAX) {
            true => SHARES.iter().map(|share| best + sign * share * range).collect(),
            false => DIFFERENCES.iter().map(|difference| best + sign * difference).collect(),
        };
        if is_integer {
            thresholds.iter_mut().for_each(|threshold| *threshold = threshold.round());
        }
        thresholds.dedup();
        Ok(thresholds)
    }

    /// Drivers that find all pairs within a threshold.
    fn within(&self, threshold: f64) -> Result<Vec<Driver>, String> {
        let op = match self.order {
            Order::Similarity => Operator::GtEq,
            Order::Distance => Operator::LtEq,
        };
        let threshold = ScalarValue::Float64(Some(threshold)).cast_to(self.data_type);
        let threshold = threshold.map_err(|error| error.strip_backtrace())?;
        let (score, threshold) = (Box::new(self.score.clone()), Box::new(lit(threshold)));
        self.drivers(&Expr::BinaryExpr(BinaryExpr::new(score, op, threshold)))
    }

    /// Drivers that find all pairs that satisfy a condition.
    fn drivers(&self, condition: &Expr) -> Result<Vec<Driver>, String> {
        let condition = self.condition(condition)?;
        let narrowest = condition.necessary().map(|found| {
            let found = found.into_iter().map(|(comparison, bound)| {
                // The condition refuses a NaN, by which nothing would follow.
                let predicate = Predicate::new(comparison.call, bound.value).without_nan();
                (comparison, predicate)
            });
            found.max_by(|(_, a), (_, b)| self.selectivity(a).total_cmp(&self.selectivity(b)))
        });
        let clauses = match narrowest {
            Ok(Some((comparison, predicate))) => {
                let is_share = comparison.call.function.extremes() == [0.0, 1.0];
                let clauses = match is_share && predicate.bound < WEAK {
                    true => strong_cover(&condition),
                    false => None,
                };
                let Some(clauses) = clauses else {
                    let best = self.best(&comparison.measured);
                    let by = DrivenBy::Bound { comparison: Box::new(comparison), predicate, best };
                    return Ok(vec![Driver { by, unmet: None }]);
                };
                clauses
            }
            Ok(None) | Err(_) => cover(&condition)?,
        };
        let mut drivers: Vec<Driver> = vec![];
        let mut unmet: Option<Expr> = None;
        for clause in clauses {
            let not_met = clause.condition().clone().is_not_true();
            drivers.push(Driver { by: self.driven_by(clause)?, unmet: unmet.clone() });
            unmet = Some(match unmet {
                Some(others) => others.and(not_met),
                None => not_met,
            });
        }
        Ok(drivers)
    }

    fn driven_by(&self, clause: Clause) -> Result<DrivenBy, String> {
        let condition = match clause {
            Clause::Bound { condition, .. } => condition,
            Clause::Equal(equality) => return Ok(DrivenBy::Equality(equality)),
            Clause::Alternative(_) => return Err("it is an OR".to_string()),
        };
        let ConjunctShape::Comparison(comparison) = Comparison::find(&condition, self.sides) else {
            return Err(format!("{condition} is no comparison"));
        };
        let bound = comparison.reduce(self.constants)?.value;
        let predicate = Predicate::new(comparison.call, bound);
        let best = self.best(&comparison.measured);
        Ok(DrivenBy::Bound { comparison, predicate, best })
    }

    /// The best score of a pair by the value of a call.
    fn best(&self, call: &Expr) -> Option<Expr> {
        let condition = self.condition(self.score).ok()?;
        let place = condition.parts.measure(call)?;
        let mut case = condition.best_case();
        case.given[place] = Given::Score;
        case.best(self.score, self.order).ok()
    }

    /// The share of the pairs that a bound leaves out, as a rank.
    fn selectivity(&self, predicate: &Predicate) -> f64 {
        let family = self.sides.families.get(predicate.family());
        family.map_or(f64::NEG_INFINITY, |family| family.selectivity(predicate)[0])
    }
}

/// The value of a function for values that are not similar, and for those that are most similar: an end that it lacks
/// is that of vectors of length 1. They decide how far rounds lie from each other, and nothing else.
fn ends(function: Function) -> [f64; 2] {
    let of_units = match function.info().order {
        Order::Similarity => [0.0, 1.0],
        Order::Distance => [2.0, 0.0],
    };
    let ends = function.extremes();
    [0, 1].map(|end| if ends[end].is_nan() { of_units[end] } else { ends[end] })
}

/// Whether an expression is NULL wherever a call in it is, by its form.
fn is_strict(expr: &Expr, call: &Expr) -> bool {
    if expr == call {
        return true;
    }
    match expr {
        Expr::Alias(alias) => is_strict(&alias.expr, call),
        Expr::Negative(inner) | Expr::Cast(Cast { expr: inner, .. }) => is_strict(inner, call),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            use Operator::{Divide, Minus, Multiply, Plus};
            matches!(op, Plus | Minus | Multiply | Divide)
                && (is_strict(left, call) || is_strict(right, call))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let is_strict_function =
                matches!(func.name(), "round" | "trunc" | "floor" | "ceil" | "sqrt" | "nanvl");
            is_strict_function && args.first().is_some_and(|arg| is_strict(arg, call))
        }
        _ => false,
    }
}
