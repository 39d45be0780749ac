//! Blocking keys: the values of equality conjuncts as dense ids.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};

use crate::error::{Result, internal_err};
use crate::values::byte_tokens::unpack;
use crate::values::dictionary::{Dictionary, DictionaryKey, hash_bytes};

/// Turns key columns into comparable bytes. Equal values give equal bytes, as DataFusion's `=`
/// has it: NaN equals itself, -0.0 equals 0.0.
#[derive(Debug)]
pub struct KeyConverter {
    /// `None` where the one key column holds the bytes of [`KeyRows::bytes`].
    converter: Option<RowConverter>,
    nulls_are_equal: bool,
}

/// The keys of a batch of rows.
#[derive(Debug)]
pub struct KeyRows {
    bytes: KeyBytes,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum KeyBytes {
    Rows(Rows),
    Stored(BinaryArray),
}

/// The id of a blocking key; 0 where the join has none.
pub type KeyId = u32;

/// A view on [`KeyRows`].
pub type Keys<'a> = &'a KeyRows;

impl KeyConverter {
    /// A converter of columns of these types. NULL equals NULL, or nothing.
    pub fn try_new(types: Vec<DataType>, nulls_are_equal: bool) -> Result<Self> {
        let fields = types.into_iter().map(SortField::new).collect();
        Ok(Self { converter: Some(RowConverter::new(fields)?), nulls_are_equal })
    }

    /// For a column of the bytes that another converter has given, NULL where a key equals
    /// nothing.
    pub fn of_stored() -> Self {
        Self { converter: None, nulls_are_equal: false }
    }

    /// The keys of the rows of `columns`.
    pub fn convert(&self, columns: &[ArrayRef]) -> Result<KeyRows> {
        let Some(converter) = &self.converter else {
            let [column] = columns else {
                return internal_err!("stored keys are one column, not {}", columns.len());
            };
            let Some(stored) = column.as_binary_opt::<i32>().cloned() else {
                return internal_err!("stored keys are bytes, not {}", column.data_type());
            };
            return Ok(KeyRows { nulls: stored.nulls().cloned(), bytes: KeyBytes::Stored(stored) });
        };
        let columns: Vec<ArrayRef> = columns.iter().map(with_one_zero).collect();
        let bytes = KeyBytes::Rows(converter.convert_columns(&columns)?);
        let nulls = match self.nulls_are_equal {
            true => None,
            false => columns.iter().fold(None, |nulls, c| {
                NullBuffer::union(nulls.as_ref(), c.logical_nulls().as_ref())
            }),
        };
        Ok(KeyRows { bytes, nulls })
    }
}

/// A column of floats with 0.0 in place of -0.0; any other column.
fn with_one_zero(column: &ArrayRef) -> ArrayRef {
    fn of<T: ArrowPrimitiveType>(column: &ArrayRef) -> ArrayRef {
        let zero = T::Native::default();
        let numbers = column.as_primitive::<T>();
        Arc::new(numbers.unary::<_, T>(|number| if number == zero { zero } else { number }))
    }
    match column.data_type() {
        DataType::Float16 => of::<Float16Type>(column),
        DataType::Float32 => of::<Float32Type>(column),
        DataType::Float64 => of::<Float64Type>(column),
        _ => Arc::clone(column),
    }
}

impl KeyRows {
    /// The bytes of a row's key; `None` when it equals nothing. Equal keys have equal bytes.
    pub fn bytes(&self, row: usize) -> Option<&[u8]> {
        let null = self.nulls.as_ref().is_some_and(|n| n.is_null(row));
        (!null).then(|| match &self.bytes {
            KeyBytes::Rows(rows) => rows.row(row).data(),
            KeyBytes::Stored(keys) => keys.value(row),
        })
    }

    /// A hash of a row's key, the same in every process; `None` when the key equals nothing.
    pub fn key_hash(&self, row: usize) -> Option<u32> {
        self.bytes(row).map(hash_bytes)
    }
}

/// The ids of the build side's keys.
#[derive(Debug, Default)]
pub struct KeyDictionary {
    pub keys: Dictionary,
}

impl KeyDictionary {
    /// The id of a row's key, a new one if need be; `None` when the key equals nothing.
    pub fn insert(&mut self, keys: Keys<'_>, row: usize) -> Result<Option<KeyId>> {
        keys.bytes(row).map(|key| self.keys.bytes(key)).transpose()
    }

    /// The id of a row's key; `None` when no row of the build side has it.
    pub fn find(&self, keys: Keys<'_>, row: usize) -> Option<KeyId> {
        keys.bytes(row).and_then(|key| self.keys.find(key))
    }

    /// Unites the keys of several encoders. Where ids change, `renumber` gives the rows of an encoder the
    /// id here of each id there; a join without keys has the id 0 everywhere.
    ///
    /// # Errors
    ///
    /// When there are more keys than ids.
    pub fn unite<E>(
        parts: Vec<(E, Self)>,
        renumber: impl Fn(&mut E, &[KeyId]),
    ) -> Result<(Vec<E>, Self)> {
        let mut united = Self::default();
        let mut encoders = Vec::with_capacity(parts.len());
        for (mut encoder, keys) in parts {
            if united.is_empty() {
                united = keys;
            } else if !keys.is_empty() {
                renumber(&mut encoder, &united.adopt(&keys)?);
            }
            encoders.push(encoder);
        }
        Ok((encoders, united))
    }

    /// Adds the keys of another dictionary; returns the id here of each id there.
    fn adopt(&mut self, other: &Self) -> Result<Vec<KeyId>> {
        other.keys.keys().into_iter().map(|key| self.keys.adopt(key)).collect()
    }

    /// The bytes of every key, by its id.
    pub fn to_bytes(&self) -> Vec<Vec<u8>> {
        let bytes = |key| match key {
            DictionaryKey::Word(word) => {
                let (bytes, len) = unpack(word);
                bytes[..len].to_vec()
            }
            DictionaryKey::Bytes(bytes, _) => bytes.to_vec(),
            // Keys are bytes, never integers.
            DictionaryKey::Integer(_) => vec![],
        };
        self.keys.keys().into_iter().map(bytes).collect()
    }

    /// The number of distinct keys.
    pub fn len(&self) -> u32 {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.keys.size()
    }
}
