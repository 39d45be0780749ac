//! Conditions of one function that its bound says all of.

use arrow::datatypes::DataType;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

use super::constants::number;
use super::parts::MeasuredCall;

/// Whether a condition compares a call with a constant, below steps that keep or reverse the order of all its
/// numbers: then the bound that follows from it is enough.
pub(super) fn is_exact(condition: &Expr, measure: &MeasuredCall) -> bool {
    // Sums of integers wrap.
    if measure.data_type != DataType::Float64 {
        return false;
    }
    match condition {
        Expr::Alias(alias) => is_exact(&alias.expr, measure),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt,
            right,
        }) => {
            (is_monotone(left, &measure.call) && is_finite(right))
                || (is_finite(left) && is_monotone(right, &measure.call))
        }
        _ => false,
    }
}

/// Whether an expression is a function of a call alone that keeps or reverses the order of numbers, and is a number
/// for each.
fn is_monotone(expr: &Expr, call: &Expr) -> bool {
    if expr == call {
        return true;
    }
    match expr {
        Expr::Alias(alias) => is_monotone(&alias.expr, call),
        Expr::Negative(inner) => is_monotone(inner, call),
        Expr::Cast(Cast { expr, field }) => {
            *field.data_type() == DataType::Float64 && is_monotone(expr, call)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Plus | Operator::Minus => {
                (is_monotone(left, call) && is_finite(right))
                    || (is_finite(left) && is_monotone(right, call))
            }
            Operator::Multiply => {
                (is_monotone(left, call) && is_factor(right))
                    || (is_factor(left) && is_monotone(right, call))
            }
            Operator::Divide => is_monotone(left, call) && is_factor(right),
            _ => false,
        },
        Expr::ScalarFunction(ScalarFunction { func, args }) => match (func.name(), args.as_slice())
        {
            ("nanvl", [value, Expr::Literal(other, _)]) => {
                other.is_null() && is_monotone(value, call)
            }
            ("round" | "floor" | "ceil" | "trunc", [value]) => is_monotone(value, call),
            _ => false,
        },
        _ => false,
    }
}

/// The value of a constant of the type of the call.
fn constant(expr: &Expr) -> Option<f64> {
    let is_double = match expr {
        Expr::Literal(value, _) => value.data_type() == DataType::Float64,
        Expr::Cast(Cast { field, .. }) => *field.data_type() == DataType::Float64,
        _ => false,
    };
    number(expr).filter(|_| is_double)
}

fn is_finite(expr: &Expr) -> bool {
    constant(expr).is_some_and(f64::is_finite)
}

/// Whether a constant makes no NaN of an infinite value.
fn is_factor(expr: &Expr) -> bool {
    constant(expr).is_some_and(f64::is_normal)
}
