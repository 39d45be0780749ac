//! Lists of numbers, read where they lie.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::width::{Vector, VectorNumbers};
use crate::error::{Result, internal_err};
use crate::values::{Lists, list_element_type};

/// Whether a column of this type can be read: a list of any layout over floating-point numbers or
/// integers.
pub(super) fn holds_vectors(data_type: &DataType) -> bool {
    list_element_type(data_type).is_some_and(|element| {
        element.is_integer()
            || matches!(element, DataType::Float16 | DataType::Float32 | DataType::Float64)
    })
}

/// A row as a vector.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NumberRow {
    /// The list is NULL.
    Null,
    /// This many elements, one of them NULL.
    WithNull(usize),
    /// The places of the elements.
    Vector(Range<usize>),
}

/// Appends elements of the given types, converted, to a list.
macro_rules! append {
    ($elements:expr, $range:expr, $to:expr, $($variant:pat => $primitive:ty, $convert:expr;)*) => {{
        let elements: &ArrayRef = $elements;
        match elements.data_type() {
            $($variant => {
                let values = elements.as_primitive::<$primitive>().values();
                $to.extend(values[$range].iter().map($convert));
            })*
            // No other type is admitted.
            _ => {}
        }
    }};
}

/// A column of lists of numbers.
#[derive(Debug)]
pub(super) struct NumberColumn {
    lists: Lists,
}

impl NumberColumn {
    /// # Errors
    ///
    /// An internal error when the type [cannot be read](holds_vectors).
    pub(super) fn try_new(column: &dyn Array) -> Result<Self> {
        match holds_vectors(column.data_type()) {
            true => Ok(Self { lists: Lists::try_new(column)? }),
            false => internal_err!("{} is no list of numbers", column.data_type()),
        }
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }

    /// The number of elements of all rows, or a little more.
    pub(super) fn element_count(&self) -> usize {
        (0..self.len()).filter_map(|row| self.lists.row(row)).map(|range| range.len()).sum()
    }

    pub(super) fn row(&self, row: usize) -> NumberRow {
        let Some(range) = self.lists.row(row) else { return NumberRow::Null };
        let nulls = self.lists.elements().nulls();
        match nulls.is_some_and(|n| n.slice(range.start, range.len()).null_count() > 0) {
            true => NumberRow::WithNull(range.len()),
            false => NumberRow::Vector(range),
        }
    }

    /// Writes elements as `f32`; whether all of them are that, as a cast to `f64` has them.
    pub(super) fn write_narrow(&self, range: Range<usize>, to: &mut [f32]) -> bool {
        let elements = self.lists.elements();
        match elements.data_type() {
            DataType::Float32 => {
                to.copy_from_slice(&elements.as_primitive::<Float32Type>().values()[range]);
                true
            }
            DataType::Float64 => {
                let values = &elements.as_primitive::<Float64Type>().values()[range];
                let mut all = true;
                for (to, value) in to.iter_mut().zip(values) {
                    *to = *value as f32;
                    all &= f64::from(*to).to_bits() == value.to_bits();
                }
                all
            }
            _ => {
                let mut values = Vec::with_capacity(range.len());
                self.append(range, &mut values);
                to.iter_mut().zip(&values).for_each(|(to, value)| *to = *value as f32);
                to.iter().zip(&values).all(|(to, value)| f64::from(*to) == *value)
            }
        }
    }

    /// Writes elements as `f64`, converted as a cast does.
    pub(super) fn write_wide(&self, range: Range<usize>, to: &mut [f64]) {
        let mut values = Vec::with_capacity(range.len());
        self.append(range, &mut values);
        to.copy_from_slice(&values);
    }

    /// Elements where they lie, or converted in `buffer`.
    pub(super) fn vector<'a>(
        &'a self,
        range: Range<usize>,
        buffer: &'a mut Vec<f64>,
    ) -> Vector<'a> {
        let elements = self.lists.elements();
        match elements.data_type() {
            DataType::Float32 => {
                Vector::Narrow(&elements.as_primitive::<Float32Type>().values()[range])
            }
            DataType::Float64 => {
                Vector::Wide(&elements.as_primitive::<Float64Type>().values()[range])
            }
            _ => {
                buffer.clear();
                self.append(range, buffer);
                Vector::Wide(buffer)
            }
        }
    }

    /// Whether some of the elements are NaN.
    pub(super) fn has_nan(&self, range: Range<usize>) -> bool {
        // All of them are looked at: that takes less time than to stop at the first one.
        macro_rules! any_nan {
            ($values:expr) => {
                $values[range].iter().fold(false, |found, value| found | value.is_nan())
            };
        }
        let elements = self.lists.elements();
        match elements.data_type() {
            DataType::Float64 => any_nan!(elements.as_primitive::<Float64Type>().values()),
            DataType::Float32 => any_nan!(elements.as_primitive::<Float32Type>().values()),
            DataType::Float16 => any_nan!(elements.as_primitive::<Float16Type>().values()),
            _ => false,
        }
    }

    /// The rows with NaN.
    pub(super) fn rows_with_nan(&self) -> impl Iterator<Item = usize> {
        let is_float = self.lists.elements().data_type().is_floating();
        let rows = if is_float { 0..self.len() } else { 0..0 };
        rows.filter(|row| match self.row(*row) {
            NumberRow::Vector(range) => self.has_nan(range),
            NumberRow::Null | NumberRow::WithNull(_) => false,
        })
    }

    /// Whether every value of the elements' type is an `f32`.
    pub(super) fn are_narrow(&self) -> bool {
        matches!(
            self.lists.elements().data_type(),
            DataType::Float32
                | DataType::Float16
                | DataType::Int8
                | DataType::Int16
                | DataType::UInt8
                | DataType::UInt16
        )
    }

    /// Adds elements to others, as `f32` where they [are narrow](Self::are_narrow).
    #[inline]
    pub(super) fn add_to(&self, range: Range<usize>, to: &mut VectorNumbers) {
        let narrow = |to: &mut Vec<f32>| self.append_narrow(range.clone(), to);
        to.add(self.are_narrow(), narrow, |to| self.append(range.clone(), to));
    }

    /// Appends elements that [are narrow](Self::are_narrow).
    fn append_narrow(&self, range: Range<usize>, to: &mut Vec<f32>) {
        append! { self.lists.elements(), range, to,
            DataType::Float32 => Float32Type, |v| *v;
            DataType::Float16 => Float16Type, |v| v.to_f32();
            DataType::Int8 => Int8Type, |v| f32::from(*v);
            DataType::Int16 => Int16Type, |v| f32::from(*v);
            DataType::UInt8 => UInt8Type, |v| f32::from(*v);
            DataType::UInt16 => UInt16Type, |v| f32::from(*v);
        }
    }

    /// Appends elements as `f64`, converted as a cast does.
    pub(super) fn append(&self, range: Range<usize>, to: &mut Vec<f64>) {
        append! { self.lists.elements(), range, to,
            DataType::Float64 => Float64Type, |v| *v;
            DataType::Float32 => Float32Type, |v| f64::from(*v);
            DataType::Float16 => Float16Type, |v| v.to_f64();
            DataType::Int8 => Int8Type, |v| f64::from(*v);
            DataType::Int16 => Int16Type, |v| f64::from(*v);
            DataType::Int32 => Int32Type, |v| f64::from(*v);
            DataType::Int64 => Int64Type, |v| *v as f64;
            DataType::UInt8 => UInt8Type, |v| f64::from(*v);
            DataType::UInt16 => UInt16Type, |v| f64::from(*v);
            DataType::UInt32 => UInt32Type, |v| f64::from(*v);
            DataType::UInt64 => UInt64Type, |v| *v as f64;
        }
    }
}
