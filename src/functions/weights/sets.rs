//! The type of weighted sets, and arrays of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;

use crate::values::{TokenKind, list_element_type};

/// The fields of an entry of a weighted set.
///
/// They may be NULL by their type, though none is: SQL's own structs are so.
fn fields(token: DataType) -> Fields {
    let token = Field::new("token", token, true);
    Fields::from(vec![token, Field::new("weight", DataType::UInt32, true)])
}

/// The type of sets with weights for tokens of a type.
pub(in crate::functions) fn type_of(token: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(fields(token)), true)))
}

/// The type of the elements of a list, of their values where lists or elements are dictionary-encoded.
pub(super) fn token_type(list: &DataType) -> DataType {
    list_element_type(plain(list)).map_or(DataType::Null, |element| plain(element).clone())
}

/// A type without its dictionaries.
pub(super) fn plain(mut data_type: &DataType) -> &DataType {
    while let DataType::Dictionary(_, values) = data_type {
        data_type = values;
    }
    data_type
}

/// The type of tokens that rows share: a dictionary, except of integers, which are no longer than its keys.
pub(super) fn shared_type(token: DataType) -> DataType {
    match TokenKind::of_element(&token) {
        Some(TokenKind::Text | TokenKind::Binary) => {
            DataType::Dictionary(Box::new(DataType::UInt32), Box::new(token))
        }
        _ => token,
    }
}

/// Sets of entries that lie side by side.
pub(super) fn array_of(
    tokens: ArrayRef,
    weights: Vec<u32>,
    ends: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let fields = fields(tokens.data_type().clone());
    let entries = vec![tokens, Arc::new(UInt32Array::from(weights)) as ArrayRef];
    let entries = StructArray::try_new(fields, entries, None)?;
    let item = Arc::new(Field::new_list_field(entries.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(item, ends, Arc::new(entries), nulls)?))
}
