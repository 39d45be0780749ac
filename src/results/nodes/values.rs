//! Values of nodes: integers that keep their order, or rows of bytes that do.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, internal_err, plan_err};

use super::NODE_ORDER;

/// The form in which nodes are compared.
#[derive(Debug, Clone)]
pub(crate) enum NodeType {
    /// Integers, dates and times of up to 64 bits.
    Integers(DataType),
    /// All other types, as rows whose bytes have the order of the values.
    Rows { data_type: DataType, converter: Arc<RowConverter> },
}

/// A column of nodes.
#[derive(Debug)]
pub(crate) struct NodeColumn {
    pub values: NodeValues,
    pub nulls: Option<NullBuffer>,
}

#[derive(Debug)]
pub(crate) enum NodeValues {
    /// Integers as unsigned numbers, in the order of the column's type.
    Integers(Vec<u64>),
    Rows(Rows),
}

impl NodeColumn {
    pub(crate) fn len(&self) -> usize {
        match &self.values {
            NodeValues::Integers(values) => values.len(),
            NodeValues::Rows(rows) => rows.num_rows(),
        }
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

/// The width in bytes of a type of integers, and whether it has a sign.
fn width_of(data_type: &DataType) -> Option<(usize, bool)> {
    Some(match data_type {
        DataType::Int8 => (1, true),
        DataType::Int16 => (2, true),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => (4, true),
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => (8, true),
        DataType::UInt8 => (1, false),
        DataType::UInt16 => (2, false),
        DataType::UInt32 => (4, false),
        DataType::UInt64 => (8, false),
        _ => return None,
    })
}

/// The bit that brings negative numbers below the others.
const SIGN: u64 = 1 << 63;

/// Whether values of a type can be nodes.
pub(crate) fn is_node_type(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

impl NodeType {
    /// # Errors
    ///
    /// A plan error where values of the type have no order.
    pub(crate) fn try_new(data_type: &DataType) -> Result<Self> {
        if width_of(data_type).is_some() {
            return Ok(Self::Integers(data_type.clone()));
        }
        let field = SortField::new_with_options(data_type.clone(), NODE_ORDER);
        if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
            return plan_err!("values of type {data_type} have no order, so they cannot be nodes");
        }
        let converter = Arc::new(RowConverter::new(vec![field])?);
        Ok(Self::Rows { data_type: data_type.clone(), converter })
    }

    pub(crate) fn column(&self, array: &ArrayRef) -> Result<NodeColumn> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let values = match self {
            Self::Integers(data_type) => NodeValues::Integers(integers_of(array, data_type)?),
            Self::Rows { converter, .. } => {
                NodeValues::Rows(converter.convert_columns(std::slice::from_ref(array))?)
            }
        };
        Ok(NodeColumn { values, nulls })
    }

    /// The array of integers as [`NodeValues::Integers`] has them.
    pub(super) fn integers(&self, values: impl Iterator<Item = Option<u64>>) -> Result<ArrayRef> {
        let Self::Integers(data_type) = self else {
            return internal_err!("rows are no integers");
        };
        let mut valid = Vec::with_capacity(values.size_hint().0);
        let mut numbers = Vec::with_capacity(values.size_hint().0);
        for value in values {
            valid.push(value.is_some());
            numbers.push(value.unwrap_or_default());
        }
        let (width, signed) = width_of(data_type).unwrap_or((8, false));
        let numbers = numbers.into_iter().map(|number| if signed { number ^ SIGN } else { number });
        let buffer = match width {
            1 => Buffer::from_vec(numbers.map(|n| n as u8).collect::<Vec<_>>()),
            2 => Buffer::from_vec(numbers.map(|n| n as u16).collect::<Vec<_>>()),
            4 => Buffer::from_vec(numbers.map(|n| n as u32).collect::<Vec<_>>()),
            _ => Buffer::from_vec(numbers.collect::<Vec<_>>()),
        };
        let nulls = NullBuffer::from(valid);
        let data = arrow::array::ArrayData::builder(data_type.clone())
            .len(nulls.len())
            .add_buffer(buffer)
            .nulls((nulls.null_count() > 0).then_some(nulls));
        Ok(make_array(data.build()?))
    }

    /// The array of `len` rows. `write` appends the bytes of a row, and says whether there is one.
    pub(super) fn rows(
        &self,
        len: usize,
        write: impl Fn(usize, &mut Vec<u8>) -> bool,
    ) -> Result<ArrayRef> {
        let Self::Rows { data_type, converter } = self else {
            return internal_err!("integers are no rows");
        };
        let null = arrow::array::new_null_array(data_type, 1);
        let null = converter.convert_columns(&[null])?;
        let mut bytes = vec![];
        let mut ends = Vec::with_capacity(len);
        for place in 0..len {
            if !write(place, &mut bytes) {
                bytes.extend_from_slice(null.row(0).data());
            }
            ends.push(bytes.len());
        }
        let parser = converter.parser();
        let mut start = 0;
        let rows = ends.into_iter().map(|end| {
            let row = parser.parse(bytes.get(start..end).unwrap_or_default());
            start = end;
            row
        });
        let rows: Vec<_> = rows.collect();
        match converter.convert_rows(rows)?.pop() {
            Some(array) => Ok(array),
            None => internal_err!("rows of nodes have one column"),
        }
    }
}

fn integers_of(array: &ArrayRef, data_type: &DataType) -> Result<Vec<u64>> {
    if array.data_type() != data_type {
        return internal_err!("a column of nodes is {}, not {data_type}", array.data_type());
    }
    fn signed<T: ArrowNativeType + Into<i64>>(array: &ArrayRef) -> Vec<u64> {
        native::<T>(array).into_iter().map(|value| (value.into() as u64) ^ SIGN).collect()
    }
    fn unsigned<T: ArrowNativeType + Into<u64>>(array: &ArrayRef) -> Vec<u64> {
        native::<T>(array).into_iter().map(Into::into).collect()
    }
    Ok(match width_of(data_type) {
        Some((1, true)) => signed::<i8>(array),
        Some((2, true)) => signed::<i16>(array),
        Some((4, true)) => signed::<i32>(array),
        Some((8, true)) => signed::<i64>(array),
        Some((1, false)) => unsigned::<u8>(array),
        Some((2, false)) => unsigned::<u16>(array),
        Some((4, false)) => unsigned::<u32>(array),
        Some((8, false)) => unsigned::<u64>(array),
        _ => return internal_err!("{data_type} is no type of integers"),
    })
}

fn native<T: ArrowNativeType>(array: &ArrayRef) -> Vec<T> {
    let data = array.to_data();
    match data.buffers().first() {
        Some(buffer) => {
            let values = buffer.typed_data::<T>();
            values.get(data.offset()..data.offset() + data.len()).unwrap_or_default().to_vec()
        }
        None => vec![],
    }
}
