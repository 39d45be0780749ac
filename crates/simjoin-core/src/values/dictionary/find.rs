//! Looking tokens up, without adding any.

use std::ops::Range;

use super::slots::{LongSlot, find_word, hash_bytes, hash_word};
use super::{BLOCK, Dictionary, DictionaryKey, NO_ID};
use crate::values::byte_tokens::{ByteTokens, pack};
use crate::values::tokens::{IntegerToken, Tokens, signed_token, unsigned_token, with_byte_tokens};

impl Dictionary {
    /// Like [`Self::encode`] with the dictionary as it is: tokens that it does not know get
    /// [`NO_ID`].
    pub(crate) fn find_all(&self, tokens: &Tokens, range: Range<usize>, ids: &mut Vec<u32>) {
        if let Some(nulls) = tokens.nulls().filter(|n| n.null_count() > 0) {
            let valid = nulls.slice(range.start, range.len());
            return valid.valid_slices().for_each(|(start, end)| {
                self.find_valid(tokens, range.start + start..range.start + end, ids);
            });
        }
        self.find_valid(tokens, range, ids);
    }

    /// The id of another dictionary's token; [`NO_ID`] where it is not known.
    pub(crate) fn find_key(&self, key: DictionaryKey<'_>) -> u32 {
        match key {
            DictionaryKey::Integer(token) => self.find_integer(token),
            DictionaryKey::Word(word) => find_word(&self.words, word),
            DictionaryKey::Bytes(bytes, hash) => self.find_long(bytes, hash),
        }
    }

    fn find_valid(&self, tokens: &Tokens, range: Range<usize>, ids: &mut Vec<u32>) {
        match tokens {
            Tokens::Null => {}
            Tokens::Signed(array) => {
                self.find_integers(&array.values()[range], signed_token, ids);
            }
            Tokens::Unsigned(array) => {
                self.find_integers(&array.values()[range], unsigned_token, ids);
            }
            bytes => {
                with_byte_tokens!(bytes, array => self.find_bytes(array, range, ids), else ());
            }
        }
    }

    /// Like [`Self::find_all`] of byte strings.
    pub(crate) fn find_bytes(
        &self,
        tokens: &impl ByteTokens,
        range: Range<usize>,
        ids: &mut Vec<u32>,
    ) {
        for from in range.clone().step_by(BLOCK) {
            let block = from..range.end.min(from + BLOCK);
            let start = ids.len();
            if self.glance_bytes(tokens, block.clone(), ids) {
                let missing = ids[start..].iter_mut().zip(block);
                for (id, i) in missing.filter(|(id, _)| **id == NO_ID) {
                    *id = match tokens.packed(i) {
                        Some(word) => find_word(&self.words, word),
                        None => self.find_long(tokens.bytes(i), hash_bytes(tokens.bytes(i))),
                    };
                }
            }
        }
    }

    fn find_integers<T: Copy>(
        &self,
        values: &[T],
        token: impl Fn(T) -> IntegerToken,
        ids: &mut Vec<u32>,
    ) {
        for block in values.chunks(BLOCK) {
            let start = ids.len();
            if self.glance_integers(block, &token, ids) {
                let missing = ids[start..].iter_mut().zip(block);
                for (id, &value) in missing.filter(|(id, _)| **id == NO_ID) {
                    *id = self.find_integer(token(value));
                }
            }
        }
    }

    /// Appends the ids that are where they should be, [`NO_ID`] otherwise. Whether some are not.
    #[inline]
    pub(super) fn glance_integers<T: Copy>(
        &self,
        values: &[T],
        token: &impl Fn(T) -> IntegerToken,
        ids: &mut Vec<u32>,
    ) -> bool {
        let mut missing = false;
        if let Some(all) = &self.values {
            ids.extend(values.iter().map(|&value| {
                let id = all.id(token(value));
                missing |= id == NO_ID;
                id
            }));
            return missing;
        }
        ids.extend(values.iter().map(|&value| {
            let token = token(value);
            let direct = self.direct.get(token.bits as usize).filter(|_| !token.negative);
            let id = match direct {
                Some(&id) => id,
                None => {
                    let table = if token.negative { &self.negative } else { &self.words };
                    let slot = table.first(hash_word(token.bits));
                    if slot.word == token.bits { slot.id } else { NO_ID }
                }
            };
            missing |= id == NO_ID;
            id
        }));
        missing
    }

    #[inline]
    pub(super) fn glance_bytes(
        &self,
        tokens: &impl ByteTokens,
        range: Range<usize>,
        ids: &mut Vec<u32>,
    ) -> bool {
        let mut missing = false;
        ids.extend(range.map(|i| {
            let id = match tokens.packed(i) {
                Some(word) => {
                    let slot = self.words.first(hash_word(word));
                    if slot.word == word { slot.id } else { NO_ID }
                }
                None => {
                    let bytes = tokens.bytes(i);
                    let hash = hash_bytes(bytes);
                    let slot = self.long.first(hash);
                    if self.is_long(&slot, bytes, hash) { slot.id } else { NO_ID }
                }
            };
            missing |= id == NO_ID;
            id
        }));
        missing
    }

    #[inline]
    pub(super) fn find_integer(&self, token: IntegerToken) -> u32 {
        if let Some(values) = &self.values {
            return values.id(token);
        }
        if token.negative {
            return find_word(&self.negative, token.bits);
        }
        match self.direct.get(token.bits as usize) {
            Some(&id) => id,
            None => find_word(&self.words, token.bits),
        }
    }

    #[inline]
    fn is_long(&self, slot: &LongSlot, bytes: &[u8], hash: u32) -> bool {
        slot.hash == hash
            && slot.len as usize == bytes.len()
            && &self.arena[slot.start as usize..][..bytes.len()] == bytes
    }

    pub(super) fn find_long(&self, bytes: &[u8], hash: u32) -> u32 {
        self.long.find(hash, |slot| self.is_long(slot, bytes, hash)).map_or(NO_ID, |slot| slot.id)
    }

    /// The id of a byte string, if it is known.
    pub fn find(&self, bytes: &[u8]) -> Option<u32> {
        let id = match pack(bytes) {
            Some(word) => find_word(&self.words, word),
            None => self.find_long(bytes, hash_bytes(bytes)),
        };
        (id != NO_ID).then_some(id)
    }
}
