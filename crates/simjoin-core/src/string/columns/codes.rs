//! Bytes for the characters of a pair.

use std::hint::select_unpredictable;

use crate::string::lanes::pairs::{LONGEST, MAX_SYMBOL};

/// Bytes for the characters of a pair of texts: those of ASCII for themselves, a free one for each other.
#[derive(Debug)]
pub(super) struct CharacterCodes {
    /// For each byte from 128 on the character that has it, below the number of the pair in which it got it.
    owners: [u64; Self::FREE],
    pair: u32,
}

impl Default for CharacterCodes {
    fn default() -> Self {
        Self { owners: [0; Self::FREE], pair: 0 }
    }
}

impl CharacterCodes {
    /// The bytes beyond ASCII that symbols may be.
    const FREE: usize = MAX_SYMBOL as usize - 127;

    /// Writes the codes of two texts; returns their lengths, or `None` if a text is longer than
    /// [`LONGEST`] or bytes do not suffice.
    pub(super) fn encode(
        &mut self,
        pair: [&str; 2],
        to: &mut [[u8; LONGEST]; 2],
    ) -> Option<[usize; 2]> {
        if self.pair == u32::MAX {
            *self = Self::default();
        }
        self.pair += 1;
        let mut lens = [0; 2];
        for ((text, to), len) in pair.iter().zip(to).zip(&mut lens) {
            for character in text.chars() {
                *to.get_mut(*len)? = match character.is_ascii() {
                    true => character as u8,
                    false => self.code(character)?,
                };
                *len += 1;
            }
        }
        Some(lens)
    }

    /// The byte of a character, looked for from the place of its number on.
    #[inline]
    fn code(&mut self, character: char) -> Option<u8> {
        let mine = u64::from(self.pair) << 32 | u64::from(character);
        let first = character as usize % Self::FREE;
        for place in (first..Self::FREE).chain(0..first) {
            let owner = &mut self.owners[place];
            let is_free = *owner >> 32 != u64::from(self.pair);
            *owner = select_unpredictable(is_free, mine, *owner);
            if *owner == mine {
                return Some(128 + place as u8);
            }
        }
        None
    }
}
