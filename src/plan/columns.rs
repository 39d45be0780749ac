//! Columns of logical plans: by position, by name, and inside expressions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;

/// The column at `index` of `schema`, fully qualified.
pub(crate) fn column_at(schema: &DFSchema, index: usize) -> Column {
    Column::from(schema.qualified_field(index))
}

/// `expr` with every column replaced by what `replacement` gives; `None` if it gives none for one
/// of them.
pub(crate) fn map_columns(
    expr: &Expr,
    mut replacement: impl FnMut(&Column) -> Option<Expr>,
) -> Result<Option<Expr>> {
    let mut complete = true;
    let mapped = expr.clone().transform_up(|expr| {
        Ok(match &expr {
            Expr::Column(column) => match replacement(column) {
                Some(new) => Transformed::yes(new),
                None => {
                    complete = false;
                    Transformed::no(expr)
                }
            },
            _ => Transformed::no(expr),
        })
    })?;
    Ok(complete.then_some(mapped.data))
}

/// `expr` without aliases at any level and with its columns qualified as in `schema`: the form in
/// which expressions are compared. `None` if a column is not of `schema`.
pub(crate) fn canonical(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    map_columns(&without_aliases(expr)?, |column| {
        schema.maybe_index_of_column(column).map(|index| Expr::Column(column_at(schema, index)))
    })
}

/// `expr` with every alias in it removed.
pub(crate) fn without_aliases(expr: &Expr) -> Result<Expr> {
    let plain = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    })?;
    Ok(plain.data)
}

/// Whether `expr` holds a subquery or a column of an outer query.
pub(crate) fn reaches_outside(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(_, _)
        ))
    })
}

/// Calls `f` with every column that `expr` reads, also from inside correlated subqueries.
pub(crate) fn for_each_column(expr: &Expr, mut f: impl FnMut(&Column)) -> Result<()> {
    expr.apply(|expr| {
        let outer = match expr {
            Expr::Column(column) => {
                f(column);
                None
            }
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::InSubquery(within) => Some(&within.subquery),
            Expr::SetComparison(comparison) => Some(&comparison.subquery),
            _ => None,
        };
        for reference in outer.iter().flat_map(|subquery| &subquery.outer_ref_columns) {
            if let Expr::OuterReferenceColumn(_, column) = reference {
                f(column);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether `expr` is surely NULL in a row in which every column of `schema` is, as a join pads it.
pub(crate) fn is_null_of_nulls(expr: &Expr, schema: &DFSchema) -> bool {
    if matches!(expr, Expr::Column(_)) {
        return true;
    }
    // The expression itself is the best authority; one that cannot be evaluated here may be
    // anything.
    let evaluate = || -> Result<bool> {
        let (qualifiers, fields): (Vec<_>, Vec<Field>) = schema
            .iter()
            .map(|(qualifier, field)| {
                (qualifier.cloned(), field.as_ref().clone().with_nullable(true))
            })
            .unzip();
        let schema = DFSchema::from_field_specific_qualified_schema(
            qualifiers,
            &Arc::new(Schema::new(fields)),
        )?;
        let nulls = schema.fields().iter().map(|field| new_null_array(field.data_type(), 1));
        let row = RecordBatch::try_new(schema.inner().clone(), nulls.collect())?;
        let value = create_physical_expr(
            expr,
            &schema,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )?
        .evaluate(&row)?;
        Ok(value.into_array(1)?.is_null(0))
    };
    evaluate().unwrap_or(false)
}

/// `name`, or `name_1`, `name_2`, … so that no field of the schemas has it.
pub(crate) fn fresh_name(name: &str, taken: &[&DFSchema]) -> String {
    let is_taken =
        |name: &str| taken.iter().any(|schema| schema.has_column_with_unqualified_name(name));
    let mut candidate = name.to_string();
    let mut suffix = 0;
    while is_taken(&candidate) {
        suffix += 1;
        candidate = format!("{name}_{suffix}");
    }
    candidate
}

/// For each old column index the new one, by qualified name.
pub(crate) fn index_map(old: &DFSchema, new: &DFSchema) -> HashMap<usize, usize> {
    (0..old.fields().len())
        .filter_map(|index| Some((index, new.maybe_index_of_column(&column_at(old, index))?)))
        .collect()
}
