//! Counts run on multiplicities, without the pairs.
//!
//! `count(*)` over a similarity join, alone or grouped by expressions of one side, asks how many
//! partners each row has, not which. The join then gives one row for each row of that side with
//! its multiplicity, and the aggregate becomes a sum:
//!
//! ```text
//! Aggregate: group [a.city], [count(*)]        Projection: a.city, sum AS count(*)
//!   SetSimilarityJoin: a.city           ──►      Aggregate: group [a.city], [sum(__simjoin_count)]
//!                                                  SetSimilarityJoin: a.city, __simjoin_count
//! ```
//!
//! A row that an outer join pads counts in `count(*)` and not in the count of a column of the
//! padded side; the join gives one count column for each kind that the query asks for.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchemaRef, DataFusionError, JoinType, Result};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, Union, lit, when};

use crate::plan::columns::{column_at, map_columns, reaches_outside};
use crate::plan::logical::SetSimilarityJoin;
use crate::plan::recognise::parts::JoinPartsNode;
use crate::plan::rewrite::narrow::narrow_outputs;
use crate::spec::{CountOf, Need, OutputColumn, Preserved, Side};

/// Turns counts over similarity joins into sums of multiplicities, wherever in `plan` they are.
///
/// The schema of every node keeps its names, types and nullability.
pub(crate) fn push_into_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let pushed = plan.transform_up_with_subqueries(|plan| {
        let counted = match &plan {
            LogicalPlan::Aggregate(aggregate) => match count_in_join(aggregate)? {
                Some(counted) => Some(counted),
                None => count_in_union(aggregate)?,
            },
            _ => None,
        };
        Ok(match counted {
            Some(new) => Transformed::yes(new),
            None => Transformed::no(plan),
        })
    })?;
    // The columns that were only counted are free now.
    if pushed.transformed { narrow_outputs(pushed.data) } else { Ok(pushed.data) }
}

/// The aggregate over multiplicities, if that gives the same answer.
fn count_in_join(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some(flat) = Flat::of(aggregate)? else {
        return Ok(None);
    };
    let Some(node) = flat.join() else {
        return Ok(None);
    };
    let Some(grouping) = Grouping::of(node, &flat.groups)? else {
        return Ok(None);
    };
    let mut counts = Vec::with_capacity(flat.aggregates.len());
    for expr in &flat.aggregates {
        match counted(node, expr, grouping.side) {
            Some(count) => counts.push(count),
            None => return Ok(None),
        }
    }
    if counts.is_empty() && grouping.side.is_none() {
        return Ok(None);
    }

    let summed =
        sum_multiplicities(&aggregate.schema, node.clone(), flat.groups, grouping, &counts);
    match summed {
        Ok(plan) => Ok(Some(plan)),
        // A column of the user's has the name of a count, or of its sum.
        Err(error) if matches!(error.find_root(), DataFusionError::SchemaError(..)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Counts over a union as sums of counts over its inputs, where one of these is counted in a join.
///
/// ```text
/// Aggregate: [count(*)]            Aggregate: [sum(c)]
///   Union                   ──►      Union
///     SetSimilarityJoin                Aggregate: [count(*) AS c]
///     Join                               SetSimilarityJoin
///                                      Aggregate: [count(*) AS c]
///                                        Join
/// ```
fn count_in_union(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some(Flat { below: LogicalPlan::Union(union), groups, aggregates }) = Flat::of(aggregate)?
    else {
        return Ok(None);
    };
    let is_grouped_by_columns = groups.iter().all(|group| matches!(group, Expr::Column(_)));
    if !is_grouped_by_columns || !aggregates.iter().all(is_plain_count) {
        return Ok(None);
    }
    let mut is_pushed = false;
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in &union.inputs {
        let of_input = |expr: &Expr| {
            map_columns(expr, |column| {
                let index = union.schema.maybe_index_of_column(column)?;
                Some(Expr::Column(column_at(input.schema(), index)))
            })
        };
        let of_input = |exprs: &[Expr]| exprs.iter().map(of_input).collect::<Result<Option<_>>>();
        let (Some(groups), Some(counts)) = (of_input(&groups)?, of_input(&aggregates)?) else {
            return Ok(None);
        };
        let partial = Aggregate::try_new(Arc::clone(input), groups, counts)?;
        let pushed = count_in_join(&partial)?;
        is_pushed |= pushed.is_some();
        inputs.push(Arc::new(pushed.unwrap_or(LogicalPlan::Aggregate(partial))));
    }
    if !is_pushed {
        return Ok(None);
    }
    // A group may be NULL in one of the inputs alone.
    let schema = Arc::clone(&aggregate.schema);
    let columns = |range: Range<usize>| range.map(|at| Expr::Column(column_at(&schema, at)));
    let (of_groups, all) = (groups.len(), schema.fields().len());
    let keys: Vec<Expr> = columns(0..of_groups).collect();
    let sums = columns(of_groups..all).map(sum_of).collect();
    let union = LogicalPlan::Union(Union { inputs, schema: Arc::clone(&schema) });
    let summed = Aggregate::try_new(Arc::new(union), keys, sums)?;
    let mut exprs: Vec<Expr> = columns(0..of_groups).collect();
    for at in of_groups..all {
        let sum = Expr::Column(column_at(&summed.schema, at));
        exprs.push(named(count_of_sum(sum)?, column_at(&schema, at)));
    }
    let plan = Projection::try_new(exprs, Arc::new(LogicalPlan::Aggregate(summed)))?;
    Ok(Some(LogicalPlan::Projection(plan)))
}

/// A count from the sum of parts, which is NULL where there are no rows.
fn count_of_sum(sum: Expr) -> Result<Expr> {
    when(sum.clone().is_not_null(), sum).otherwise(lit(0_i64))
}

/// The sum of a column.
fn sum_of(column: Expr) -> Expr {
    let (udaf, none) = (sum_udaf(), vec![]);
    Expr::AggregateFunction(AggregateFunction::new_udf(udaf, vec![column], false, None, none, None))
}

/// The aggregate that sums `counts`, under a projection with the columns of `schema`.
fn sum_multiplicities(
    schema: &DFSchemaRef,
    mut node: SetSimilarityJoin,
    group_exprs: Vec<Expr>,
    grouping: Grouping,
    counts: &[CountOf],
) -> Result<LogicalPlan> {
    node.need = Need::Counts(grouping.side);
    node.output = grouping.columns.into_iter().collect();
    let distinct: BTreeSet<CountOf> = counts.iter().copied().collect();
    let first_count = node.output.len();
    node.output.extend(distinct.iter().map(|count| OutputColumn::Count(*count)));
    node.recompute_schema()?;
    let sums = (first_count..node.output.len())
        .map(|index| sum_of(Expr::Column(column_at(&node.schema, index))))
        .collect();

    // Group columns keep their names; the sums get the names of the counts.
    let groups = group_exprs.len();
    let group_exprs = group_exprs
        .into_iter()
        .enumerate()
        .map(|(index, expr)| named(expr, column_at(schema, index)))
        .collect();
    let summed = Aggregate::try_new(Arc::new(node.into_plan()), group_exprs, sums)?;
    let mut exprs: Vec<Expr> =
        (0..groups).map(|index| Expr::Column(column_at(schema, index))).collect();
    for (index, count) in counts.iter().enumerate() {
        let nth = distinct.iter().position(|other| other == count).unwrap_or_default();
        let sum = Expr::Column(column_at(&summed.schema, groups + nth));
        exprs.push(named(count_of_sum(sum)?, column_at(schema, groups + index)));
    }
    let plan = Projection::try_new(exprs, Arc::new(LogicalPlan::Aggregate(summed)))?;
    Ok(LogicalPlan::Projection(plan))
}

/// `expr` under the qualified name of `column`.
fn named(expr: Expr, column: Column) -> Expr {
    match expr {
        Expr::Column(own) if own == column => Expr::Column(own),
        other => other.alias_qualified(column.relation, column.name),
    }
}

/// An aggregate with its expressions over the columns of what is below projections.
struct Flat<'a> {
    below: &'a LogicalPlan,
    groups: Vec<Expr>,
    aggregates: Vec<Expr>,
}

impl<'a> Flat<'a> {
    /// Sees through the projections and aliases below an aggregate.
    fn of(aggregate: &'a Aggregate) -> Result<Option<Self>> {
        let mut groups = aggregate.group_expr.clone();
        let mut aggregates = aggregate.aggr_expr.clone();
        let mut plan = aggregate.input.as_ref();
        loop {
            let (input, outputs): (_, Vec<Expr>) = match plan {
                LogicalPlan::Projection(projection) => {
                    (&projection.input, projection.expr.iter().cloned().map(unalias).collect())
                }
                LogicalPlan::SubqueryAlias(alias) => {
                    let columns = alias.input.schema().columns();
                    (&alias.input, columns.into_iter().map(Expr::Column).collect())
                }
                other if !std::ptr::eq(JoinPartsNode::seen_through(other), other) => {
                    plan = JoinPartsNode::seen_through(other);
                    continue;
                }
                _ => break,
            };
            if outputs.iter().any(Expr::is_volatile) {
                return Ok(None);
            }
            for expr in groups.iter_mut().chain(&mut aggregates) {
                let mapped = map_columns(expr, |column| {
                    let index = plan.schema().maybe_index_of_column(column)?;
                    outputs.get(index).cloned()
                })?;
                match mapped {
                    Some(mapped) => *expr = mapped,
                    None => return Ok(None),
                }
            }
            plan = input;
        }
        Ok(Some(Self { below: plan, groups, aggregates }))
    }

    /// The join whose rows are counted.
    fn join(&self) -> Option<&'a SetSimilarityJoin> {
        SetSimilarityJoin::of(self.below)
            .filter(|node| node.need == Need::Rows && !is_mark(node.join_type))
    }
}

fn is_mark(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::LeftMark | JoinType::RightMark)
}

/// The columns that the groups read, all of one side.
struct Grouping {
    side: Option<Side>,
    columns: BTreeSet<OutputColumn>,
}

impl Grouping {
    fn of(node: &SetSimilarityJoin, groups: &[Expr]) -> Result<Option<Self>> {
        let mut side = None;
        let mut columns = BTreeSet::new();
        for expr in groups {
            if matches!(expr, Expr::GroupingSet(_)) || expr.is_volatile() || reaches_outside(expr)?
            {
                return Ok(None);
            }
            for column in expr.column_refs() {
                let Some((of, index)) = node.input_column(column) else {
                    return Ok(None);
                };
                if side.replace(of).is_some_and(|other| other != of) {
                    return Ok(None);
                }
                columns.insert(OutputColumn::Input(of, index));
            }
        }
        // Groups of constants exist only if there are rows, which counts alone do not tell.
        let constant = side.is_none() && !groups.is_empty();
        Ok((!constant).then_some(Self { side, columns }))
    }
}

/// The rows that an aggregate expression counts, if it is a plain count of joined rows.
///
/// A column that may be NULL is counted per row of the other side only: a count without groups
/// is made from sets alone, which do not know it.
fn counted(node: &SetSimilarityJoin, expr: &Expr, grouped: Option<Side>) -> Option<CountOf> {
    match argument_of_count(expr)? {
        Expr::Literal(value, _) if !value.is_null() => Some(CountOf::Rows),
        Expr::Column(column) => {
            let (side, index) = node.input_column(column)?;
            if node.input(side).schema().field(index).is_nullable() {
                let partner = grouped == Some(side.other());
                return partner.then_some(CountOf::NonNull(side, index));
            }
            let padded = side.other().is_preserved(node.join_type);
            Some(if padded { CountOf::Matched(side) } else { CountOf::Rows })
        }
        _ => None,
    }
}

fn is_plain_count(expr: &Expr) -> bool {
    argument_of_count(expr).is_some()
}

/// The argument of a count of rows, none of which is left out or counted once for several.
fn argument_of_count(expr: &Expr) -> Option<&Expr> {
    let expr = match expr {
        Expr::Alias(alias) => alias.expr.as_ref(),
        other => other,
    };
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
        return None;
    };
    func.inner().downcast_ref::<Count>()?;
    let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = params;
    if *distinct || filter.is_some() || !order_by.is_empty() || null_treatment.is_some() {
        return None;
    }
    match args.as_slice() {
        [argument] => Some(argument),
        _ => None,
    }
}
