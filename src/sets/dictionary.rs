//! Exact token dictionaries: every distinct token gets a dense `u32` id, in order of appearance.
//!
//! Nothing is identified by its hash. Small integers index an array; other integers and byte
//! strings of up to seven bytes (most q-grams) are keys stored in the table itself; longer byte
//! strings lie in one arena and are compared in full.

use datafusion::common::{Result, exec_err};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::mem::size_of;
use std::ops::Range;

use super::tokens::{
    IntegerToken, Tokens, signed_token, token_bytes, unsigned_token, with_byte_tokens,
};

/// Non-negative integers below this index an array instead of a hash table.
const DIRECT_LIMIT: u64 = 1 << 20;
/// Marks a free place of the direct array; ids stay below it.
const NO_ID: u32 = u32::MAX;
/// Byte strings up to this length are packed into the key together with their length.
const PACKED_LEN: usize = 7;

/// Ids `first_id..first_id + len` for the distinct tokens seen.
#[derive(Debug)]
pub struct Dictionary {
    first_id: u32,
    len: u32,
    direct: Vec<u32>,
    /// Non-negative integers, or packed byte strings. A collection holds tokens of one kind.
    words: HashTable<(u64, u32)>,
    negative: HashTable<(u64, u32)>,
    long: HashTable<LongEntry>,
    arena: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct LongEntry {
    hash: u64,
    start: u64,
    len: u32,
    id: u32,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl Dictionary {
    /// An empty dictionary whose first id is `first_id`.
    pub fn starting_at(first_id: u32) -> Self {
        Self {
            first_id,
            len: 0,
            direct: Vec::new(),
            words: HashTable::new(),
            negative: HashTable::new(),
            long: HashTable::new(),
            arena: Vec::new(),
        }
    }

    /// The number of distinct tokens.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets every token and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
        self.direct.fill(NO_ID);
        self.words.clear();
        self.negative.clear();
        self.long.clear();
        self.arena.clear();
    }

    /// The bytes allocated.
    pub fn size(&self) -> usize {
        self.direct.capacity() * size_of::<u32>()
            + (self.words.allocation_size() + self.negative.allocation_size())
            + self.long.allocation_size()
            + self.arena.capacity()
    }

    /// How many bytes [`Self::size`] may grow by, at most, when `count` tokens with `bytes` bytes
    /// of text in all are added. The direct array, of 4 MiB at most, is left out.
    pub fn growth(&self, count: usize, bytes: usize) -> usize {
        // A table doubles when it is 7/8 full; the old and the new one exist together.
        let table = |len: usize, capacity: usize, entry: usize| {
            if len + count <= capacity { 0 } else { (len + count).next_power_of_two() * 2 * entry }
        };
        let arena = match self.arena.len() + bytes > self.arena.capacity() {
            true => (self.arena.len() + bytes).max(2 * self.arena.capacity()),
            false => 0,
        };
        let long = if bytes > 0 { count.min(bytes / (PACKED_LEN + 1)) } else { 0 };
        table(self.words.len(), self.words.capacity(), size_of::<(u64, u32)>() + 1)
            + if self.long.len() + long > self.long.capacity() {
                (self.long.len() + long).next_power_of_two() * 2 * (size_of::<LongEntry>() + 1)
            } else {
                0
            }
            + arena
    }

    fn next_id(&self) -> Result<u32> {
        match self.first_id.checked_add(self.len) {
            Some(id) if id < NO_ID => Ok(id),
            _ => exec_err!("a similarity join takes at most {NO_ID} distinct tokens"),
        }
    }

    /// Appends to `ids` the ids of the tokens in `range`, adding new ones. NULL elements are
    /// skipped, repeats are kept.
    pub fn encode(
        &mut self,
        tokens: &Tokens,
        range: Range<usize>,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let valid = |i: &usize| tokens.nulls().is_none_or(|n| n.is_valid(*i));
        match tokens {
            Tokens::Null(_) => Ok(()),
            Tokens::Signed(array) => range.filter(valid).try_for_each(|i| {
                ids.push(self.integer(signed_token(array.value(i)))?);
                Ok(())
            }),
            Tokens::Unsigned(array) => range.filter(valid).try_for_each(|i| {
                ids.push(self.integer(unsigned_token(array.value(i)))?);
                Ok(())
            }),
            bytes => with_byte_tokens!(bytes, array => range.filter(valid).try_for_each(|i| {
                ids.push(self.bytes(token_bytes(array.value(i)))?);
                Ok(())
            }), else Ok(())),
        }
    }

    /// Like [`Self::encode`] with the dictionary as it is: tokens it does not know get ids from
    /// `others`, whose ids must start behind this one's.
    pub fn encode_with(
        &self,
        others: &mut Dictionary,
        tokens: &Tokens,
        range: Range<usize>,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let valid = |i: &usize| tokens.nulls().is_none_or(|n| n.is_valid(*i));
        let mut integer = |token| match self.find_integer(token) {
            Some(id) => Ok(id),
            None => others.integer(token),
        };
        match tokens {
            Tokens::Null(_) => Ok(()),
            Tokens::Signed(array) => range.filter(valid).try_for_each(|i| {
                ids.push(integer(signed_token(array.value(i)))?);
                Ok(())
            }),
            Tokens::Unsigned(array) => range.filter(valid).try_for_each(|i| {
                ids.push(integer(unsigned_token(array.value(i)))?);
                Ok(())
            }),
            bytes => with_byte_tokens!(bytes, array => range.filter(valid).try_for_each(|i| {
                let bytes = token_bytes(array.value(i));
                ids.push(match self.find_bytes(bytes) {
                    Some(id) => id,
                    None => others.bytes(bytes)?,
                });
                Ok(())
            }), else Ok(())),
        }
    }

    #[inline]
    fn find_integer(&self, token: IntegerToken) -> Option<u32> {
        if token.negative {
            find_word(&self.negative, token.bits)
        } else if token.bits < DIRECT_LIMIT {
            self.direct.get(token.bits as usize).copied().filter(|&id| id != NO_ID)
        } else {
            find_word(&self.words, token.bits)
        }
    }

    #[inline]
    fn integer(&mut self, token: IntegerToken) -> Result<u32> {
        if let Some(id) = self.find_integer(token) {
            return Ok(id);
        }
        let id = self.next_id()?;
        if token.negative {
            insert_word(&mut self.negative, token.bits, id);
        } else if token.bits < DIRECT_LIMIT {
            let place = token.bits as usize;
            if place >= self.direct.len() {
                self.direct.resize((place + 1).next_power_of_two().max(1024), NO_ID);
            }
            self.direct[place] = id;
        } else {
            insert_word(&mut self.words, token.bits, id);
        }
        self.len += 1;
        Ok(id)
    }

    #[inline]
    fn find_bytes(&self, bytes: &[u8]) -> Option<u32> {
        match pack(bytes) {
            Some(word) => find_word(&self.words, word),
            None => self.find_long(bytes, hash_bytes(bytes)),
        }
    }

    fn find_long(&self, bytes: &[u8], hash: u64) -> Option<u32> {
        let entry = self.long.find(hash, |e| {
            e.hash == hash
                && e.len as usize == bytes.len()
                && &self.arena[e.start as usize..][..bytes.len()] == bytes
        });
        entry.map(|e| e.id)
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<u32> {
        match pack(bytes) {
            Some(word) => {
                if let Some(id) = find_word(&self.words, word) {
                    return Ok(id);
                }
                let id = self.next_id()?;
                insert_word(&mut self.words, word, id);
                self.len += 1;
                Ok(id)
            }
            None => {
                let hash = hash_bytes(bytes);
                if let Some(id) = self.find_long(bytes, hash) {
                    return Ok(id);
                }
                let id = self.next_id()?;
                let Ok(len) = u32::try_from(bytes.len()) else {
                    return exec_err!("a token of {} bytes is too long", bytes.len());
                };
                let start = self.arena.len() as u64;
                self.arena.extend_from_slice(bytes);
                let entry = LongEntry { hash, start, len, id };
                self.long.insert_unique(hash, entry, |e| e.hash);
                self.len += 1;
                Ok(id)
            }
        }
    }

    /// The id of a byte string, if it is known.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.find_bytes(bytes)
    }
}

/// The bytes and their number in one word, for at most [`PACKED_LEN`] bytes.
#[inline]
fn pack(bytes: &[u8]) -> Option<u64> {
    if bytes.len() > PACKED_LEN {
        return None;
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    word[PACKED_LEN] = bytes.len() as u8;
    Some(u64::from_le_bytes(word))
}

/// A multiply-and-fold mix: hash tables take both its low and its high bits.
#[inline]
fn hash_word(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    // Collisions cost time, never answers, so that a fixed seed does.
    FixedState::default().hash_one(bytes)
}

#[inline]
fn find_word(table: &HashTable<(u64, u32)>, word: u64) -> Option<u32> {
    table.find(hash_word(word), |entry| entry.0 == word).map(|entry| entry.1)
}

fn insert_word(table: &mut HashTable<(u64, u32)>, word: u64, id: u32) {
    table.insert_unique(hash_word(word), (word, id), |entry| hash_word(entry.0));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Array, ArrayRef, Int64Array, StringArray, UInt64Array};

    use super::*;

    fn tokens(array: impl Array + 'static) -> Tokens {
        Tokens::try_new(&(Arc::new(array) as ArrayRef)).unwrap()
    }

    fn encode(dictionary: &mut Dictionary, tokens: &Tokens, len: usize) -> Vec<u32> {
        let mut ids = vec![];
        dictionary.encode(tokens, 0..len, &mut ids).unwrap();
        ids
    }

    #[test]
    fn integers_compare_by_value_across_signs() {
        let mut dictionary = Dictionary::default();
        let signed = tokens(Int64Array::from(vec![-1, 5, i64::MIN, 5, i64::MAX, 1 << 40]));
        assert_eq!(encode(&mut dictionary, &signed, 6), [0, 1, 2, 1, 3, 4]);
        let unsigned = tokens(UInt64Array::from(vec![u64::MAX, 5, 1 << 63, i64::MAX as u64]));
        // -1 and u64::MAX, i64::MIN and 2^63 share their bits and are different tokens.
        assert_eq!(encode(&mut dictionary, &unsigned, 4), [5, 1, 6, 3]);
        assert_eq!(dictionary.len(), 7);
    }

    #[test]
    fn byte_strings_of_every_length_are_told_apart() {
        let mut dictionary = Dictionary::default();
        let texts = ["", "\0", "\0\0", "a", "abcdefg", "abcdefgh", "abcdefgi", "a\0", "abcdefg\0"];
        let array = tokens(StringArray::from_iter_values(texts.iter().chain(&texts)));
        let ids = encode(&mut dictionary, &array, 2 * texts.len());
        let expected: Vec<u32> = (0..texts.len() as u32).collect();
        assert_eq!(ids[..texts.len()], expected);
        assert_eq!(ids[texts.len()..], expected);
    }

    #[test]
    fn unknown_tokens_get_ids_behind_the_known_ones() {
        let mut known = Dictionary::default();
        encode(&mut known, &tokens(Int64Array::from(vec![7, 8])), 2);
        let mut others = Dictionary::starting_at(known.len());
        let probe = tokens(Int64Array::from(vec![Some(9), Some(8), None, Some(9), Some(-7)]));
        let mut ids = vec![];
        known.encode_with(&mut others, &probe, 0..5, &mut ids).unwrap();
        assert_eq!(ids, [2, 1, 2, 3]);
        others.clear();
        assert_eq!(encode(&mut others, &probe, 1), [2]);
    }
}
