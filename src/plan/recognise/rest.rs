//! The parts of a join besides its driving predicate: keys, filters of a side, the rest of the condition,
//! and the output.

use datafusion::common::{JoinType, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::utils::{can_hash, conjunction, find_valid_equijoin_key_pair};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, Operator, binary_expr};

use super::predicate::{side_of, similarity_call};
use crate::families::Families;
use crate::spec::{Order, OutputColumn, Side};

/// A comparison of `measured` that no pair satisfies, for a conjunct folded to false or NULL.
pub(super) fn never(measured: &Expr, families: &Families) -> Expr {
    let null = Expr::Literal(ScalarValue::Float64(None), None);
    match similarity_call(measured, families).map(|(function, ..)| function.info().order) {
        Some(Order::Distance) => measured.clone().lt_eq(null),
        _ => measured.clone().gt_eq(null),
    }
}

/// All columns of the join's output, in order.
pub(crate) fn output_of(join: &Join) -> Vec<OutputColumn> {
    let columns = |side| {
        let plan = if side == Side::Left { &join.left } else { &join.right };
        (0..plan.schema().fields().len()).map(move |i| OutputColumn::Input(side, i))
    };
    match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => columns(Side::Left).collect(),
        JoinType::RightSemi | JoinType::RightAnti => columns(Side::Right).collect(),
        _ => columns(Side::Left).chain(columns(Side::Right)).collect(),
    }
}

/// The condition besides the driving predicate.
pub(crate) struct OtherConditions {
    pub on: Vec<(Expr, Expr)>,
    pub side_filters: [Option<Expr>; 2],
    pub residual: Option<Expr>,
}

impl OtherConditions {
    /// Sorts `conjuncts` by the sides that they read, or says why the operator cannot run with one.
    ///
    /// A volatile conjunct is evaluated for each pair of rows, as a nested loop does: a blocking
    /// key would be drawn once for a row that a self-join reads for both sides, and anew by each
    /// task that reads it on a cluster.
    pub(super) fn split(
        join: &Join,
        conjuncts: impl Iterator<Item = Expr>,
    ) -> Result<Result<Self, String>> {
        let (left, right) = (join.left.schema(), join.right.schema());
        let is_volatile = |(left, right): &&(Expr, Expr)| left.is_volatile() || right.is_volatile();
        let (volatile, on): (Vec<_>, Vec<_>) = join.on.iter().partition(is_volatile);
        let mut on: Vec<(Expr, Expr)> = on.into_iter().cloned().collect();
        let mut side_filters: [Option<Expr>; 2] = [None, None];
        let operator = match join.null_equality {
            NullEquality::NullEqualsNothing => Operator::Eq,
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        };
        let equal =
            |(left, right): &(Expr, Expr)| binary_expr(left.clone(), operator, right.clone());
        let mut residual: Vec<Expr> = volatile.into_iter().map(equal).collect();
        for conjunct in conjuncts {
            if conjunct.contains_outer() {
                return Ok(Err(format!("{conjunct} reads columns of an outer query")));
            }
            if conjunct.is_volatile() {
                residual.push(conjunct);
                continue;
            }
            if let Some(side) = side_of(&conjunct, left, right) {
                let slot = &mut side_filters[side as usize];
                *slot = conjunction(slot.take().into_iter().chain([conjunct]));
                continue;
            }
            match equality(&conjunct, join)? {
                Some(pair) => on.push(pair),
                None => residual.push(conjunct),
            }
        }
        Ok(Ok(Self { on, side_filters, residual: conjunction(residual) }))
    }
}

/// `conjunct` as an equality of a left and a right expression.
///
/// The optimizer has moved most of them to the join's `on` already; equalities that it pushed into
/// the condition later are still here.
pub(super) fn equality(conjunct: &Expr, join: &Join) -> Result<Option<(Expr, Expr)>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct else {
        return Ok(None);
    };
    if join.null_equality != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let schemas = (join.left.schema(), join.right.schema());
    let Some((l, r)) = find_valid_equijoin_key_pair(left, right, schemas.0, schemas.1)? else {
        return Ok(None);
    };
    let (left_type, right_type) = (l.get_type(schemas.0)?, r.get_type(schemas.1)?);
    Ok((left_type == right_type && can_hash(&left_type)).then_some((l, r)))
}
