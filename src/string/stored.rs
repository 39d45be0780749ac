//! Rows as they lie on disk: large texts, whatever they were.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, LargeStringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::axis::LengthAxis;
use crate::engine::{EncodeInput, StoredForm, StoredRows};
use crate::values::Texts;

/// `LargeUtf8`. A row that matches nothing is NULL.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredStrings {
    pub axis: LengthAxis,
}

/// Rows in one array, so that the bytes of keys fit it.
const MOST_ROWS: usize = 1 << 13;

impl StoredForm for StoredStrings {
    fn data_type(&self) -> DataType {
        DataType::LargeUtf8
    }

    fn store(&self, input: &EncodeInput<'_>) -> Result<Vec<StoredRows>> {
        let texts = Texts::try_new(input.values)?;
        let key = |row: usize| input.keys.map_or(Some(&[][..]), |keys| keys.bytes(row));
        let text = |row: usize| {
            let has_item = input.may_match(row) && key(row).is_some();
            texts.value(row).filter(|_| has_item)
        };
        let starts = (0..texts.len()).step_by(MOST_ROWS);
        let stored = starts.map(|start| {
            let rows = start..texts.len().min(start + MOST_ROWS);
            let values: ArrayRef = Arc::new(rows.clone().map(text).collect::<LargeStringArray>());
            let keys = input.keys.map(|keys| {
                let key = |row: usize| text(row).and_then(|_| keys.bytes(row));
                rows.clone().map(key).collect::<BinaryArray>()
            });
            StoredRows { rows, values, keys }
        });
        Ok(stored.collect())
    }

    fn positions(&self, values: &dyn Array) -> Vec<u32> {
        // No stored values are of another type.
        let Ok(texts) = Texts::try_new(values) else { return vec![1; values.len()] };
        let position = |text: &str| self.axis.position(text.chars().count() as u32);
        (0..texts.len()).map(|row| texts.value(row).map_or(0, position)).collect()
    }
}
