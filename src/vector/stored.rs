//! Rows as they lie on disk: lists of `f64`, whatever they were.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, BinaryArray, BinaryBuilder, Float64Builder, LargeListArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;

use super::axis::NormAxis;
use super::collection::Content;
use super::metric::Metric;
use super::numbers::{Numbers, Row};
use crate::engine::{Axis, EncodeInput, StoredForm, StoredRows};

/// `LargeList<Float64>`. A row that matches nothing is NULL; a list with a NULL element whose
/// length counts holds NULLs alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredVectors {
    pub metric: Metric,
    pub axis: NormAxis,
}

/// Rows in one array, so that the bytes of keys fit it.
const MOST_ROWS: usize = 1 << 13;

impl StoredVectors {
    fn element() -> FieldRef {
        Arc::new(Field::new_list_field(DataType::Float64, true))
    }

    /// Rows with these contents, lengths and numbers.
    pub(super) fn array<'a>(
        rows: impl Iterator<Item = (Content, u32, &'a [f64])>,
    ) -> LargeListArray {
        let (mut offsets, mut valid) = (vec![0_i64], vec![]);
        let mut elements = Float64Builder::new();
        for (content, len, vector) in rows {
            match content {
                Content::None => {}
                Content::WithNull => elements.append_nulls(len as usize),
                Content::Vector => elements.append_slice(vector),
            }
            valid.push(content != Content::None);
            offsets.push(elements.len() as i64);
        }
        let elements = Arc::new(elements.finish());
        let offsets = OffsetBuffer::new(offsets.into());
        LargeListArray::new(Self::element(), offsets, elements, Some(NullBuffer::from(valid)))
    }
}

impl StoredForm for StoredVectors {
    fn data_type(&self) -> DataType {
        DataType::LargeList(Self::element())
    }

    fn store(&self, input: &EncodeInput<'_>) -> Result<Vec<StoredRows>> {
        let numbers = Numbers::try_new(input.values)?;
        let mut stored = vec![];
        for start in (0..numbers.len()).step_by(MOST_ROWS) {
            let rows = start..numbers.len().min(start + MOST_ROWS);
            let mut vectors = vec![];
            let mut contents = vec![];
            let mut keys = input.keys.map(|_| BinaryBuilder::new());
            for row in rows.clone() {
                let key = input.keys.and_then(|keys| keys.bytes(row));
                let may_match = input.may_match(row) && (key.is_some() || input.keys.is_none());
                let (content, len) = match numbers.row(row) {
                    Row::WithNull(len) if may_match && self.metric.measures_nulls() => {
                        (Content::WithNull, len)
                    }
                    Row::Vector(range) if may_match => {
                        let len = range.len();
                        numbers.append(range, &mut vectors);
                        (Content::Vector, len)
                    }
                    _ => (Content::None, 0),
                };
                contents.push((content, len));
                if let Some(keys) = &mut keys {
                    keys.append_option(key.filter(|_| content != Content::None));
                }
            }
            let mut rest = vectors.as_slice();
            let contents = contents.into_iter().map(|(content, len)| {
                let own = if content == Content::Vector { len } else { 0 };
                let (vector, others) = rest.split_at(own);
                rest = others;
                (content, len as u32, vector)
            });
            let values: ArrayRef = Arc::new(Self::array(contents));
            let keys: Option<BinaryArray> = keys.map(|mut keys| keys.finish());
            stored.push(StoredRows { rows, values, keys });
        }
        Ok(stored)
    }

    fn positions(&self, values: &dyn Array) -> Vec<u32> {
        let Ok(numbers) = Numbers::try_new(values) else {
            // No stored values are of another type.
            return vec![self.axis.position(&[f64::NAN]); values.len()];
        };
        let mut vector = vec![];
        let position = |row: usize| {
            vector.clear();
            match numbers.row(row) {
                Row::Null => return 0,
                Row::WithNull(_) => {}
                Row::Vector(range) => numbers.append(range, &mut vector),
            }
            self.axis.position(&vector)
        };
        (0..numbers.len()).map(position).collect()
    }

    fn kinds(&self, values: &dyn Array) -> Option<Vec<u32>> {
        if !self.axis.has_anywhere() {
            return None;
        }
        let numbers = Numbers::try_new(values).ok()?;
        let len = |row: usize| match numbers.row(row) {
            Row::Null => 0,
            Row::WithNull(len) => len as u32,
            Row::Vector(range) => range.len() as u32,
        };
        Some((0..numbers.len()).map(len).collect())
    }
}
