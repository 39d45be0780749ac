//! Rows as they lie on disk: the distinct tokens of each in one plain list type.
//!
//! Every list layout and token type becomes `LargeList<Int64 | UInt64 | Binary>`, without repeats
//! and NULL elements, so that the length of a list is the size of its set. A row that can match
//! nothing (NULL or empty list, NULL key, refused by a filter) is NULL. Sets and keys compare as
//! before: integers by value, text and binary by their bytes.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, Int64Array, LargeListArray, UInt64Array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{max, min};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use foldhash::fast::FixedState;

use crate::engine::{self, Domain, EncodeInput, KeyDictionary, StoredForm, StoredRows};
use crate::error::{Result, exec_err};
use crate::set::encode::batch::ListTokens;
use crate::set::encode::builder::BuildEncoder;
use crate::set::encode::distinct::{NO_SET, check_size};
use crate::set::encode::stored_tokens::StoredTokens;
use crate::values::ValueSet;
use crate::values::byte_tokens::{ByteTokens, unpack};
use crate::values::dictionary::{DictionaryKey, mix};
use crate::values::tokens::{Tokens, with_byte_tokens};

/// Bytes of text or binary tokens in one batch, a single larger row aside.
const MAX_TOKEN_BYTES: usize = 1 << 30;

impl StoredForm for StoredTokens {
    fn data_type(&self) -> DataType {
        self.list_type()
    }

    fn store(&self, input: &EncodeInput<'_>) -> Result<Vec<StoredRows>> {
        let kind = *self;
        let batch = ListTokens::try_new(input.values)?;
        let mut builder = Builder::new(kind, input.keys.is_some());
        builder.reserve(batch.len(), batch.tokens());
        let mut scratch = Scratch::default();
        let mut out = vec![];
        let mut from = 0;
        for row in 0..batch.len() {
            let key = match input.keys {
                Some(keys) => keys.bytes(row).map(Some),
                None => Some(None),
            };
            match key.filter(|_| input.may_match(row)).zip(batch.row(row)) {
                Some((key, range)) => {
                    builder.push_tokens(batch.tokens(), range, &mut scratch)?;
                    builder.end_row(key)?;
                }
                None => builder.end_row(None)?,
            }
            if builder.is_full() {
                out.push(builder.finish(from..row + 1)?);
                from = row + 1;
                builder = Builder::new(kind, input.keys.is_some());
            }
        }
        if from < batch.len() {
            out.push(builder.finish(from..batch.len())?);
        }
        Ok(out)
    }

    fn positions(&self, lists: &dyn Array) -> Vec<u32> {
        let lists = lists.as_list::<i64>();
        let sizes = lists.value_offsets().windows(2).map(|ends| (ends[1] - ends[0]) as u32);
        sizes.enumerate().map(|(row, size)| if lists.is_null(row) { 0 } else { size }).collect()
    }

    fn hashes(&self, lists: &dyn Array) -> Vec<u32> {
        let lists = lists.as_list::<i64>();
        let ends = lists.value_offsets().windows(2);
        let tokens = lists.values();
        let of_lists = |hash: &dyn Fn(usize) -> u64| -> Vec<u32> {
            let sum = |sum: u64, token| sum.wrapping_add(mix(hash(token)));
            let of_list = |ends: &[i64]| (ends[0] as usize..ends[1] as usize).fold(0, sum);
            ends.map(|ends| (mix(of_list(ends)) >> 32) as u32).collect()
        };
        if let Some(tokens) = tokens.as_primitive_opt::<Int64Type>() {
            of_lists(&|token| tokens.value(token) as u64)
        } else if let Some(tokens) = tokens.as_primitive_opt::<UInt64Type>() {
            of_lists(&|token| tokens.value(token))
        } else {
            let tokens = tokens.as_binary::<i32>();
            of_lists(&|token| FixedState::default().hash_one(tokens.value(token)))
        }
    }

    /// The greatest token; `None` where they are not all non-negative integers.
    fn domain_size(&self, lists: &dyn Array) -> Option<u64> {
        let tokens = lists.as_list::<i64>().values();
        if let Some(tokens) = tokens.as_primitive_opt::<Int64Type>() {
            let all_natural = min(tokens).is_none_or(|least| least >= 0);
            return all_natural.then(|| max(tokens).unwrap_or(0) as u64);
        }
        tokens.as_primitive_opt::<UInt64Type>().map(|tokens| max(tokens).unwrap_or(0))
    }

    fn domain_bytes(&self, greatest: u64) -> u64 {
        ValueSet::footprint(greatest)
    }

    fn domain(&self, greatest: u64) -> Option<Box<dyn Domain>> {
        Some(Box::new(ValueSet::with_greatest(greatest)))
    }
}

/// The rows that a [`BuildEncoder`] has read, to be stored.
pub(crate) struct Unload<'a> {
    encoder: &'a BuildEncoder,
    kind: StoredTokens,
    /// The keys of the encoder's sets by their ids, where the join has some.
    keys: Option<Vec<DictionaryKey<'a>>>,
    tokens: Vec<DictionaryKey<'a>>,
}

impl<'a> Unload<'a> {
    /// `keys` are the blocking keys of the encoder's sets, where the join has some.
    pub(crate) fn new(encoder: &'a BuildEncoder, keys: Option<&'a KeyDictionary>) -> Self {
        let (tokens, kind) = (encoder.dictionary.keys(), encoder.stored);
        Self { encoder, kind, keys: keys.map(|keys| keys.keys.keys()), tokens }
    }

    /// The bytes of an unload of this encoder.
    pub(crate) fn footprint(encoder: &BuildEncoder, keys: &KeyDictionary) -> usize {
        (encoder.dictionary.len() as usize + keys.len() as usize) * size_of::<DictionaryKey<'_>>()
    }

    /// The sizes of the sets of the first rows, at most `count` of them.
    pub(crate) fn sizes(encoder: &BuildEncoder, count: usize) -> impl Iterator<Item = u32> + '_ {
        let rows = encoder.sets.set_of_row().iter().filter(|&&set| set != NO_SET);
        rows.take(count).map(|&set| encoder.sets.size(set))
    }
}

impl engine::Unload for Unload<'_> {
    fn pushes(&self) -> usize {
        self.encoder.pushes.len()
    }

    fn rows(&self, push: usize) -> Result<Vec<StoredRows>> {
        let has_keys = self.keys.is_some();
        let sets = &self.encoder.sets;
        let push = self.encoder.pushes[push];
        let rows = &sets.set_of_row()[push.start as usize..][..push.rows as usize];
        let mut builder = Builder::new(self.kind, has_keys);
        let mut out = vec![];
        let mut from = 0;
        for (row, &set) in rows.iter().enumerate() {
            if set == NO_SET {
                builder.end_row(None)?;
            } else {
                for &token in sets.tokens(set) {
                    builder.push_key(self.tokens[token as usize])?;
                }
                let keys = self.keys.as_ref();
                match keys.and_then(|keys| keys.get(sets.key(set) as usize)) {
                    Some(DictionaryKey::Word(word)) => {
                        let (bytes, len) = unpack(*word);
                        builder.end_row(Some(&bytes[..len]))?;
                    }
                    Some(DictionaryKey::Bytes(bytes, _)) => builder.end_row(Some(bytes))?,
                    Some(DictionaryKey::Integer(_)) | None => builder.end_row(None)?,
                }
            }
            if builder.is_full() {
                out.push(builder.finish(from..row + 1)?);
                from = row + 1;
                builder = Builder::new(self.kind, has_keys);
            }
        }
        if from < rows.len() {
            out.push(builder.finish(from..rows.len())?);
        }
        Ok(out)
    }
}

/// The memory for telling the distinct tokens of a row.
#[derive(Default)]
struct Scratch {
    signed: Vec<i64>,
    unsigned: Vec<u64>,
    /// Hashes with the positions of their tokens.
    hashes: Vec<(u64, usize)>,
    /// Positions of distinct tokens with the same hash.
    same: Vec<usize>,
}

/// Stored rows in the making.
struct Builder {
    kind: StoredTokens,
    /// The end of the tokens of each row.
    ends: Vec<i64>,
    valid: Vec<bool>,
    signed: Vec<i64>,
    unsigned: Vec<u64>,
    byte_ends: Vec<i32>,
    bytes: Vec<u8>,
    keys: Option<BinaryBuilder>,
}

impl Builder {
    fn new(kind: StoredTokens, has_keys: bool) -> Self {
        Self {
            kind,
            ends: vec![0],
            valid: vec![],
            signed: vec![],
            unsigned: vec![],
            byte_ends: vec![0],
            bytes: vec![],
            keys: has_keys.then(BinaryBuilder::new),
        }
    }

    /// Makes room for rows of integers: growing takes half as much again, and leaves some unused.
    fn reserve(&mut self, rows: usize, tokens: &Tokens) {
        self.ends.reserve_exact(rows);
        self.valid.reserve_exact(rows);
        match tokens {
            Tokens::Signed(array) => self.signed.reserve_exact(array.len()),
            Tokens::Unsigned(array) => self.unsigned.reserve_exact(array.len()),
            _ => {}
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_TOKEN_BYTES
    }

    fn token_count(&self) -> usize {
        match self.kind {
            StoredTokens::Signed => self.signed.len(),
            StoredTokens::Unsigned => self.unsigned.len(),
            StoredTokens::Bytes => self.byte_ends.len() - 1,
        }
    }

    /// Adds the distinct tokens of a row.
    fn push_tokens(
        &mut self,
        tokens: &Tokens,
        range: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let nulls = tokens.nulls().filter(|n| n.null_count() > 0);
        let is_valid = |i: usize| nulls.is_none_or(|n| n.is_valid(i));
        match tokens {
            Tokens::Null => {}
            Tokens::Signed(array) => {
                let values = &array.values()[range.clone()];
                push_distinct(values, range, is_valid, &mut scratch.signed, &mut self.signed);
            }
            Tokens::Unsigned(array) => {
                let values = &array.values()[range.clone()];
                push_distinct(values, range, is_valid, &mut scratch.unsigned, &mut self.unsigned);
            }
            bytes => with_byte_tokens!(bytes, array => {
                return self.push_distinct_bytes(array, range.filter(|&i| is_valid(i)), scratch);
            }, else ()),
        }
        Ok(())
    }

    /// Tokens with the same hash are compared in full.
    fn push_distinct_bytes(
        &mut self,
        tokens: &impl ByteTokens,
        positions: impl Iterator<Item = usize>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Scratch { hashes, same, .. } = scratch;
        hashes.clear();
        hashes.extend(positions.map(|i| {
            let hash = match tokens.packed(i) {
                Some(word) => word.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                None => FixedState::default().hash_one(tokens.bytes(i)),
            };
            (hash, i)
        }));
        hashes.sort_unstable();
        for group in hashes.chunk_by(|a, b| a.0 == b.0) {
            same.clear();
            for &(_, i) in group {
                let token = tokens.bytes(i);
                if same.iter().all(|&other| tokens.bytes(other) != token) {
                    same.push(i);
                    self.push_bytes(token)?;
                }
            }
        }
        Ok(())
    }

    fn push_bytes(&mut self, token: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(token);
        let Ok(end) = i32::try_from(self.bytes.len()) else {
            return exec_err!(
                "a set with {} bytes of tokens is too large to be spilled; raise the memory limit",
                self.bytes.len()
            );
        };
        self.byte_ends.push(end);
        Ok(())
    }

    fn push_key(&mut self, key: DictionaryKey<'_>) -> Result<()> {
        match (self.kind, key) {
            (StoredTokens::Signed, DictionaryKey::Integer(token)) => {
                self.signed.push(token.bits as i64)
            }
            (StoredTokens::Unsigned, DictionaryKey::Integer(token)) => {
                self.unsigned.push(token.bits)
            }
            (_, DictionaryKey::Word(word)) => {
                let (bytes, len) = unpack(word);
                self.push_bytes(&bytes[..len])?;
            }
            (_, DictionaryKey::Bytes(bytes, _)) => self.push_bytes(bytes)?,
            (StoredTokens::Bytes, DictionaryKey::Integer(_)) => {
                return exec_err!("an integer among text tokens");
            }
        }
        Ok(())
    }

    /// Ends a row; one without tokens is NULL.
    fn end_row(&mut self, key: Option<&[u8]>) -> Result<()> {
        let end = self.token_count() as i64;
        let size = end - self.ends.last().copied().unwrap_or(0);
        check_size(size as usize)?;
        self.valid.push(size > 0);
        self.ends.push(end);
        if let Some(keys) = &mut self.keys {
            keys.append_option(key.filter(|_| size > 0));
        }
        Ok(())
    }

    fn finish(mut self, rows: Range<usize>) -> Result<StoredRows> {
        // Rows without a set store no tokens.
        if self.signed.capacity() > 2 * self.signed.len() {
            self.signed.shrink_to_fit();
        }
        if self.unsigned.capacity() > 2 * self.unsigned.len() {
            self.unsigned.shrink_to_fit();
        }
        let values: ArrayRef = match self.kind {
            StoredTokens::Signed => Arc::new(Int64Array::from(self.signed)),
            StoredTokens::Unsigned => Arc::new(UInt64Array::from(self.unsigned)),
            StoredTokens::Bytes => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(self.byte_ends));
                Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(self.bytes), None)?)
            }
        };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        let nulls = NullBuffer::from(self.valid);
        let lists = LargeListArray::try_new(self.kind.element(), offsets, values, Some(nulls))?;
        Ok(StoredRows {
            rows,
            values: Arc::new(lists),
            keys: self.keys.as_mut().map(BinaryBuilder::finish),
        })
    }
}

/// Adds the distinct values. Most lists ascend, and hold no value twice.
fn push_distinct<T: Copy + Ord>(
    values: &[T],
    range: Range<usize>,
    is_valid: impl Fn(usize) -> bool,
    scratch: &mut Vec<T>,
    out: &mut Vec<T>,
) {
    scratch.clear();
    scratch.extend(range.zip(values).filter(|(i, _)| is_valid(*i)).map(|(_, &value)| value));
    if !scratch.is_sorted_by(|a, b| a < b) {
        scratch.sort_unstable();
        scratch.dedup();
    }
    out.extend_from_slice(scratch);
}
