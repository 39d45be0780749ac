//! The values of a measure for many pairs, as an array.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, NullBufferBuilder};
use datafusion::common::Result;

use crate::set::Measure;

/// The values of `measure` for `rows` pairs, each of which `row` gives as the size of the
/// intersection and the sizes of both sets, `None` where one is NULL.
pub(super) fn values(
    measure: Measure,
    rows: usize,
    mut row: impl FnMut(usize) -> Result<Option<(u64, u64, u64)>>,
) -> Result<ArrayRef> {
    let mut validity = NullBufferBuilder::new(rows);
    // The one value that is an integer in SQL is the overlap itself: no detour through floats.
    let mut integers = Vec::with_capacity(if measure.is_integer() { rows } else { 0 });
    let mut floats = Vec::with_capacity(if measure.is_integer() { 0 } else { rows });
    for number in 0..rows {
        let sizes = row(number)?;
        validity.append(sizes.is_some());
        let (overlap, a, b) = sizes.unwrap_or_default();
        if measure.is_integer() {
            integers.push(overlap as i64);
        } else if sizes.is_some() {
            floats.push(measure.value(overlap, a, b));
        } else {
            floats.push(0.0);
        }
    }
    let nulls = validity.finish();
    Ok(if measure.is_integer() {
        Arc::new(Int64Array::try_new(integers.into(), nulls)?)
    } else {
        Arc::new(Float64Array::try_new(floats.into(), nulls)?)
    })
}
