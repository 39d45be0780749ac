//! Weighted sets of rows that have been read.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use super::column::{ElementTokens, WeightedColumn, WeightedElements};
use super::measure::{Mass, WeightedMeasure};
use crate::engine::{KeyId, RowContent};
use crate::error::{Result, exec_err};
use crate::values::Tokens;
use crate::values::dictionary::{Added, Dictionary, NO_ID, mix};
use crate::values::tokens::with_byte_tokens;

/// A row that has been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightedRow {
    /// Its number in the order of the input.
    pub row: u32,
    pub key: KeyId,
    /// The number of its tokens; 0 where the row matches nothing.
    pub len: u32,
    /// The place of the first.
    pub start: usize,
}

impl WeightedRow {
    /// The places of the tokens.
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.len as usize
    }
}

/// The distinct tokens of rows with their weights, one row behind the other.
#[derive(Debug, Default)]
pub(super) struct WeightedRows {
    /// The ids of the tokens.
    pub dictionary: Dictionary,
    pub tokens: Vec<u32>,
    pub weights: Vec<u32>,
    /// By token id: a hash of the token, and the last place of the token.
    hashes: Vec<u64>,
    places: Vec<u32>,
    /// The ids of values that batches share.
    shared: Option<(ArrayRef, Vec<u32>)>,
    ids: Vec<u32>,
}

impl RowContent for WeightedRows {
    fn element_bytes(&self) -> usize {
        2 * size_of::<u32>()
    }

    fn count(&self) -> usize {
        self.tokens.len()
    }

    fn room(&self) -> usize {
        self.tokens.capacity().min(self.weights.capacity())
    }

    fn truncate(&mut self, count: usize) {
        self.tokens.truncate(count);
        self.weights.truncate(count);
    }

    fn bytes_beside(&self) -> usize {
        self.dictionary.size()
            + self.hashes.capacity() * size_of::<u64>()
            + (self.places.capacity() + self.ids.capacity()) * size_of::<u32>()
            + self.shared.as_ref().map_or(0, |(_, ids)| ids.capacity() * size_of::<u32>())
    }
}

impl WeightedRows {
    /// Room for some tokens.
    pub(super) fn with_room(tokens: usize) -> Self {
        let (tokens, weights) = (Vec::with_capacity(tokens), Vec::with_capacity(tokens));
        Self { tokens, weights, ..Self::default() }
    }

    /// The bytes that may be allocated beside the elements when the rows of a column are read.
    pub(super) fn growth(&self, column: &WeightedColumn) -> usize {
        let (tokens, count, mapped) = match &column.elements.tokens {
            ElementTokens::Plain(tokens) => (tokens, column.element_count(), 0),
            ElementTokens::Shared { values, tokens, keys } => {
                (tokens, values.len().min(keys.len()), values.len())
            }
        };
        let bytes = |bytes: usize| Added::Bytes { count, bytes };
        let added = match tokens {
            Tokens::Signed(values) => {
                let (negative, greatest) = tokens.bounds(0..values.len());
                Added::Integers { count, negative: negative.min(count), greatest }
            }
            Tokens::Unsigned(values) => {
                let (_, greatest) = tokens.bounds(0..values.len());
                Added::Integers { count, negative: 0, greatest }
            }
            other => with_byte_tokens!(other, array => bytes(bytes_of(array)), else bytes(0)),
        };
        let known = self.dictionary.len() as usize + count;
        self.dictionary.growth(added)
            + 2 * known * (size_of::<u64>() + size_of::<u32>())
            + (mapped + count) * size_of::<u32>()
    }

    /// A hash of a token, the same in every process.
    pub(super) fn hash(&self, token: u32) -> u64 {
        self.hashes[token as usize]
    }

    /// Appends the tokens of a row: those that are not NULL and have a weight above 0, each once. Returns their sums;
    /// `None` where the row is NULL.
    pub(super) fn read(
        &mut self,
        column: &WeightedColumn,
        row: usize,
        measure: WeightedMeasure,
    ) -> Result<Option<Mass>> {
        let Some(range) = column.row(row) else { return Ok(None) };
        let start = self.tokens.len();
        self.read_ids(&column.elements, range.clone())?;
        for (index, at) in range.zip(0..) {
            if !column.elements.is_valid(index) {
                continue;
            }
            let (id, weight) = (self.ids[at], column.elements.weight(index));
            let place = self.places[id as usize] as usize;
            if place >= start && self.tokens.get(place) == Some(&id) {
                let Some(sum) = self.weights[place].checked_add(weight) else {
                    return exec_err!(
                        "{}: the weights of a token that row {row} of a batch repeats add up to {} or more; \
                         weights are below that, divide them all",
                        measure.name(),
                        1_u64 << 32
                    );
                };
                self.weights[place] = sum;
                continue;
            }
            self.places[id as usize] = self.tokens.len() as u32;
            self.tokens.push(id);
            self.weights.push(weight);
        }
        let mass = Mass::of(&self.weights[start..]);
        if measure.adds_products() && mass.squares == u64::MAX {
            return exec_err!(
                "{}: the squares of the {} weights of row {row} of a batch add up to {} or more; divide all \
                 weights, for example by 1024",
                measure.name(),
                self.tokens.len() - start,
                u64::MAX
            );
        }
        Ok(Some(mass))
    }

    /// The ids of elements, in `ids`; any number for an element that does not count.
    fn read_ids(&mut self, elements: &WeightedElements, range: Range<usize>) -> Result<()> {
        self.ids.clear();
        match &elements.tokens {
            ElementTokens::Plain(tokens) if elements.has_nulls() => {
                for index in range {
                    match elements.is_valid(index) {
                        true => self.add(tokens, index..index + 1)?,
                        false => self.ids.push(NO_ID),
                    }
                }
                Ok(())
            }
            ElementTokens::Plain(Tokens::Null) => Ok(()),
            ElementTokens::Plain(tokens) => self.add(tokens, range),
            ElementTokens::Shared { keys, values, tokens } => {
                let known = match self.shared.take() {
                    Some((of, ids)) if Arc::ptr_eq(&of, values) => ids,
                    _ => vec![NO_ID; values.len()],
                };
                let known = self.add_shared(elements, range, (keys, tokens), known);
                self.shared = Some((Arc::clone(values), known?));
                Ok(())
            }
        }
    }

    /// Appends the ids of shared values, which are looked up once; `known` has the ids of values that were.
    fn add_shared(
        &mut self,
        elements: &WeightedElements,
        range: Range<usize>,
        (keys, tokens): (&[u32], &Tokens),
        mut known: Vec<u32>,
    ) -> Result<Vec<u32>> {
        for index in range {
            if !elements.is_valid(index) {
                self.ids.push(NO_ID);
                continue;
            }
            let key = keys[index] as usize;
            if known[key] != NO_ID {
                self.ids.push(known[key]);
                continue;
            }
            self.add(tokens, key..key + 1)?;
            known[key] = self.ids.last().copied().unwrap_or(NO_ID);
        }
        Ok(known)
    }

    /// Appends the ids of tokens, none of which is NULL.
    fn add(&mut self, tokens: &Tokens, range: Range<usize>) -> Result<()> {
        let first = self.ids.len();
        self.dictionary.encode(tokens, range.clone(), &mut self.ids)?;
        if self.dictionary.len() as usize == self.hashes.len() {
            return Ok(());
        }
        for (at, index) in (first..).zip(range) {
            // Ids are given in the order of appearance.
            if self.ids[at] as usize == self.hashes.len() {
                self.hashes.push(hash_of(tokens, index));
                self.places.push(u32::MAX);
            }
        }
        Ok(())
    }
}

fn bytes_of(tokens: &impl crate::values::byte_tokens::ByteTokens) -> usize {
    tokens.total_bytes()
}

fn hash_of(tokens: &Tokens, index: usize) -> u64 {
    let of_bytes = |bytes: &[u8]| {
        bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(hash ^ u64::from_le_bytes(word))
        })
    };
    match tokens {
        Tokens::Signed(values) => mix(values.value(index) as u64),
        Tokens::Unsigned(values) => mix(values.value(index)),
        other => {
            with_byte_tokens!(other, array => of_bytes(crate::values::byte_tokens::ByteTokens::bytes(array, index)), else 0)
        }
    }
}
