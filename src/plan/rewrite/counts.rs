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
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchemaRef, DataFusionError, JoinType, Result};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, lit, when};

use crate::plan::columns::{column_at, map_columns, reaches_outside};
use crate::plan::logical::SetSimilarityJoin;
use crate::plan::rewrite::narrow::narrow_outputs;
use crate::spec::{CountOf, Need, OutputColumn, Preserved, Side};

/// Turns counts over similarity joins into sums of multiplicities, wherever in `plan` they are.
///
/// The schema of every node keeps its names, types and nullability.
pub(crate) fn push_into_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let pushed = plan.transform_up_with_subqueries(|plan| {
        let counted = match &plan {
            LogicalPlan::Aggregate(aggregate) => count_in_join(aggregate)?,
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
    let Some(grouping) = Grouping::of(&flat)? else {
        return Ok(None);
    };
    let mut counts = Vec::with_capacity(flat.aggregates.len());
    for expr in &flat.aggregates {
        match counted(flat.node, expr, grouping.side) {
            Some(count) => counts.push(count),
            None => return Ok(None),
        }
    }
    if counts.is_empty() && grouping.side.is_none() {
        return Ok(None);
    }

    let summed = sum_multiplicities(&aggregate.schema, flat, grouping, &counts);
    match summed {
        Ok(plan) => Ok(Some(plan)),
        // A column of the user's has the name of a count, or of its sum.
        Err(error) if matches!(error.find_root(), DataFusionError::SchemaError(..)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The aggregate that sums `counts`, under a projection with the columns of `schema`.
fn sum_multiplicities(
    schema: &DFSchemaRef,
    flat: Flat<'_>,
    grouping: Grouping,
    counts: &[CountOf],
) -> Result<LogicalPlan> {
    let mut node = flat.node.clone();
    node.need = Need::Counts(grouping.side);
    node.output = grouping.columns.into_iter().collect();
    let distinct: BTreeSet<CountOf> = counts.iter().copied().collect();
    let first_count = node.output.len();
    node.output.extend(distinct.iter().map(|count| OutputColumn::Count(*count)));
    node.recompute_schema()?;
    let sums = (first_count..node.output.len())
        .map(|index| {
            let count = Expr::Column(column_at(&node.schema, index));
            Expr::AggregateFunction(AggregateFunction::new_udf(
                sum_udaf(),
                vec![count],
                false,
                None,
                vec![],
                None,
            ))
        })
        .collect();

    // Group columns keep their names; the sums get the names of the counts.
    let groups = flat.groups.len();
    let group_exprs = flat
        .groups
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
        // A sum over no rows is NULL where a count is 0.
        let count = when(sum.clone().is_not_null(), sum).otherwise(lit(0_i64))?;
        exprs.push(named(count, column_at(schema, groups + index)));
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

/// An aggregate with its expressions over the columns of the join below it.
struct Flat<'a> {
    node: &'a SetSimilarityJoin,
    groups: Vec<Expr>,
    aggregates: Vec<Expr>,
}

impl<'a> Flat<'a> {
    /// Sees through the projections and aliases between aggregate and join.
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
        Ok(match SetSimilarityJoin::of(plan) {
            Some(node) if node.need == Need::Rows && !is_mark(node.join_type) => {
                Some(Self { node, groups, aggregates })
            }
            _ => None,
        })
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
    fn of(flat: &Flat<'_>) -> Result<Option<Self>> {
        let mut side = None;
        let mut columns = BTreeSet::new();
        for expr in &flat.groups {
            if matches!(expr, Expr::GroupingSet(_)) || expr.is_volatile() || reaches_outside(expr)?
            {
                return Ok(None);
            }
            for column in expr.column_refs() {
                let Some((of, index)) = flat.node.input_column(column) else {
                    return Ok(None);
                };
                if side.replace(of).is_some_and(|other| other != of) {
                    return Ok(None);
                }
                columns.insert(OutputColumn::Input(of, index));
            }
        }
        // Groups of constants exist only if there are rows, which counts alone do not tell.
        let constant = side.is_none() && !flat.groups.is_empty();
        Ok((!constant).then_some(Self { side, columns }))
    }
}

/// The rows that an aggregate expression counts, if it is a plain count of joined rows.
///
/// A column that may be NULL is counted per row of the other side only: a count without groups
/// is made from sets alone, which do not know it.
fn counted(node: &SetSimilarityJoin, expr: &Expr, grouped: Option<Side>) -> Option<CountOf> {
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
    let [argument] = args.as_slice() else {
        return None;
    };
    match argument {
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
