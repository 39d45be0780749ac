//! Scores are taken from the match, not computed again.
//!
//! A measure over the two arguments of a similarity join, used anywhere above it, becomes a score
//! column of the join: the operator knows the overlap and both set sizes of each match. The pass
//! visits the plan from the leaves up; each node whose expressions hold such a call pushes it
//! down through the nodes between ([`push`]) and reads the column that comes back. Where the call
//! cannot reach its join it stays, and the scalar function computes it.
//!
//! An unmatched row of an outer join has the score NULL. That is what the function gives only if
//! the padded side's argument is NULL there, so `jaccard(a.x, coalesce(b.x, …))` is left alone.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection, Sort, Window};

use crate::families::Families;
use crate::plan::logical::SetSimilarityJoin;
use crate::plan::rewrite::narrow::narrow_outputs;
use crate::plan::rewrite::score_push::{Pushed, ScoreCall, push, rejoin, replace_input};
use crate::spec::Side;

/// Replaces measures over the arguments of a similarity join below by score columns of that join,
/// then drops what no node above reads any more from the joins' outputs.
///
/// The schema of every node keeps its names and types.
pub(crate) fn take_from_match(plan: LogicalPlan, families: &Families) -> Result<LogicalPlan> {
    let take = |plan| take_at(plan, families);
    narrow_outputs(plan.transform_up_with_subqueries(take)?.data)
}

/// An input of the node at hand, growing by the scores that are pushed into it.
struct ScoredInput<'a> {
    plan: Arc<LogicalPlan>,
    families: &'a Families,
    changed: bool,
}

impl<'a> ScoredInput<'a> {
    fn new(plan: &Arc<LogicalPlan>, families: &'a Families) -> Self {
        Self { plan: Arc::clone(plan), families, changed: false }
    }

    /// Pushes `call` into the input; its score is to stand beside the columns of `others`.
    fn push(&mut self, call: &ScoreCall, others: &[&DFSchema]) -> Result<Option<Column>> {
        if !call.is_over(self.plan.schema()) {
            return Ok(None);
        }
        let Some(pushed) = push(&self.plan, call)? else {
            return Ok(None);
        };
        let Pushed { plan, column } = pushed.beside(others)?;
        self.plan = Arc::new(plan);
        self.changed = true;
        Ok(Some(column))
    }

    fn replace(&mut self, expr: Expr) -> Result<Expr> {
        replace_calls(expr, self.families, |call| self.push(call, &[]))
    }
}

/// `expr` with each call for which `column` knows a column replaced by it.
fn replace_calls(
    expr: Expr,
    families: &Families,
    mut column: impl FnMut(&ScoreCall) -> Result<Option<Column>>,
) -> Result<Expr> {
    let replaced = expr.transform_down(|expr| {
        let Some(call) = ScoreCall::of(&expr, families)? else {
            return Ok(Transformed::no(expr));
        };
        Ok(match column(&call)? {
            Some(column) => Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump),
            None => Transformed::no(expr),
        })
    })?;
    Ok(replaced.data)
}

/// Replaces the calls in the expressions of one node.
fn take_at(plan: LogicalPlan, families: &Families) -> Result<Transformed<LogicalPlan>> {
    let taken = if let Some(node) = SetSimilarityJoin::of(&plan) {
        take_at_node(node, families)?
    } else {
        match &plan {
            LogicalPlan::Projection(projection) => {
                let mut input = ScoredInput::new(&projection.input, families);
                let exprs = replace_named(&plan, &projection.expr, &mut input)?;
                match input.changed {
                    true => Some(LogicalPlan::Projection(Projection::try_new(exprs, input.plan)?)),
                    false => None,
                }
            }
            LogicalPlan::Aggregate(aggregate) => take_at_aggregate(&plan, aggregate, families)?,
            LogicalPlan::Window(window) => {
                let mut input = ScoredInput::new(&window.input, families);
                let exprs = replace_named(&plan, &window.window_expr, &mut input)?;
                match input.changed {
                    true => {
                        let window = LogicalPlan::Window(Window::try_new(exprs, input.plan)?);
                        Some(restore_schema(window, plan.schema()))
                    }
                    false => None,
                }
            }
            LogicalPlan::Filter(filter) => {
                let mut input = ScoredInput::new(&filter.input, families);
                let predicate = input.replace(filter.predicate.clone())?;
                input.changed.then(|| {
                    let mut filter = filter.clone();
                    filter.predicate = predicate;
                    filter.input = input.plan;
                    restore_schema(LogicalPlan::Filter(filter), plan.schema())
                })
            }
            LogicalPlan::Sort(sort) => {
                let mut input = ScoredInput::new(&sort.input, families);
                let mut keys = sort.expr.clone();
                for key in &mut keys {
                    key.expr = input.replace(std::mem::take(&mut key.expr))?;
                }
                input.changed.then(|| {
                    let sort = Sort { expr: keys, input: input.plan, fetch: sort.fetch };
                    restore_schema(LogicalPlan::Sort(sort), plan.schema())
                })
            }
            LogicalPlan::Join(join) => take_at_join(join, families)?,
            _ => None,
        }
    };
    Ok(match taken {
        Some(new) => Transformed::yes(new),
        None => Transformed::no(plan),
    })
}

/// The expressions with their calls replaced and their names kept.
fn replace_named(
    plan: &LogicalPlan,
    exprs: &[Expr],
    input: &mut ScoredInput<'_>,
) -> Result<Vec<Expr>> {
    let names = NamePreserver::new(plan);
    exprs
        .iter()
        .map(|expr| {
            let name = names.save(expr);
            Ok(name.restore(input.replace(expr.clone())?))
        })
        .collect()
}

fn take_at_aggregate(
    plan: &LogicalPlan,
    aggregate: &Aggregate,
    families: &Families,
) -> Result<Option<LogicalPlan>> {
    let mut input = ScoredInput::new(&aggregate.input, families);
    // The names of a grouping set are those of its parts; there is no place for an alias.
    let has_sets = aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
    let groups = match has_sets {
        true => aggregate.group_expr.clone(),
        false => replace_named(plan, &aggregate.group_expr, &mut input)?,
    };
    let aggregates = replace_named(plan, &aggregate.aggr_expr, &mut input)?;
    if !input.changed {
        return Ok(None);
    }
    Ok(Some(LogicalPlan::Aggregate(Aggregate::try_new(input.plan, groups, aggregates)?)))
}

/// Both inputs of a join at hand.
struct ScoredInputs<'a> {
    left: ScoredInput<'a>,
    right: ScoredInput<'a>,
}

impl<'a> ScoredInputs<'a> {
    fn new(left: &Arc<LogicalPlan>, right: &Arc<LogicalPlan>, families: &'a Families) -> Self {
        Self { left: ScoredInput::new(left, families), right: ScoredInput::new(right, families) }
    }

    fn changed(&self) -> bool {
        self.left.changed || self.right.changed
    }

    /// Pushes each call into the input that has its columns.
    fn replace(&mut self, expr: Expr) -> Result<Expr> {
        let families = self.left.families;
        replace_calls(expr, families, |call| {
            let Self { left, right } = self;
            if let Some(column) = left.push(call, &[right.plan.schema()])? {
                return Ok(Some(column));
            }
            right.push(call, &[left.plan.schema()])
        })
    }

    fn replace_in_place(&mut self, expr: &mut Expr) -> Result<()> {
        *expr = self.replace(std::mem::take(expr))?;
        Ok(())
    }
}

fn take_at_join(join: &Join, families: &Families) -> Result<Option<LogicalPlan>> {
    let mut inputs = ScoredInputs::new(&join.left, &join.right, families);
    let (mut on, mut filter) = (join.on.clone(), join.filter.clone());
    for key in on.iter_mut().flat_map(|(left, right)| [left, right]).chain(&mut filter) {
        inputs.replace_in_place(key)?;
    }
    if !inputs.changed() {
        return Ok(None);
    }
    let plan = rejoin(join, inputs.left.plan, inputs.right.plan, Some((on, filter)))?;
    Ok(Some(restore_schema(plan, &join.schema)))
}

/// Takes the calls in the expressions of a similarity join that belong to a join below it from that join's
/// matches. Calls over the join's own arguments stand in the residual only, and are taken from the match at
/// physical planning.
fn take_at_node(node: &SetSimilarityJoin, families: &Families) -> Result<Option<LogicalPlan>> {
    let mut inputs = ScoredInputs::new(&node.left, &node.right, families);
    let mut new = node.clone();
    let on = new.on.iter_mut().flat_map(|(left, right)| [left, right]);
    let filters = new.side_filters.iter_mut().flatten();
    for expr in new.arguments.iter_mut().chain(on).chain(filters).chain(&mut new.residual) {
        inputs.replace_in_place(expr)?;
    }
    if !inputs.changed() {
        return Ok(None);
    }
    replace_input(&mut new, Side::Left, inputs.left.plan);
    replace_input(&mut new, Side::Right, inputs.right.plan);
    new.recompute_schema()?;
    Ok(Some(new.into_plan()))
}

/// `plan` without the columns that were added to it.
fn restore_schema(plan: LogicalPlan, schema: &DFSchemaRef) -> LogicalPlan {
    LogicalPlan::Projection(Projection::new_from_schema(Arc::new(plan), Arc::clone(schema)))
}
