//! The lists of an argument: their types, and their elements row by row.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::ColumnarValue;

use crate::values::{Lists, TokenKind, list_element_type};

/// The kind of the tokens of an argument of function `name`, with advice where its type is no list of tokens.
pub(super) fn kind_of_lists(name: &str, argument: &DataType) -> Result<TokenKind> {
    if let Some(kind) = TokenKind::of_list(argument) {
        return Ok(kind);
    }
    let mut list = argument;
    while let DataType::Dictionary(_, values) = list {
        list = values;
    }
    let Some(element) = list_element_type(list) else {
        let advice = if TokenKind::of_element(list) == Some(TokenKind::Text) {
            "turn text into a list with qgrams(text, 3) or word_tokens(text)"
        } else {
            "make_array(...) builds a list, qgrams(text, 3) and word_tokens(text) turn text \
             into one"
        };
        return plan_err!("{name} expects lists of tokens, found {argument}; {advice}");
    };
    let advice = if list_element_type(element).is_some() {
        "flatten(list) removes a level of nesting"
    } else if element.is_nested() {
        "take one field of each element, or cast the elements to text"
    } else if element.is_floating() {
        "vectors are joined by array_distance, cosine_distance or inner_product; numbers that are \
         tokens can be cast, for example with arrow_cast(list, 'List(Utf8)')"
    } else {
        "cast the elements to one of these, for example with arrow_cast(list, 'List(Utf8)')"
    };
    plan_err!("{name} expects lists of integers, text or binary, found {argument}; {advice}")
}

/// A list column (or, for a scalar, a single row that stands for every row).
pub(super) struct ListColumn {
    lists: Lists,
    /// The elements that the rows have; a slice of a large array shares all of its elements.
    elements: ArrayRef,
    /// The index of the first of `elements` among the elements of `lists`.
    base: usize,
    constant: bool,
}

impl ListColumn {
    /// The lists of an argument; a scalar stays a single row.
    pub(super) fn of_argument(argument: &ColumnarValue) -> Result<Self> {
        match argument {
            ColumnarValue::Array(array) => Self::try_new(array, false),
            // One row already, which is not copied.
            ColumnarValue::Scalar(ScalarValue::List(list)) => Self::try_new(list.as_ref(), true),
            ColumnarValue::Scalar(ScalarValue::LargeList(list)) => {
                Self::try_new(list.as_ref(), true)
            }
            ColumnarValue::Scalar(scalar) => Self::try_new(&scalar.to_array_of_size(1)?, true),
        }
    }

    /// Reads `array`; with `constant`, its row 0 stands for every row.
    pub(super) fn try_new(array: &dyn Array, constant: bool) -> Result<Self> {
        let lists = Lists::try_new(array)?;
        let covered = lists.covered();
        let elements = lists.elements().slice(covered.start, covered.len());
        Ok(Self { lists, elements, base: covered.start, constant })
    }

    /// The elements of all rows; [`Self::row`] gives ranges into them.
    pub(super) fn elements(&self) -> &ArrayRef {
        &self.elements
    }

    /// The type of the elements, of their values where they are dictionary-encoded.
    pub(super) fn element_type(&self) -> &DataType {
        let mut element = self.elements.data_type();
        while let DataType::Dictionary(_, values) = element {
            element = values;
        }
        element
    }

    /// The range of row `row` in [`Self::elements`], `None` for a NULL list.
    #[inline]
    pub(super) fn row(&self, row: usize) -> Option<Range<usize>> {
        let range = self.lists.row(if self.constant { 0 } else { row })?;
        // The offset of an empty list may lie anywhere, outside the covered range too.
        if range.is_empty() {
            return Some(0..0);
        }
        Some(range.start - self.base..range.end - self.base)
    }
}
