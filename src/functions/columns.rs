//! The lists of an argument, row by row.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::values::Lists;

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
