//! A condition on pairs of rows of two tables.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, internal_err};

use super::pairs::{batch_of, evaluate, is_true};
use super::run::InMemorySearch;
use super::table::RowTable;
use crate::engine::PairCondition;
use crate::error;
use crate::spec::{Call, Residual, ResidualColumn, Side, value_array};

/// A condition, with the tables whose rows it reads.
#[derive(Debug)]
pub(super) struct TableCondition {
    left: Arc<RowTable>,
    right: Arc<RowTable>,
    condition: Residual,
    calls: Vec<Call>,
}

impl TableCondition {
    pub(super) fn new(run: &InMemorySearch, condition: &Residual) -> Self {
        let mut calls = vec![];
        for column in &condition.columns {
            if let ResidualColumn::Score(call) = column
                && !calls.contains(call)
            {
                calls.push(*call);
            }
        }
        let (left, right) = (Arc::clone(&run.left), Arc::clone(&run.right));
        Self { left, right, condition: condition.clone(), calls }
    }

    /// The values of the condition for pairs of rows. `values` has those of each function that it reads.
    ///
    /// # Errors
    ///
    /// The errors of evaluating it.
    fn evaluate(&self, left: &[u32], right: &[u32], values: &[Vec<f64>]) -> Result<ArrayRef> {
        let tables = [self.left.as_ref(), self.right.as_ref()];
        let holds = of_pairs(&self.condition, tables, [left, right], |call, field| {
            let place = self.calls.iter().position(|other| other == call);
            match place.and_then(|place| values.get(place)) {
                Some(values) => Ok(value_array(values.clone(), field.data_type())?),
                None => internal_err!("a condition reads {}, which is not there", call.function),
            }
        })?;
        match holds.len() == left.len() {
            true => Ok(holds),
            false => {
                internal_err!("a condition has {} values for {} pairs", holds.len(), left.len())
            }
        }
    }
}

/// The value of an expression for pairs of rows of two tables. `score` gives the values of the functions that it reads.
///
/// # Errors
///
/// The errors of evaluating it.
pub(super) fn of_pairs(
    expression: &Residual,
    [left, right]: [&RowTable; 2],
    [left_rows, right_rows]: [&[u32]; 2],
    score: impl Fn(&Call, &Field) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let Residual { expression, columns, schema } = expression;
    let columns = columns.iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column {
        ResidualColumn::Input(Side::Left, index) => left.column(*index, left_rows),
        ResidualColumn::Input(Side::Right, index) => right.column(*index, right_rows),
        ResidualColumn::Score(call) => score(call, field),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let batch = batch_of(schema, columns, left_rows.len())?;
    evaluate(expression, &batch)
}

impl PairCondition for TableCondition {
    fn calls(&self) -> &[Call] {
        &self.calls
    }

    fn hold(&self, left: &[u32], right: &[u32], values: &[Vec<f64>]) -> error::Result<Vec<bool>> {
        let holds = self.evaluate(left, right, values)?;
        let holds = as_boolean_array(&holds)?;
        Ok((0..left.len()).map(|pair| is_true(holds, pair)).collect())
    }
}
