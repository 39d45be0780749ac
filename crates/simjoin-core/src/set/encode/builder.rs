//! From list columns to distinct sets: the side of the join that makes the dictionary.

use std::mem::size_of;
use std::sync::Arc;

use crate::engine::{EncodeInput, KeyDictionary};
use crate::error::{Result, exec_err};
use crate::memory::Memory;
use crate::set::encode::batch::{BatchTokens, Chunk, LocatedRows};
use crate::set::encode::distinct::{DistinctSets, SetHash, check_size};
use crate::set::encode::stored_tokens::StoredTokens;
use crate::values::TextTokenizer;
use crate::values::dictionary::{Added, Dictionary};
use crate::values::value_set::ValueSet;

/// Collects the build side, or a share of it: several encoders can read batches of one input at
/// the same time, to be [merged](super::finish()) at the end.
///
/// Tokens get their ids in the order of appearance. Repeats within a row are told by a stamp that
/// each token carries, which also tells whether a stored set holds the same tokens: sets need not
/// be sorted before the order of the tokens is known.
#[derive(Debug, Default)]
pub struct BuildEncoder {
    pub dictionary: Dictionary,
    pub sets: DistinctSets,
    pub pushes: Vec<Push>,
    /// The form of the tokens on disk.
    pub stored: StoredTokens,
    pub tokenizers: Tokenizers,
    row_count: u32,
    located: LocatedRows,
    ids: Vec<u32>,
    /// By token id, the last row that holds it, counted by `stamp`.
    stamps: Vec<u32>,
    stamp: u32,
    /// The part of the reservation that is this encoder's.
    reserved: usize,
}

/// The readers of texts of the build side and of the probe side, where tokens do not come in lists.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tokenizers {
    pub build: Option<TextTokenizer>,
    pub probe: Option<TextTokenizer>,
}

/// Rows that were added together.
#[derive(Debug, Clone, Copy)]
pub struct Push {
    /// The number of the first row in the whole input, and among the rows of the encoder.
    pub first_row: u32,
    pub start: u32,
    pub rows: u32,
    /// The tokens and the keys known afterwards.
    pub tokens: u32,
    pub keys: u32,
}

impl BuildEncoder {
    /// An encoder of rows whose tokens are the integers in `values`, which the encoders of one input share.
    pub fn with_values(values: Arc<ValueSet>) -> Self {
        Self { dictionary: Dictionary::of_values(values), ..Self::default() }
    }

    /// The encoder with tokenizers by which it reads texts.
    pub fn reading(self, tokenizers: Tokenizers) -> Self {
        Self { tokenizers, ..self }
    }

    /// The encoder with the form in which its tokens go to disk.
    pub fn stored_as(self, stored: StoredTokens) -> Self {
        Self { stored, ..self }
    }

    /// Adds the rows of a batch behind those added before. `reservation` is grown by what this
    /// encoder allocates, on top of `base` bytes of other things.
    pub fn push(
        &mut self,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<()> {
        self.push_at(self.row_count, input, keys, reservation, base)
    }

    /// Adds the rows of a batch whose first is row `first_row` of the whole input. The rows of an
    /// encoder ascend. Several encoders may share a reservation.
    pub fn push_at(
        &mut self,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<()> {
        let batch = BatchTokens::try_new(input.values, self.tokenizers.build)?;
        let rows = u32::try_from(batch.len()).ok();
        let Some(rows) = rows.filter(|&rows| first_row.checked_add(rows).is_some()) else {
            return exec_err!("a side of a similarity join holds at most {} rows", u32::MAX);
        };
        let mut from = 0;
        while from < batch.len() {
            let chunk = batch.chunk(from);
            // Reserved for some rows ahead: for a whole batch, the worst case (every token a new
            // one) would be far above the bytes used.
            let growth = self.growth(chunk.end - from, &chunk, batch.added(from, &chunk));
            self.reserve(reservation, base + self.size_in_bytes() + keys.size_in_bytes() + growth)?;
            let key_of = |row: usize| {
                let key = match &input.keys {
                    Some(batch_keys) => keys.insert(batch_keys, row)?,
                    None => Some(0),
                };
                Ok(key.filter(|_| input.may_match(row)))
            };
            let Self { dictionary, located, ids, .. } = self;
            batch.encode(from..chunk.end, key_of, dictionary, located, ids)?;
            self.push_sets()?;
            from = chunk.end;
        }
        let (tokens, known_keys) = (self.dictionary.len(), keys.len());
        let start = self.row_count;
        self.pushes.push(Push { first_row, start, rows, tokens, keys: known_keys });
        self.row_count += rows;
        self.reserve(reservation, base + self.size_in_bytes() + keys.size_in_bytes())
    }

    /// Adds the sets of the located rows, whose tokens are in `ids`.
    fn push_sets(&mut self) -> Result<()> {
        let Self { sets, ids, stamps, stamp, located, .. } = self;
        stamps.resize(self.dictionary.len() as usize, 0);
        let mut start = 0;
        for row in &located.rows {
            let ids = &mut ids[start..row.end];
            start = row.end;
            // There are fewer rows than stamps.
            *stamp = stamp.wrapping_add(1);
            let mut hash = SetHash::default();
            let mut len = 0;
            for i in 0..ids.len() {
                let id = ids[i];
                let last = &mut stamps[id as usize];
                if *last != *stamp {
                    *last = *stamp;
                    hash.add(id);
                    ids[len] = id;
                    len += 1;
                }
            }
            if len == 0 {
                sets.push_setless()?;
                continue;
            }
            check_size(len)?;
            let set = &ids[..len];
            let is_same = |stored: &[u32]| {
                stored == set || stored.iter().all(|&id| stamps[id as usize] == *stamp)
            };
            sets.push(row.key, set, 0, hash.finish(row.key, 0), is_same)?;
        }
        Ok(())
    }

    fn reserve(&mut self, reservation: &dyn Memory, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.reserved) {
            Some(more) => reservation.try_grow(more)?,
            None => reservation.shrink(self.reserved - bytes),
        }
        self.reserved = bytes;
        Ok(())
    }

    /// The bytes by which [`Self::size_in_bytes`] may grow while some rows are added.
    fn growth(&self, rows: usize, chunk: &Chunk, added: Added) -> usize {
        let &Chunk { tokens, scratch, .. } = chunk;
        let vec = |needed: usize, capacity: usize| match needed > capacity {
            true => needed.max(2 * capacity) * size_of::<u32>(),
            false => 0,
        };
        self.dictionary.growth(added)
            + self.sets.growth(rows, tokens)
            + vec(self.dictionary.len() as usize + tokens, self.stamps.capacity())
            + vec(tokens, self.ids.capacity())
            + LocatedRows::footprint(rows)
            + scratch
    }

    /// The part of the reservation that is this encoder's, with the `base` bytes that it was told
    /// to count.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// The number of rows added.
    pub fn row_count(&self) -> usize {
        self.row_count as usize
    }

    /// The number of distinct sets, and of the tokens in them.
    pub fn set_count(&self) -> usize {
        self.sets.len()
    }

    /// The number of tokens in the distinct sets.
    pub fn token_count(&self) -> usize {
        self.sets.token_count()
    }

    /// The number of tokens of the longest set.
    pub fn longest_set(&self) -> usize {
        self.sets.longest()
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        self.dictionary.size()
            + self.sets.size_in_bytes()
            + self.pushes.capacity() * size_of::<Push>()
            + self.located.size_in_bytes()
            + (self.ids.capacity() + self.stamps.capacity()) * size_of::<u32>()
    }

    /// Ends adding rows, and frees the buffers that only adding needs.
    pub fn close(&mut self) {
        self.located = LocatedRows::default();
        self.ids = vec![];
        self.stamps = vec![];
        self.sets.close();
    }
}
