//! The conjuncts of a join, and the bounds that can drive it.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, ExprSchemable, Join};

use super::context::Context;
use super::marker::unwrap;
use super::necessary::{Condition, WEAK, numbers_alone};
use super::predicate::{Comparison, ComparisonBound, ConjunctShape, is_compared};
use super::rest::never;
use crate::plan::numbers::is_number;
use crate::spec::{NanScore, Order, Predicate};

/// The conjuncts of a join.
pub(super) struct Conjuncts {
    /// The conjuncts as they are evaluated, with blocking keys that follow from others.
    pub all: Vec<Expr>,
    /// The bounds that can drive the operator.
    pub candidates: Vec<Candidate>,
    /// The positions of conjuncts of several similarities from which no single bound follows.
    pub others: Vec<usize>,
    /// Why similarities cannot drive the operator.
    pub reasons: Vec<String>,
    /// The numbers of the SIMJOINs whose they are.
    pub joins: Vec<i64>,
}

/// A conjunct that can drive the operator.
pub(super) struct Candidate {
    /// Its position among the conjuncts.
    pub position: usize,
    /// The call as it stands there.
    pub measured: Expr,
    pub arguments: [Expr; 2],
    pub predicate: Predicate,
    /// [`ComparisonBound::exact`].
    pub is_exact: bool,
    /// Whether the conjunct has more parts than this comparison.
    pub is_derived: bool,
}

impl Candidate {
    /// Whether two conjuncts bound one function of the same arguments.
    pub(super) fn bounds_the_same(&self, other: &Self) -> bool {
        self.predicate.call.function == other.predicate.call.function
            && self.arguments == other.arguments
    }

    /// Whether the comparison follows from a conjunct of more parts, and leaves out few pairs.
    pub(super) fn is_weak(&self) -> bool {
        let Predicate { call, bound, .. } = self.predicate;
        let is_share = call.function.extremes() == [0.0, 1.0];
        self.is_derived && !self.is_exact && is_share && bound < WEAK
    }

    /// The comparison where it follows from a conjunct of more parts, for EXPLAIN.
    pub(super) fn derivation(&self) -> Option<String> {
        let op = match self.predicate.call.function.info().order {
            Order::Similarity => ">=",
            Order::Distance => "<=",
        };
        let Self { measured, predicate, .. } = self;
        self.is_derived.then(|| format!("{measured} {op} {} follows", predicate.bound))
    }

    /// The condition that the value is a number, where [a NaN is as NULL](NanScore::Null) and the conjunct does not
    /// see to it.
    pub(super) fn without_nan(&self) -> Option<Expr> {
        let is_asked = self.predicate.nan == NanScore::Null && !self.is_derived;
        is_asked.then(|| is_number(self.measured.clone()))
    }
}

impl Conjuncts {
    /// Reads the filter of a join, whose conjunct `covered` drives nothing.
    ///
    /// # Errors
    ///
    /// When a condition cannot be built.
    pub(super) fn read(
        join: &Join,
        filter: &Expr,
        covered: Option<&Expr>,
        context: Context<'_>,
    ) -> Result<Self> {
        let (all, candidates, others) = (vec![], vec![], vec![]);
        let mut this = Self { all, candidates, others, reasons: vec![], joins: vec![] };
        for conjunct in split_conjunction(filter) {
            let wrapped = unwrap(conjunct);
            this.joins.extend(wrapped.as_ref().map(|w| w.join));
            let measured = wrapped.as_ref().map(|w| w.measured);
            // BETWEEN arrives as two comparisons inside one wrapper.
            for inner in split_conjunction(wrapped.as_ref().map_or(conjunct, |w| w.conjunct)) {
                let keys = match covered == Some(inner) {
                    true => vec![],
                    false => this.add(join, inner, measured, context),
                };
                match (inner, measured) {
                    // Every pair satisfies it.
                    (Expr::Literal(ScalarValue::Boolean(Some(true)), _), Some(_)) => {}
                    // For EXPLAIN, which should name the measure.
                    (Expr::Literal(..), Some(measured)) => {
                        let schema = join.left.schema().join(join.right.schema())?;
                        // The constant that it is compared with has this type.
                        let number = measured.clone().cast_to(&DataType::Float64, &schema)?;
                        this.all.push(never(&number, context.families));
                    }
                    (inner, Some(_)) => this.all.push(numbers_alone(inner, context.families)?),
                    _ => this.all.push(inner.clone()),
                }
                this.all.extend(keys);
            }
        }
        Ok(this)
    }

    /// Whether no conjunct is a similarity of both sides.
    pub(super) fn has_no_similarity(&self) -> bool {
        self.candidates.is_empty() && self.reasons.is_empty()
    }

    /// Adds what a conjunct can drive, and returns the blocking keys that follow from it.
    fn add(
        &mut self,
        join: &Join,
        conjunct: &Expr,
        measured: Option<&Expr>,
        context: Context<'_>,
    ) -> Vec<Expr> {
        let position = self.all.len();
        let reason = match Self::candidate(context, join, conjunct, position, measured) {
            Some(Ok(candidate)) => {
                self.candidates.push(candidate);
                return vec![];
            }
            Some(Err(reason)) => reason,
            None => return vec![],
        };
        let insists = measured.is_some();
        let condition = context.condition(join, conjunct, insists);
        let why = match condition.as_ref().map(Condition::necessary) {
            Some(Ok(found)) => {
                let derived = Self::derived(found, position);
                self.candidates.extend(derived);
                None
            }
            Some(Err(why)) if !is_compared(conjunct, context.families) => {
                self.others.push(position);
                Some(why)
            }
            _ => Some(reason),
        };
        self.reasons.extend(why.map(|why| format!("{}: {why}", shortened(conjunct))));
        condition.iter().flat_map(Condition::keys).collect()
    }

    /// `conjunct` as a bound that can drive the operator: `None` if it is no similarity of both
    /// sides, the reason if it is one that cannot. `measured` is the measure of a SIMJOIN's
    /// conjunct, which may itself have been folded to a constant.
    fn candidate(
        context: Context<'_>,
        join: &Join,
        conjunct: &Expr,
        position: usize,
        measured: Option<&Expr>,
    ) -> Option<Result<Candidate, String>> {
        let folded;
        let (conjunct, constant) = match (conjunct, measured) {
            (Expr::Literal(value, _), Some(measured)) => {
                // Any comparison gives the shape; the constant gives the threshold.
                folded = never(measured, context.families);
                (&folded, Some(value))
            }
            _ => (conjunct, None),
        };
        match Comparison::find(conjunct, context.sides(join)) {
            ConjunctShape::Other => None,
            ConjunctShape::Declined(reason) => Some(Err(reason)),
            ConjunctShape::Comparison(found) => {
                let threshold = match constant {
                    Some(ScalarValue::Boolean(Some(true))) => {
                        Err("it is always true, so every pair satisfies it".to_string())
                    }
                    Some(_) => Ok(ComparisonBound { value: f64::NAN, exact: true }),
                    None => found.reduce(context.constants),
                };
                Some(threshold.map(|ComparisonBound { value: bound, exact }| {
                    let predicate = Predicate::new(found.call, bound);
                    Candidate {
                        position,
                        measured: found.measured,
                        arguments: found.arguments,
                        // SIMJOIN insists on the conjunct.
                        predicate: match measured {
                            Some(_) => predicate.without_nan(),
                            None => predicate,
                        },
                        is_exact: exact,
                        is_derived: false,
                    }
                }))
            }
        }
    }

    /// The bounds that follow from the conjunct at a position.
    fn derived(
        found: Vec<(Comparison, ComparisonBound)>,
        position: usize,
    ) -> impl Iterator<Item = Candidate> {
        found.into_iter().map(move |(found, bound)| {
            // The condition refuses a NaN, by which nothing would follow.
            let predicate = Predicate::new(found.call, bound.value).without_nan();
            Candidate {
                position,
                measured: found.measured,
                arguments: found.arguments,
                predicate,
                is_exact: bound.exact,
                is_derived: true,
            }
        })
    }
}

/// A condition for messages: of a long one the beginning and the end.
fn shortened(condition: &Expr) -> String {
    /// Characters that are shown of a condition, at most.
    const MOST: usize = 240;
    let text = condition.to_string();
    let count = text.chars().count();
    if count <= MOST {
        return text;
    }
    let [start, end]: [String; 2] =
        [text.chars().take(MOST / 2).collect(), text.chars().skip(count - MOST / 2).collect()];
    format!("{start} … {end}")
}
