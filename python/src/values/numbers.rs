//! Arrays of numbers as they lie in memory.

use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, FixedSizeListArray, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::Field;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::number_type;

/// Keeps an array of Python alive for as long as Arrow reads it.
struct Owner {
    _array: Py<PyAny>,
}

/// Arrow asks for it: a panic beside the array leaves the array as it was, which nobody reads here.
impl RefUnwindSafe for Owner {}

/// The array, without a copy where its numbers lie side by side: one dimension is a column of numbers,
/// two are vectors. `None` where the elements are no numbers.
pub(super) fn array(array: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<ArrayRef>> {
    let interface = array.getattr("__array_interface__")?.cast_into::<PyDict>()?;
    let get = |key: &str| {
        interface.get_item(key)?.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "the column {name} has no {key} in its __array_interface__"
            ))
        })
    };
    let Some(kind) = number_type(get("typestr")?.extract::<&str>()?) else { return Ok(None) };
    let strides = interface.get_item("strides")?;
    if strides.is_some_and(|strides| !strides.is_none()) {
        // A column of a matrix and the like: `copy` lays the numbers side by side.
        return self::array(&array.call_method1("copy", ("C",))?, name);
    }
    let shape: Vec<usize> = get("shape")?.extract()?;
    let (address, _): (usize, bool) = get("data")?.extract()?;
    let length: usize = shape.iter().product();
    let bytes = length * kind.primitive_width().unwrap_or(1);
    let buffer = match NonNull::new(address as *mut u8) {
        Some(start) if bytes > 0 => {
            let owner = Arc::new(Owner { _array: array.clone().unbind() });
            // SAFETY: the array has that many bytes there, which its owner keeps.
            unsafe { Buffer::from_custom_allocation(start, bytes, owner) }
        }
        _ => Buffer::from_vec(Vec::<u8>::new()),
    };
    let data = ArrayData::builder(kind.clone()).len(length).add_buffer(buffer).align_buffers(true);
    let numbers = make_array(data.build().map_err(|e| PyValueError::new_err(e.to_string()))?);
    match shape[..] {
        [_] => Ok(Some(numbers)),
        [rows, width] => {
            let size = i32::try_from(width).map_err(|_| {
                PyValueError::new_err(format!("the vectors of the column {name} are too long"))
            })?;
            let field = Arc::new(Field::new("item", kind, true));
            let lists = FixedSizeListArray::try_new_with_length(field, size, numbers, None, rows);
            Ok(Some(Arc::new(lists.map_err(|e| PyValueError::new_err(e.to_string()))?)))
        }
        _ => Err(PyValueError::new_err(format!(
            "the column {name} has {} dimensions; a column has one, and one of vectors two",
            shape.len()
        ))),
    }
}
