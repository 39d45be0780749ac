//! Scores of pairs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::nullif;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::Result;

/// Scores with NULL in place of NaN, which is better or worse than no number.
pub(super) fn without_nan(scores: &ArrayRef) -> Result<ArrayRef> {
    let is_nan = match scores.data_type() {
        DataType::Float64 => nan_of::<Float64Type>(scores, f64::is_nan),
        DataType::Float32 => nan_of::<Float32Type>(scores, f32::is_nan),
        DataType::Float16 => nan_of::<Float16Type>(scores, |score| f32::from(score).is_nan()),
        _ => None,
    };
    match is_nan {
        Some(is_nan) => Ok(nullif(scores, &is_nan)?),
        None => Ok(Arc::clone(scores)),
    }
}

/// A mask of the scores that are NaN; `None` where none is.
fn nan_of<T: ArrowPrimitiveType>(
    scores: &ArrayRef,
    is_nan: impl Fn(T::Native) -> bool,
) -> Option<BooleanArray> {
    let scores = scores.as_primitive::<T>().values();
    let found: BooleanArray = scores.iter().map(|score| Some(is_nan(*score))).collect();
    found.has_true().then_some(found)
}
