//! Rows of JSON: Arrow's reader, which rounds a number that its type does not hold, behind a check.
//!
//! Arrow gives a number as the text that stands in the file where the column is text. So the numbers of columns that
//! may not hold them are read as text, wherever they stand in lists and structs, and turned into numbers here.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeListArray, GenericListArray, MapArray,
    OffsetSizeTrait, PrimitiveArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::datatypes::*;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder;
use datafusion::common::{Result, exec_err};

use super::rows::{Decode, shown};
use super::values::{Value, holds};

/// Reads the rows of a JSON file.
#[derive(Debug, Clone)]
pub(super) struct JsonReader {
    /// All columns of the file.
    pub(super) schema: SchemaRef,
    /// The columns to be read.
    pub(super) columns: Vec<usize>,
    pub(super) check: Check,
}

/// The values that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// None: all of them are known.
    Nothing,
    /// Integers, which Arrow would cut fractions to.
    Integers,
    /// Numbers, and that no row has a key which is no column.
    All,
}

impl JsonReader {
    pub(super) fn decoder(&self, rows: usize) -> Result<JsonDecoder> {
        let (target, columns) = match self.check {
            Check::All => (Arc::clone(&self.schema), Some(self.columns.clone())),
            _ => (Arc::new(self.schema.project(&self.columns)?), None),
        };
        let fields: Fields =
            target.fields().iter().map(|field| field_as_read(field, self.check)).collect();
        let inner = ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .with_batch_size(rows)
            .with_coerce_primitive(true)
            .with_strict_mode(self.check == Check::All)
            .build_decoder()?;
        Ok(JsonDecoder { inner, target, columns, check: self.check, is_full: false })
    }
}

pub(super) struct JsonDecoder {
    inner: Decoder,
    target: SchemaRef,
    /// The columns of `target` that are asked for; `None` for all.
    columns: Option<Vec<usize>>,
    check: Check,
    is_full: bool,
}

impl Decode for JsonDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = self.inner.decode(bytes)?;
        self.is_full = taken < bytes.len();
        Ok(taken)
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        self.is_full = false;
        let Some(batch) = self.inner.flush()? else { return Ok(None) };
        let columns = batch.columns().iter().zip(self.target.fields());
        let columns = match self.check {
            Check::Nothing => batch.columns().to_vec(),
            _ => columns
                .map(|(column, field)| as_typed(column, field.data_type(), field.name()))
                .collect::<Result<Vec<_>>>()?,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.target), columns, &options)?;
        Ok(Some(match &self.columns {
            Some(columns) => batch.project(columns)?,
            None => batch,
        }))
    }
}

fn field_as_read(field: &FieldRef, check: Check) -> FieldRef {
    let data_type = type_as_read(field.data_type(), check);
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The type as which Arrow reads a column.
fn type_as_read(data_type: &DataType, check: Check) -> DataType {
    let field = |field: &FieldRef| field_as_read(field, check);
    match data_type {
        _ if check == Check::Nothing => data_type.clone(),
        DataType::Float64 if check == Check::All => DataType::Utf8,
        integer if integer.is_integer() => DataType::Utf8,
        DataType::List(element) => DataType::List(field(element)),
        DataType::LargeList(element) => DataType::LargeList(field(element)),
        DataType::FixedSizeList(element, length) => {
            DataType::FixedSizeList(field(element), *length)
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        other => other.clone(),
    }
}

/// The column as its type, out of the type as which it was read. `path` names it in errors.
fn as_typed(column: &ArrayRef, data_type: &DataType, path: &str) -> Result<ArrayRef> {
    if column.data_type() == data_type {
        return Ok(Arc::clone(column));
    }
    let nulls = column.nulls().cloned();
    Ok(match data_type {
        DataType::Int8 => integers::<Int8Type>(column, path)?,
        DataType::Int16 => integers::<Int16Type>(column, path)?,
        DataType::Int32 => integers::<Int32Type>(column, path)?,
        DataType::Int64 => integers::<Int64Type>(column, path)?,
        DataType::UInt8 => integers::<UInt8Type>(column, path)?,
        DataType::UInt16 => integers::<UInt16Type>(column, path)?,
        DataType::UInt32 => integers::<UInt32Type>(column, path)?,
        DataType::UInt64 => integers::<UInt64Type>(column, path)?,
        DataType::Float64 => floats(column, path)?,
        DataType::List(element) => list::<i32>(column, element, path)?,
        DataType::LargeList(element) => list::<i64>(column, element, path)?,
        DataType::FixedSizeList(element, length) => {
            let values = as_typed(
                column.as_fixed_size_list().values(),
                element.data_type(),
                &format!("{path}[]"),
            )?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(element), *length, values, nulls)?)
        }
        DataType::Struct(fields) => {
            let typed = structs(column.as_struct(), fields, path)?;
            Arc::new(typed)
        }
        DataType::Map(entries, sorted) => {
            let map = column.as_map();
            let DataType::Struct(fields) = entries.data_type() else {
                return exec_err!("the entries of the map {path} are no structs");
            };
            let typed = structs(map.entries(), fields, path)?;
            let offsets = map.offsets().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, typed, nulls, *sorted)?)
        }
        other => return exec_err!("column {path} cannot be read as {other}"),
    })
}

fn structs(structs: &StructArray, fields: &Fields, path: &str) -> Result<StructArray> {
    let typed = structs.columns().iter().zip(fields).map(|(column, field)| {
        as_typed(column, field.data_type(), &format!("{path}.{}", field.name()))
    });
    let typed = typed.collect::<Result<Vec<_>>>()?;
    let nulls = structs.nulls().cloned();
    Ok(StructArray::try_new_with_length(fields.clone(), typed, nulls, structs.len())?)
}

fn list<O: OffsetSizeTrait>(column: &ArrayRef, element: &FieldRef, path: &str) -> Result<ArrayRef> {
    let list: &GenericListArray<O> = column.as_list();
    let values = as_typed(list.values(), element.data_type(), &format!("{path}[]"))?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
}

fn integers<T>(column: &ArrayRef, path: &str) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: FromStr + TryFrom<i64>,
{
    let texts = column.as_string::<i32>().iter();
    let values = texts.map(|text| {
        text.map(|text| match integer::<T::Native>(text) {
            Some(value) => Ok(value),
            None => exec_err!("column {path}: {} is no {}", shown(text), T::DATA_TYPE),
        })
        .transpose()
    });
    Ok(Arc::new(values.collect::<Result<PrimitiveArray<T>>>()?))
}

/// The integer that a number is: `1`, `1.0`, `1e3`.
fn integer<N: FromStr + TryFrom<i64>>(text: &str) -> Option<N> {
    match Value::of_number(text.as_bytes()) {
        Value::Integer { .. } => text.parse().ok(),
        Value::Fraction => {
            let number: f64 = text.parse().ok()?;
            let is_whole = number.fract() == 0.0 && number.abs() <= (1_u64 << 53) as f64;
            is_whole.then_some(number as i64).and_then(|number| N::try_from(number).ok())
        }
        _ => None,
    }
}

fn floats(column: &ArrayRef, path: &str) -> Result<ArrayRef> {
    let texts = column.as_string::<i32>().iter();
    let values = texts.map(|text| {
        text.map(|text| match text.parse::<f64>() {
            Ok(value) if holds(&DataType::Float64, Value::of_number(text.as_bytes())) => Ok(value),
            _ => exec_err!("column {path}: {} is no Float64", shown(text)),
        })
        .transpose()
    });
    Ok(Arc::new(values.collect::<Result<PrimitiveArray<Float64Type>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_only_where_they_stand() {
        for (text, expected) in [
            ("9", Some(9)),
            ("-9", Some(-9)),
            ("9.0", Some(9)),
            ("9e2", Some(900)),
            ("9.99", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("9007199254740993.0", None),
            ("true", None),
            ("007", None),
            ("-0", Some(0)),
            ("x", None),
        ] {
            assert_eq!(integer::<i64>(text), expected, "{text}");
        }
        assert_eq!(integer::<u64>("18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer::<u64>("-1"), None);
        assert_eq!(integer::<i8>("128"), None);
        assert_eq!(integer::<i8>("1e3"), None);
    }
}
