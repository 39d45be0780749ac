//! Step 5: from rows to items.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BinaryArray, Int32Array};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::{integers, position};
use crate::engine::{
    BuildEncoder, Collection, EncodeInput, Encoded, FinishContext, ItemId, KeyDictionary, KeyId,
    ProbeEncoder, RowGroups, Scratch, StoredRows, Unload,
};

/// The distinct integers of each blocking key, ascending by (key, integer).
#[derive(Debug, Default)]
pub(super) struct Values {
    keys: Vec<KeyId>,
    values: Vec<i32>,
    groups: RowGroups,
}

impl Values {
    /// `rows`: the number of each row, and what it is joined by; `None` where it matches nothing.
    fn of(mut rows: Vec<(u32, Option<(KeyId, i32)>)>) -> Self {
        rows.sort_unstable_by_key(|&(row, item)| (item.is_none(), item, row));
        let with_item = rows.partition_point(|(_, item)| item.is_some());
        let (mut keys, mut values, mut offsets) = (vec![], vec![], vec![]);
        let mut last = None;
        for (slot, (_, item)) in rows[..with_item].iter().enumerate() {
            if let Some((key, value)) = item.filter(|_| *item != last) {
                keys.push(key);
                values.push(value);
                offsets.push(slot as u32);
                last = *item;
            }
        }
        if !offsets.is_empty() {
            offsets.push(with_item as u32);
        }
        let number =
            |rows: &[(u32, Option<(KeyId, i32)>)]| rows.iter().map(|(row, _)| *row).collect();
        let groups =
            RowGroups::new(offsets, number(&rows[..with_item]), number(&rows[with_item..]));
        Self { keys, values, groups }
    }

    pub(crate) fn footprint(rows: usize) -> usize {
        rows * (size_of::<(u32, Option<(KeyId, i32)>)>() + 5 * size_of::<u32>()) + 64
    }

    pub(crate) fn key(&self, item: ItemId) -> KeyId {
        self.keys[item as usize]
    }

    pub(crate) fn value(&self, item: ItemId) -> i32 {
        self.values[item as usize]
    }

    /// The items of a key with an integer in a range.
    pub(crate) fn within(&self, key: KeyId, range: &Range<i64>) -> Range<ItemId> {
        let first = |limit: i64| -> ItemId {
            let below = |&i: &usize| (self.keys[i], i64::from(self.values[i])) < (key, limit);
            let (mut low, mut high) = (0, self.keys.len());
            while low < high {
                let middle = low.midpoint(high);
                if below(&middle) { low = middle + 1 } else { high = middle }
            }
            low as ItemId
        };
        first(range.start)..first(range.end)
    }
}

impl Collection for Values {
    fn groups(&self) -> &RowGroups {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut RowGroups {
        &mut self.groups
    }

    fn size_in_bytes(&self) -> usize {
        (self.keys.capacity() + self.values.capacity()) * size_of::<u32>()
            + self.groups.size_in_bytes()
    }
}

/// The items by which the rows of a batch are joined; `key` gives the key of a row.
fn items(
    input: &EncodeInput<'_>,
    mut key: impl FnMut(usize) -> Result<Option<KeyId>>,
) -> Result<Vec<Option<(KeyId, i32)>>> {
    let values = integers(input.values)?;
    let item = |row: usize| {
        let key = key(row)?.filter(|_| input.may_match(row) && values.is_valid(row));
        Ok(key.map(|key| (key, values.value(row))))
    };
    (0..values.len()).map(item).collect()
}

#[derive(Debug, Default)]
pub(super) struct Encoder {
    rows: Vec<(u32, Option<(KeyId, i32)>)>,
    /// Rows that were added together.
    pushes: Vec<Range<usize>>,
    reserved: usize,
}

impl BuildEncoder for Encoder {
    fn push(
        &mut self,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<()> {
        let rows = self.rows.len() + input.values.len();
        // A dictionary of keys at most doubles with a batch.
        let bytes = base + Values::footprint(rows) + 2 * keys.size_in_bytes() + 64;
        let bytes = bytes.max(self.reserved);
        reservation.try_grow(bytes - self.reserved)?;
        self.reserved = bytes;
        let items = items(input, |row| match input.keys {
            Some(batch_keys) => keys.insert(batch_keys, row),
            None => Ok(Some(0)),
        })?;
        let start = self.rows.len();
        self.rows.extend((first_row..).zip(items));
        self.pushes.push(start..self.rows.len());
        Ok(())
    }

    fn row_count(&self) -> usize {
        self.rows.len()
    }

    fn reserved(&self) -> usize {
        self.reserved
    }

    fn positions(&self, count: usize) -> Vec<u32> {
        let values = self.rows.iter().filter_map(|(_, item)| *item);
        values.take(count).map(|(_, value)| position(value)).collect()
    }

    fn unload<'a>(&'a self, keys: Option<&'a KeyDictionary>) -> Box<dyn Unload + 'a> {
        Box::new(Rows { encoder: self, keys })
    }

    fn unload_bytes(&self, _: &KeyDictionary) -> usize {
        0
    }
}

struct Rows<'a> {
    encoder: &'a Encoder,
    keys: Option<&'a KeyDictionary>,
}

impl Unload for Rows<'_> {
    fn pushes(&self) -> usize {
        self.encoder.pushes.len()
    }

    fn rows(&self, push: usize) -> Result<Vec<StoredRows>> {
        let rows = &self.encoder.rows[self.encoder.pushes[push].clone()];
        let values = rows.iter().map(|(_, item)| item.map(|(_, value)| value));
        let keys = self.keys.map(|keys| {
            let bytes = keys.to_bytes();
            let key = |(_, item): &(u32, Option<(KeyId, i32)>)| {
                item.map(|(key, _)| bytes[key as usize].clone())
            };
            rows.iter().map(key).collect::<BinaryArray>()
        });
        let values = Arc::new(values.collect::<Int32Array>());
        Ok(vec![StoredRows { rows: 0..rows.len(), values, keys }])
    }
}

pub(super) fn finish(
    parts: Vec<(Encoder, KeyDictionary)>,
    context: &FinishContext<'_>,
) -> Result<Encoded> {
    let (encoders, keys) = KeyDictionary::unite(parts, |encoder: &mut Encoder, ids| {
        let items = encoder.rows.iter_mut().filter_map(|(_, item)| item.as_mut());
        items.for_each(|(key, _)| *key = ids[*key as usize]);
    })?;
    let rows: Vec<_> = encoders.into_iter().flat_map(|encoder| encoder.rows).collect();
    context.reserve(Values::footprint(rows.len()) + keys.size_in_bytes())?;
    context.cancel.check()?;
    let items = Values::of(rows);
    context.reserve(items.size_in_bytes() + keys.size_in_bytes())?;
    Ok(Encoded { items: Box::new(items), encoder: Arc::new(OfProbe), keys })
}

#[derive(Debug)]
struct OfProbe;

impl ProbeEncoder for OfProbe {
    fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        _: &mut Scratch,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<Arc<dyn Collection>> {
        reservation.try_resize(base + Values::footprint(input.values.len()))?;
        let items = items(input, |row| match input.keys {
            Some(batch_keys) => Ok(keys.find(batch_keys, row)),
            None => Ok(Some(0)),
        })?;
        let values = Values::of((0..).zip(items).collect());
        reservation.try_resize(base + values.size_in_bytes())?;
        Ok(Arc::new(values))
    }

    fn value_count(&self) -> usize {
        0
    }

    fn size_in_bytes(&self) -> usize {
        0
    }
}
