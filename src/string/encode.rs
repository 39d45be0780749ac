//! From rows to items.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, LargeStringArray};
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::alphabet::Alphabet;
use super::axis::LengthAxis;
use super::collection::{ReadRow, ReadRows, Strings};
use super::gather::Gathering;
use crate::engine::{
    BuildEncoder, Collection, EncodeInput, Encoded, FinishContext, KeyDictionary, KeyId,
    ProbeEncoder, Scratch, StoredRows, Unload,
};
use crate::util::cancel::CancelFlag;
use crate::values::Texts;

/// The bytes of the texts of a column, those of NULL rows left out.
fn byte_count(texts: &Texts) -> usize {
    (0..texts.len()).filter_map(|row| texts.value(row)).map(str::len).sum()
}

/// Reads the rows of a batch behind those that were read; `key` gives the key of a row.
fn read(
    first_row: u32,
    input: &EncodeInput<'_>,
    texts: &Texts,
    to: &mut ReadRows,
    mut key: impl FnMut(usize) -> Result<Option<KeyId>>,
) -> Result<()> {
    for (row, index) in (first_row..).zip(0..texts.len()) {
        let mut read = ReadRow { row, key: 0, len: None, bytes: 0, start: to.text.len() };
        let found = if input.may_match(index) { key(index)? } else { None };
        if let (Some(key), Some(text)) = (found, texts.value(index)) {
            let Ok(bytes) = u32::try_from(text.len()) else {
                return exec_err!("a text of {} bytes is too long for a join", text.len());
            };
            let len = text.chars().count() as u32;
            to.text.push_str(text);
            read = ReadRow { key, len: Some(len), bytes, ..read };
        }
        to.rows.push(read);
    }
    Ok(())
}

/// Collects rows of the build side.
#[derive(Debug)]
pub(super) struct StringEncoder {
    axis: LengthAxis,
    /// Rows are added to the last part, as long as it has room: no text moves.
    read: Vec<ReadRows>,
    /// Rows that were added together: their part, and their places there.
    pushes: Vec<(usize, Range<usize>)>,
    reserved: usize,
    /// The scalars of the longest text.
    longest: u32,
}

impl StringEncoder {
    pub(super) fn new(axis: LengthAxis) -> Self {
        Self { axis, read: vec![], pushes: vec![], reserved: 0, longest: 0 }
    }

    pub(super) fn byte_count(&self) -> usize {
        self.read.iter().map(|part| part.text.len()).sum()
    }

    pub(super) fn longest(&self) -> usize {
        self.longest as usize
    }

    fn size_in_bytes(&self) -> usize {
        self.read.iter().map(ReadRows::size_in_bytes).sum::<usize>()
            + self.read.capacity() * size_of::<ReadRows>()
            + self.pushes.capacity() * size_of::<(usize, Range<usize>)>()
    }

    /// The rows and bytes that a part gets room for, which begins with this many: as many times of them
    /// as make half of all that was read, or some megabytes.
    fn room_of_part(&self, rows: usize, bytes: usize) -> (usize, usize) {
        const MOST: usize = 1 << 23;
        let all =
            self.read.iter().map(|part| ReadRows::footprint(part.rows.len(), part.text.len()));
        let room = (all.sum::<usize>() / 2).min(MOST);
        let times = (room / ReadRows::footprint(rows, bytes).max(1)).max(1);
        (times * rows, times * bytes)
    }

    fn rows(&self) -> impl Iterator<Item = &ReadRow> {
        self.read.iter().flat_map(|part| &part.rows)
    }
}

impl BuildEncoder for StringEncoder {
    fn push(
        &mut self,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<()> {
        let texts = Texts::try_new(input.values)?;
        let (more_rows, more) = (texts.len(), byte_count(&texts));
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
            let (rows, text) = (Vec::with_capacity(row_room), String::with_capacity(room));
            self.read.push(ReadRows { rows, text });
        }
        let last = self.read.len() - 1;
        let part = &mut self.read[last];
        let (rows, count) = (part.rows.len(), part.text.len());
        let added = read(first_row, input, &texts, part, |row| match input.keys {
            Some(batch_keys) => keys.insert(batch_keys, row),
            None => Ok(Some(0)),
        });
        if added.is_err() {
            part.rows.truncate(rows);
            part.text.truncate(count);
            return added;
        }
        let longest = part.rows[rows..].iter().filter_map(|row| row.len).max().unwrap_or(0);
        self.longest = self.longest.max(longest);
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
        let lens = self.rows().filter_map(|row| row.len);
        lens.take(count).map(|len| self.axis.position(len)).collect()
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
    encoder: &'a StringEncoder,
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
        let texts = rows.iter().map(|row| row.len.map(|_| read.text(row)));
        let values: ArrayRef = Arc::new(texts.collect::<LargeStringArray>());
        let keys = self.keys.as_ref().map(|keys| {
            let key = |row: &ReadRow| row.len.map(|_| keys[row.key as usize].as_slice());
            rows.iter().map(key).collect::<BinaryArray>()
        });
        Ok(vec![StoredRows { rows: 0..values.len(), values, keys }])
    }
}

/// The items of the rows that several encoders have read.
pub(super) fn finish(
    parts: Vec<(StringEncoder, KeyDictionary)>,
    context: &FinishContext<'_>,
) -> Result<Encoded> {
    let of_parts: usize = parts.iter().map(|(_, keys)| 2 * keys.size_in_bytes()).sum();
    let (encoders, keys) = KeyDictionary::unite(parts, |encoder: &mut StringEncoder, ids| {
        let rows = encoder.read.iter_mut().flat_map(|part| &mut part.rows);
        rows.for_each(|row| row.key = ids[row.key as usize]);
    })?;
    let held: usize = encoders.iter().map(StringEncoder::size_in_bytes).sum();
    let rows: usize = encoders.iter().map(BuildEncoder::row_count).sum();
    let text: usize = encoders.iter().map(StringEncoder::byte_count).sum();
    let parts: usize = encoders.iter().map(|encoder| encoder.read.len()).sum();
    // The lists of parts besides.
    let bytes =
        held + Strings::footprint(rows, text) + of_parts + 2 * parts * size_of::<ReadRows>();
    context.reserve(bytes)?;
    let read: Vec<ReadRows> = encoders.into_iter().flat_map(|encoder| encoder.read).collect();
    let how = Gathering { alphabet: None, threads: context.threads, cancel: context.cancel };
    let items = Strings::gather(&read, how)?;
    drop(read);
    let encoder = StringProbeEncoder { alphabet: Arc::clone(&items.alphabet) };
    let alphabet = encoder.size_in_bytes();
    context.reserve(items.size_in_bytes() + keys.size_in_bytes() + alphabet)?;
    Ok(Encoded { items: Box::new(items), encoder: Arc::new(encoder), keys })
}

/// Makes items of probe rows.
#[derive(Debug)]
struct StringProbeEncoder {
    alphabet: Arc<Alphabet>,
}

impl ProbeEncoder for StringProbeEncoder {
    fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        _: &mut Scratch,
        reservation: &MemoryReservation,
        base: usize,
    ) -> Result<Arc<dyn Collection>> {
        let texts = Texts::try_new(input.values)?;
        let (rows, bytes) = (texts.len(), byte_count(&texts));
        let footprint = ReadRows::footprint(rows, bytes) + Strings::footprint(rows, bytes);
        reservation.try_resize(base + footprint)?;
        let (of_rows, text) = (Vec::with_capacity(rows), String::with_capacity(bytes));
        let mut batch = ReadRows { rows: of_rows, text };
        read(0, input, &texts, &mut batch, |row| match input.keys {
            Some(batch_keys) => Ok(keys.find(batch_keys, row)),
            None => Ok(Some(0)),
        })?;
        let alphabet = Some(Arc::clone(&self.alphabet));
        let how = Gathering { alphabet, threads: 1, cancel: &CancelFlag::default() };
        let strings = Strings::gather(&[batch], how)?;
        reservation.try_resize(base + strings.size_in_bytes())?;
        Ok(Arc::new(strings))
    }

    fn value_count(&self) -> usize {
        self.alphabet.len()
    }

    fn size_in_bytes(&self) -> usize {
        self.alphabet.size_in_bytes()
    }
}
