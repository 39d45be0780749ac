//! Column pruning around similarity joins.
//!
//! The optimizer has pruned the plan before conversion, but two passes free columns afterwards:
//! a score column replaces the list arguments above the join, and counts replace pairs. This pass
//! goes from the root down with the set of columns that the nodes above read, drops the others
//! from the joins' outputs, and narrows what the joins read to what they need.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, Result};
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{
    Aggregate, Expr, Join, LogicalPlan, Projection, SubqueryAlias, TableScan, Window,
};

use crate::plan::columns::{column_at, for_each_column, index_map};
use crate::plan::logical::SetSimilarityJoin;
use crate::plan::rewrite::score_push::replace_input;
use crate::spec::Side;

/// Drops the columns that nothing above reads from similarity joins and from what lies below
/// them. The schema of `plan` itself stays as it is.
pub(crate) fn narrow_outputs(plan: LogicalPlan) -> Result<LogicalPlan> {
    let all = Required::all(plan.schema());
    narrow(plan, &all, false)
}

/// The indices of the columns of one plan that the nodes above read.
#[derive(Debug, Clone, PartialEq)]
struct Required(BTreeSet<usize>);

impl Required {
    fn none() -> Self {
        Self(BTreeSet::new())
    }

    fn all(schema: &DFSchema) -> Self {
        Self((0..schema.fields().len()).collect())
    }

    fn contains(&self, index: usize) -> bool {
        self.0.contains(&index)
    }

    /// Adds the columns of `schema` that `exprs` read; columns of other schemas are passed over.
    fn read<'a>(
        mut self,
        exprs: impl IntoIterator<Item = &'a Expr>,
        schema: &DFSchema,
    ) -> Result<Self> {
        for expr in exprs {
            for_each_column(expr, |column| self.0.extend(schema.maybe_index_of_column(column)))?;
        }
        Ok(self)
    }
}

/// `plan` with at least the `required` columns, in the order they had, under the names they had.
/// `below` says that a similarity join is above: elsewhere, the optimizer has done this work.
fn narrow(plan: LogicalPlan, required: &Required, below: bool) -> Result<LogicalPlan> {
    if !below && !holds_similarity_join(&plan)? {
        return Ok(plan);
    }
    let plan = plan
        .map_subqueries(|subquery| {
            let all = Required::all(subquery.schema());
            Ok(Transformed::yes(narrow(subquery, &all, false)?))
        })?
        .data;
    if let Some(node) = SetSimilarityJoin::of(&plan) {
        return narrow_node(node, required);
    }
    match plan {
        LogicalPlan::Projection(projection) => narrow_projection(projection, required, below),
        LogicalPlan::Aggregate(aggregate) => {
            let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
            let reads =
                Required::none().read(group_expr.iter().chain(&aggr_expr), input.schema())?;
            let input = narrow_input(input, &reads, below)?;
            Aggregate::try_new_with_schema(input, group_expr, aggr_expr, schema)
                .map(LogicalPlan::Aggregate)
        }
        LogicalPlan::Window(Window { input, window_expr, .. }) => {
            let width = input.schema().fields().len();
            let passed = Required(required.0.iter().copied().filter(|i| *i < width).collect());
            let reads = passed.read(&window_expr, input.schema())?;
            let input = narrow_input(input, &reads, below)?;
            Window::try_new(window_expr, input).map(LogicalPlan::Window)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let reads = match has_distinct_names(alias.input.schema()) {
                true => required.clone(),
                false => Required::all(alias.input.schema()),
            };
            let input = narrow_input(alias.input, &reads, below)?;
            SubqueryAlias::try_new(input, alias.alias).map(LogicalPlan::SubqueryAlias)
        }
        LogicalPlan::Join(join) => narrow_join(join, required, below),
        LogicalPlan::TableScan(scan) => narrow_scan(scan, required),
        // These have the schema of their input.
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_) => {
            let reads = required.clone().read(&plan.expressions(), plan.schema())?;
            Ok(plan.map_children(|input| Ok(Transformed::yes(narrow(input, &reads, below)?)))?.data)
        }
        other => Ok(other
            .map_children(|input| {
                let all = Required::all(input.schema());
                Ok(Transformed::yes(narrow(input, &all, below)?))
            })?
            .data),
    }
}

fn narrow_input(
    input: Arc<LogicalPlan>,
    required: &Required,
    below: bool,
) -> Result<Arc<LogicalPlan>> {
    Ok(Arc::new(narrow(Arc::unwrap_or_clone(input), required, below)?))
}

fn holds_similarity_join(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found |= SetSimilarityJoin::of(plan).is_some();
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether the names stay unambiguous without their qualifiers. Where they do not, an alias
/// renames the later ones, and dropping a column would change the names of others.
fn has_distinct_names(schema: &DFSchema) -> bool {
    let names: BTreeSet<_> = schema.fields().iter().map(|field| field.name()).collect();
    names.len() == schema.fields().len()
}

fn narrow_projection(
    projection: Projection,
    required: &Required,
    below: bool,
) -> Result<LogicalPlan> {
    let Projection { expr, input, schema, .. } = projection;
    let keeps_all = required.0.len() == expr.len();
    let kept: Vec<Expr> = expr
        .into_iter()
        .enumerate()
        .filter(|(index, _)| required.contains(*index))
        .map(|(_, expr)| expr)
        .collect();
    let reads = Required::none().read(&kept, input.schema())?;
    let input = narrow_input(input, &reads, below)?;
    let projection = match keeps_all {
        true => Projection::try_new_with_schema(kept, input, schema)?,
        false => Projection::try_new(kept, input)?,
    };
    Ok(LogicalPlan::Projection(projection))
}

fn narrow_join(join: Join, required: &Required, below: bool) -> Result<LogicalPlan> {
    use JoinType::*;
    let (left, right) = (join.left.schema(), join.right.schema());
    let width = left.fields().len();
    let (left_reads, right_reads) = match join.join_type {
        Inner | Left | Right | Full => {
            let (left, right): (BTreeSet<_>, BTreeSet<_>) =
                required.0.iter().partition(|index| **index < width);
            (Required(left), Required(right.iter().map(|index| index - width).collect()))
        }
        LeftSemi | LeftAnti => (required.clone(), Required::none()),
        RightSemi | RightAnti => (Required::none(), required.clone()),
        LeftMark | RightMark => (Required::all(left), Required::all(right)),
    };
    let left_reads =
        left_reads.read(join.on.iter().map(|(left, _)| left).chain(&join.filter), left)?;
    let right_reads =
        right_reads.read(join.on.iter().map(|(_, right)| right).chain(&join.filter), right)?;
    let join = Join::try_new(
        narrow_input(join.left, &left_reads, below)?,
        narrow_input(join.right, &right_reads, below)?,
        join.on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(LogicalPlan::Join(join))
}

fn narrow_scan(scan: TableScan, required: &Required) -> Result<LogicalPlan> {
    if required.0.len() == scan.projected_schema.fields().len() {
        return Ok(LogicalPlan::TableScan(scan));
    }
    let columns = match &scan.projection {
        Some(columns) => required.0.iter().map(|index| columns[*index]).collect(),
        None => required.0.iter().copied().collect(),
    };
    let scan = TableScanBuilder::from(scan).with_projection(Some(columns)).build()?;
    Ok(LogicalPlan::TableScan(scan))
}

fn narrow_node(node: &SetSimilarityJoin, required: &Required) -> Result<LogicalPlan> {
    let mut node = node.clone();
    if let Some(shared) = &mut node.shared {
        let all = Required::all(shared.plan.schema());
        shared.plan = narrow_input(Arc::clone(&shared.plan), &all, true)?;
        return Ok(node.into_plan());
    }
    // The columns keep their names, those of counts as well, which hold the number of a
    // column that may move.
    let fields = node.schema.iter().enumerate().filter(|(index, _)| required.contains(*index));
    let fields = fields.map(|(_, (qualifier, field))| (qualifier.cloned(), Arc::clone(field)));
    let schema = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
    let mut index = 0;
    node.output.retain(|_| {
        index += 1;
        required.contains(index - 1)
    });
    for side in [Side::Left, Side::Right] {
        let schema = node.input(side).schema();
        let own_keys = node.on.iter().map(|(left, right)| match side {
            Side::Left => left,
            Side::Right => right,
        });
        let exprs = [node.argument(side)]
            .into_iter()
            .chain(own_keys)
            .chain(&node.side_filters[side as usize])
            .chain(&node.residual);
        let mut reads = Required::none().read(exprs, schema)?;
        let sources = node.output.iter().filter_map(|column| column.source());
        reads.0.extend(sources.filter(|(of, _)| *of == side).map(|(_, index)| index));
        let input = narrow_input(Arc::clone(node.input(side)), &reads, true)?;
        let input = exactly(input, schema, &reads)?;
        replace_input(&mut node, side, input);
    }
    node.schema = Arc::new(schema);
    Ok(node.into_plan())
}

/// `plan` with no more than the required columns of `old`, its schema before narrowing: the join
/// keeps all columns of its inputs.
fn exactly(
    plan: Arc<LogicalPlan>,
    old: &DFSchema,
    required: &Required,
) -> Result<Arc<LogicalPlan>> {
    if plan.schema().fields().len() == required.0.len() {
        return Ok(plan);
    }
    let present = index_map(old, plan.schema());
    let columns = required.0.iter().filter_map(|index| present.get(index));
    let columns =
        columns.map(|index| Expr::Column(column_at(plan.schema(), *index))).collect::<Vec<_>>();
    let projection = Projection::try_new(columns, Arc::clone(&plan))?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}
