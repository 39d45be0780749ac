//! Results of the pairs of a similarity join, without all of the pairs.
//!
//! Where the query below `connected_components` is a similarity join with one column of each side, the
//! join gives out rows that connect what all of its rows connect.
//!
//! Below `representatives`, of rows with equal arguments only the first one in the order of the nodes can be
//! kept. Where it is kept, it is a partner of the others. Where it is dropped, the kept partner that drops
//! it stands before the others, too, and is their partner. So the join of a table with itself gives out
//! only the pairs whose lesser node is such a first row.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Extension, JoinType, LogicalPlan, Operator};

use super::{PairFunction, PairsNode};
use crate::plan::logical::SetSimilarityJoin;
use crate::spec::{Need, OutputColumn, Side};

/// Tells similarity joins below functions of pairs which of their pairs these functions need.
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
    let input = match pairs.function() {
        PairFunction::ConnectedComponents { thresholds, .. } if thresholds.is_empty() => {
            needing(pairs.input(), [0, 1], Need::Connections)?
        }
        PairFunction::Representatives { .. } => first_pairs(pairs.input())?,
        _ => None,
    };
    let node =
        input.map(|input| PairsNode::try_new(pairs.function().clone(), input)).transpose()?;
    Ok(node.map(PairsNode::into_plan))
}

/// The input of `representatives` over a join that gives pairs of first rows.
fn first_pairs(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(None) };
    let Some(nodes) = projection.expr.first().and_then(compared_columns) else { return Ok(None) };
    let [Some(left), Some(right)] =
        nodes.map(|node| projection.input.schema().maybe_index_of_column(node))
    else {
        return Ok(None);
    };
    let input = needing(&projection.input, [left, right], Need::Firsts)?;
    input.map(|input| plan.with_new_exprs(projection.expr.clone(), vec![input])).transpose()
}

/// The two columns of which an expression is the greater one.
fn compared_columns(later: &Expr) -> Option<[&Column; 2]> {
    let Expr::Alias(alias) = later else { return None };
    match alias.expr.as_ref() {
        Expr::ScalarFunction(call) if call.name() == "greatest" => match call.args.as_slice() {
            [Expr::Column(left), Expr::Column(right)] => Some([left, right]),
            _ => None,
        },
        _ => None,
    }
}

/// The plan with a join that gives what is needed, where columns of the plan are those of its two sides.
fn needing(plan: &LogicalPlan, columns: [usize; 2], need: Need) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(projection) => {
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
            let input = needing(&projection.input, [left, right], need)?;
            input.map(|input| plan.with_new_exprs(projection.expr.clone(), vec![input])).transpose()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = needing(&alias.input, columns, need)?;
            input.map(|input| plan.with_new_exprs(vec![], vec![input])).transpose()
        }
        _ => {
            let Some(join) = SetSimilarityJoin::of(plan) else { return Ok(None) };
            let suffices = match need {
                Need::Connections => is_connected_by(join, columns),
                _ => has_firsts(join, columns),
            };
            if !suffices {
                return Ok(None);
            }
            let mut join = join.clone();
            join.need = need;
            Ok(Some(join.into_plan()))
        }
    }
}

/// The columns of the left and of the right input that are two columns of the rows of a join, where these
/// are pairs.
fn paired(join: &SetSimilarityJoin, columns: [usize; 2]) -> Option<[usize; 2]> {
    let [Some(&OutputColumn::Input(first, a)), Some(&OutputColumn::Input(second, b))] =
        columns.map(|column| join.output.get(column))
    else {
        return None;
    };
    let is_pairs = matches!(
        join.join_type,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
    );
    match (first, second) {
        _ if join.need != Need::Rows || !is_pairs => None,
        (Side::Left, Side::Right) => Some([a, b]),
        (Side::Right, Side::Left) => Some([b, a]),
        _ => None,
    }
}

/// Whether the rows of a join are pairs of the values of two of its columns, and any row of an item
/// that matches another connects with any row of that one.
fn is_connected_by(join: &SetSimilarityJoin, columns: [usize; 2]) -> bool {
    let Some(of_sides) = paired(join, columns) else { return false };
    if join.output.len() != 2 {
        return false;
    }
    if join.shared.is_none() {
        return join.residual.is_none();
    }
    // Of a match that holds in one order alone, the comparison decides which rows are pairs.
    let is_symmetric = join.predicate.call.function.is_symmetric();
    let decides = |residual| is_symmetric && compares(join, residual, of_sides).is_some();
    are_one(join, of_sides) && join.residual.as_ref().is_none_or(decides)
}

/// Whether two columns of the rows of a join are a column of its only input, by which the residual tells
/// the lesser row from the greater one, and rows with equal arguments are pairs.
fn has_firsts(join: &SetSimilarityJoin, columns: [usize; 2]) -> bool {
    let Some(of_sides) = paired(join, columns) else { return false };
    let tells =
        |residual| compares(join, residual, of_sides).is_some_and(|op| op != Operator::NotEq);
    are_one(join, of_sides)
        && join.residual.as_ref().is_some_and(tells)
        && join.side_filters.iter().all(Option::is_none)
        && join.predicate.call.function.info().is_reflexive
}

/// Whether both sides of a join are one input, and these are one column of it.
fn are_one(join: &SetSimilarityJoin, [left, right]: [usize; 2]) -> bool {
    let shared = join.shared.as_ref();
    shared.is_some_and(|shared| shared.columns[0].get(left) == shared.columns[1].get(right))
}

/// The comparison of the two columns, where a residual does no more than compare them.
fn compares(
    join: &SetSimilarityJoin,
    residual: &Expr,
    [left, right]: [usize; 2],
) -> Option<Operator> {
    let conjuncts = split_conjunction(residual);
    let [Expr::BinaryExpr(BinaryExpr { left: l, op, right: r })] = conjuncts.as_slice() else {
        return None;
    };
    let is_order = matches!(
        op,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq | Operator::NotEq
    );
    // -0.0 and 0.0 are two nodes, and neither is less than the other.
    let of_left = join.input(Side::Left).schema();
    if of_left.fields().get(left).is_none_or(|field| field.data_type().is_floating()) {
        return None;
    }
    let is_column = |expr: &Expr, side: Side, index: usize| match expr {
        Expr::Column(column) => {
            join.input(side).schema().maybe_index_of_column(column) == Some(index)
        }
        _ => false,
    };
    let given = is_column(l, Side::Left, left) && is_column(r, Side::Right, right);
    let exchanged = is_column(r, Side::Left, left) && is_column(l, Side::Right, right);
    (is_order && (given || exchanged)).then_some(*op)
}
