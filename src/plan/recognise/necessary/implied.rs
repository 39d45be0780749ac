//! Clauses of a cover from which the whole condition follows.

use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::{Clause, Condition};
use crate::plan::recognise::predicate::{Comparison, ConjunctShape};
use crate::spec::Predicate;

impl Condition<'_> {
    /// Whether each pair that meets a clause satisfies the condition: the clause stands in an OR or in `greatest`.
    pub(in super::super) fn follows_from(&self, clause: &Clause) -> bool {
        matches!(clause, Clause::Alternative(_)) || self.holds_by(self.condition, clause)
    }

    fn holds_by(&self, condition: &Expr, clause: &Clause) -> bool {
        match condition {
            Expr::Alias(alias) => self.holds_by(&alias.expr, clause),
            Expr::IsTrue(inner) => self.holds_by(inner, clause),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                self.holds_by(left, clause) || self.holds_by(right, clause)
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                self.holds_by(left, clause) && self.holds_by(right, clause)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.swap().is_some() => {
                match (extreme(left, *op), op.swap().and_then(|op| extreme(right, op))) {
                    (Some(parts), _) => parts.iter().any(|part| {
                        let part = BinaryExpr::new(Box::new(part.clone()), *op, right.clone());
                        self.holds_by(&Expr::BinaryExpr(part), clause)
                    }),
                    (None, Some(parts)) => parts.iter().any(|part| {
                        let part = BinaryExpr::new(left.clone(), *op, Box::new(part.clone()));
                        self.holds_by(&Expr::BinaryExpr(part), clause)
                    }),
                    (None, None) => self.is_met_by(condition, clause),
                }
            }
            _ => false,
        }
    }

    /// Whether a comparison is that of a clause, or a wider one.
    fn is_met_by(&self, comparison: &Expr, clause: &Clause) -> bool {
        let bound = match clause {
            Clause::Equal(equality) => return equality.condition == *comparison,
            Clause::Bound { condition, .. } | Clause::Alternative(condition) => condition,
        };
        let read = |comparison: &Expr| match Comparison::find(comparison, self.sides) {
            ConjunctShape::Comparison(found) => {
                let bound = found.reduce(self.constants).ok()?;
                Some((Predicate::new(found.call, bound.value), bound.exact, found.arguments))
            }
            _ => None,
        };
        match (read(comparison), read(bound)) {
            (Some((wider, true, arguments)), Some((narrow, _, of_clause))) => {
                arguments == of_clause
                    && wider.call.function == narrow.call.function
                    && wider.call.first == narrow.call.first
                    && narrow.implies(&wider)
            }
            _ => false,
        }
    }
}

/// The arguments of `greatest` that is bounded from below, or of `least` that is from above: one of them within
/// the bound is enough.
fn extreme(expr: &Expr, op: Operator) -> Option<&[Expr]> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let is_enough = match func.name() {
        "greatest" => matches!(op, Operator::GtEq | Operator::Gt),
        "least" => matches!(op, Operator::LtEq | Operator::Lt),
        _ => false,
    };
    is_enough.then_some(args)
}
