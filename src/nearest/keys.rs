//! Rows by their blocking keys.

use std::collections::HashMap;

use datafusion::common::{NullEquality, Result};
use datafusion::execution::memory_pool::MemoryReservation;

use super::pairs::{admitted, evaluate, is_true};
use super::table::RowTable;
use crate::engine::KeyConverter;
use crate::spec::{NearestJoin, Side};

/// The bytes of a key's place in a table of keys, besides the key itself.
const KEY_BYTES: usize = 2 * (size_of::<Box<[u8]>>() + size_of::<Vec<u32>>());

/// The right rows that pass the filter of their side: of each key, or all under the empty key.
#[derive(Debug)]
pub(super) struct RowsByKey {
    rows: HashMap<Box<[u8]>, Vec<u32>>,
    /// `None` where the join has no keys.
    converter: Option<KeyConverter>,
    memory: MemoryReservation,
}

/// Left rows of a key, as places in a list of rows, and the right rows of the same key.
#[derive(Debug)]
pub(super) struct KeyGroup {
    pub places: Vec<u32>,
    pub right: Vec<u32>,
}

/// The converter of the blocking keys of a join.
///
/// # Errors
///
/// When a key has no type over the right table, or one that cannot be compared.
pub(super) fn converter_of(join: &NearestJoin, right: &RowTable) -> Result<KeyConverter> {
    let types = join.on.iter().map(|(_, key)| key.data_type(right.schema()));
    let nulls_are_equal = join.null_equality == NullEquality::NullEqualsNull;
    Ok(KeyConverter::try_new(types.collect::<Result<Vec<_>>>()?, nulls_are_equal)?)
}

impl RowsByKey {
    /// The right rows of a table. `memory` grows by their lists.
    ///
    /// # Errors
    ///
    /// The errors of evaluating keys and filters, and when memory is refused.
    pub(super) fn try_new(
        join: &NearestJoin,
        right: &RowTable,
        memory: MemoryReservation,
    ) -> Result<Self> {
        // A list doubles as it grows.
        memory.try_grow(2 * right.rows() * size_of::<u32>())?;
        let mut by_key: HashMap<Box<[u8]>, Vec<u32>> = HashMap::new();
        let converter = if join.on.is_empty() { None } else { Some(converter_of(join, right)?) };
        for (start, batch) in right.batches() {
            let admitted = admitted(join.side_filter(Side::Right), batch)?;
            let keys = match &converter {
                Some(converter) => {
                    let columns = join.on.iter().map(|(_, key)| evaluate(key, batch));
                    Some(converter.convert(&columns.collect::<Result<Vec<_>>>()?)?)
                }
                None => None,
            };
            for row in 0..batch.num_rows() {
                if admitted.as_ref().is_some_and(|rows| !is_true(rows, row)) {
                    continue;
                }
                let key = match &keys {
                    Some(keys) => keys.bytes(row),
                    None => Some(&[][..]),
                };
                let Some(key) = key else { continue };
                match by_key.get_mut(key) {
                    Some(rows) => rows.push(start + row as u32),
                    None => {
                        memory.try_grow(key.len() + KEY_BYTES)?;
                        by_key.insert(key.into(), vec![start + row as u32]);
                    }
                }
            }
        }
        Ok(Self { rows: by_key, converter, memory })
    }

    /// The right rows of a left row's key.
    ///
    /// # Errors
    ///
    /// The errors of evaluating the key.
    pub(super) fn of_left(&self, join: &NearestJoin, left: &RowTable, row: u32) -> Result<&[u32]> {
        let Some(converter) = &self.converter else {
            return Ok(self.rows.get(&[][..]).map_or(&[], Vec::as_slice));
        };
        let batch = left.row(row);
        let columns = join.on.iter().map(|(key, _)| evaluate(key, &batch));
        let keys = converter.convert(&columns.collect::<Result<Vec<_>>>()?)?;
        let found = keys.bytes(0).and_then(|key| self.rows.get(key));
        Ok(found.map_or(&[], Vec::as_slice))
    }

    /// The groups of the keys of some left rows, those with most pairs first. Rows of a key that no right row has
    /// are in no group.
    ///
    /// # Errors
    ///
    /// The errors of evaluating keys, and when memory is refused.
    pub(super) fn groups(
        self,
        join: &NearestJoin,
        left: &RowTable,
        rows: &[u32],
    ) -> Result<Vec<KeyGroup>> {
        let Self { rows: mut by_key, converter, memory } = self;
        let mut groups = vec![];
        let Some(converter) = converter else {
            let places = (0..rows.len() as u32).collect();
            groups.extend(by_key.remove(&[][..]).map(|right| KeyGroup { places, right }));
            return Ok(groups);
        };
        // Places by row, and lists that double as they grow.
        memory.try_grow((left.rows() + 2 * rows.len()) * size_of::<u32>())?;
        let mut places = vec![u32::MAX; left.rows()];
        (0..).zip(rows).for_each(|(place, row)| places[*row as usize] = place);
        let mut by_left: HashMap<Box<[u8]>, Vec<u32>> = HashMap::with_capacity(by_key.len());
        memory.try_grow(by_key.len() * KEY_BYTES)?;
        for (start, batch) in left.batches() {
            let places = &places[start as usize..][..batch.num_rows()];
            if places.iter().all(|place| *place == u32::MAX) {
                continue;
            }
            let columns = join.on.iter().map(|(key, _)| evaluate(key, batch));
            let keys = converter.convert(&columns.collect::<Result<Vec<_>>>()?)?;
            for (row, place) in places.iter().enumerate().filter(|(_, place)| **place != u32::MAX) {
                let Some(key) = keys.bytes(row) else { continue };
                if let Some(places) = by_left.get_mut(key) {
                    places.push(*place);
                } else if by_key.contains_key(key) {
                    by_left.insert(key.into(), vec![*place]);
                }
            }
        }
        groups.extend(by_left.into_iter().filter_map(|(key, places)| {
            by_key.remove(&key).map(|right| KeyGroup { places, right })
        }));
        let size = |group: &KeyGroup| (group.pairs(), group.places.first().copied());
        groups.sort_unstable_by_key(|group| std::cmp::Reverse(size(group)));
        Ok(groups)
    }
}

impl KeyGroup {
    /// The pairs of rows.
    pub(super) fn pairs(&self) -> usize {
        self.places.len().saturating_mul(self.right.len())
    }
}
