//! From rows with one value each to items.

use std::fmt::Debug;
use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::BinaryArray;

use super::row_forms::RowForm;
use super::rows::{Gathering, ReadRows, RowContent, RowValues};
use super::{
    Axis, BuildEncoder, Collection, EncodeInput, Encoded, Encoding, FinishContext, Growth,
    KeyDictionary, ProbeEncoder, Scratch, StoredForm, StoredRows, Unload,
};
use crate::error::Result;
use crate::memory::Memory;
use crate::predicate::Side;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// A predicate over values of which each row has one.
pub trait RowMatcher: Debug + Send + Sync + 'static {
    /// The values of either side.
    type Values: RowValues;

    /// The form that reads the values.
    fn values(&self) -> &Self::Values;

    /// [`Encoding::axis`].
    fn axis(&self) -> &dyn Axis;

    /// [`Encoding::reads_origin`].
    fn reads_origin(&self, _side: Side) -> bool {
        false
    }
}

/// A predicate that is all there is to know of its values and their axis.
impl<V: RowValues + Axis> RowMatcher for V {
    type Values = Self;

    fn values(&self) -> &Self {
        self
    }

    fn axis(&self) -> &dyn Axis {
        self
    }
}

impl<M: RowMatcher> Encoding for M {
    type Items = <M::Values as RowValues>::Items;
    type Encoder = RowEncoder<M::Values>;

    fn axis(&self) -> &dyn Axis {
        RowMatcher::axis(self)
    }

    fn reads_origin(&self, side: Side) -> bool {
        RowMatcher::reads_origin(self, side)
    }

    fn stored(&self, _: Side) -> Arc<dyn StoredForm> {
        Arc::new(RowForm::new(self.values().clone()))
    }

    fn encoder(&self, _: Side) -> Self::Encoder {
        RowEncoder::new(self.values().clone())
    }

    fn finish(
        &self,
        parts: Vec<(Self::Encoder, KeyDictionary)>,
        context: &FinishContext<'_>,
    ) -> Result<Encoded> {
        finish(self.values(), parts, context)
    }

    fn finish_growth(&self, parts: &[(&Self::Encoder, &KeyDictionary)]) -> Growth {
        let rows = parts.iter().map(|(encoder, _)| encoder.row_count()).sum();
        let elements = parts.iter().map(|(encoder, _)| encoder.element_count()).sum();
        let keys: usize = parts.iter().map(|(_, keys)| keys.size_in_bytes()).sum();
        let beside: usize = parts.iter().map(|(encoder, _)| encoder.bytes_beside()).sum();
        let finish = M::Values::footprint(rows, elements) + 2 * keys + UNITED * beside;
        Growth { finish, ..Growth::default() }
    }
}

/// The bytes that it takes to unite what contents hold beside their elements, in bytes of these.
const UNITED: usize = 4;

/// Rows that were added together: their part, and their places there.
pub(super) type Push = (usize, Range<usize>);

/// Collects rows of the build side.
#[derive(Debug)]
pub struct RowEncoder<V: RowValues> {
    values: V,
    /// Rows are added to the last part, as long as it has room: no element moves.
    parts: Vec<ReadRows<V>>,
    pushes: Vec<Push>,
    reserved: usize,
    longest: u32,
}

impl<V: RowValues> RowEncoder<V> {
    fn new(values: V) -> Self {
        Self { values, parts: vec![], pushes: vec![], reserved: 0, longest: 0 }
    }

    /// The elements of all values.
    pub fn element_count(&self) -> usize {
        self.parts.iter().map(|part| part.content.count()).sum()
    }

    /// The elements of the longest value.
    pub fn longest(&self) -> usize {
        self.longest as usize
    }

    /// The bytes of all contents beside their elements.
    fn bytes_beside(&self) -> usize {
        self.parts.iter().map(|part| part.content.bytes_beside()).sum()
    }

    fn size_in_bytes(&self) -> usize {
        self.parts.iter().map(ReadRows::size_in_bytes).sum::<usize>()
            + self.parts.capacity() * size_of::<ReadRows<V>>()
            + self.pushes.capacity() * size_of::<Push>()
    }

    /// The rows and elements that a new part gets room for. Its first batch has `rows` rows and `elements`
    /// elements, `bytes` bytes in all: the part holds as many such batches as make half of all that was read,
    /// or some megabytes.
    fn room_of_part(&self, rows: usize, elements: usize, bytes: usize) -> (usize, usize) {
        const MOST: usize = 1 << 23;
        let room = (self.parts.iter().map(ReadRows::used_bytes).sum::<usize>() / 2).min(MOST);
        let times = (room / bytes.max(1)).max(1);
        (times * rows, times * elements)
    }
}

impl<V: RowValues> BuildEncoder for RowEncoder<V> {
    fn push(
        &mut self,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<()> {
        let column = V::column(input.values)?;
        let (rows, elements) = (input.values.len(), V::element_count(&column));
        let has_room = self.parts.last().is_some_and(|part| part.has_room(&column, rows, elements));
        let footprint = |rows: usize, elements: usize| {
            ReadRows::<V>::footprint(rows, elements, V::element_bytes(&column))
        };
        let (row_room, room) = match has_room {
            true => (0, 0),
            false => self.room_of_part(rows, elements, footprint(rows, elements)),
        };
        // The lists of parts and of pushes double, a dictionary of keys at most doubles with a batch.
        let lists = 2 * size_of::<ReadRows<V>>() * (self.parts.len() + 4)
            + 2 * size_of::<Push>() * (self.pushes.len() + 4);
        let of_parts: usize = self.parts.iter().map(ReadRows::size_in_bytes).sum();
        let last = self.parts.last().filter(|_| has_room);
        let growth = V::growth(&column, last.map(|part| &part.content));
        let bytes =
            of_parts + footprint(row_room, room) + growth + lists + 2 * keys.size_in_bytes();
        let bytes = (base + bytes + 64).max(self.reserved);
        reservation.try_grow(bytes - self.reserved)?;
        self.reserved = bytes;
        if !has_room {
            self.parts.push(ReadRows::with_room(&column, row_room, room));
        }
        let last = self.parts.len() - 1;
        let part = &mut self.parts[last];
        let (first, count) = (part.rows.len(), part.content.count());
        let added = part.read_build(&self.values, &column, first_row, input, keys);
        if added.is_err() {
            part.rows.truncate(first);
            part.content.truncate(count);
            return added;
        }
        let longest = part.rows[first..].iter().map(V::len).max().unwrap_or(0);
        self.longest = self.longest.max(longest);
        self.pushes.push((last, first..part.rows.len()));
        Ok(())
    }

    fn row_count(&self) -> usize {
        self.parts.iter().map(|part| part.rows.len()).sum()
    }

    fn reserved(&self) -> usize {
        self.reserved
    }

    fn positions(&self, count: usize) -> Vec<u32> {
        let values = self.parts.iter().flat_map(|part| part.values(0..part.rows.len()).flatten());
        values.take(count).map(|value| self.values.position(value)).collect()
    }

    fn kind(&self) -> u32 {
        if V::LEN_IS_KIND { self.longest } else { 0 }
    }

    fn unload<'a>(&'a self, keys: Option<&'a KeyDictionary>) -> Box<dyn Unload + 'a> {
        let keys = keys.map(KeyDictionary::to_bytes);
        Box::new(Unloading { encoder: self, keys })
    }

    fn unload_bytes(&self, keys: &KeyDictionary) -> usize {
        keys.size_in_bytes() + keys.len() as usize * size_of::<Vec<u8>>()
    }
}

struct Unloading<'a, V: RowValues> {
    encoder: &'a RowEncoder<V>,
    /// The bytes of each key, by its id.
    keys: Option<Vec<Vec<u8>>>,
}

impl<V: RowValues> Unload for Unloading<'_, V> {
    fn pushes(&self) -> usize {
        self.encoder.pushes.len()
    }

    fn rows(&self, push: usize) -> Result<Vec<StoredRows>> {
        let (part, rows) = self.encoder.pushes[push].clone();
        let part = &self.encoder.parts[part];
        let values = V::stored(part.values(rows.clone()));
        let keys = self.keys.as_ref().map(|keys| {
            let of_rows = part.items(rows.clone());
            of_rows
                .map(|item| item.map(|(key, _)| keys[key as usize].as_slice()))
                .collect::<BinaryArray>()
        });
        Ok(vec![StoredRows { rows: 0..rows.len(), values, keys }])
    }
}

/// The items of the rows that several encoders have read.
fn finish<V: RowValues>(
    values: &V,
    parts: Vec<(RowEncoder<V>, KeyDictionary)>,
    context: &FinishContext<'_>,
) -> Result<Encoded> {
    let of_parts: usize = parts.iter().map(|(_, keys)| 2 * keys.size_in_bytes()).sum();
    let (encoders, keys) = KeyDictionary::unite(parts, |encoder: &mut RowEncoder<V>, ids| {
        let rows = encoder.parts.iter_mut().flat_map(|part| &mut part.rows);
        rows.filter_map(V::key).for_each(|key| *key = ids[*key as usize]);
    })?;
    let held: usize = encoders.iter().map(RowEncoder::size_in_bytes).sum();
    let beside: usize = encoders.iter().map(RowEncoder::bytes_beside).sum();
    let rows: usize = encoders.iter().map(BuildEncoder::row_count).sum();
    let elements: usize = encoders.iter().map(RowEncoder::element_count).sum();
    let parts: usize = encoders.iter().map(|encoder| encoder.parts.len()).sum();
    // The lists of parts besides.
    let bytes = held
        + V::footprint(rows, elements)
        + UNITED * beside
        + of_parts
        + 2 * parts * size_of::<ReadRows<V>>();
    context.reserve(bytes)?;
    let read: Vec<ReadRows<V>> = encoders.into_iter().flat_map(|encoder| encoder.parts).collect();
    let FinishContext { self_join, threads, cancel, .. } = *context;
    let reserve = &|more| context.reserve(bytes + more).is_ok();
    let items = values.gather(read, Gathering { self_join, threads, cancel, reserve })?;
    let encoder = RowProbeEncoder { values: values.of_probes(&items) };
    context.reserve(items.size_in_bytes() + keys.size_in_bytes() + encoder.size_in_bytes())?;
    Ok(Encoded { items: Box::new(items), encoder: Arc::new(encoder), keys })
}

/// Makes items of probe rows.
#[derive(Debug)]
struct RowProbeEncoder<V> {
    values: V,
}

impl<V: RowValues> ProbeEncoder for RowProbeEncoder<V> {
    fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        _: &mut Scratch,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<Arc<dyn Collection>> {
        let column = V::column(input.values)?;
        let (rows, elements) = (input.values.len(), V::element_count(&column));
        let element_bytes = V::element_bytes(&column);
        let bytes = ReadRows::<V>::footprint(rows, elements, element_bytes)
            + V::footprint(rows, elements)
            + V::growth(&column, None);
        reservation.try_resize(base + bytes)?;
        let mut batch = ReadRows::with_room(&column, rows, elements);
        batch.read_probes(&self.values, &column, input, keys)?;
        let cancel = &CancelFlag::default();
        let how =
            Gathering { self_join: false, threads: Threads::ONE, cancel, reserve: &|_| false };
        let items = self.values.gather(vec![batch], how)?;
        reservation.try_resize(base + items.size_in_bytes())?;
        Ok(Arc::new(items))
    }

    fn value_count(&self) -> usize {
        self.values.value_count()
    }

    fn size_in_bytes(&self) -> usize {
        self.values.size_in_bytes()
    }
}
