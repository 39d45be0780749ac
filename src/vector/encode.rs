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
    BuildEncoder, Collection, EncodeInput, Encoded, FinishContext, KeyDictionary, KeyId,
    ProbeEncoder, Scratch, StoredRows, Unload,
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
    /// Rows are added to the last part, as long as it has room: no number moves.
    read: Vec<ReadRows>,
    /// Rows that were added together: their part, and their places there.
    pushes: Vec<(usize, Range<usize>)>,
    reserved: usize,
    /// The dimensions of the widest vector.
    widest: u32,
}

impl VectorEncoder {
    pub(super) fn new(metric: Metric, axis: NormAxis) -> Self {
        Self { metric, axis, read: vec![], pushes: vec![], reserved: 0, widest: 0 }
    }

    pub(super) fn number_count(&self) -> usize {
        self.read.iter().map(|part| part.numbers.len()).sum()
    }

    /// The dimensions of the widest vector.
    pub(super) fn widest(&self) -> usize {
        self.widest as usize
    }

    fn size_in_bytes(&self) -> usize {
        self.read.iter().map(ReadRows::size_in_bytes).sum::<usize>()
            + self.read.capacity() * size_of::<ReadRows>()
            + self.pushes.capacity() * size_of::<(usize, Range<usize>)>()
    }

    /// The rows and numbers that a part gets room for, which begins with this many: as many times of
    /// them as make half of all that was read, or some megabytes.
    fn room_of_part(&self, rows: usize, numbers: usize) -> (usize, usize) {
        const MOST: usize = 1 << 23;
        let all =
            self.read.iter().map(|part| ReadRows::footprint(part.rows.len(), part.numbers.len()));
        let room = (all.sum::<usize>() / 2).min(MOST);
        let times = (room / ReadRows::footprint(rows, numbers).max(1)).max(1);
        (times * rows, times * numbers)
    }

    fn rows(&self) -> impl Iterator<Item = (&ReadRows, &ReadRow)> {
        self.read.iter().flat_map(|part| part.rows.iter().map(move |row| (part, row)))
    }
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
        let (more_rows, more) = (numbers.len(), numbers.element_count());
        let has_room = self.read.last().is_some_and(|part| part.has_room(more_rows, more));
        let (row_room, room) = match has_room {
            true => (0, 0),
            false => self.room_of_part(more_rows, more),
        };
        // The lists of parts and of pushes double, a dictionary of keys at most doubles with a batch.
        let lists = 2 * size_of::<ReadRows>() * (self.read.len() + 4)
            + 2 * size_of::<(usize, Range<usize>)>() * (self.pushes.len() + 4);
        let of_parts: usize = self.read.iter().map(ReadRows::size_in_bytes).sum();
        let bytes =
            of_parts + ReadRows::footprint(row_room, room) + lists + 2 * keys.size_in_bytes();
        let bytes = (base + bytes + 64).max(self.reserved);
        reservation.try_grow(bytes - self.reserved)?;
        self.reserved = bytes;
        if !has_room {
            self.read.push(ReadRows::with_room(row_room, room));
        }
        let last = self.read.len() - 1;
        let part = &mut self.read[last];
        let (rows, count) = (part.rows.len(), part.numbers.len());
        let added = read(self.metric, first_row, input, part, |row| match input.keys {
            Some(batch_keys) => keys.insert(batch_keys, row),
            None => Ok(Some(0)),
        });
        if added.is_err() {
            part.rows.truncate(rows);
            part.numbers.truncate(count);
            return added;
        }
        let widest = part.rows[rows..].iter().map(|row| row.len).max().unwrap_or(0);
        self.widest = self.widest.max(widest);
        self.pushes.push((last, rows..part.rows.len()));
        Ok(())
    }

    fn row_count(&self) -> usize {
        self.read.iter().map(|part| part.rows.len()).sum()
    }

    fn reserved(&self) -> usize {
        self.reserved
    }

    fn positions(&self, count: usize) -> Vec<u32> {
        let rows = self.rows().filter(|(_, row)| row.content != Content::None);
        rows.take(count).map(|(part, row)| self.axis.position(part.vector(row))).collect()
    }

    fn kind(&self) -> u32 {
        let rows = self.rows().filter(|(_, row)| row.content != Content::None);
        rows.map(|(_, row)| row.len).max().unwrap_or(0)
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
        let (part, rows) = self.encoder.pushes[push].clone();
        let read = &self.encoder.read[part];
        let rows = &read.rows[rows];
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
    parts: Vec<(VectorEncoder, KeyDictionary)>,
    threshold: Threshold,
    context: &FinishContext<'_>,
) -> Result<Encoded> {
    let metric = threshold.metric;
    let of_parts: usize = parts.iter().map(|(_, keys)| 2 * keys.size_in_bytes()).sum();
    let (encoders, keys) = KeyDictionary::unite(parts, |encoder: &mut VectorEncoder, ids| {
        let rows = encoder.read.iter_mut().flat_map(|part| &mut part.rows);
        rows.for_each(|row| row.key = ids[row.key as usize]);
    })?;
    let held: usize = encoders.iter().map(VectorEncoder::size_in_bytes).sum();
    let rows: usize = encoders.iter().map(BuildEncoder::row_count).sum();
    let parts: usize = encoders.iter().map(|encoder| encoder.read.len()).sum();
    // The lists of parts besides.
    let bytes = held + Vectors::footprint(rows) + of_parts + 2 * parts * size_of::<ReadRows>();
    context.reserve(bytes)?;
    let read: Vec<ReadRows> = encoders.into_iter().flat_map(|encoder| encoder.read).collect();
    let items = Vectors::gather(
        read,
        Gathering {
            // Rows of another input have no order that could meet this one; of norms none is needed.
            order: (context.self_join || metric == Metric::InnerProduct)
                .then(|| OrderRequest::of(threshold)),
            threads: context.threads,
            cancel: context.cancel,
            reserve: &|more| context.reserve(bytes + more).is_ok(),
        },
    )?;
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
        let bytes = ReadRows::footprint(rows, count) + Vectors::footprint(rows);
        reservation.try_resize(base + bytes)?;
        let mut batch = ReadRows::with_room(rows, count);
        read(self.metric, 0, input, &mut batch, |row| match input.keys {
            Some(batch_keys) => Ok(keys.find(batch_keys, row)),
            None => Ok(Some(0)),
        })?;
        let vectors = Vectors::of(vec![batch], &CancelFlag::default())?;
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
