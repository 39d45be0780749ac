//! The best pairs of a join are found without making the others.
//!
//! `ORDER BY score DESC LIMIT k` above a similarity join needs the pairs whose score is that of the k-th
//! at least. The pass tells the join so, and changes nothing else: the sort above keeps its keys, and
//! decides among pairs of equal scores. A filter of `rank()` or `row_number()` within groups of left rows
//! needs of each left row the pairs whose score is that of its k-th at least: a pair that ranks among the
//! first k of a group does so among those of its own row. The window and the filter stay above.
//!
//! ```text
//! Sort: score DESC, a.id, fetch=k              Sort: score DESC, a.id, fetch=k
//!   Projection: a.id, __simjoin_… AS score ──►   Projection: a.id, __simjoin_… AS score
//!     SetSimilarityJoin                            SetSimilarityJoin, the k best
//! ```
//!
//! Between the two may be what keeps all rows: projections and aliases.

use std::num::NonZeroUsize;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Sort};

use crate::plan::logical::SetSimilarityJoin;
use crate::plan::rewrite::ranked::{Ranked, ranked_below};
use crate::plan::rewrite::score_push::with_input;
use crate::spec::{BestPairs, Need, Order, OutputColumn, Side};

/// The most pairs that are found by raising bounds.
const MOST_PAIRS: usize = 1 << 20;

/// Tells the similarity joins below sorts by their score with a limit to give the best pairs, wherever
/// in `plan` they are.
pub(crate) fn limit_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let limited = plan.transform_up_with_subqueries(|plan| {
        let limited = match &plan {
            LogicalPlan::Sort(sort) => limit_below(sort)?,
            LogicalPlan::Filter(filter) => limit_ranked(filter)?,
            _ => None,
        };
        Ok(match limited {
            Some(input) => Transformed::yes(with_input(&plan, input)?),
            None => Transformed::no(plan),
        })
    })?;
    Ok(limited.data)
}

/// The input of a sort with its join told.
fn limit_below(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let (Some(count), Some(first)) = (sort.fetch.and_then(NonZeroUsize::new), sort.expr.first())
    else {
        return Ok(None);
    };
    if count.get() > MOST_PAIRS {
        return Ok(None);
    }
    let Some(index) = index_of(&first.expr, &sort.input) else { return Ok(None) };
    let order = if first.asc { Order::Distance } else { Order::Similarity };
    let best = BestPairs { count, any_tie: sort.expr.len() == 1, of_each_row: false };
    limit(&sort.input, index, &[], order, best)
}

/// The input of a filter of ranks with its join told.
fn limit_ranked(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let Some(ranked) = ranked_below(filter) else { return Ok(None) };
    let Ranked { window, count, score, is_ascending, groups } = ranked;
    if count.get() > MOST_PAIRS {
        return Ok(None);
    }
    let columns = groups.iter().flat_map(Expr::column_refs);
    let groups = columns.map(|column| window.input.schema().maybe_index_of_column(column));
    let (Some(index), Some(groups)) = (index_of(score, &window.input), groups.collect()) else {
        return Ok(None);
    };
    let groups: Vec<usize> = groups;
    let order = if is_ascending { Order::Distance } else { Order::Similarity };
    let best = BestPairs { count, any_tie: false, of_each_row: true };
    let Some(input) = limit(&window.input, index, &groups, order, best)? else { return Ok(None) };
    let window = with_input(&LogicalPlan::Window(window.clone()), input)?;
    ranked_input(&filter.input, window).map(Some)
}

/// `plan` with `window` in place of the window below.
fn ranked_input(plan: &LogicalPlan, window: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Window(_) => Ok(window),
        other => with_input(other, ranked_input(other.inputs()[0], window)?),
    }
}

/// The column of `plan` that `expr` is.
fn index_of(expr: &Expr, plan: &LogicalPlan) -> Option<usize> {
    match unalias(expr.clone()) {
        Expr::Column(column) => plan.schema().maybe_index_of_column(&column),
        _ => None,
    }
}

/// `plan` with the join below told, if its column of number `index` is the score of that join, of which
/// the values that are better come first in `order`, and its columns `groups` are read from left rows.
fn limit(
    plan: &LogicalPlan,
    index: usize,
    groups: &[usize],
    order: Order,
    best: BestPairs,
) -> Result<Option<LogicalPlan>> {
    if let Some(node) = SetSimilarityJoin::of(plan) {
        return Ok(limited(node, index, groups, order, best));
    }
    let (input, index, groups) = match plan {
        LogicalPlan::Projection(projection) => {
            let input = &projection.input;
            let of_group = |index: &usize| {
                let expr = &projection.expr[*index];
                let columns = expr.column_refs().into_iter();
                let below = columns.map(|column| input.schema().maybe_index_of_column(column));
                below.collect::<Option<Vec<_>>>().filter(|_| !expr.is_volatile())
            };
            let groups: Option<Vec<_>> = groups.iter().map(of_group).collect();
            (input, index_of(&projection.expr[index], input), groups.map(|groups| groups.concat()))
        }
        LogicalPlan::SubqueryAlias(alias) => (&alias.input, Some(index), Some(groups.to_vec())),
        _ => return Ok(None),
    };
    let (Some(index), Some(groups)) = (index, groups) else { return Ok(None) };
    match limit(input, index, &groups, order, best)? {
        Some(input) => with_input(plan, input).map(Some),
        None => Ok(None),
    }
}

fn limited(
    node: &SetSimilarityJoin,
    index: usize,
    groups: &[usize],
    order: Order,
    best: BestPairs,
) -> Option<LogicalPlan> {
    let call = node.predicate.call;
    let conditions = node.on.iter().flat_map(|(left, right)| [left, right]);
    let conditions = conditions.chain(node.side_filters.iter().flatten()).chain(&node.residual);
    // A pair may be looked at several times.
    let is_volatile = node.arguments.iter().chain(conditions).any(Expr::is_volatile);
    let is_left =
        |index: &usize| matches!(node.output.get(*index), Some(OutputColumn::Input(Side::Left, _)));
    let serves = node.need == Need::Rows
        && groups.iter().all(is_left)
        && node.join_type == JoinType::Inner
        && node.output.get(index) == Some(&OutputColumn::Score(call))
        && call.function.info().order == order
        && !node.predicate.bound.is_nan()
        && !is_volatile;
    serves.then(|| SetSimilarityJoin { need: Need::Best(best), ..node.clone() }.into_plan())
}
