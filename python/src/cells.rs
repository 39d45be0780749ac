//! Rows as values of Python, and columns as bytes: for frames of libraries that know no Arrow.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef, UInt8Type, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDate, PyDateTime, PyDict, PyList, PyTzInfo};

/// The length of the longest list of a column whose elements are 0 and 1 alone; `None` for another
/// column. Columns of lists that are looked at in a row have other elements soon.
pub(crate) fn longest_bits(lists: &ArrayRef) -> Result<Option<usize>> {
    let mut longest = 0;
    for row in 0..lists.len() {
        if lists.is_null(row) {
            continue;
        }
        let elements = elements(lists, row);
        if !elements.data_type().is_integer() {
            return Ok(None);
        }
        // Numbers that do not fit are NULL.
        let numbers = cast(&elements, &DataType::UInt8)?;
        let mut bits = numbers.as_primitive::<UInt8Type>().iter().flatten();
        if numbers.null_count() > elements.null_count() || bits.any(|number| number > 1) {
            return Ok(None);
        }
        longest = longest.max(elements.len());
    }
    Ok(Some(longest))
}

/// The numbers of a column as bytes of i64, -1 for NULL, or of f64, NaN for NULL.
pub(crate) fn numbers<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    batches: &[RecordBatch],
    column: usize,
) -> Result<Bound<'py, PyBytes>> {
    let all = concat_batches(&schema, batches)?;
    let values = all.column(column);
    let mut bytes = Vec::with_capacity(values.len() * 8);
    match values.data_type() {
        data_type if data_type.is_integer() => {
            let values = cast(values, &DataType::Int64)?;
            for value in values.as_primitive::<Int64Type>() {
                bytes.extend(value.unwrap_or(-1).to_ne_bytes());
            }
        }
        _ => {
            let values = cast(values, &DataType::Float64)?;
            for value in values.as_primitive::<Float64Type>() {
                bytes.extend(value.unwrap_or(f64::NAN).to_ne_bytes());
            }
        }
    }
    Ok(PyBytes::new(py, &bytes))
}

/// The rows as dictionaries of Python's values.
pub(crate) fn rows<'py>(py: Python<'py>, batches: &[RecordBatch]) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for batch in batches {
        let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
        for row in 0..batch.num_rows() {
            let values = PyDict::new(py);
            for (name, column) in names.iter().zip(batch.columns()) {
                values.set_item(name, value(py, column, row)?)?;
            }
            rows.append(values)?;
        }
    }
    Ok(rows)
}

/// A value; text for types that Python has none for.
fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) || column.data_type() == &DataType::Null {
        return Ok(py.None().into_bound(py));
    }
    let read = |to: &DataType| {
        cast(&column.slice(row, 1), to).map_err(|e| crate::errors::of_engine(py, e))
    };
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py),
        // The usual types, without a cast for each value.
        DataType::Utf8 => column.as_string::<i32>().value(row).into_bound_py_any(py),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).into_bound_py_any(py),
        DataType::Utf8View => column.as_string_view().value(row).into_bound_py_any(py),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into_bound_py_any(py),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into_bound_py_any(py),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py),
        data_type if data_type.is_integer() => {
            read(&DataType::Int64)?.as_primitive::<Int64Type>().value(0).into_bound_py_any(py)
        }
        data_type if data_type.is_floating() => {
            read(&DataType::Float64)?.as_primitive::<Float64Type>().value(0).into_bound_py_any(py)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            Ok(PyBytes::new(py, read(&DataType::Binary)?.as_binary::<i32>().value(0)).into_any())
        }
        DataType::Date32 => {
            let days = read(&DataType::Int32)?;
            let days = days.as_primitive::<arrow::datatypes::Int32Type>().value(0);
            let date = PyDate::new(py, 1970, 1, 1)?;
            date.call_method1("__add__", (delta(py, i64::from(days) * 86_400_000_000)?,))
        }
        DataType::Timestamp(_, zone) => {
            let unit = arrow::datatypes::TimeUnit::Microsecond;
            let instant = read(&DataType::Timestamp(unit, zone.clone()))?;
            let instant =
                instant.as_primitive::<arrow::datatypes::TimestampMicrosecondType>().value(0);
            let utc = PyTzInfo::utc(py)?;
            let zone = zone.as_ref().map(|_| utc);
            let start = PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, zone.as_deref())?;
            start.call_method1("__add__", (delta(py, instant)?,))
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => {
            let list = elements(column, row);
            let values = (0..list.len()).map(|place| value(py, &list, place));
            Ok(PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        DataType::Struct(fields) => {
            let parts = column.as_struct();
            let values = PyDict::new(py);
            for (field, part) in fields.iter().zip(parts.columns()) {
                values.set_item(field.name(), value(py, part, row)?)?;
            }
            Ok(values.into_any())
        }
        DataType::Dictionary(_, of) => value(py, &read(of)?, 0),
        _ => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(column, &options);
            let text = text.map_err(|error| crate::errors::of_engine(py, error))?;
            text.value(row).to_string().into_bound_py_any(py)
        }
    }
}

/// The elements of a list.
fn elements(column: &ArrayRef, row: usize) -> ArrayRef {
    match column.data_type() {
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::ListView(_) => column.as_list_view::<i32>().value(row),
        DataType::LargeListView(_) => column.as_list_view::<i64>().value(row),
        _ => column.as_list::<i32>().value(row),
    }
}

/// A difference of times.
fn delta(py: Python<'_>, microseconds: i64) -> PyResult<Bound<'_, PyAny>> {
    let days = microseconds.div_euclid(86_400_000_000);
    let rest = microseconds.rem_euclid(86_400_000_000);
    py.import("datetime")?.getattr("timedelta")?.call1((days, 0, rest))
}
