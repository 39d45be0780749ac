//! A column as the engine reads it.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use crate::engine::{ArgumentBatches, KeyRows, Origin};
use crate::error::{Result, internal_err};
use crate::library::search::{PairSearch, SideRows};

/// Rows of a batch, which a thread reads.
const BATCH: usize = 1 << 13;

/// The column of a side.
#[derive(Debug)]
pub(super) struct Batches {
    array: ArrayRef,
    data_type: DataType,
    origin: Option<Origin>,
    rows: Vec<usize>,
}

impl Batches {
    pub(super) fn try_new(search: &PairSearch<'_>, rows: &SideRows) -> Result<Self> {
        let tokenizer = search.options.tokenizer()?;
        let (data_type, origin) = search.measure.argument(rows.array.data_type(), tokenizer);
        let batches = (0..rows.len()).step_by(BATCH).map(|start| BATCH.min(rows.len() - start));
        Ok(Self { array: rows.array.clone(), data_type, origin, rows: batches.collect() })
    }
}

impl ArgumentBatches for Batches {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    fn rows(&self) -> &[usize] {
        &self.rows
    }

    fn values(&self, batch: usize, rows: Range<usize>, of_origin: bool) -> Result<ArrayRef> {
        match of_origin == self.origin.is_some() {
            true => Ok(self.array.slice(batch * BATCH + rows.start, rows.len())),
            false => internal_err!("a column of {} is read as another", self.array.data_type()),
        }
    }

    fn is_stored(&self, _: bool) -> bool {
        true
    }

    fn has_keys(&self) -> bool {
        false
    }

    fn keys(&self, _: usize) -> Result<Option<KeyRows>> {
        Ok(None)
    }
}

/// The rows of a column that are not NULL.
pub(super) fn rows_with_value(array: &dyn Array) -> Vec<u32> {
    let nulls = array.logical_nulls();
    let has_value = |row: &u32| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row as usize));
    (0..array.len() as u32).filter(has_value).collect()
}
