//! From rows to items.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::axis::NormAxis;
use super::collection::{Content, ReadRow, ReadRows, Vectors};
use super::gather::Gathering;
use super::metric::{Metric, Threshold};
use super::numbers::{Numbers, Row};
use super::order::OrderRequest;
use super::stored::StoredVectors;
use crate::engine::{
    BuildEncoder, Collection, EncodeInput, Encoded, EncodedPart, FinishContext, KeyDictionary,
    KeyId, ProbeEncoder, Scratch, StoredRows, Unload,
};
use crate::util::cancel::CancelFlag;

/// Reads the rows of a batch behind those that were read; `key` gives the key of a row.
fn read(
    metric: Metric,
    first_row: u32,
    input: &EncodeInput<'_>,
    to: &mut ReadRows,
    mut key: impl FnMut(usize) -> Result<Option<KeyId>>,
) -> Result<()> {
    let numbers = Numbers::try_new(input.values)?;
    for (row, index) in (first_row..).zip(0..numbers.len()) {
        let mut read =
            ReadRow { row, key: 0, content: Content::None, len: 0, start: to.numbers.len() };
        let found = if input.may_match(index) { key(index)? } else { None };
        if let Some(key) = found {
            let (content, len) = match numbers.row(index) {
                Row::Null => (Content::None, 0),
                Row::WithNull(len) if metric.measures_nulls() => (Content::WithNull, len),
                Row::WithNull(_) => (Content::None, 0),
                Row::Vector(range) => {
                    let len = range.len();
                    numbers.append(range, &mut to.numbers);
                    (Content::Vector, len)
                }
            };
            let Ok(len) = u32::try_from(len) else {
                return exec_err!("a vector of {len} dimensions is too long for a join");
            };
            read = ReadRow { key, content, len, ..read };
        }
        to.rows.push(read);
    }
    Ok(())
}

/// Collects rows of the build side.
#[derive(Debug)]
pub(super) struct VectorEncoder {
    metric: Metric,
    axis: NormAxis,
    read: ReadRows,
    /// Rows that were added together.
    pushes: Vec<Range<usize>>,
    reserved: usize,
}

impl VectorEncoder {
    pub(super) fn new(metric: Metric, axis: NormAxis) -> Self {
        Self { metric, axis, read: ReadRows::default(), pushes: vec![], reserved: 0 }
    }

    pub(super) fn number_count(&self) -> usize {
        self.read.numbers.len()
    }

    fn size_in_bytes(&self) -> usize {
        self.read.size_in_bytes() + self.pushes.capacity() * size_of::<Range<usize>>()
    }
}

/// The capacity that a vector gets to hold `needed` values.
fn grown(capacity: usize, needed: usize) -> usize {
    if needed <= capacity { capacity } else { needed.max(capacity + capacity / 2) }
}

impl BuildEncoder for VectorEncoder {
    fn push(
        &mut self,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<()> {
        let numbers = Numbers::try_new(input.values)?;
        let (rows, count) = (self.read.rows.len(), self.read.numbers.len());
        let row_room = grown(self.read.rows.capacity(), rows + numbers.len());
        let room = grown(self.read.numbers.capacity(), count + numbers.element_count());
        // A dictionary of keys at most doubles with a batch.
        let pushes = 2 * (self.pushes.len() + 4) * size_of::<Range<usize>>();
        let bytes = ReadRows::footprint(row_room, room) + pushes + 2 * keys.size_in_bytes();
        let bytes = (base + bytes + 64).max(self.reserved);
        reservation.try_grow(bytes - self.reserved)?;
        self.reserved = bytes;
        self.read.rows.reserve_exact(row_room - rows);
        self.read.numbers.reserve_exact(room - count);
        let added = read(self.metric, first_row, input, &mut self.read, |row| match input.keys {
            Some(batch_keys) => keys.insert(batch_keys, row),
            None => Ok(Some(0)),
        });
        if added.is_err() {
            self.read.rows.truncate(rows);
            self.read.numbers.truncate(count);
            return added;
        }
        self.pushes.push(rows..self.read.rows.len());
        Ok(())
    }

    fn row_count(&self) -> usize {
        self.read.rows.len()
    }

    fn reserved(&self) -> usize {
        self.reserved
    }

    fn positions(&self, count: usize) -> Vec<u32> {
        let rows = self.read.rows.iter().filter(|row| row.content != Content::None);
        rows.take(count).map(|row| self.axis.position(self.read.vector(row))).collect()
    }

    fn kind(&self) -> u32 {
        let rows = self.read.rows.iter().filter(|row| row.content != Content::None);
        rows.map(|row| row.len).max().unwrap_or(0)
    }

    fn unload<'a>(&'a self, keys: Option<&'a KeyDictionary>) -> Box<dyn Unload + 'a> {
        let keys = keys.map(KeyDictionary::to_bytes);
        Box::new(Unloading { encoder: self, keys })
    }

    fn unload_bytes(&self, keys: &KeyDictionary) -> usize {
        keys.size_in_bytes() + keys.len() as usize * size_of::<Vec<u8>>()
    }
}

struct Unloading<'a> {
    encoder: &'a VectorEncoder,
    /// By key.
    keys: Option<Vec<Vec<u8>>>,
}

impl Unload for Unloading<'_> {
    fn pushes(&self) -> usize {
        self.encoder.pushes.len()
    }

    fn rows(&self, push: usize) -> Result<Vec<StoredRows>> {
        let read = &self.encoder.read;
        let rows = &read.rows[self.encoder.pushes[push].clone()];
        let contents = rows.iter().map(|row| (row.content, row.len, read.vector(row)));
        let values: ArrayRef = Arc::new(StoredVectors::array(contents));
        let keys = self.keys.as_ref().map(|keys| {
            let key = |row: &ReadRow| {
                (row.content != Content::None).then(|| keys[row.key as usize].as_slice())
            };
            rows.iter().map(key).collect::<BinaryArray>()
        });
        Ok(vec![StoredRows { rows: 0..rows.len(), values, keys }])
    }
}

/// The items of the rows that several encoders have read; of a self-join in an order that serves
/// `threshold`, where one pays.
pub(super) fn finish(
    parts: Vec<EncodedPart>,
    threshold: Threshold,
    context: &FinishContext<'_>,
) -> Result<Encoded> {
    let metric = threshold.metric;
    let mut keys = KeyDictionary::default();
    let mut encoders = vec![];
    let of_parts: usize = parts.iter().map(|(_, keys)| 2 * keys.size_in_bytes()).sum();
    for (encoder, part_keys) in parts {
        let mut encoder: VectorEncoder = encoder.into()?;
        if encoders.is_empty() {
            keys = part_keys;
        } else {
            let ids = keys.adopt(&part_keys)?;
            // Joins without keys have one, which no dictionary knows.
            let id = |key: KeyId| ids.get(key as usize).copied().unwrap_or(key);
            encoder.read.rows.iter_mut().for_each(|row| row.key = id(row.key));
        }
        encoders.push(encoder);
    }
    let held: usize = encoders.iter().map(VectorEncoder::size_in_bytes).sum();
    let rows: usize = encoders.iter().map(BuildEncoder::row_count).sum();
    let numbers: usize = encoders.iter().map(VectorEncoder::number_count).sum();
    let bytes = held + Vectors::footprint(rows, numbers) + of_parts;
    context.reserve(bytes)?;
    let read: Vec<&ReadRows> = encoders.iter().map(|encoder| &encoder.read).collect();
    let items = Vectors::gather(
        &read,
        Gathering {
            // Rows of another input have no order that could meet this one.
            order: context.self_join.then(|| OrderRequest::of(threshold)),
            threads: context.threads,
            cancel: context.cancel,
            reserve: &|more| context.reserve(bytes + more).is_ok(),
        },
    )?;
    drop(encoders);
    context.reserve(items.size_in_bytes() + keys.size_in_bytes())?;
    let encoder = VectorProbeEncoder { metric, numbers: items.number_count() };
    Ok(Encoded { items: Box::new(items), encoder: Arc::new(encoder), keys })
}

/// Makes items of probe rows.
#[derive(Debug)]
struct VectorProbeEncoder {
    metric: Metric,
    /// The numbers of the build side's vectors.
    numbers: usize,
}

impl ProbeEncoder for VectorProbeEncoder {
    fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        _: &mut Scratch,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<Arc<dyn Collection>> {
        let numbers = Numbers::try_new(input.values)?;
        let (rows, count) = (numbers.len(), numbers.element_count());
        let bytes = ReadRows::footprint(rows, count) + Vectors::footprint(rows, count);
        reservation.try_resize(base + bytes)?;
        let mut batch = ReadRows::default();
        batch.rows.reserve_exact(rows);
        batch.numbers.reserve_exact(count);
        read(self.metric, 0, input, &mut batch, |row| match input.keys {
            Some(batch_keys) => Ok(keys.find(batch_keys, row)),
            None => Ok(Some(0)),
        })?;
        let vectors = Vectors::of(&[&batch], &CancelFlag::default())?;
        reservation.try_resize(base + vectors.size_in_bytes())?;
        Ok(Arc::new(vectors))
    }

    fn value_count(&self) -> usize {
        self.numbers
    }

    fn size_in_bytes(&self) -> usize {
        0
    }
}
