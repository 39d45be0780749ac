//! The columns that a condition reads of the rows of one side.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExprRef;

use crate::engine::{EncodeInput, KeyConverter, KeyRows};
use crate::exec::layout::JoinLayout;
use crate::spec::Side;
use crate::tuning::Size;

/// Rows encoded without yielding to the runtime.
pub(crate) const ROWS_PER_SLICE: Size = Size { usual: 8192, small: 5 };

/// The evaluated argument, or what encoders make it of, with keys and filter of a batch's rows.
pub(crate) struct EncodedArguments {
    pub values: ArrayRef,
    pub keys: Option<KeyRows>,
    pub filter: Option<BooleanArray>,
}

impl EncodedArguments {
    /// Evaluates what encoding one side's rows takes.
    pub(crate) fn evaluate(
        layout: &JoinLayout,
        side: Side,
        converter: Option<&KeyConverter>,
        batch: &RecordBatch,
    ) -> Result<Self> {
        Self::with_values(&layout.sources[side as usize], layout, side, converter, batch)
    }

    /// Evaluates what storing one side's rows takes: the argument itself.
    pub(crate) fn evaluate_to_store(
        layout: &JoinLayout,
        side: Side,
        converter: Option<&KeyConverter>,
        batch: &RecordBatch,
    ) -> Result<Self> {
        Self::with_values(layout.join.argument(side), layout, side, converter, batch)
    }

    fn with_values(
        values: &PhysicalExprRef,
        layout: &JoinLayout,
        side: Side,
        converter: Option<&KeyConverter>,
        batch: &RecordBatch,
    ) -> Result<Self> {
        let array = |expr: &PhysicalExprRef| expr.evaluate(batch)?.into_array(batch.num_rows());
        let filter = match layout.join.side_filter(side) {
            Some(filter) => {
                let filter = array(filter)?;
                let Some(filter) = filter.as_boolean_opt() else {
                    return exec_err!("a join condition is {}, not Boolean", filter.data_type());
                };
                Some(filter.clone())
            }
            None => None,
        };
        let keys = match converter {
            Some(converter) => {
                let columns = layout
                    .join
                    .on
                    .iter()
                    .map(|(left, right)| array(if side == Side::Left { left } else { right }));
                Some(converter.convert(&columns.collect::<Result<Vec<_>>>()?)?)
            }
            None => None,
        };
        Ok(Self { values: array(values)?, keys, filter })
    }

    /// [`Matcher::rows_with_nan`](crate::engine::Matcher::rows_with_nan).
    pub(crate) fn rows_with_nan(&self, layout: &JoinLayout) -> usize {
        match layout.join.predicate.call.function.may_be_nan() {
            true => layout.matcher.rows_with_nan(&self.as_input()),
            false => 0,
        }
    }

    pub(crate) fn as_input(&self) -> EncodeInput<'_> {
        EncodeInput { values: &self.values, keys: self.keys.as_ref(), filter: self.filter.as_ref() }
    }
}
