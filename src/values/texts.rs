//! Text columns of any layout, read row by row.

use arrow::array::{
    Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray, make_array,
};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

/// A column of text, dictionary-encoded or not, or of the NULL type.
#[derive(Debug)]
pub(crate) enum Texts {
    /// So many NULL rows.
    Null(usize),
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
}

impl Texts {
    /// # Errors
    ///
    /// An execution error that names the type when it is no text.
    pub(crate) fn try_new(array: &dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Null => Texts::Null(array.len()),
            DataType::Utf8 => Texts::Utf8(array.as_string().clone()),
            DataType::LargeUtf8 => Texts::LargeUtf8(array.as_string().clone()),
            DataType::Utf8View => Texts::Utf8View(array.as_string_view().clone()),
            DataType::Dictionary(_, values) => {
                // Views point at the values of the dictionary; unpacked `Utf8` would copy them,
                // and could overflow its offsets.
                let views = match values.as_ref() {
                    DataType::Utf8 => &DataType::Utf8View,
                    other => other,
                };
                let array: ArrayRef = make_array(array.to_data());
                return Self::try_new(&cast(&array, views)?);
            }
            other => return exec_err!("expected text, found {other}"),
        })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Texts::Null(rows) => *rows,
            Texts::Utf8(a) => a.len(),
            Texts::LargeUtf8(a) => a.len(),
            Texts::Utf8View(a) => a.len(),
        }
    }

    /// The text of a row, `None` when it is NULL.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<&str> {
        match self {
            Texts::Null(_) => None,
            Texts::Utf8(a) => a.is_valid(row).then(|| a.value(row)),
            Texts::LargeUtf8(a) => a.is_valid(row).then(|| a.value(row)),
            Texts::Utf8View(a) => a.is_valid(row).then(|| a.value(row)),
        }
    }
}
