//! One view over the five Arrow list layouts.

use std::ops::Range;

use arrow::array::{AnyDictionaryArray, Array, ArrayRef, AsArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

use crate::error::{Result, exec_err};

/// The element type of a list type of any layout, `None` for other types.
pub fn list_element_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::ListView(f)
        | DataType::LargeListView(f)
        | DataType::FixedSizeList(f, _) => Some(f.data_type()),
        _ => None,
    }
}

/// A list column as ranges into one array of elements.
///
/// `List`, `LargeList`, `ListView`, `LargeListView`, `FixedSizeList` and dictionaries of them all
/// read the same way; nothing but the ranges is copied.
#[derive(Debug)]
pub struct Lists {
    elements: ArrayRef,
    ranges: Ranges,
    nulls: Option<NullBuffer>,
    len: usize,
}

#[derive(Debug)]
enum Ranges {
    /// A NULL-typed column: every row is NULL.
    None,
    Offsets32(arrow::buffer::OffsetBuffer<i32>),
    Offsets64(arrow::buffer::OffsetBuffer<i64>),
    View32(Vec<(i32, i32)>),
    View64(Vec<(i64, i64)>),
    Fixed(usize),
}

impl Lists {
    /// Reads `array`, which must be of a list type, a dictionary of lists, or of the NULL type.
    pub fn try_new(array: &dyn Array) -> Result<Self> {
        let len = array.len();
        let (elements, ranges) = match array.data_type() {
            DataType::Null => {
                return Ok(Self {
                    elements: arrow::array::new_empty_array(&DataType::Null),
                    ranges: Ranges::None,
                    nulls: Some(NullBuffer::new_null(len)),
                    len,
                });
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let ranges = Ranges::Offsets32(list.offsets().clone());
                (list.values(), ranges)
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let ranges = Ranges::Offsets64(list.offsets().clone());
                (list.values(), ranges)
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                let pairs = list.offsets().iter().copied().zip(list.sizes().iter().copied());
                (list.values(), Ranges::View32(pairs.collect()))
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                let pairs = list.offsets().iter().copied().zip(list.sizes().iter().copied());
                (list.values(), Ranges::View64(pairs.collect()))
            }
            DataType::FixedSizeList(_, width) => {
                (array.as_fixed_size_list().values(), Ranges::Fixed(*width as usize))
            }
            DataType::Dictionary(_, _) => return Self::of_dictionary(array.as_any_dictionary()),
            other => return exec_err!("expected a list of tokens, found {other}"),
        };
        Ok(Self { elements: ArrayRef::clone(elements), ranges, nulls: array.nulls().cloned(), len })
    }

    /// The rows point into the dictionary's values.
    /// Lists that end where `ends` says, after a leading 0, without their elements.
    pub(crate) fn of_offsets(ends: Vec<i64>, nulls: Option<NullBuffer>) -> Self {
        let (len, ends) = (ends.len() - 1, ScalarBuffer::from(ends));
        Self {
            elements: arrow::array::new_empty_array(&DataType::Null),
            ranges: Ranges::Offsets64(arrow::buffer::OffsetBuffer::new(ends)),
            nulls,
            len,
        }
    }

    fn of_dictionary(array: &dyn AnyDictionaryArray) -> Result<Self> {
        let values = Self::try_new(array.values().as_ref())?;
        let keys = array.keys();
        let row = |(row, key): (usize, usize)| match keys.is_valid(row) {
            true => values.row(key),
            false => None,
        };
        // The key of a NULL row may be anything, also where there is no value at all.
        let rows: Vec<Option<Range<usize>>> = match values.is_empty() {
            true => vec![None; keys.len()],
            false => array.normalized_keys().into_iter().enumerate().map(row).collect(),
        };
        let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
        let pairs = rows.into_iter().map(|row| {
            let row = row.unwrap_or_default();
            (row.start as i64, row.len() as i64)
        });
        Ok(Self {
            elements: values.elements,
            ranges: Ranges::View64(pairs.collect()),
            nulls: Some(nulls).filter(|nulls| nulls.null_count() > 0),
            len: keys.len(),
        })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements of all rows; [`Self::row`] gives ranges into it.
    pub fn elements(&self) -> &ArrayRef {
        &self.elements
    }

    /// The element range of row `row`, `None` when the list is NULL.
    #[inline]
    pub fn row(&self, row: usize) -> Option<Range<usize>> {
        if self.nulls.as_ref().is_some_and(|n| n.is_null(row)) {
            return None;
        }
        Some(match &self.ranges {
            Ranges::None => 0..0,
            Ranges::Offsets32(o) => o[row] as usize..o[row + 1] as usize,
            Ranges::Offsets64(o) => o[row] as usize..o[row + 1] as usize,
            Ranges::View32(v) => v[row].0 as usize..v[row].0 as usize + v[row].1 as usize,
            Ranges::View64(v) => v[row].0 as usize..v[row].0 as usize + v[row].1 as usize,
            Ranges::Fixed(width) => row * width..(row + 1) * width,
        })
    }

    /// A range that covers the elements of every row that is not NULL, and few others.
    pub fn covered(&self) -> Range<usize> {
        // The rows of these layouts lie side by side.
        match &self.ranges {
            Ranges::Offsets32(o) => return o[0] as usize..o[self.len] as usize,
            Ranges::Offsets64(o) => return o[0] as usize..o[self.len] as usize,
            _ => {}
        }
        let rows = || (0..self.len).filter_map(|r| self.row(r)).filter(|r| !r.is_empty());
        let start = rows().map(|r| r.start).min().unwrap_or(0);
        let end = rows().map(|r| r.end).max().unwrap_or(start);
        start..end
    }
}
