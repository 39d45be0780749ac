//! Steps 3 and 5: rows on disk, and rows as items.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array};

use super::Near;
use crate::engine::{
    Gathering, InputRow, ItemId, KeyId, ReadRows, RowGroups, RowValues, collection,
};
use crate::error::{Error, Result};

/// The distinct integers of each blocking key, ascending by (key, integer).
#[derive(Debug)]
pub(crate) struct Values {
    pub items: Vec<(KeyId, i64)>,
    groups: RowGroups,
}

impl Values {
    /// The items of a key with integers within the reach of another one.
    pub(super) fn partners(&self, (key, value): (KeyId, i64), reach: i64) -> Range<ItemId> {
        let first = |least| self.items.partition_point(|item| *item < (key, least)) as ItemId;
        first(value - reach)..first(value + reach + 1)
    }
}

collection!(Values, |this| this.items.capacity() * size_of::<(KeyId, i64)>());

impl RowValues for Near {
    type Column = Int32Array;
    type Value<'a> = i32;
    /// The key and the integer, where the row matches something, and the number.
    type Row = (Option<(KeyId, i32)>, u32);
    type Content = ();
    type Items = Values;

    fn column(values: &dyn Array) -> Result<Int32Array> {
        match values.as_primitive_opt() {
            Some(values) => Ok(values.clone()),
            None => Err(Error::Internal(format!("integers are {}", values.data_type()))),
        }
    }

    fn content(_: &Int32Array, _: usize) {}

    fn read(&self, column: &Int32Array, row: InputRow, _: &mut ()) -> Result<Self::Row> {
        let value = column.is_valid(row.index).then(|| column.value(row.index));
        Ok((row.key.zip(value), row.number))
    }

    fn key((item, _): &mut Self::Row) -> Option<&mut KeyId> {
        item.as_mut().map(|(key, _)| key)
    }

    fn item((item, _): &Self::Row, _: &()) -> Option<(KeyId, i32)> {
        *item
    }

    fn position(&self, value: i32) -> u32 {
        value.abs_diff(i32::MIN) / 2 + 1
    }

    fn hash(value: i32) -> u64 {
        u64::from(value as u32).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn stored<'a>(values: impl Iterator<Item = Option<Self::Value<'a>>>) -> ArrayRef {
        Arc::new(values.collect::<Int32Array>())
    }

    fn footprint(rows: usize, _: usize) -> usize {
        rows * (size_of::<Self::Row>() + size_of::<(KeyId, i64)>() + 3 * size_of::<u32>()) + 64
    }

    fn gather(&self, read: Vec<ReadRows<Self>>, _: Gathering<'_>) -> Result<Values> {
        let mut rows: Vec<Self::Row> = read.into_iter().flat_map(|part| part.rows).collect();
        rows.sort_unstable();
        // Rows without an item come first.
        let (others, rows) = rows.split_at(rows.partition_point(|(item, _)| item.is_none()));
        let (mut items, mut offsets) = (vec![], vec![0]);
        for equal in rows.chunk_by(|a, b| a.0 == b.0) {
            items.extend(equal[0].0.map(|(key, value)| (key, i64::from(value))));
            offsets.push(offsets[offsets.len() - 1] + equal.len() as u32);
        }
        let [rows, others] = [rows, others].map(|rows| rows.iter().map(|row| row.1).collect());
        Ok(Values { items, groups: RowGroups::new(offsets, rows, others) })
    }
}
