//! The places of tokens in tables, and the hashes that lead there.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::NO_ID;
use crate::values::table::{Slot, Table};

/// An integer, or a packed byte string.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordSlot {
    pub word: u64,
    pub id: u32,
}

impl Slot for WordSlot {
    const FREE: Self = Self { word: 0, id: NO_ID };

    #[inline]
    fn is_free(&self) -> bool {
        self.id == NO_ID
    }

    #[inline]
    fn hash(&self) -> u32 {
        hash_word(self.word)
    }
}

/// A byte string of the arena.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongSlot {
    /// The place of the bytes in the arena.
    pub start: u64,
    pub len: u32,
    pub hash: u32,
    pub id: u32,
}

impl Slot for LongSlot {
    const FREE: Self = Self { start: 0, len: 0, hash: 0, id: NO_ID };

    #[inline]
    fn is_free(&self) -> bool {
        self.id == NO_ID
    }

    #[inline]
    fn hash(&self) -> u32 {
        self.hash
    }
}

/// A mix of all bits, the best ones above.
#[inline]
pub fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline]
pub(super) fn hash_word(word: u64) -> u32 {
    (mix(word) >> 32) as u32
}

#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    // Collisions cost time, never answers, so that a fixed seed does.
    let hash = FixedState::default().hash_one(bytes);
    (hash >> 32) as u32 ^ hash as u32
}

#[inline]
pub(super) fn find_word(table: &Table<WordSlot>, word: u64) -> u32 {
    table.find(hash_word(word), |slot| slot.word == word).map_or(NO_ID, |slot| slot.id)
}
