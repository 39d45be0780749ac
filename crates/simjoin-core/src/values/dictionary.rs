//! Exact token dictionaries: every distinct token gets a dense `u32` id, in order of appearance.
//!
//! Nothing is identified by its hash. Dense integers index an array; other integers and byte
//! strings of up to seven bytes (most q-grams) are keys stored in the table itself; longer byte
//! strings lie in one arena and are compared in full.
//!
//! Tokens are looked up some dozens at a time: first one glance at the place where each should
//! be, all independent of one another, then a search for those that were not there.

mod find;
mod slots;
#[cfg(test)]
mod tests;
mod union;

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use self::slots::hash_bytes;
pub use self::slots::mix;
use self::slots::{LongSlot, WordSlot, find_word};
use crate::error::{Result, exec_err, internal_err};
use crate::util::parallel::{Threads, for_each, steps_per_task, threads_for};
use crate::values::byte_tokens::{ByteTokens, PACKED_LEN, pack};
use crate::values::table::Table;
use crate::values::tokens::{IntegerToken, Tokens, signed_token, unsigned_token, with_byte_tokens};
use crate::values::value_set::ValueSet;

/// Non-negative integers below this index an array in any case, further ones where the tokens
/// known fill enough of it.
const LEAST_DIRECT_LIMIT: u64 = 1 << 16;
/// The array has at least so many places.
const LEAST_PLACES: usize = 1 << 10;
/// The array has at most this many places per token.
const DIRECT_PLACES_PER_TOKEN: u64 = 8;
/// Stands for no token: a free place, or a token that is not known.
pub const NO_ID: u32 = u32::MAX;
/// Tokens looked up together.
const BLOCK: usize = 64;

/// Ids `0..len` for the distinct tokens seen.
#[derive(Debug, Default)]
pub struct Dictionary {
    len: u32,
    direct: Vec<u32>,
    /// Non-negative integers, or packed byte strings. A collection holds tokens of one kind.
    words: Table<WordSlot>,
    negative: Table<WordSlot>,
    long: Table<LongSlot>,
    arena: Vec<u8>,
    /// The words are packed byte strings.
    holds_bytes: bool,
    /// No non-negative integer among the tokens is greater.
    greatest: u64,
    /// All tokens, where they are known from the beginning.
    values: Option<TokenNumbers>,
}

#[derive(Debug)]
struct TokenNumbers {
    set: Arc<ValueSet>,
    /// By number of the value, its id; empty where they are the same.
    ids: Vec<u32>,
}

impl TokenNumbers {
    #[inline]
    fn id(&self, token: IntegerToken) -> u32 {
        match self.set.number(token.bits).filter(|_| !token.negative) {
            Some(number) => self.ids.get(number as usize).copied().unwrap_or(number),
            None => NO_ID,
        }
    }
}

/// Tokens that may be added to a dictionary, as far as its bytes depend on them.
#[derive(Debug, Clone, Copy)]
pub enum Added {
    /// So many integers, of which so many are negative; no other one is greater than `greatest`.
    Integers { count: usize, negative: usize, greatest: u64 },
    /// Byte strings with so many bytes in all.
    Bytes { count: usize, bytes: usize },
}

/// A token as its dictionary stores it.
#[derive(Debug, Clone, Copy)]
pub enum DictionaryKey<'a> {
    Integer(IntegerToken),
    Word(u64),
    Bytes(&'a [u8], u32),
}

impl Dictionary {
    /// The dictionary of some non-negative integers, which knows all of them, with their numbers
    /// as ids. No token can be added.
    pub(crate) fn of_values(set: Arc<ValueSet>) -> Self {
        Self { len: set.len(), values: Some(TokenNumbers { set, ids: vec![] }), ..Self::default() }
    }

    /// Whether all tokens are known from the beginning, with ids that other dictionaries share.
    pub(crate) fn is_of_values(&self) -> bool {
        self.values.is_some()
    }

    /// Forgets the tokens, not their number.
    pub fn forget(&mut self) {
        *self = Self { len: self.len, ..Self::default() };
    }

    /// The number of distinct tokens.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes allocated, without the values that dictionaries share.
    pub fn size(&self) -> usize {
        let ids = self.values.as_ref().map_or(0, |values| values.ids.capacity());
        (self.direct.capacity() + ids) * size_of::<u32>()
            + self.words.size_in_bytes()
            + self.negative.size_in_bytes()
            + self.long.size_in_bytes()
            + self.arena.capacity()
    }

    /// The bytes of the values that dictionaries share.
    pub(crate) fn shared_size(&self) -> usize {
        self.values.as_ref().map_or(0, |values| values.set.size_in_bytes())
    }

    /// The most bytes that may be allocated on top of [`Self::size`] when these tokens are added.
    pub fn growth(&self, added: Added) -> usize {
        if self.is_of_values() {
            return 0;
        }
        match added {
            Added::Integers { count, negative, greatest } => {
                let limit = self.direct_limit(count).min(greatest.saturating_add(1));
                let places = (limit as usize).next_power_of_two().max(LEAST_PLACES);
                let direct = if places > self.direct.len() { places * size_of::<u32>() } else { 0 };
                // The array takes in each of them at once where it takes in the greatest one now.
                let fit = greatest < self.direct_limit(0).max(self.direct.len() as u64);
                let words = if fit { 0 } else { self.words.growth(count - negative) };
                direct + words + self.negative.growth(negative)
            }
            Added::Bytes { count, bytes } => {
                let arena = match self.arena.len() + bytes > self.arena.capacity() {
                    true => (self.arena.len() + bytes).max(2 * self.arena.capacity()),
                    false => 0,
                };
                let long = count.min(bytes / (PACKED_LEN + 1));
                self.words.growth(count) + self.long.growth(long) + arena
            }
        }
    }

    /// Integers below this may index the array once `count` more tokens are known.
    fn direct_limit(&self, count: usize) -> u64 {
        (DIRECT_PLACES_PER_TOKEN * (u64::from(self.len) + count as u64)).max(LEAST_DIRECT_LIMIT)
    }

    fn new_id(&mut self) -> Result<u32> {
        if self.len >= NO_ID - 1 {
            return exec_err!("a similarity join takes at most {NO_ID} distinct tokens");
        }
        self.len += 1;
        Ok(self.len - 1)
    }

    /// Appends to `ids` the ids of the tokens in `range`, adding new ones. NULL elements are
    /// skipped, repeats are kept.
    pub fn encode(
        &mut self,
        tokens: &Tokens,
        range: Range<usize>,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        if let Some(nulls) = tokens.nulls().filter(|n| n.null_count() > 0) {
            let valid = nulls.slice(range.start, range.len());
            return valid.valid_slices().try_for_each(|(start, end)| {
                self.encode_valid(tokens, range.start + start..range.start + end, ids)
            });
        }
        self.encode_valid(tokens, range, ids)
    }

    fn encode_valid(
        &mut self,
        tokens: &Tokens,
        range: Range<usize>,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        match tokens {
            Tokens::Null => Ok(()),
            Tokens::Signed(array) => {
                self.encode_integers(&array.values()[range], signed_token, ids)
            }
            Tokens::Unsigned(array) => {
                self.encode_integers(&array.values()[range], unsigned_token, ids)
            }
            bytes => with_byte_tokens!(bytes, array => self.encode_bytes(array, range, ids),
                else Ok(())),
        }
    }

    #[inline]
    fn encode_integers<T: Copy>(
        &mut self,
        values: &[T],
        token: impl Fn(T) -> IntegerToken,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        for block in values.chunks(BLOCK) {
            let start = ids.len();
            if self.glance_integers(block, &token, ids) {
                for (id, &value) in ids[start..].iter_mut().zip(block) {
                    if *id == NO_ID {
                        *id = self.integer(token(value))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Like [`Self::encode`] of byte strings.
    pub(crate) fn encode_bytes(
        &mut self,
        tokens: &impl ByteTokens,
        range: Range<usize>,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        for from in range.clone().step_by(BLOCK) {
            let block = from..range.end.min(from + BLOCK);
            let start = ids.len();
            if self.glance_bytes(tokens, block.clone(), ids) {
                for (id, i) in ids[start..].iter_mut().zip(block) {
                    if *id == NO_ID {
                        *id = match tokens.packed(i) {
                            Some(word) => self.word(word)?,
                            None => self.long(tokens.bytes(i))?,
                        };
                    }
                }
            }
        }
        Ok(())
    }

    fn integer(&mut self, token: IntegerToken) -> Result<u32> {
        let known = self.find_integer(token);
        if known != NO_ID {
            return Ok(known);
        }
        if self.is_of_values() {
            return internal_err!("a token was not there when all of them were read");
        }
        let id = self.new_id()?;
        if !token.negative {
            self.greatest = self.greatest.max(token.bits);
        } else {
            self.negative.insert(WordSlot { word: token.bits, id });
            return Ok(id);
        }
        if token.bits >= self.direct.len() as u64 && token.bits < self.direct_limit(0) {
            let places = (token.bits as usize + 1).next_power_of_two().max(LEAST_PLACES);
            self.direct.resize(places, NO_ID);
            // A value is in one place only.
            for slot in self.words.extract(|s| s.word < places as u64) {
                self.direct[slot.word as usize] = slot.id;
            }
        }
        match self.direct.get_mut(token.bits as usize) {
            Some(place) => *place = id,
            None => self.words.insert(WordSlot { word: token.bits, id }),
        }
        Ok(id)
    }

    fn word(&mut self, word: u64) -> Result<u32> {
        self.holds_bytes = true;
        let known = find_word(&self.words, word);
        if known != NO_ID {
            return Ok(known);
        }
        let id = self.new_id()?;
        self.words.insert(WordSlot { word, id });
        Ok(id)
    }

    fn long(&mut self, bytes: &[u8]) -> Result<u32> {
        let hash = hash_bytes(bytes);
        self.long_with_hash(bytes, hash)
    }

    fn long_with_hash(&mut self, bytes: &[u8], hash: u32) -> Result<u32> {
        let known = self.find_long(bytes, hash);
        if known != NO_ID {
            return Ok(known);
        }
        let Ok(len) = u32::try_from(bytes.len()) else {
            return exec_err!("a token of {} bytes is too long", bytes.len());
        };
        let id = self.new_id()?;
        let start = self.arena.len() as u64;
        self.arena.extend_from_slice(bytes);
        self.long.insert(LongSlot { start, len, hash, id });
        Ok(id)
    }

    /// The id of a byte string, a new one if need be.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<u32> {
        match pack(bytes) {
            Some(word) => self.word(word),
            None => self.long(bytes),
        }
    }

    /// Gives every token the id that `map` has for it.
    pub(crate) fn map_ids(&mut self, map: &[u32], threads: Threads) -> Result<()> {
        let id = |id: &mut u32| {
            if *id != NO_ID {
                *id = map[*id as usize];
            }
        };
        if let Some(values) = &mut self.values
            && values.ids.is_empty()
        {
            values.ids = map[..self.len as usize].to_vec();
            return Ok(());
        }
        let ids = self.values.as_mut().map_or(&mut self.direct, |values| &mut values.ids);
        for_chunks(threads, ids, id)?;
        for_chunks(threads, self.words.slots_mut(), |slot| id(&mut slot.id))?;
        for_chunks(threads, self.negative.slots_mut(), |slot| id(&mut slot.id))?;
        for_chunks(threads, self.long.slots_mut(), |slot| id(&mut slot.id))
    }

    /// The tokens, by id.
    pub fn keys(&self) -> Vec<DictionaryKey<'_>> {
        let mut keys = vec![DictionaryKey::Word(0); self.len as usize];
        for (value, &id) in self.direct.iter().enumerate().filter(|(_, id)| **id != NO_ID) {
            keys[id as usize] = DictionaryKey::Integer(unsigned_token(value as u64));
        }
        for slot in self.words.iter() {
            keys[slot.id as usize] = match self.holds_bytes {
                true => DictionaryKey::Word(slot.word),
                false => DictionaryKey::Integer(unsigned_token(slot.word)),
            };
        }
        for slot in self.negative.iter() {
            let token = IntegerToken { negative: true, bits: slot.word };
            keys[slot.id as usize] = DictionaryKey::Integer(token);
        }
        for slot in self.long.iter() {
            let bytes = &self.arena[slot.start as usize..][..slot.len as usize];
            keys[slot.id as usize] = DictionaryKey::Bytes(bytes, slot.hash);
        }
        keys
    }

    /// The id of another dictionary's token, a new one if need be.
    pub(crate) fn adopt(&mut self, key: DictionaryKey<'_>) -> Result<u32> {
        match key {
            DictionaryKey::Integer(token) => self.integer(token),
            DictionaryKey::Word(word) => self.word(word),
            DictionaryKey::Bytes(bytes, hash) => self.long_with_hash(bytes, hash),
        }
    }

    /// The bytes that may be allocated on top of [`Self::size`] while all tokens of `others` are
    /// adopted, with their [`Self::keys`].
    pub(crate) fn adoption<'a>(&self, others: impl Iterator<Item = &'a Dictionary>) -> usize {
        let none = Added::Integers { count: 0, negative: 0, greatest: 0 };
        let all = others.map(Self::contents).fold(none, Added::and);
        all.count() * size_of::<DictionaryKey<'_>>() + self.growth(all)
    }

    /// The tokens, for the bytes that they take in another dictionary.
    fn contents(&self) -> Added {
        let (count, negative) = (self.len as usize, self.negative.len());
        match self.holds_bytes || !self.arena.is_empty() {
            true => Added::Bytes { count, bytes: self.arena.len() },
            false => Added::Integers { count, negative, greatest: self.greatest },
        }
    }
}

impl Added {
    /// The sum of these tokens and `more`. A dictionary without tokens counts as one of integers.
    fn and(self, more: Self) -> Self {
        let count = self.count() + more.count();
        match (self, more) {
            (
                Self::Integers { negative, greatest, .. },
                Self::Integers { negative: others, greatest: other, .. },
            ) => {
                Self::Integers { count, negative: negative + others, greatest: greatest.max(other) }
            }
            (Self::Bytes { bytes, .. }, Self::Bytes { bytes: others, .. }) => {
                Self::Bytes { count, bytes: bytes + others }
            }
            (Self::Bytes { bytes, .. }, _) | (_, Self::Bytes { bytes, .. }) => {
                Self::Bytes { count, bytes }
            }
        }
    }

    fn count(self) -> usize {
        match self {
            Self::Integers { count, .. } | Self::Bytes { count, .. } => count,
        }
    }
}

/// Does `work` for every item.
pub(super) fn for_chunks<T: Send>(
    threads: Threads,
    items: &mut [T],
    work: impl Fn(&mut T) + Sync,
) -> Result<()> {
    let threads = threads_for(threads, items.len());
    let share = steps_per_task(threads, items.len(), 1 << 10);
    let chunks = items.chunks_mut(share).collect();
    for_each(threads, chunks, |chunk: &mut [T]| {
        chunk.iter_mut().for_each(&work);
        Ok(())
    })
}
