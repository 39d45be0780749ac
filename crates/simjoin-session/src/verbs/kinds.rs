//! The kinds of columns, by what their values are.

use arrow::datatypes::DataType;
use simjoin_core::weighted::is_weighted_set;

/// The kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Text,
    /// Lists of texts or bytes.
    Set,
    /// Lists of tokens with weights.
    Weighted,
    /// Lists of floats.
    Vector,
    /// Lists of integers, which are sets or vectors.
    Integers,
    /// Lists of integers of one length, which are rather vectors.
    IntegerVector,
    Other,
}

impl ColumnKind {
    /// The kind of the columns of a type.
    pub(super) fn of(data_type: &DataType) -> Self {
        let value_of = |data_type: &'_ DataType| match data_type {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        };
        let elements = match data_type {
            text if value_of(text).is_string() => return Self::Text,
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::FixedSizeList(field, _)
            | DataType::ListView(field)
            | DataType::LargeListView(field) => value_of(field.data_type()),
            _ => return Self::Other,
        };
        match elements {
            elements if elements.is_floating() => Self::Vector,
            elements if elements.is_integer() => match data_type {
                DataType::FixedSizeList(..) => Self::IntegerVector,
                _ => Self::Integers,
            },
            elements if elements.is_string() || elements.is_binary() || elements.is_null() => {
                Self::Set
            }
            DataType::Struct(_) if is_weighted_set(data_type) => Self::Weighted,
            _ => Self::Other,
        }
    }
}

/// Whether columns of a type are texts, in a dictionary or not.
pub(super) fn is_text(data_type: &DataType) -> bool {
    ColumnKind::of(data_type) == ColumnKind::Text
}

/// The family of the columns of a type: "text", "set", "weighted", "integers" (a set or a vector), "vector" or
/// "other".
pub fn family(data_type: &DataType) -> &'static str {
    match ColumnKind::of(data_type) {
        ColumnKind::Text => "text",
        ColumnKind::Set => "set",
        ColumnKind::Weighted => "weighted",
        ColumnKind::Vector => "vector",
        ColumnKind::Integers | ColumnKind::IntegerVector => "integers",
        ColumnKind::Other => "other",
    }
}
