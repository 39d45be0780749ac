//! Components of the pairs of a similarity join, without the pairs.
//!
//! Where the query below `connected_components` is a similarity join with one column of each side, the
//! join gives out rows that connect what all of its rows connect.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Extension, JoinType, LogicalPlan, Operator};

use super::{PairFunction, PairsNode};
use crate::plan::logical::SetSimilarityJoin;
use crate::spec::{Need, OutputColumn, Side};

/// Tells the similarity joins of `plan` whose pairs are united that they need not give all of them.
pub(crate) fn connect_pairs(plan: LogicalPlan) -> Result<LogicalPlan> {
    let connected = plan.transform_up_with_subqueries(|plan| {
        let connected = match &plan {
            LogicalPlan::Extension(Extension { node }) => {
                node.as_any().downcast_ref::<PairsNode>().map(connect).transpose()?.flatten()
            }
            _ => None,
        };
        Ok(match connected {
            Some(plan) => Transformed::yes(plan),
            None => Transformed::no(plan),
        })
    })?;
    Ok(connected.data)
}

fn connect(pairs: &PairsNode) -> Result<Option<LogicalPlan>> {
    let PairFunction::ConnectedComponents { thresholds, .. } = pairs.function() else {
        return Ok(None);
    };
    if !thresholds.is_empty() {
        return Ok(None);
    }
    let Some(input) = connecting(pairs.input(), [0, 1])? else { return Ok(None) };
    PairsNode::try_new(pairs.function().clone(), input).map(|node| Some(node.into_plan()))
}

/// The plan with a join that gives what connects, where columns of the plan are those of its two sides.
fn connecting(plan: &LogicalPlan, columns: [usize; 2]) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(projection) if projection.expr.len() == 2 => {
            let below = |index: usize| match projection.expr.get(index).map(|e| unalias(e.clone()))
            {
                Some(Expr::Column(column)) => {
                    projection.input.schema().maybe_index_of_column(&column)
                }
                _ => None,
            };
            let (Some(left), Some(right)) = (below(columns[0]), below(columns[1])) else {
                return Ok(None);
            };
            let input = connecting(&projection.input, [left, right])?;
            input.map(|input| plan.with_new_exprs(projection.expr.clone(), vec![input])).transpose()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = connecting(&alias.input, columns)?;
            input.map(|input| plan.with_new_exprs(vec![], vec![input])).transpose()
        }
        _ => {
            let Some(join) = SetSimilarityJoin::of(plan) else { return Ok(None) };
            if !is_connected_by(join, columns) {
                return Ok(None);
            }
            let mut join = join.clone();
            join.need = Need::Connections;
            Ok(Some(join.into_plan()))
        }
    }
}

/// Whether the rows of a join are pairs of the values of two of its columns, and any row of an item
/// that matches another connects with any row of that one.
fn is_connected_by(join: &SetSimilarityJoin, columns: [usize; 2]) -> bool {
    let [Some(&OutputColumn::Input(first, a)), Some(&OutputColumn::Input(second, b))] =
        columns.map(|column| join.output.get(column))
    else {
        return false;
    };
    let (left, right) = match (first, second) {
        (Side::Left, Side::Right) => (a, b),
        (Side::Right, Side::Left) => (b, a),
        _ => return false,
    };
    let is_pairs = matches!(
        join.join_type,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
    );
    if join.need != Need::Rows || !is_pairs || join.output.len() != 2 {
        return false;
    }
    let Some(shared) = &join.shared else { return join.residual.is_none() };
    let is_one = shared.columns[0].get(left) == shared.columns[1].get(right);
    // Of a match that holds in one order alone, the comparison decides which rows are pairs.
    let is_symmetric = join.predicate.call.function.is_symmetric();
    let decides = |residual| is_symmetric && compares(join, residual, [left, right]);
    is_one && join.residual.as_ref().is_none_or(decides)
}

/// Whether a residual does no more than compare the two columns.
fn compares(join: &SetSimilarityJoin, residual: &Expr, [left, right]: [usize; 2]) -> bool {
    let conjuncts = split_conjunction(residual);
    let [Expr::BinaryExpr(BinaryExpr { left: l, op, right: r })] = conjuncts.as_slice() else {
        return false;
    };
    let is_order = matches!(
        op,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq | Operator::NotEq
    );
    let is_column = |expr: &Expr, side: Side, index: usize| match expr {
        Expr::Column(column) => {
            join.input(side).schema().maybe_index_of_column(column) == Some(index)
        }
        _ => false,
    };
    let given = is_column(l, Side::Left, left) && is_column(r, Side::Right, right);
    let exchanged = is_column(r, Side::Left, left) && is_column(l, Side::Right, right);
    is_order && (given || exchanged)
}
