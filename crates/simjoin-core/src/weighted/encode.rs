//! Rows of weighted sets, in memory and on disk.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeBinaryBuilder};

use super::axis::TotalAxis;
use super::collection::{RankedTokens, WeightedSets};
use super::column::{StoredToken, WeightedColumn, store_element};
use super::gather::{self, Part};
use super::measure::{Mass, WeightedMeasure};
use super::rows::{WeightedRow, WeightedRows};
use crate::engine::{Gathering, InputRow, KeyId, ReadRows, RowValues};
use crate::error::Result;
use crate::values::byte_tokens::unpack;
use crate::values::dictionary::DictionaryKey;

/// The weighted sets of rows, stored as bytes.
#[derive(Debug, Clone)]
pub(super) struct WeightedValues {
    pub measure: WeightedMeasure,
    pub axis: TotalAxis,
    /// The tokens of the build side, for sets that probe it.
    ranked: Option<Arc<RankedTokens>>,
}

impl WeightedValues {
    pub(super) fn new(measure: WeightedMeasure, axis: TotalAxis) -> Self {
        Self { measure, axis, ranked: None }
    }
}

/// The tokens and weights of a row, where they lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightedSet<'a> {
    rows: &'a WeightedRows,
    /// The place of the first token, and of the end.
    start: usize,
    end: usize,
}

impl<'a> WeightedSet<'a> {
    fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    fn weights(&self) -> &'a [u32] {
        &self.rows.weights[self.range()]
    }

    fn tokens(&self) -> &'a [u32] {
        &self.rows.tokens[self.range()]
    }
}

impl RowValues for WeightedValues {
    type Column = WeightedColumn;
    type Value<'a> = WeightedSet<'a>;
    type Row = WeightedRow;
    type Content = WeightedRows;
    type Items = WeightedSets;

    fn column(values: &dyn Array) -> Result<WeightedColumn> {
        WeightedColumn::try_new(values)
    }

    fn element_count(column: &WeightedColumn) -> usize {
        column.element_count()
    }

    fn element_bytes(_: &WeightedColumn) -> usize {
        2 * size_of::<u32>()
    }

    fn content(_: &WeightedColumn, elements: usize) -> WeightedRows {
        WeightedRows::with_room(elements)
    }

    fn growth(column: &WeightedColumn, content: Option<&WeightedRows>) -> usize {
        match content {
            Some(content) => content.growth(column),
            None => WeightedRows::default().growth(column),
        }
    }

    fn read(
        &self,
        column: &WeightedColumn,
        row: InputRow,
        to: &mut WeightedRows,
    ) -> Result<WeightedRow> {
        let InputRow { index, number, key } = row;
        let start = to.tokens.len();
        if key.is_some() {
            to.read(column, index, self.measure)?;
        }
        let len = (to.tokens.len() - start) as u32;
        Ok(WeightedRow { row: number, key: key.unwrap_or(0), len, start })
    }

    fn key(row: &mut WeightedRow) -> Option<&mut KeyId> {
        (row.len > 0).then_some(&mut row.key)
    }

    fn item<'a>(row: &WeightedRow, rows: &'a WeightedRows) -> Option<(KeyId, WeightedSet<'a>)> {
        let Range { start, end } = row.range();
        (row.len > 0).then_some((row.key, WeightedSet { rows, start, end }))
    }

    fn len(row: &WeightedRow) -> u32 {
        row.len
    }

    fn position(&self, set: WeightedSet<'_>) -> u32 {
        self.axis.position(Mass::of(set.weights()).total)
    }

    fn hash(set: WeightedSet<'_>) -> u64 {
        // The tokens of a row are in any order.
        let pairs = set.tokens().iter().zip(set.weights());
        let hash = |(token, weight): (&u32, &u32)| {
            set.rows.hash(*token).wrapping_mul(2 * u64::from(*weight) + 1)
        };
        pairs.map(hash).fold(0, u64::wrapping_add)
    }

    fn stored<'a>(sets: impl Iterator<Item = Option<WeightedSet<'a>>>) -> ArrayRef {
        let (mut stored, mut bytes) = (LargeBinaryBuilder::new(), vec![]);
        // The tokens of the rows that were read together.
        let mut known: Option<(&WeightedRows, Vec<DictionaryKey<'_>>)> = None;
        for set in sets {
            let Some(set) = set else {
                stored.append_null();
                continue;
            };
            if known.as_ref().is_none_or(|(rows, _)| !std::ptr::eq(*rows, set.rows)) {
                known = Some((set.rows, set.rows.dictionary.keys()));
            }
            bytes.clear();
            let keys = known.as_ref().map_or(&[][..], |(_, keys)| keys);
            for (token, weight) in set.tokens().iter().zip(set.weights()) {
                match keys[*token as usize] {
                    DictionaryKey::Integer(token) => {
                        store_element(&mut bytes, StoredToken::Integer(token), *weight);
                    }
                    DictionaryKey::Word(word) => {
                        let (word, len) = unpack(word);
                        store_element(&mut bytes, StoredToken::Bytes(&word[..len]), *weight);
                    }
                    DictionaryKey::Bytes(token, _) => {
                        store_element(&mut bytes, StoredToken::Bytes(token), *weight);
                    }
                }
            }
            stored.append_value(&bytes);
        }
        Arc::new(stored.finish())
    }

    fn footprint(rows: usize, tokens: usize) -> usize {
        gather::footprint(rows, tokens)
    }

    fn gather(&self, read: Vec<ReadRows<Self>>, how: Gathering<'_>) -> Result<WeightedSets> {
        let part = |part: ReadRows<Self>| Part { rows: part.rows, content: part.content };
        let parts = read.into_iter().map(part).collect();
        match &self.ranked {
            Some(ranked) => gather::probes(parts, ranked, how.cancel),
            None => gather::build(parts, how.threads, how.cancel),
        }
    }

    fn of_probes(&self, build: &WeightedSets) -> Self {
        Self { ranked: Some(Arc::clone(&build.ranked)), ..*self }
    }

    fn value_count(&self) -> usize {
        self.ranked.as_ref().map_or(0, |ranked| ranked.len())
    }

    fn size_in_bytes(&self) -> usize {
        self.ranked.as_ref().map_or(0, |ranked| ranked.dictionary.size())
    }
}
