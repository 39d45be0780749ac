//! Constants in conditions.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

/// The value of a constant, about.
pub(super) fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Alias(alias) => number(&alias.expr),
        Expr::Negative(inner) => number(inner).map(|number| -number),
        Expr::Cast(Cast { expr, field }) if field.data_type().is_numeric() => number(expr),
        Expr::Literal(value, _) => match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(number)) => number,
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (number(left)?, number(right)?);
            match op {
                Operator::Plus => Some(left + right),
                Operator::Minus => Some(left - right),
                Operator::Multiply => Some(left * right),
                Operator::Divide => Some(left / right),
                _ => None,
            }
        }
        _ => None,
    }
}

pub(super) fn may_be_zero(expr: &Expr) -> bool {
    number(expr).is_none_or(|number| number.abs() < f64::MIN_POSITIVE)
}

/// Whether an expression has one value for all pairs.
pub(super) fn is_constant(expr: &Expr) -> bool {
    !expr.any_column_refs()
        && !expr.is_volatile()
        && !expr.contains_outer()
        && !expr.exists(|e| Ok(is_subquery(e) || matches!(e, Expr::Placeholder(_)))).unwrap_or(true)
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
    )
}

pub(super) fn is_true(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}

pub(super) fn is_false(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Boolean(Some(false)), _))
}
