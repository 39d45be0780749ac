//! Blocking keys: the values of equality conjuncts as dense ids.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{NullEquality, Result};

use super::dictionary::Dictionary;
use super::runs::KeyId;

/// Turns key columns into comparable bytes. Equal values give equal bytes, as DataFusion's `=`
/// has it: NaN equals itself, -0.0 equals 0.0.
#[derive(Debug)]
pub struct KeyConverter {
    converter: RowConverter,
    null_equality: NullEquality,
}

/// The keys of a batch of rows.
#[derive(Debug)]
pub struct KeyRows {
    rows: Rows,
    nulls: Option<NullBuffer>,
}

/// A view on [`KeyRows`].
pub type Keys<'a> = &'a KeyRows;

impl KeyConverter {
    pub fn try_new(types: Vec<DataType>, null_equality: NullEquality) -> Result<Self> {
        let fields = types.into_iter().map(SortField::new).collect();
        Ok(Self { converter: RowConverter::new(fields)?, null_equality })
    }

    /// The keys of the rows of `columns`.
    pub fn convert(&self, columns: &[ArrayRef]) -> Result<KeyRows> {
        let columns: Vec<ArrayRef> = columns.iter().map(normalize_float_zero).collect();
        let rows = self.converter.convert_columns(&columns)?;
        let nulls = match self.null_equality {
            NullEquality::NullEqualsNull => None,
            NullEquality::NullEqualsNothing => columns.iter().fold(None, |nulls, c| {
                NullBuffer::union(nulls.as_ref(), c.logical_nulls().as_ref())
            }),
        };
        Ok(KeyRows { rows, nulls })
    }
}

impl KeyRows {
    /// The bytes of a row's key; `None` when it equals nothing.
    fn key(&self, row: usize) -> Option<datafusion::arrow::row::Row<'_>> {
        let null = self.nulls.as_ref().is_some_and(|n| n.is_null(row));
        (!null).then(|| self.rows.row(row))
    }
}

/// The ids of the build side's keys.
#[derive(Debug, Default)]
pub struct KeyDictionary {
    pub(super) keys: Dictionary,
}

impl KeyDictionary {
    /// The id of a row's key, a new one if need be; `None` when the key equals nothing.
    pub(super) fn insert(&mut self, keys: Keys<'_>, row: usize) -> Result<Option<KeyId>> {
        keys.key(row).map(|key| self.keys.bytes(key.as_ref())).transpose()
    }

    /// The id of a row's key; `None` when no row of the build side has it.
    pub(super) fn find(&self, keys: Keys<'_>, row: usize) -> Option<KeyId> {
        keys.key(row).and_then(|key| self.keys.find(key.as_ref()))
    }

    /// The number of distinct keys.
    pub fn len(&self) -> u32 {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.keys.size()
    }
}
