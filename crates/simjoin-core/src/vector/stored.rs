//! Rows as they lie on disk: lists of `f64`, for arguments of every type.

use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, Float64Builder, LargeListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};

use super::collection::Content;
use super::width::Vector;

/// Rows with these contents, lengths and numbers as a `LargeList<Float64>`. A row that matches nothing is
/// NULL; a list with a NULL element whose length counts holds NULLs alone, one with NaN that matches nothing NaN
/// alone.
pub(super) fn stored<'a>(
    rows: impl Iterator<Item = Option<(Content, u32, Vector<'a>)>>,
) -> ArrayRef {
    let (mut offsets, mut valid) = (vec![0_i64], vec![]);
    let mut elements = Float64Builder::new();
    for row in rows {
        valid.push(row.is_some());
        match row {
            Some((Content::WithNull, len, _)) => elements.append_nulls(len as usize),
            Some((Content::WithNan, len, _)) => {
                (0..len).for_each(|_| elements.append_value(f64::NAN));
            }
            Some((_, _, Vector::Wide(vector))) => elements.append_slice(vector),
            Some((_, _, vector)) => vector.iter().for_each(|number| elements.append_value(number)),
            None => {}
        }
        offsets.push(elements.len() as i64);
    }
    let element = Arc::new(Field::new_list_field(DataType::Float64, true));
    let (elements, offsets) = (Arc::new(elements.finish()), OffsetBuffer::new(offsets.into()));
    Arc::new(LargeListArray::new(element, offsets, elements, Some(NullBuffer::from(valid))))
}
