//! From rows to items.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeStringArray};

use super::alphabet::Alphabet;
use super::axis::LengthAxis;
use super::collection::{ReadRow, ReadRows, Strings, hash_of};
use super::gather::TextGathering;
use crate::engine::{self, InputRow, KeyId, RowValues};
use crate::error::{Result, exec_err};
use crate::values::Texts;

/// The texts of rows, stored as `LargeUtf8`.
#[derive(Debug, Clone)]
pub(super) struct TextValues {
    pub axis: LengthAxis,
    /// The alphabet of the build side, for texts that probe it.
    alphabet: Option<Arc<Alphabet>>,
}

impl TextValues {
    pub(super) fn new(axis: LengthAxis) -> Self {
        Self { axis, alphabet: None }
    }
}

impl RowValues for TextValues {
    type Column = Texts;
    type Value<'a> = &'a str;
    type Row = ReadRow;
    type Content = String;
    type Items = Strings;

    fn column(values: &dyn Array) -> Result<Texts> {
        Texts::try_new(values)
    }

    fn element_count(texts: &Texts) -> usize {
        (0..texts.len()).filter_map(|row| texts.value(row)).map(str::len).sum()
    }

    fn element_bytes(_: &Texts) -> usize {
        1
    }

    fn content(_: &Texts, elements: usize) -> String {
        String::with_capacity(elements)
    }

    #[inline]
    fn read(&self, texts: &Texts, row: InputRow, to: &mut String) -> Result<ReadRow> {
        let InputRow { index, number, key } = row;
        let none = ReadRow { row: number, key: 0, len: None, bytes: 0, start: to.len() };
        let Some(key) = key else { return Ok(none) };
        let Some(text) = texts.value(index) else { return Ok(none) };
        let Ok(bytes) = u32::try_from(text.len()) else {
            return exec_err!("a text of {} bytes is too long for a join", text.len());
        };
        let len = text.chars().count() as u32;
        to.push_str(text);
        Ok(ReadRow { key, len: Some(len), bytes, ..none })
    }

    fn key(row: &mut ReadRow) -> Option<&mut KeyId> {
        Some(&mut row.key)
    }

    #[inline]
    fn item<'a>(row: &ReadRow, text: &'a String) -> Option<(KeyId, &'a str)> {
        row.len.map(|_| (row.key, row.of(text)))
    }

    #[inline]
    fn value<'a>(
        &self,
        texts: &'a Texts,
        row: usize,
        _: &'a mut String,
    ) -> Result<Option<&'a str>> {
        Ok(texts.value(row))
    }

    fn len(row: &ReadRow) -> u32 {
        row.len.unwrap_or(0)
    }

    #[inline]
    fn position(&self, text: &str) -> u32 {
        self.axis.position(text.chars().count() as u32)
    }

    #[inline]
    fn hash(text: &str) -> u64 {
        hash_of(0, text)
    }

    fn stored<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
        Arc::new(texts.collect::<LargeStringArray>())
    }

    /// Texts as they lie in the column: none is copied twice.
    fn store(
        &self,
        texts: &Texts,
        rows: Range<usize>,
        may_match: impl Fn(usize) -> bool,
    ) -> Result<ArrayRef> {
        Ok(Self::stored(rows.map(|row| texts.value(row).filter(|_| may_match(row)))))
    }

    fn footprint(rows: usize, bytes: usize) -> usize {
        Strings::footprint(rows, bytes)
    }

    fn gather(
        &self,
        read: Vec<engine::ReadRows<Self>>,
        how: engine::Gathering<'_>,
    ) -> Result<Strings> {
        let parts = read.into_iter().map(|part| ReadRows { rows: part.rows, text: part.content });
        let alphabet = self.alphabet.clone();
        let by_prefix = self.axis.threshold().by_prefix();
        let how = TextGathering { alphabet, by_prefix, threads: how.threads, cancel: how.cancel };
        Strings::gather(&parts.collect::<Vec<_>>(), how)
    }

    fn of_probes(&self, build: &Strings) -> Self {
        Self { alphabet: Some(Arc::clone(&build.alphabet)), ..*self }
    }

    fn value_count(&self) -> usize {
        self.alphabet.as_ref().map_or(0, |alphabet| alphabet.len())
    }

    fn size_in_bytes(&self) -> usize {
        self.alphabet.as_ref().map_or(0, |alphabet| alphabet.size_in_bytes())
    }
}
