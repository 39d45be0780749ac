//! Token arrays of every accepted type, read exactly.
//!
//! Integers of all widths and signs compare by mathematical value, text by its bytes, binary by
//! its bytes. The three kinds never equal one another: mixing them is refused at planning.

use std::fmt;
use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, Int64Array,
    LargeBinaryArray, LargeStringArray, StringArray, StringViewArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::error::{Result, exec_err};
use crate::util::unpack::unpacked;
use crate::values::lists::list_element_type;

/// The kind of the elements of a list, by which they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    Integer,
    Text,
    Binary,
    /// A list whose element type is NULL: always the empty set.
    Null,
}

impl TokenKind {
    /// The kind of an element type; `None` when such elements are no tokens.
    pub fn of_element(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            t if t.is_integer() => TokenKind::Integer,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => TokenKind::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => TokenKind::Binary,
            DataType::Null => TokenKind::Null,
            DataType::Dictionary(_, values) => return Self::of_element(values),
            _ => return None,
        })
    }

    /// The kind of a list type (or of the NULL type); `None` when it is no list of tokens.
    pub fn of_list(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Null => Some(TokenKind::Null),
            DataType::Dictionary(_, values) => Self::of_list(values),
            other => Self::of_element(list_element_type(other)?),
        }
    }

    /// Whether sets of both kinds can be compared.
    pub fn comparable(self, other: Self) -> bool {
        self == other || self == TokenKind::Null || other == TokenKind::Null
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenKind::Integer => "integer",
            TokenKind::Text => "text",
            TokenKind::Binary => "binary",
            TokenKind::Null => "NULL",
        })
    }
}

/// An integer token: `bits` is its value as `u64`, two's complement when `negative`.
///
/// Equality is that of the mathematical values, whatever the widths and signs they came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IntegerToken {
    pub negative: bool,
    pub bits: u64,
}

/// An array of tokens, normalised to the fewest layouts; text and binary stay as they are.
#[derive(Debug)]
pub enum Tokens {
    Null,
    Signed(Int64Array),
    Unsigned(UInt64Array),
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    FixedSizeBinary(FixedSizeBinaryArray),
}

impl Tokens {
    /// Reads an array of list elements. Narrow integers are widened, dictionaries unpacked, the
    /// rest is shared.
    pub fn try_new(elements: &ArrayRef) -> Result<Self> {
        Ok(match elements.data_type() {
            DataType::Null => Tokens::Null,
            t if t.is_signed_integer() => {
                Tokens::Signed(cast(elements, &DataType::Int64)?.as_primitive().clone())
            }
            t if t.is_unsigned_integer() => {
                Tokens::Unsigned(cast(elements, &DataType::UInt64)?.as_primitive().clone())
            }
            DataType::Utf8 => Tokens::Utf8(elements.as_string().clone()),
            DataType::LargeUtf8 => Tokens::LargeUtf8(elements.as_string().clone()),
            DataType::Utf8View => Tokens::Utf8View(elements.as_string_view().clone()),
            DataType::Binary => Tokens::Binary(elements.as_binary().clone()),
            DataType::LargeBinary => Tokens::LargeBinary(elements.as_binary().clone()),
            DataType::BinaryView => Tokens::BinaryView(elements.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => {
                Tokens::FixedSizeBinary(elements.as_fixed_size_binary().clone())
            }
            // Text and binary become views on the dictionary's values: nothing is copied.
            DataType::Dictionary(_, values) => {
                let plain = match values.as_ref() {
                    DataType::Utf8 | DataType::LargeUtf8 => &DataType::Utf8View,
                    DataType::Binary | DataType::LargeBinary => &DataType::BinaryView,
                    other => other,
                };
                return Self::try_new(&unpacked(elements, plain)?);
            }
            other => return exec_err!("{other} values are no tokens"),
        })
    }

    /// The validity of the tokens; NULL elements belong to no set.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Tokens::Null => None,
            Tokens::Signed(a) => a.nulls(),
            Tokens::Unsigned(a) => a.nulls(),
            Tokens::Utf8(a) => a.nulls(),
            Tokens::LargeUtf8(a) => a.nulls(),
            Tokens::Utf8View(a) => a.nulls(),
            Tokens::Binary(a) => a.nulls(),
            Tokens::LargeBinary(a) => a.nulls(),
            Tokens::BinaryView(a) => a.nulls(),
            Tokens::FixedSizeBinary(a) => a.nulls(),
        }
    }

    /// The number of negative integers in `range`, and a bound on the others; of byte strings
    /// neither. NULL elements may count as any.
    pub fn bounds(&self, range: Range<usize>) -> (usize, u64) {
        match self {
            Tokens::Signed(array) => {
                let values = &array.values()[range];
                let bound = |(negative, greatest): (usize, i64), &value: &i64| {
                    (negative + usize::from(value < 0), greatest.max(value))
                };
                let (negative, greatest) = values.iter().fold((0, 0), bound);
                (negative, greatest as u64)
            }
            Tokens::Unsigned(array) => {
                (0, array.values()[range].iter().copied().max().unwrap_or(0))
            }
            _ => (0, 0),
        }
    }
}

/// Runs `$body` with `$array` bound to the byte-like array inside a [`Tokens`], monomorphised
/// for each layout; `$array.value(i)` gives something that `AsRef<[u8]>` turns into bytes.
#[macro_export]
macro_rules! with_byte_tokens {
    ($tokens:expr, $array:ident => $body:expr, else $other:expr) => {
        match $tokens {
            $crate::values::Tokens::Utf8($array) => $body,
            $crate::values::Tokens::LargeUtf8($array) => $body,
            $crate::values::Tokens::Utf8View($array) => $body,
            $crate::values::Tokens::Binary($array) => $body,
            $crate::values::Tokens::LargeBinary($array) => $body,
            $crate::values::Tokens::BinaryView($array) => $body,
            $crate::values::Tokens::FixedSizeBinary($array) => $body,
            _ => $other,
        }
    };
}
pub use with_byte_tokens;

#[inline]
pub(crate) fn signed_token(value: i64) -> IntegerToken {
    IntegerToken { negative: value < 0, bits: value as u64 }
}

#[inline]
pub(crate) fn unsigned_token(value: u64) -> IntegerToken {
    IntegerToken { negative: false, bits: value }
}
