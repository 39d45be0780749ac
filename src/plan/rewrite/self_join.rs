//! Self-joins read their relation once.
//!
//! `t a SIMJOIN t b` arrives with two inputs that differ in alias and, after column pruning, in
//! their columns. [`unify`] finds one plan that gives the columns of both. Sharing is sound only
//! where two [readings](crate::plan::readings) give the same rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection, TableScan};

use crate::plan::columns::{column_at, fresh_name, map_columns, reaches_outside, without_aliases};
use crate::plan::logical::{SetSimilarityJoin, SharedInput};
use crate::plan::readings::is_repeatable;

/// Gives the similarity joins of `plan` whose inputs are one relation that relation as `shared`.
///
/// Both sides must play the same part: equal arguments, blocking keys and side filters. Does
/// nothing unless `enabled`.
pub(crate) fn share_inputs(plan: LogicalPlan, enabled: bool) -> Result<LogicalPlan> {
    if !enabled {
        return Ok(plan);
    }
    let shared = plan.transform_up_with_subqueries(|plan| {
        let node = match SetSimilarityJoin::of(&plan) {
            Some(node) if node.shared.is_none() => share(node)?,
            _ => None,
        };
        Ok(match node {
            Some(node) => Transformed::yes(node.into_plan()),
            None => Transformed::no(plan),
        })
    })?;
    Ok(shared.data)
}

fn share(node: &SetSimilarityJoin) -> Result<Option<SetSimilarityJoin>> {
    if !is_repeatable(&node.left)? || !is_repeatable(&node.right)? {
        return Ok(None);
    }
    let Some(unified) = unify(&node.left, &node.right)? else {
        return Ok(None);
    };
    let inputs = [&node.left, &node.right].map(|input| input.schema().as_ref());
    let equal = |left: &Expr, right: &Expr| unified.equal([left, right], inputs);
    let [left_argument, right_argument] = &node.arguments;
    let mut same_part = equal(left_argument, right_argument)?;
    for (left, right) in &node.on {
        same_part = same_part && equal(left, right)?;
    }
    same_part = same_part
        && match &node.side_filters {
            [None, None] => true,
            [Some(left), Some(right)] => {
                let [left, right] = [(0, left), (1, right)]
                    .map(|(side, filter)| unified.conjuncts(side, filter, inputs[side]));
                let left = left?;
                left.is_some() && left == right?
            }
            _ => false,
        };
    if !same_part || !unified.gives(inputs) {
        return Ok(None);
    }
    let mut node = node.clone();
    node.shared = Some(SharedInput { plan: Arc::new(unified.plan), columns: unified.columns });
    Ok(Some(node))
}

/// A plan that gives the columns of two, with the index there of each one's columns.
struct Unified {
    plan: LogicalPlan,
    columns: [Vec<usize>; 2],
}

impl Unified {
    /// `expr`, over `schema` of side `side`, over the unified plan; without aliases.
    fn over(&self, side: usize, expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        map_columns(&without_aliases(expr)?, |column| {
            let index = schema.maybe_index_of_column(column)?;
            let shared = self.columns[side].get(index)?;
            Some(Expr::Column(column_at(self.plan.schema(), *shared)))
        })
    }

    fn equal(&self, exprs: [&Expr; 2], schemas: [&DFSchema; 2]) -> Result<bool> {
        let left = self.over(0, exprs[0], schemas[0])?;
        Ok(left.is_some() && left == self.over(1, exprs[1], schemas[1])?)
    }

    /// The conjuncts of a predicate of one side, in an order of their own.
    fn conjuncts(
        &self,
        side: usize,
        predicate: &Expr,
        schema: &DFSchema,
    ) -> Result<Option<Vec<Expr>>> {
        let Some(predicate) = self.over(side, predicate, schema)? else {
            return Ok(None);
        };
        let mut conjuncts: Vec<_> = split_conjunction(&predicate).into_iter().cloned().collect();
        conjuncts.sort_by_cached_key(|conjunct| conjunct.to_string());
        conjuncts.dedup();
        Ok(Some(conjuncts))
    }

    /// Whether the plan has a column of the right type for each one of the sides.
    fn gives(&self, schemas: [&DFSchema; 2]) -> bool {
        let shared = self.plan.schema().fields();
        schemas.into_iter().zip(&self.columns).all(|(schema, columns)| {
            schema.fields().len() == columns.len()
                && schema.fields().iter().zip(columns).all(|(field, index)| {
                    shared.get(*index).is_some_and(|own| {
                        own.data_type() == field.data_type()
                            && own.is_nullable() == field.is_nullable()
                    })
                })
        })
    }
}

/// One plan for both, if they are the same relation but for aliases and pruned columns.
fn unify(left: &LogicalPlan, right: &LogicalPlan) -> Result<Option<Unified>> {
    Ok(match (left, right) {
        (LogicalPlan::SubqueryAlias(alias), other) => unify(&alias.input, other)?,
        (other, LogicalPlan::SubqueryAlias(alias)) => unify(other, &alias.input)?,
        (LogicalPlan::TableScan(left), LogicalPlan::TableScan(right)) => unify_scans(left, right)?,
        (LogicalPlan::Filter(left), LogicalPlan::Filter(right)) => unify_filters(left, right)?,
        (LogicalPlan::Projection(_), _) | (_, LogicalPlan::Projection(_)) => {
            unify_projections(left, right)?
        }
        // Below anything else both must be the same to the letter.
        _ if left == right && have_same_sources(left, right)? => {
            let columns: Vec<usize> = (0..left.schema().fields().len()).collect();
            Some(Unified { plan: left.clone(), columns: [columns.clone(), columns] })
        }
        _ => None,
    })
}

fn unify_scans(left: &TableScan, right: &TableScan) -> Result<Option<Unified>> {
    let filters = |scan: &TableScan| {
        let mut filters = scan.filters.clone();
        filters.sort_by_cached_key(|filter| filter.to_string());
        filters
    };
    if left.table_name != right.table_name
        || !is_same_source(left, right)
        || filters(left) != filters(right)
        || left.fetch.is_some()
        || right.fetch.is_some()
    {
        return Ok(None);
    }
    let projected = [left, right].map(|scan| match &scan.projection {
        Some(columns) => columns.clone(),
        None => (0..scan.source.schema().fields().len()).collect(),
    });
    let union: Vec<usize> =
        projected.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let columns = projected.map(|columns| {
        columns.iter().filter_map(|column| union.binary_search(column).ok()).collect()
    });
    let scan = TableScanBuilder::from(left.clone()).with_projection(Some(union)).build()?;
    Ok(Some(Unified { plan: LogicalPlan::TableScan(scan), columns }))
}

/// Whether both scans read the same table.
fn is_same_source(left: &TableScan, right: &TableScan) -> bool {
    if Arc::ptr_eq(&left.source, &right.source) {
        return true;
    }
    let (Ok(left), Ok(right)) =
        (source_as_provider(&left.source), source_as_provider(&right.source))
    else {
        return false;
    };
    if Arc::ptr_eq(&left, &right) {
        return true;
    }
    // `FROM 'x.parquet'` makes a table for each reference. The options hold the format, which
    // has no equality but shows all its settings.
    match (left.downcast_ref::<ListingTable>(), right.downcast_ref::<ListingTable>()) {
        (Some(one), Some(other)) => {
            one.table_paths() == other.table_paths()
                && left.schema() == right.schema()
                && format!("{:?}", one.options()) == format!("{:?}", other.options())
        }
        _ => false,
    }
}

/// Whether the scans of two equal plans, subqueries among them, read the same tables: the
/// equality of plans compares their names only.
fn have_same_sources(left: &LogicalPlan, right: &LogicalPlan) -> Result<bool> {
    let scans = |plan: &LogicalPlan| -> Result<Vec<TableScan>> {
        let mut scans = vec![];
        plan.apply_with_subqueries(|plan| {
            if let LogicalPlan::TableScan(scan) = plan {
                scans.push(scan.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(scans)
    };
    let (left, right) = (scans(left)?, scans(right)?);
    Ok(left.len() == right.len()
        && left.iter().zip(&right).all(|(left, right)| is_same_source(left, right)))
}

fn unify_filters(left: &Filter, right: &Filter) -> Result<Option<Unified>> {
    // A subquery inside is compared by plan equality, which does not see the tables.
    if reaches_outside(&left.predicate)? || reaches_outside(&right.predicate)? {
        return Ok(None);
    }
    let Some(input) = unify(&left.input, &right.input)? else {
        return Ok(None);
    };
    let conjuncts = input.conjuncts(0, &left.predicate, left.input.schema())?;
    let same = conjuncts == input.conjuncts(1, &right.predicate, right.input.schema())?;
    let predicate = conjuncts.filter(|_| same).and_then(conjunction);
    let Some(predicate) = predicate else {
        return Ok(None);
    };
    let filter = Filter::try_new(predicate, Arc::new(input.plan))?;
    Ok(Some(Unified { plan: LogicalPlan::Filter(filter), columns: input.columns }))
}

/// The input of a projection with its expressions; any other plan with its columns.
fn as_projection(plan: &LogicalPlan) -> (&LogicalPlan, Vec<Expr>) {
    match plan {
        LogicalPlan::Projection(projection) => (&projection.input, projection.expr.clone()),
        other => (other, other.schema().columns().into_iter().map(Expr::Column).collect()),
    }
}

fn unify_projections(left: &LogicalPlan, right: &LogicalPlan) -> Result<Option<Unified>> {
    let sides = [as_projection(left), as_projection(right)];
    let Some(input) = unify(sides[0].0, sides[1].0)? else {
        return Ok(None);
    };
    let mut values: Vec<(Expr, String)> = vec![];
    let mut columns = [vec![], vec![]];
    for (side, (side_input, exprs)) in sides.iter().enumerate() {
        for expr in exprs {
            if reaches_outside(expr)? {
                return Ok(None);
            }
            let Some(value) = input.over(side, expr, side_input.schema())? else {
                return Ok(None);
            };
            let known = values.iter().position(|(other, _)| *other == value);
            columns[side].push(known.unwrap_or(values.len()));
            if known.is_none() {
                values.push((value, expr.qualified_name().1));
            }
        }
    }
    // Columns keep their qualified names, which are unambiguous in the input; the others get
    // names that no column has.
    let (plain, computed): (Vec<_>, Vec<_>) =
        (0..values.len()).partition(|index| matches!(values[*index].0, Expr::Column(_)));
    let mut projected = Vec::with_capacity(values.len());
    let mut position = vec![0; values.len()];
    for index in plain {
        position[index] = projected.len();
        projected.push(values[index].0.clone());
    }
    let mut projection = Projection::try_new(projected, Arc::new(input.plan))?;
    for index in computed {
        let (value, name) = &values[index];
        let name = fresh_name(name, &[&projection.schema]);
        position[index] = projection.expr.len();
        let mut exprs = projection.expr;
        exprs.push(unalias(value.clone()).alias(name));
        projection = Projection::try_new(exprs, projection.input)?;
    }
    let columns = columns.map(|columns| columns.into_iter().map(|index| position[index]).collect());
    Ok(Some(Unified { plan: LogicalPlan::Projection(projection), columns }))
}
