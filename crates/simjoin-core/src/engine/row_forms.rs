//! Rows with one value each on disk, and on the axis.

use arrow::array::{Array, BinaryArray};
use arrow::datatypes::DataType;

use super::rows::RowValues;
use super::{EncodeInput, PlaceReader, RowPlace, StoredForm, StoredRows};
use crate::error::Result;

/// The stored form of values: that of [`RowValues::stored`], NULL for a row that matches nothing.
#[derive(Debug)]
pub(super) struct RowForm<V> {
    values: V,
}

/// Rows in one array, so that the bytes of keys fit it.
const MOST_ROWS: usize = 1 << 13;

impl<V: RowValues> RowForm<V> {
    pub(super) fn new(values: V) -> Self {
        Self { values }
    }
}

impl<V: RowValues> StoredForm for RowForm<V> {
    fn data_type(&self) -> DataType {
        V::stored(std::iter::empty()).data_type().clone()
    }

    fn store(&self, input: &EncodeInput<'_>) -> Result<Vec<StoredRows>> {
        let column = V::column(input.values)?;
        let has_key = |row: usize| input.keys.is_none_or(|keys| keys.bytes(row).is_some());
        let may_match = |row: usize| input.may_match(row) && has_key(row);
        let count = input.values.len();
        let stored = (0..count).step_by(MOST_ROWS).map(|start| {
            let rows = start..count.min(start + MOST_ROWS);
            let values = self.values.store(&column, rows.clone(), may_match)?;
            let keys = input.keys.map(|keys| {
                let key = |row: usize| keys.bytes(row).filter(|_| values.is_valid(row - start));
                rows.clone().map(key).collect::<BinaryArray>()
            });
            Ok(StoredRows { rows, values, keys })
        });
        stored.collect()
    }

    fn positions(&self, values: &dyn Array) -> Vec<u32> {
        let mut buffer = V::Content::default();
        // No stored values are of another type.
        let Ok(column) = V::column(values) else { return vec![1; values.len()] };
        let position = |row: usize| match self.values.value(&column, row, &mut buffer) {
            Ok(Some(value)) => self.values.position(value),
            Ok(None) | Err(_) => 0,
        };
        (0..values.len()).map(position).collect()
    }

    fn kinds(&self, values: &dyn Array) -> Option<Vec<u32>> {
        self.values.kinds(values)
    }
}

/// Places of rows: by the position, the kind and the hash of their value.
#[derive(Debug)]
pub struct RowPlaces<V: RowValues> {
    values: V,
    buffer: V::Content,
}

impl<V: RowValues> RowPlaces<V> {
    pub fn new(values: V) -> Self {
        Self { values, buffer: V::Content::default() }
    }

    /// The place of a row; `None` where it matches nothing.
    #[inline]
    fn place(
        &mut self,
        input: &EncodeInput<'_>,
        column: &V::Column,
        row: usize,
    ) -> Result<Option<RowPlace>> {
        if !input.may_match(row) {
            return Ok(None);
        }
        let key_hash = input.keys.map_or(Some(0), |keys| keys.key_hash(row));
        let Some(key_hash) = key_hash else { return Ok(None) };
        let Self { values, buffer } = self;
        let Some(value) = values.value(column, row, buffer)? else { return Ok(None) };
        let hash = V::hash(value);
        let hash = (hash >> 32) as u32 ^ hash as u32;
        let (position, kind) = (values.position(value), V::kind(value));
        Ok(Some(RowPlace { position, kind, hash, key_hash }))
    }
}

impl<V: RowValues> PlaceReader for RowPlaces<V> {
    fn read(&mut self, input: &EncodeInput<'_>, places: &mut Vec<RowPlace>) -> Result<()> {
        places.clear();
        let column = V::column(input.values)?;
        for row in 0..input.values.len() {
            places.push(self.place(input, &column, row)?.unwrap_or_default());
        }
        Ok(())
    }
}
