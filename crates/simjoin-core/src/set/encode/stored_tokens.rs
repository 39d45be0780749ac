//! The type of the lists in which tokens are stored.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};

use crate::values::lists::list_element_type;
use crate::values::tokens::TokenKind;

/// The form in which the tokens of a side are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoredTokens {
    #[default]
    Signed,
    Unsigned,
    /// Text and binary alike.
    Bytes,
}

impl StoredTokens {
    /// The form in which the tokens of lists of this type are stored.
    pub fn of_list(data_type: &DataType) -> Self {
        fn is_unsigned(data_type: &DataType) -> bool {
            match data_type {
                DataType::Dictionary(_, values) => is_unsigned(values),
                other => match list_element_type(other) {
                    Some(element) => is_unsigned(element),
                    None => other.is_unsigned_integer(),
                },
            }
        }
        match TokenKind::of_list(data_type) {
            Some(TokenKind::Text | TokenKind::Binary) => StoredTokens::Bytes,
            Some(TokenKind::Integer) if is_unsigned(data_type) => StoredTokens::Unsigned,
            // Lists of the NULL type hold no token of any kind.
            Some(TokenKind::Integer | TokenKind::Null) | None => StoredTokens::Signed,
        }
    }

    /// The field of the elements of the stored lists.
    pub(in crate::set) fn element(self) -> FieldRef {
        let element = match self {
            StoredTokens::Signed => DataType::Int64,
            StoredTokens::Unsigned => DataType::UInt64,
            StoredTokens::Bytes => DataType::Binary,
        };
        Arc::new(Field::new_list_field(element, true))
    }

    /// The type of the stored lists.
    pub fn list_type(self) -> DataType {
        DataType::LargeList(self.element())
    }
}
