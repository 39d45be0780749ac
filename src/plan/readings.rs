//! Rows that two readings of one plan have in common.
//!
//! A self-join may read its input once, and a cluster reads an input several times, where that
//! changes no answer. Three levels, each stronger than the one before:
//!
//! | | two readings give |
//! | --- | --- |
//! | repeatable | the same rows, if the rows below come in the same order |
//! | deterministic | the same rows, in whatever order the rows below come |
//! | exact | also the same values bit for bit, so that a row has the same hash in both |
//!
//! Lists are sets to the measures: `array_agg` over rows that come in another order gives another
//! list, which is the same set. A plan that uses it is deterministic as long as no expression looks
//! at the order of a list.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Distinct, Expr, LogicalPlan, TableScan, UserDefinedLogicalNodeCore,
};

use super::logical::SetSimilarityJoin;
use crate::functions::reads_lists_as_sets;
use crate::plan::recognise::declined::DeclinedNode;
use crate::plan::recognise::read_once::ReadOnceNode;

/// Aggregates whose value has no order, whatever the order of their rows. Sums of floating point
/// numbers differ in their last bits; see [`EXACT_AGGREGATES`].
const UNORDERED_AGGREGATES: [&str; 31] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "grouping",
    "max",
    "median",
    "min",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var",
    "var_pop",
    "var_samp",
];

/// Aggregates that give the same value bit for bit in any order of their rows, unless its type is a
/// floating point number.
const EXACT_AGGREGATES: [&str; 9] =
    ["count", "min", "max", "sum", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"];

/// Whether two readings of `plan` give the same rows, if those below come in the same order:
/// volatile expressions, limits and recursive references do not.
pub(crate) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    plan.apply_with_subqueries(|plan| {
        if ReadOnceNode::is(plan) {
            return Ok(TreeNodeRecursion::Jump);
        }
        repeatable = match plan {
            LogicalPlan::TableScan(scan) => scan.fetch.is_none() && !is_work_table(scan),
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            LogicalPlan::Extension(_) => is_own_node(plan),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Unnest(_) => true,
            // Limits pick any rows; the others have effects or states of their own.
            _ => false,
        };
        plan.apply_expressions(|expr| {
            repeatable = repeatable && !expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(repeatable)
}

/// Per side, whether two readings of a join's input give the same rows, and its expressions the
/// same values, even where the order of the rows below differs, as it does between the tasks of a
/// cluster.
pub(crate) fn are_deterministic(node: &SetSimilarityJoin) -> Result<[bool; 2]> {
    let mut found = [false; 2];
    for (input, found) in [&node.left, &node.right].into_iter().zip(&mut found) {
        *found = is_repeatable(input)?
            && match orders_seen(input)? {
                OrderDependence::None => true,
                OrderDependence::OfLists => !join_looks_into_lists(node)?,
                OrderDependence::OfRows => false,
            };
    }
    Ok(found)
}

/// Whether two readings of an input give the same rows, whatever is made of them and whatever the order of the
/// rows below.
pub(crate) fn is_deterministic(input: &LogicalPlan) -> Result<bool> {
    Ok(is_repeatable(input)? && orders_seen(input)? == OrderDependence::None)
}

/// The part of a plan's rows that depends on the order of the rows below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderDependence {
    None,
    /// The order of elements in lists, which nothing has looked at.
    OfLists,
    /// The order of rows, on which the rows of the plan or their values depend.
    OfRows,
}

fn orders_seen(plan: &LogicalPlan) -> Result<OrderDependence> {
    let (mut rows, mut lists) = (false, false);
    plan.apply_with_subqueries(|plan| {
        if ReadOnceNode::is(plan) {
            return Ok(TreeNodeRecursion::Jump);
        }
        match plan {
            LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::On(_)) => rows = true,
            LogicalPlan::Aggregate(aggregate) => {
                for expr in &aggregate.aggr_expr {
                    expr.apply(|expr| {
                        if let Expr::AggregateFunction(function) = expr {
                            match function.func.name() {
                                "array_agg" => lists = true,
                                name => rows |= !UNORDERED_AGGREGATES.contains(&name),
                            }
                        }
                        Ok(TreeNodeRecursion::Continue)
                    })?;
                }
            }
            _ => {}
        }
        Ok(if rows { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if lists && !rows {
        plan.apply_with_subqueries(|plan| {
            rows = rows || looks_into_lists(plan)?;
            Ok(if rows { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(match (rows, lists) {
        (true, _) => OrderDependence::OfRows,
        (false, true) => OrderDependence::OfLists,
        (false, false) => OrderDependence::None,
    })
}

/// Whether the rows that this one node gives depend on the order of elements in the lists that it
/// reads.
fn looks_into_lists(plan: &LogicalPlan) -> Result<bool> {
    if let Some(node) = SetSimilarityJoin::of(plan) {
        return join_looks_into_lists(node);
    }
    let inputs = ReadColumns(plan.inputs().iter().map(|input| input.schema().as_ref()).collect());
    let compares_lists = match plan {
        LogicalPlan::Distinct(_) => {
            plan.schema().fields().iter().any(|f| f.data_type().is_nested())
        }
        LogicalPlan::Aggregate(aggregate) => inputs.hold_list_of(&aggregate.group_expr),
        LogicalPlan::Join(join) => join.on.iter().any(|(l, r)| inputs.hold_list_of([l, r])),
        _ => false,
    };
    let mut looks = compares_lists;
    plan.apply_expressions(|expr| {
        looks = looks || inputs.are_looked_into(expr)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(looks)
}

fn join_looks_into_lists(node: &SetSimilarityJoin) -> Result<bool> {
    let inputs = ReadColumns(vec![node.left.schema(), node.right.schema()]);
    let mut looks = node.on.iter().any(|(l, r)| inputs.hold_list_of([l, r]));
    for expr in node.expressions() {
        looks = looks || inputs.are_looked_into(&expr)?;
    }
    Ok(looks)
}

/// The columns that a node reads.
struct ReadColumns<'a>(Vec<&'a DFSchema>);

impl ReadColumns<'_> {
    fn holds_list(&self, column: &Column) -> bool {
        let fields = self.0.iter().filter_map(|schema| schema.field_from_column(column).ok());
        fields.into_iter().any(|field| field.data_type().is_nested())
    }

    fn hold_list_of<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> bool {
        let mut columns = exprs.into_iter().flat_map(|expr| expr.column_refs());
        columns.any(|column| self.holds_list(column))
    }

    /// Whether the value of `expr` depends on the order of elements in a list: those that it passes
    /// on or reads as sets do not count.
    fn are_looked_into(&self, expr: &Expr) -> Result<bool> {
        const COUNTS_ELEMENTS: [&str; 2] = ["array_length", "cardinality"];
        let of_sets = match expr {
            Expr::Column(_) => return Ok(false),
            Expr::Alias(_) => true,
            Expr::Cast(cast) => cast.field.data_type().is_nested(),
            Expr::ScalarFunction(ScalarFunction { func, .. }) => {
                reads_lists_as_sets(func) || COUNTS_ELEMENTS.contains(&func.name())
            }
            _ => false,
        };
        let mut looks = false;
        expr.apply_children(|child| {
            looks = looks
                || match child {
                    Expr::Column(column) => !of_sets && self.holds_list(column),
                    child => self.are_looked_into(child)?,
                };
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(looks)
    }
}

/// Whether two readings of `plan`, which is deterministic, also give values that are equal bit for
/// bit, so that a row has the same hash in each: sums of floating point numbers depend on their
/// order, lists of values have one, and one of two equal values may stand for both.
pub(crate) fn is_exact(plan: &LogicalPlan) -> Result<bool> {
    let mut exact = true;
    plan.apply_with_subqueries(|plan| {
        exact = exact
            && match plan {
                LogicalPlan::Aggregate(aggregate) => {
                    aggregate.aggr_expr.iter().all(is_exact_aggregate) && has_exact_types(plan)
                }
                LogicalPlan::Distinct(_) => has_exact_types(plan),
                LogicalPlan::Window(_) => false,
                LogicalPlan::Extension(_) => {
                    SetSimilarityJoin::of(plan).is_none() && is_own_node(plan)
                }
                _ => true,
            };
        Ok(if exact { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(exact)
}

fn is_exact_aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_exact_aggregate(&alias.expr),
        Expr::AggregateFunction(function) => EXACT_AGGREGATES.contains(&function.func.name()),
        _ => false,
    }
}

/// Whether equal values of all columns are equal bit for bit.
fn has_exact_types(plan: &LogicalPlan) -> bool {
    fn is_exact(data_type: &DataType) -> bool {
        match data_type {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _) => is_exact(field.data_type()),
            DataType::Interval(_) => false,
            other => !other.is_floating() && !other.is_nested(),
        }
    }
    plan.schema().fields().iter().all(|field| is_exact(field.data_type()))
}

/// Whether `plan` is a node of this crate.
fn is_own_node(plan: &LogicalPlan) -> bool {
    SetSimilarityJoin::of(plan).is_some() || !std::ptr::eq(DeclinedNode::seen_through(plan), plan)
}

fn is_work_table(scan: &TableScan) -> bool {
    source_as_provider(&scan.source)
        .is_ok_and(|provider| provider.downcast_ref::<CteWorkTable>().is_some())
}
