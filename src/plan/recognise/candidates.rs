//! Conditions of candidates that ask a subquery.
//!
//! DataFusion makes joins of IN and EXISTS where they stand in a filter, not in a join with nearest rows.
//! A condition that reads the right row alone, or no row, leaves right rows out of every ranking, and
//! filters them before it. One that reads the left row alone leaves a left row without candidates: an
//! inner join filters it, too.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, plan_err};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Subquery};

use crate::spec::Side;

/// The inputs of `join`, a join with nearest rows, and what of its condition is left to it.
///
/// # Errors
///
/// A plan error for a condition with a subquery that cannot be a filter of one input.
pub(super) fn candidates(
    join: &Join,
    condition: Option<Expr>,
) -> Result<([Arc<LogicalPlan>; 2], Option<Expr>)> {
    let mut filters: [Vec<Expr>; 2] = [vec![], vec![]];
    let mut conjuncts = vec![];
    for conjunct in condition.iter().flat_map(split_conjunction) {
        match needs_join(conjunct)? {
            true => filters[side_of(conjunct, join)? as usize].push(conjunct.clone()),
            false => conjuncts.push(conjunct.clone()),
        }
    }
    let [of_left, of_right] = filters;
    let inputs = [filtered(&join.left, of_left)?, filtered(&join.right, of_right)?];
    Ok((inputs, conjunction(conjuncts)))
}

fn filtered(plan: &Arc<LogicalPlan>, conjuncts: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    Ok(match conjunction(conjuncts) {
        Some(predicate) => {
            Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, Arc::clone(plan))?))
        }
        None => Arc::clone(plan),
    })
}

/// The subquery of an expression that is one.
fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::Exists(Exists { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Whether a condition has a subquery that is not a value, the same for all rows.
fn needs_join(conjunct: &Expr) -> Result<bool> {
    conjunct.exists(|expr| {
        let is_value = matches!(expr, Expr::ScalarSubquery(subquery)
            if subquery.outer_ref_columns.is_empty());
        Ok(subquery_of(expr).is_some() && !is_value)
    })
}

/// The side whose rows decide a condition; `Right` where no row does.
fn side_of(conjunct: &Expr, join: &Join) -> Result<Side> {
    let mut columns: HashSet<&Column> = HashSet::new();
    conjunct.apply(|expr| {
        if let Expr::Column(column) = expr {
            columns.insert(column);
        }
        let outer = subquery_of(expr).into_iter().flat_map(|subquery| &subquery.outer_ref_columns);
        columns.extend(outer.filter_map(|outer| match outer {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        }));
        Ok(TreeNodeRecursion::Continue)
    })?;
    let are_of = |plan: &LogicalPlan| columns.iter().all(|c| plan.schema().has_column(c));
    let is_inner = join.join_type == JoinType::Inner;
    match conjunct.is_volatile() {
        false if are_of(&join.right) => Ok(Side::Right),
        false if are_of(&join.left) && is_inner => Ok(Side::Left),
        _ => plan_err!(
            "the ON of a NEAREST clause takes a subquery only in a condition of the right table{}, \
             joined to others by AND; found {conjunct}; put the rows of the subquery into one of the \
             tables, as in FROM (SELECT … LEFT JOIN …) a SIMJOIN b",
            if is_inner { " or of the left one" } else { "" }
        ),
    }
}
