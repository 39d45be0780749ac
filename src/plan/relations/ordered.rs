//! The nodes of a pair in their order.

use datafusion::common::{DFSchema, Result};
use datafusion::functions::core::expr_fn::{greatest, least, r#struct};
use datafusion::logical_expr::{Expr, ExprSchemable, when};

/// The later node of a pair, and the earlier one; for a node alone that node, and NULL.
///
/// The order is that of a sort with NULLs first, in which 0.0 is greater than -0.0, and the NULLs inside of a list
/// or row come before other values. `greatest` and `least` have that order for all but lists and rows (each
/// takes a NULL inside for the worst), and `<>` for all but floats (0.0 is equal to -0.0).
pub(super) fn ordered(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<[Expr; 2]> {
    let node = left.get_type(schema)?;
    if !node.is_nested() && !node.is_floating() {
        let nodes = || vec![left.clone(), right.clone()];
        let is_pair = left.clone().not_eq(right.clone());
        return Ok([greatest(nodes()), when(is_pair, least(nodes())).end()?]);
    }
    // Rows compare by the order of a sort. A row with a NULL is no NULL.
    let row = |node: &Expr| r#struct(vec![node.clone()]);
    let is_pair = left.clone().is_not_null().and(right.clone().is_not_null());
    let rises = row(left).lt(row(right));
    let falls = row(left).gt(row(right));
    let is_later = left.clone().is_null().or(right.clone().is_not_null().and(rises.clone()));
    let later = when(is_later, right.clone()).otherwise(left.clone())?;
    let earlier = when(is_pair.clone().and(rises), left.clone())
        .when(is_pair.and(falls), right.clone())
        .end()?;
    Ok([later, earlier])
}
