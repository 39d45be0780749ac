//! Columns that nobody above a similarity join reads, above all the token lists themselves, are
//! not written by it.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::logical::SimJoinNode;

/// Drops the columns of each [`SimJoinNode`] which the projection or aggregation above it, and
/// the filters and sorts between, do not read.
pub(super) fn narrow_outputs(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| {
        if !matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let Some(input) = plan.inputs().first().copied().cloned() else {
            return Ok(Transformed::no(plan));
        };
        let exprs = plan.expressions();
        match narrow(&input, exprs.clone())? {
            // The parent's own schema is about its output, which does not change.
            Some(input) => replace_input(plan, input).map(Transformed::yes),
            None => Ok(Transformed::no(plan)),
        }
    })
    .data()
}

fn replace_input(plan: LogicalPlan, input: LogicalPlan) -> Result<LogicalPlan> {
    let mut input = Some(input);
    plan.map_children(|child| {
        Ok(match input.take() {
            Some(input) => Transformed::yes(input),
            None => Transformed::no(child),
        })
    })
    .data()
}

/// `plan` with a narrower similarity join at its bottom; `None` where there is none or nothing
/// to drop. `read` are the expressions evaluated over the output of `plan`.
fn narrow(plan: &LogicalPlan, mut read: Vec<Expr>) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) => {
            read.extend(plan.expressions());
            let [input] = plan.inputs()[..] else { return Ok(None) };
            match narrow(input, read)? {
                Some(input) => {
                    Ok(Some(plan.with_new_exprs(plan.expressions(), vec![input])?))
                }
                None => Ok(None),
            }
        }
        _ => match SimJoinNode::of(plan) {
            Some(node) => Ok(narrow_node(node, &read)?.map(SimJoinNode::into_plan)),
            None => Ok(None),
        },
    }
}

fn narrow_node(node: &SimJoinNode, read: &[Expr]) -> Result<Option<SimJoinNode>> {
    let mut used = HashSet::new();
    for expr in read {
        // A subquery may read columns of this plan in ways that `column_refs` does not see.
        for column in expr.column_refs() {
            match node.schema.maybe_index_of_column(column) {
                Some(index) => used.insert(index),
                None => return Ok(None),
            };
        }
    }
    if used.len() == node.output.len() {
        return Ok(None);
    }
    let mut kept: Vec<usize> = used.into_iter().collect();
    kept.sort_unstable();
    let fields = kept
        .iter()
        .map(|&i| {
            let (qualifier, field) = node.schema.qualified_field(i);
            (qualifier.cloned(), Arc::clone(field))
        })
        .collect();
    let mut narrowed = node.clone();
    narrowed.output = kept.iter().map(|&i| node.output[i]).collect();
    narrowed.schema =
        Arc::new(DFSchema::new_with_metadata(fields, node.schema.metadata().clone())?);
    Ok(Some(narrowed))
}
