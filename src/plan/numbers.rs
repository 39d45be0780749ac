//! Values that are numbers.

use datafusion::logical_expr::{Expr, lit};

/// Whether a floating-point value is neither NULL nor NaN: in DataFusion's order NaN lies beyond the
/// infinities, on the side of its sign.
pub(crate) fn is_number(value: Expr) -> Expr {
    value.between(lit(f64::NEG_INFINITY), lit(f64::INFINITY))
}
