//! Joins over inputs with one more column behind the others.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::LambdaVariable;

use super::SimilarityJoin;

impl SimilarityJoin {
    /// The join, compiled over inputs of `columns` columns, over the same inputs with one more column behind each.
    ///
    /// # Errors
    ///
    /// When an expression cannot be made anew.
    pub(crate) fn with_column_behind(mut self, columns: [usize; 2]) -> Result<Self> {
        let sides = self.arguments.iter_mut().zip(&mut self.side_filters);
        for ((argument, filter), columns) in sides.zip(columns) {
            *argument = with_column_behind(argument, columns)?;
            if let Some(filter) = filter {
                *filter = with_column_behind(filter, columns)?;
            }
        }
        for (left, right) in &mut self.on {
            *left = with_column_behind(left, columns[0])?;
            *right = with_column_behind(right, columns[1])?;
        }
        Ok(self)
    }
}

/// `expr`, compiled over a schema of `columns` columns, over the same schema with one more column
/// behind. The parameters of lambdas are numbered from behind the columns on: they move.
fn with_column_behind(expr: &PhysicalExprRef, columns: usize) -> Result<PhysicalExprRef> {
    let moved = Arc::clone(expr).transform_up(|expr| {
        Ok(match expr.downcast_ref::<LambdaVariable>() {
            Some(variable) if variable.index() >= columns => Transformed::yes(Arc::new(
                LambdaVariable::new(variable.index() + 1, Arc::clone(variable.field())),
            )
                as PhysicalExprRef),
            _ => Transformed::no(expr),
        })
    })?;
    Ok(moved.data)
}
