//! Arguments that the family computes itself, taken out of the projections below the join.
//!
//! `SELECT id, qgrams(title, 3) AS grams` below a similarity join makes lists of strings. Where the
//! join reads them as its argument and nothing else does, the projection gives the title instead,
//! and the call becomes the argument, through which encoders see.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::engine::Origin;
use crate::exec::JoinInput;
use crate::families::Families;
use crate::spec::{ResidualColumn, Side, SimilarityJoin};

/// Takes the calls that the family of the predicate sees through out of the projections that give the inputs of `join`.
/// Columns keep their places.
pub(super) fn take_calls(
    input: &mut JoinInput,
    join: &mut SimilarityJoin,
    families: &Families,
) -> Result<()> {
    match input {
        JoinInput::Two { left, right, .. } => {
            take_call(left, join, &[Side::Left], families)?;
            take_call(right, join, &[Side::Right], families)
        }
        JoinInput::Itself { input, .. } => {
            take_call(input, join, &[Side::Left, Side::Right], families)
        }
    }
}

/// [`take_calls`] for an input of some sides.
fn take_call(
    input: &mut Arc<dyn ExecutionPlan>,
    join: &mut SimilarityJoin,
    sides: &[Side],
    families: &Families,
) -> Result<()> {
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return Ok(()) };
    let column = |side: &Side| join.argument(*side).downcast_ref::<Column>().map(Column::index);
    let Some(index) = sides.first().and_then(column) else { return Ok(()) };
    if sides.iter().any(|side| column(side) != Some(index) || reads_besides(join, *side, index)) {
        return Ok(());
    }
    let mut given = projection.expr().to_vec();
    let Some(own) = given.get_mut(index) else { return Ok(()) };
    let schema = projection.input().schema();
    let name = join.predicate.family();
    let Some((source, Origin::Computed(_))) = families.source_of(name, &own.expr, &schema)? else {
        return Ok(());
    };
    let call = Arc::clone(&own.expr);
    let column: PhysicalExprRef = Arc::new(Column::new(&own.alias, index));
    let children = call.children().into_iter().map(|child| match Arc::ptr_eq(child, &source) {
        true => Arc::clone(&column),
        false => Arc::clone(child),
    });
    let argument = Arc::clone(&call).with_new_children(children.collect())?;
    own.expr = source;
    let projection = ProjectionExec::try_new(given, Arc::clone(projection.input()))?;
    for side in sides {
        join.arguments[*side as usize] = Arc::clone(&argument);
    }
    *input = Arc::new(projection);
    Ok(())
}

/// Whether anything but the argument of a side reads a column of its input.
fn reads_besides(join: &SimilarityJoin, side: Side, index: usize) -> bool {
    let of_output = join.output.iter().filter_map(|column| column.source());
    let residual = join.residual.iter().flat_map(|residual| &residual.columns);
    let of_residual = residual.filter_map(|column| match column {
        ResidualColumn::Input(side, index) => Some((*side, *index)),
        ResidualColumn::Score(_) => None,
    });
    let keys = join.on.iter().map(|(left, right)| match side {
        Side::Left => left,
        Side::Right => right,
    });
    let mut expressions = keys.chain(join.side_filter(side));
    of_output.chain(of_residual).any(|read| read == (side, index))
        || expressions.any(|e| collect_columns(e).iter().any(|column| column.index() == index))
}
