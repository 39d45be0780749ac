//! Python's values as columns, for frames that are dictionaries and lists.

mod numbers;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray,
    NullArray, RecordBatch, RecordBatchOptions, StringBuilder, TimestampMicrosecondArray,
    UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet,
    PyString, PyTuple,
};

/// The batch of a dictionary of columns, which have equal lengths.
pub(crate) fn batch(columns: &Bound<'_, PyDict>) -> PyResult<RecordBatch> {
    let (mut fields, mut arrays, mut rows) = (vec![], vec![], None);
    for (name, column) in columns {
        let name = name.extract::<String>().map_err(|_| {
            PyTypeError::new_err(format!("the name of a column is {name}, which is no text"))
        })?;
        let array = column_of(&column, &name)?;
        match rows {
            Some((rows, ref first)) if rows != array.len() => {
                return Err(PyValueError::new_err(format!(
                    "columns of one frame differ in length: {first} has {rows} rows, {name} {}",
                    array.len()
                )));
            }
            Some(_) => {}
            None => rows = Some((array.len(), name.clone())),
        }
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let rows = rows.map_or(0, |(rows, _)| rows);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options);
    batch.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A column: an array of numbers as it lies in memory, or values.
fn column_of(column: &Bound<'_, PyAny>, name: &str) -> PyResult<ArrayRef> {
    if column.hasattr("__array_interface__")? && !column.getattr("shape")?.is_empty()? {
        if let Some(numbers) = numbers::array(column, name)? {
            return Ok(numbers);
        }
        // Texts and objects.
        return column_of(&column.call_method0("tolist")?, name);
    }
    let values: Vec<_> = column
        .try_iter()
        .map_err(|_| {
            let kind = column.get_type();
            PyTypeError::new_err(format!("the column {name} is a {kind}, not a list of values"))
        })?
        .collect::<PyResult<_>>()?;
    array(&values, name)
}

/// The type of values, as far as they tell it.
#[derive(Debug, Clone, PartialEq)]
enum ValueKind {
    /// Only None.
    Null,
    Bool,
    /// Integers, of which some are negative or all fit.
    Int,
    /// Integers of which some are beyond i64.
    BigInt,
    Float,
    Text,
    Bytes,
    Date,
    Time,
    List(Box<ValueKind>),
}

impl ValueKind {
    fn of(value: &Bound<'_, PyAny>, column: &str) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self::Null);
        }
        if value.is_instance_of::<PyBool>() {
            return Ok(Self::Bool);
        }
        if value.is_instance_of::<PyInt>() {
            return match (value.extract::<i64>(), value.extract::<u64>()) {
                (Ok(_), _) => Ok(Self::Int),
                (_, Ok(_)) => Ok(Self::BigInt),
                _ => Err(PyValueError::new_err(format!(
                    "{value} in the column {column} is beyond 64 bits; give it as text"
                ))),
            };
        }
        if value.is_instance_of::<PyFloat>() {
            return Ok(Self::Float);
        }
        if value.is_instance_of::<PyString>() {
            return Ok(Self::Text);
        }
        if value.is_instance_of::<PyBytes>() {
            return Ok(Self::Bytes);
        }
        if value.is_instance_of::<PyDateTime>() {
            return Ok(Self::Time);
        }
        if value.is_instance_of::<PyDate>() {
            return Ok(Self::Date);
        }
        if let Some(elements) = elements(value)? {
            let kinds = elements.iter().map(|element| Self::of(element, column));
            let kind = kinds.reduce(|a, b| a?.with(b?, column)).unwrap_or(Ok(Self::Null));
            return Ok(Self::List(Box::new(kind?)));
        }
        // Scalars of NumPy and the like know their value in Python.
        if value.hasattr("item")? {
            return Self::of(&value.call_method0("item")?, column);
        }
        Err(PyTypeError::new_err(format!(
            "a value in the column {column} is a {}, which is no number, text, bytes, date or list; \
             give the column as an Arrow array",
            value.get_type()
        )))
    }

    /// The type of both; NULL fits to each, and integers to numbers.
    fn with(self, other: Self, column: &str) -> PyResult<Self> {
        use ValueKind::{BigInt, Float, Int, List, Null};
        Ok(match (self, other) {
            (a, b) if a == b => a,
            (Null, kind) | (kind, Null) => kind,
            (Int, BigInt) | (BigInt, Int) => BigInt,
            (Int | BigInt, Float) | (Float, Int | BigInt) => Float,
            (List(a), List(b)) => List(Box::new(a.with(*b, column)?)),
            (a, b) => {
                return Err(PyTypeError::new_err(format!(
                    "the column {column} has values of several types: {a:?} and {b:?}"
                )));
            }
        })
    }
}

/// The elements of a list; `None` for other values.
fn elements<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let is_list = value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>();
    if is_list {
        return value.try_iter()?.collect::<PyResult<_>>().map(Some);
    }
    // An array of NumPy in a list of them.
    if value.hasattr("tolist")? && value.hasattr("__len__")? && value.hasattr("shape")? {
        return elements(&value.call_method0("tolist")?);
    }
    Ok(None)
}

/// The values as a column.
pub(crate) fn array(values: &[Bound<'_, PyAny>], column: &str) -> PyResult<ArrayRef> {
    let kinds = values.iter().map(|value| ValueKind::of(value, column));
    let kind = kinds.reduce(|a, b| a?.with(b?, column)).unwrap_or(Ok(ValueKind::Null))?;
    build(values, &kind)
}

/// The value unless it is None, read as `T`.
fn read<'py, T>(value: &Bound<'py, PyAny>) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    match value.is_none() {
        true => Ok(None),
        false => value.extract::<T>().map(Some).map_err(Into::into),
    }
}

/// All values, read as `T`.
fn all<'py, T>(values: &[Bound<'py, PyAny>]) -> PyResult<Vec<Option<T>>>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    values.iter().map(read).collect()
}

fn build(values: &[Bound<'_, PyAny>], kind: &ValueKind) -> PyResult<ArrayRef> {
    Ok(match kind {
        ValueKind::Null => Arc::new(NullArray::new(values.len())),
        ValueKind::Bool => Arc::new(BooleanArray::from(all::<bool>(values)?)),
        ValueKind::Int => Arc::new(Int64Array::from(all::<i64>(values)?)),
        ValueKind::BigInt => Arc::new(UInt64Array::from(unsigned(values)?)),
        ValueKind::Float => Arc::new(Float64Array::from(all::<f64>(values)?)),
        ValueKind::Text => {
            let mut texts = StringBuilder::new();
            for value in values {
                texts.append_option(read::<String>(value)?);
            }
            Arc::new(texts.finish())
        }
        ValueKind::Bytes => {
            let mut bytes = BinaryBuilder::new();
            for value in values {
                match value.cast::<PyBytes>() {
                    Ok(value) => bytes.append_value(value.as_bytes()),
                    Err(_) => bytes.append_null(),
                }
            }
            Arc::new(bytes.finish())
        }
        ValueKind::Date => Arc::new(Date32Array::from(times(values, days)?)),
        ValueKind::Time => Arc::new(TimestampMicrosecondArray::from(times(values, microseconds)?)),
        ValueKind::List(kind) => lists(values, kind)?,
    })
}

/// The values as u64.
fn unsigned(values: &[Bound<'_, PyAny>]) -> PyResult<Vec<Option<u64>>> {
    let beyond = |_| {
        PyValueError::new_err("a column has negative integers and integers beyond 2**63; give text")
    };
    let read = |value: &Bound<'_, PyAny>| match value.is_none() {
        true => Ok(None),
        false => value.extract::<u64>().map(Some).map_err(beyond),
    };
    values.iter().map(read).collect()
}

/// Days or instants, by `count` of their distance from the beginning of 1970.
fn times<T>(
    values: &[Bound<'_, PyAny>],
    count: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<Option<T>>> {
    let read = |value: &Bound<'_, PyAny>| match value.is_none() {
        true => Ok(None),
        false => count(value).map(Some),
    };
    values.iter().map(read).collect()
}

/// Days since 1 January 1970, which Python numbers 719163.
fn days(date: &Bound<'_, PyAny>) -> PyResult<i32> {
    Ok(date.call_method0("toordinal")?.extract::<i32>()? - 719_163)
}

/// Microseconds since the beginning of 1970, in UTC where the instant has a time zone.
fn microseconds(time: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = time.py();
    let module = py.import("datetime")?;
    let zone = time.getattr("tzinfo")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    let (time, start) = match zone.is_none() {
        true => (time.clone(), module.getattr("datetime")?.call1((1970, 1, 1))?),
        false => {
            let start = module.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, &utc))?;
            (time.call_method1("astimezone", (&utc,))?, start)
        }
    };
    let passed = time.sub(start)?;
    let whole = |name: &str| passed.getattr(name)?.extract::<i64>();
    Ok((whole("days")? * 86_400 + whole("seconds")?) * 1_000_000 + whole("microseconds")?)
}

/// Lists of values of `kind`.
fn lists(values: &[Bound<'_, PyAny>], kind: &ValueKind) -> PyResult<ArrayRef> {
    let (mut lengths, mut present, mut all) = (vec![], vec![], vec![]);
    for value in values {
        let elements = elements(value)?;
        present.push(elements.is_some());
        let elements = elements.unwrap_or_default();
        lengths.push(elements.len());
        all.extend(elements);
    }
    if i32::try_from(all.len()).is_err() {
        return Err(PyValueError::new_err("a column has more than 2^31 - 1 elements of lists"));
    }
    let values = build(&all, kind)?;
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let nulls = Some(NullBuffer::from(present)).filter(|nulls| nulls.null_count() > 0);
    let lists = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls);
    Ok(Arc::new(lists.map_err(|error| PyValueError::new_err(error.to_string()))?))
}

/// The type of a NumPy array's elements, by the text of its interface.
fn number_type(text: &str) -> Option<DataType> {
    let native = if cfg!(target_endian = "little") { '<' } else { '>' };
    let (order, kind) = (text.chars().next()?, text.get(1..)?);
    if order != native && order != '|' {
        return None;
    }
    Some(match kind {
        "i1" => DataType::Int8,
        "i2" => DataType::Int16,
        "i4" => DataType::Int32,
        "i8" => DataType::Int64,
        "u1" => DataType::UInt8,
        "u2" => DataType::UInt16,
        "u4" => DataType::UInt32,
        "u8" => DataType::UInt64,
        "f2" => DataType::Float16,
        "f4" => DataType::Float32,
        "f8" => DataType::Float64,
        _ => return None,
    })
}
