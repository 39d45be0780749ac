//! Logical expressions over the inputs of a join as physical ones.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, Result, TableReference, internal_datafusion_err, internal_err,
};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_planner::PhysicalPlanner;

use super::columns::{column_at, fresh_name, map_columns};
use super::logical::SharedInput;
use crate::spec::{Call, Residual, ResidualColumn, Side};

/// Compiles expressions over the columns of two sides.
#[derive(Clone, Copy)]
pub(super) struct Compiler<'a> {
    /// The schemas of the sides.
    pub schemas: [&'a DFSchemaRef; 2],
    /// The one input that gives the rows of both, in a self-join.
    pub shared: Option<&'a SharedInput>,
    pub planner: &'a dyn PhysicalPlanner,
    pub session: &'a dyn Session,
    pub planning_ctx: &'a PhysicalPlanningContext,
}

impl Compiler<'_> {
    /// The index of a column of `side` in the plan that gives it.
    pub(super) fn input_index(&self, side: Side, index: usize) -> Result<usize> {
        match self.shared {
            None => Ok(index),
            Some(shared) => shared.columns[side as usize].get(index).copied().ok_or_else(|| {
                internal_datafusion_err!("the shared input has no column {index} of {side}")
            }),
        }
    }

    /// Compiles an expression of one side over the input that gives it.
    pub(super) fn compile(&self, expr: &Expr, side: Side) -> Result<PhysicalExprRef> {
        let own = self.schemas[side as usize];
        let given = match self.shared {
            Some(shared) => shared.plan.schema(),
            None => own,
        };
        let schema = NumberedSchema::of(given.fields())?;
        let over_given = map_columns(expr, |column| {
            let index = self.input_index(side, own.maybe_index_of_column(column)?).ok()?;
            Some(schema.column(index))
        })?;
        match over_given {
            Some(expr) => self.physical(&expr, &schema),
            None => internal_err!("the {side} input of a similarity join lacks a column of {expr}"),
        }
    }

    fn physical(&self, expr: &Expr, schema: &NumberedSchema) -> Result<PhysicalExprRef> {
        self.planner.create_physical_expr(expr, &schema.0, self.session, self.planning_ctx)
    }

    /// Compiles an expression of a pair of rows over the columns that it reads. A call with a `score`, of
    /// that type, is taken from the match.
    pub(super) fn of_pair(
        &self,
        residual: &Expr,
        score: impl Fn(&Expr) -> Result<Option<(Call, DataType)>>,
    ) -> Result<Residual> {
        let mut fields: Vec<FieldRef> = vec![];
        let mut columns = vec![];
        let mut calls: Vec<(Call, DataType)> = vec![];
        let expression = residual
            .clone()
            .transform_down(|e| {
                let Some((call, data_type)) = score(&e)? else {
                    return Ok(Transformed::no(e));
                };
                if !calls.iter().any(|(known, _)| *known == call) {
                    calls.push((call, data_type));
                }
                let name = self.residual_score(call);
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
            })
            .data()?;
        for (call, data_type) in &calls {
            let name = self.residual_score(*call);
            fields.push(Arc::new(Field::new(name, data_type.clone(), true)));
            columns.push(ResidualColumn::Score(*call));
        }
        // The number of each column of an input that is read.
        let mut numbers: [HashMap<usize, usize>; 2] = Default::default();
        let read = expression.column_refs();
        for side in [Side::Left, Side::Right] {
            let schema = self.schemas[side as usize];
            let mut indices: Vec<usize> =
                read.iter().filter_map(|c| schema.maybe_index_of_column(c)).collect();
            indices.sort_unstable();
            indices.dedup();
            for index in indices {
                numbers[side as usize].insert(index, fields.len());
                fields.push(Arc::clone(&schema.fields()[index]));
                columns.push(ResidualColumn::Input(side, self.input_index(side, index)?));
            }
        }
        let numbered = NumberedSchema::of(&fields)?;
        let number = |column: &Column| {
            let of_score =
                || calls.iter().position(|(call, _)| self.residual_score(*call) == column.name);
            let of_side = |side: Side| {
                let index = self.schemas[side as usize].maybe_index_of_column(column)?;
                numbers[side as usize].get(&index).copied()
            };
            let score = if column.relation.is_none() { of_score() } else { None };
            score.or_else(|| of_side(Side::Left)).or_else(|| of_side(Side::Right))
        };
        let over_read =
            map_columns(&expression, |column| number(column).map(|n| numbered.column(n)))?;
        let Some(expression) = over_read else {
            return internal_err!("the inputs of a similarity join lack a column of {residual}");
        };
        Ok(Residual {
            expression: self.physical(&expression, &numbered)?,
            columns,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The name of a score of the match in the schema of the residual: that of no column of the
    /// inputs, which may have scores of joins below, and columns of any name.
    fn residual_score(&self, call: Call) -> String {
        let name = format!("__simjoin_match_{}_{}", call.function, call.first);
        let [left, right] = self.schemas;
        fresh_name(&name, &[left, right])
    }
}

/// A schema whose columns have a qualifier each, so that any names go together, also with those of
/// the parameters of lambdas.
struct NumberedSchema(DFSchema);

impl NumberedSchema {
    fn of<'a>(fields: impl IntoIterator<Item = &'a FieldRef>) -> Result<Self> {
        let qualified = fields.into_iter().enumerate();
        let qualified = qualified.map(|(i, field)| (Some(Self::qualifier(i)), Arc::clone(field)));
        let schema = DFSchema::new_with_metadata(qualified.collect(), Default::default())?;
        Ok(Self(schema))
    }

    fn qualifier(index: usize) -> TableReference {
        TableReference::bare(format!("__simjoin_{index}"))
    }

    /// The column of this number.
    fn column(&self, index: usize) -> Expr {
        Expr::Column(column_at(&self.0, index))
    }
}
