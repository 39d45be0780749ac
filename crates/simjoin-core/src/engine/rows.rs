//! Rows that have one value each, as a family reads them.
//!
//! [`RowValues`] is what differs between such families. All else is common: `row_encoder.rs` collects rows
//! and makes items of them, `row_forms.rs` stores and places them.

use std::fmt::Debug;
use std::mem::size_of;
use std::ops::Range;

use arrow::array::{Array, ArrayRef};

use super::{Collection, EncodeInput, KeyDictionary, KeyId};
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// The values of a family whose rows have one each: how they are read, and what is told of them.
///
/// The methods of a value are called for every row, so none is dynamic.
pub trait RowValues: Debug + Clone + Send + Sync + 'static {
    /// A column of values.
    type Column;
    /// A value, where it lies.
    type Value<'a>: Copy;
    /// A row that has been read: its number, its key, and its value or the place of it.
    type Row: Debug + Copy + Send + Sync + 'static;
    /// The elements of values, one value behind the other; `()` where rows hold their values.
    type Content: RowContent;
    /// The distinct items of rows.
    type Items: Collection;

    /// The column of an array.
    ///
    /// # Errors
    ///
    /// When the array is of another type.
    fn column(values: &dyn Array) -> Result<Self::Column>;

    /// The elements of all values of a column, or a little more.
    fn element_count(_column: &Self::Column) -> usize {
        0
    }

    /// The bytes of an element of a column, as [`Self::content`] has it.
    fn element_bytes(_column: &Self::Column) -> usize {
        0
    }

    /// The bytes that `content`, or one without rows yet, may allocate beside its elements while the rows of a column
    /// are read.
    fn growth(_column: &Self::Column, _content: Option<&Self::Content>) -> usize {
        0
    }

    /// Room for some elements of a column.
    fn content(column: &Self::Column, elements: usize) -> Self::Content;

    /// Reads a row of a column, and appends the elements of its value to `content`.
    ///
    /// # Errors
    ///
    /// When the row cannot be an item.
    fn read(
        &self,
        column: &Self::Column,
        row: InputRow,
        content: &mut Self::Content,
    ) -> Result<Self::Row>;

    /// The key of a row that has been read, where it has one.
    fn key(row: &mut Self::Row) -> Option<&mut KeyId>;

    /// The key and the value of a row that has been read; `None` where it matches nothing.
    fn item<'a>(row: &Self::Row, content: &'a Self::Content) -> Option<(KeyId, Self::Value<'a>)>;

    /// The value at an index of a column; `None` where it matches nothing. `buffer` may hold its elements.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    fn value<'a>(
        &self,
        column: &'a Self::Column,
        index: usize,
        buffer: &'a mut Self::Content,
    ) -> Result<Option<Self::Value<'a>>> {
        buffer.truncate(0);
        let row = self.read(column, InputRow { index, number: 0, key: Some(0) }, buffer)?;
        Ok(Self::item(&row, buffer).map(|(_, value)| value))
    }

    /// The number of elements of a row that has been read; 0 where its value has none.
    fn len(_row: &Self::Row) -> u32 {
        0
    }

    /// Whether rows with different numbers of elements are of different
    /// [kinds](super::RowPlace::kind).
    const LEN_IS_KIND: bool = false;

    /// The position of a value on the axis, among values of its kind.
    fn position(&self, value: Self::Value<'_>) -> u32;

    /// The kind of a value.
    fn kind(_value: Self::Value<'_>) -> u32 {
        0
    }

    /// A hash of a value, the same in every process.
    fn hash(value: Self::Value<'_>) -> u64;

    /// Values as they are stored; their type, which no value decides, is the stored form's.
    fn stored<'a>(values: impl Iterator<Item = Option<Self::Value<'a>>>) -> ArrayRef;

    /// The values of some rows of a column as they are stored, NULL for rows that may not match.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    fn store(
        &self,
        column: &Self::Column,
        rows: Range<usize>,
        may_match: impl Fn(usize) -> bool,
    ) -> Result<ArrayRef> {
        let mut read = ReadRows::<Self>::with_room(column, rows.len(), 0);
        for index in rows {
            let key = may_match(index).then_some(0);
            let row = InputRow { index, number: 0, key };
            read.rows.push(self.read(column, row, &mut read.content)?);
        }
        Ok(Self::stored(read.values(0..read.rows.len())))
    }

    /// The kinds of stored values; `None` where all are of one.
    fn kinds(&self, _values: &dyn Array) -> Option<Vec<u32>> {
        None
    }

    /// A bound on the bytes of the items of `rows` rows with so many elements, and of gathering them,
    /// besides what was read.
    fn footprint(rows: usize, elements: usize) -> usize;

    /// The distinct items of the rows, whose numbers differ. They do not depend on which part has which
    /// row, nor on the number of threads.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    fn gather(&self, read: Vec<ReadRows<Self>>, how: Gathering<'_>) -> Result<Self::Items>;

    /// The values of rows that probe these items.
    fn of_probes(&self, _build: &Self::Items) -> Self {
        self.clone()
    }

    /// The number of elementary values of the build side, for metrics.
    fn value_count(&self) -> usize {
        0
    }

    /// The bytes that the values of probe rows share with no collection.
    fn size_in_bytes(&self) -> usize {
        0
    }
}

/// A row of a column.
#[derive(Debug, Clone, Copy)]
pub struct InputRow {
    /// The index in the column.
    pub index: usize,
    /// The number in the order of the input.
    pub number: u32,
    /// The blocking key; `None` where the row matches nothing, whatever its value.
    pub key: Option<KeyId>,
}

/// The resources for gathering items.
#[derive(Clone, Copy)]
pub struct Gathering<'a> {
    /// Whether the items meet each other.
    pub self_join: bool,
    /// The number of threads that may work at once, at least 1.
    pub threads: Threads,
    /// Ends the work early.
    pub cancel: &'a CancelFlag,
    /// Reserves this many bytes beyond [`RowValues::footprint`]; whether that is granted.
    pub reserve: &'a dyn Fn(usize) -> bool,
}

/// The elements of values, one value behind the other.
pub trait RowContent: Debug + Default + Send + Sync + 'static {
    /// The bytes of an element.
    fn element_bytes(&self) -> usize;

    /// The number of elements.
    fn count(&self) -> usize;

    /// The number of elements that there is memory for.
    fn room(&self) -> usize;

    /// Leaves the first elements.
    fn truncate(&mut self, count: usize);

    /// The bytes allocated beside the elements.
    fn bytes_beside(&self) -> usize {
        0
    }
}

impl RowContent for () {
    fn element_bytes(&self) -> usize {
        0
    }

    fn count(&self) -> usize {
        0
    }

    fn room(&self) -> usize {
        0
    }

    fn truncate(&mut self, _: usize) {}
}

impl RowContent for String {
    fn element_bytes(&self) -> usize {
        1
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn room(&self) -> usize {
        self.capacity()
    }

    fn truncate(&mut self, count: usize) {
        self.truncate(count);
    }
}

/// Rows that have been read, with the elements of their values.
#[derive(Debug)]
pub struct ReadRows<V: RowValues> {
    pub rows: Vec<V::Row>,
    pub content: V::Content,
}

impl<V: RowValues> ReadRows<V> {
    /// Nothing yet, with room for some rows and elements of a column.
    pub(super) fn with_room(column: &V::Column, rows: usize, elements: usize) -> Self {
        Self { rows: Vec::with_capacity(rows), content: V::content(column, elements) }
    }

    /// Whether more rows and elements of a column need no more memory.
    pub(super) fn has_room(&self, column: &V::Column, rows: usize, elements: usize) -> bool {
        rows <= self.rows.capacity() - self.rows.len()
            && elements <= self.content.room() - self.content.count()
            && self.content.element_bytes() == V::element_bytes(column)
    }

    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        let (rows, room) = (self.rows.capacity(), self.content.room());
        Self::footprint(rows, room, self.content.element_bytes()) + self.content.bytes_beside()
    }

    /// The bytes of what was read.
    pub(super) fn used_bytes(&self) -> usize {
        Self::footprint(self.rows.len(), self.content.count(), self.content.element_bytes())
    }

    /// The bytes that `rows` rows and `elements` elements of their values take; an element takes
    /// `element_bytes`.
    pub(super) fn footprint(rows: usize, elements: usize, element_bytes: usize) -> usize {
        rows * size_of::<V::Row>() + elements * element_bytes
    }

    /// The keys and values of some rows.
    pub(super) fn items(
        &self,
        rows: Range<usize>,
    ) -> impl Iterator<Item = Option<(KeyId, V::Value<'_>)>> {
        self.rows[rows].iter().map(|row| V::item(row, &self.content))
    }

    /// The values of some rows.
    pub(super) fn values(&self, rows: Range<usize>) -> impl Iterator<Item = Option<V::Value<'_>>> {
        self.items(rows).map(|item| item.map(|(_, value)| value))
    }

    /// Reads the rows of a batch behind those that were read; `key` gives the key of a row.
    ///
    /// # Errors
    ///
    /// When a row cannot be an item, or `key` fails.
    fn read(
        &mut self,
        values: &V,
        column: &V::Column,
        first_row: u32,
        input: &EncodeInput<'_>,
        mut key: impl FnMut(usize) -> Result<Option<KeyId>>,
    ) -> Result<()> {
        for (number, index) in (first_row..).zip(0..input.values.len()) {
            let key = if input.may_match(index) { key(index)? } else { None };
            let row = InputRow { index, number, key };
            self.rows.push(values.read(column, row, &mut self.content)?);
        }
        Ok(())
    }

    /// Reads build rows, whose keys are added to `keys`.
    ///
    /// # Errors
    ///
    /// When a row cannot be an item, or there are more keys than ids.
    pub(super) fn read_build(
        &mut self,
        values: &V,
        column: &V::Column,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
    ) -> Result<()> {
        self.read(values, column, first_row, input, |row| match input.keys {
            Some(batch_keys) => keys.insert(batch_keys, row),
            None => Ok(Some(0)),
        })
    }

    /// Reads probe rows, of which those without a key of the build side match nothing.
    ///
    /// # Errors
    ///
    /// When a row cannot be an item.
    pub(super) fn read_probes(
        &mut self,
        values: &V,
        column: &V::Column,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
    ) -> Result<()> {
        self.read(values, column, 0, input, |row| match input.keys {
            Some(batch_keys) => Ok(keys.find(batch_keys, row)),
            None => Ok(Some(0)),
        })
    }
}
