//! The characters of many texts, each as two bytes.

use super::pairs::{LONGEST, Text};
use crate::simd::Simd;
use crate::simd::texts::lanes_kernel;

/// The most bytes that a text of [`LONGEST`] characters up to U+FFFF takes: longer ones are too long.
pub(crate) const MOST: usize = 3 * LONGEST;

/// Texts of up to [`LONGEST`] characters, one behind another, as the low and the high bytes of their
/// characters.
#[derive(Debug, Default)]
pub(crate) struct Characters {
    /// The texts as UTF-8, and space behind them.
    utf8: Vec<u8>,
    len: usize,
    /// The low and the high bytes, and space behind them.
    bytes: [Vec<u8>; 2],
    /// The ends of the texts: bytes of UTF-8, characters after [`Self::split`].
    ends: Vec<u32>,
}

impl Characters {
    /// Forgets all texts.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.ends.clear();
    }

    /// Takes some texts, an empty one for each that is too long.
    pub(crate) fn extend(&mut self, texts: &[Text<'_>]) {
        let all: usize = texts.iter().map(|text| text.len().min(MOST)).sum();
        let needed = self.len + all + LONGEST;
        if self.utf8.len() < needed {
            self.utf8.resize(2 * needed, 0);
        }
        let (mut end, to) = (self.len, self.utf8.as_mut_slice());
        self.ends.extend(texts.iter().map(|text| {
            let from = text.with_rest().first_chunk::<LONGEST>();
            match (to[end..].first_chunk_mut(), from) {
                (Some(to), Some(from)) if text.len() <= LONGEST => *to = *from,
                _ if text.len() > MOST => return end as u32,
                _ => to[end..end + text.len()].copy_from_slice(text.bytes()),
            }
            end += text.len();
            end as u32
        }));
        self.len = end;
    }

    /// Splits the characters of all texts, once they are all there. Returns whether none is beyond U+FFFF.
    pub(crate) fn split(&mut self, simd: Simd) -> bool {
        let chunks = self.len.div_ceil(64);
        // Characters at the end of the last chunk are looked at as if two more bytes followed.
        let readable = 64 * chunks + 2;
        if self.utf8.len() < readable {
            self.utf8.resize(readable, 0);
        }
        for bytes in &mut self.bytes {
            if bytes.len() < 64 * (chunks + 1) {
                bytes.resize(2 * 64 * (chunks + 1), 0);
            }
        }
        split(simd, &self.utf8[..readable], &mut self.bytes, &mut self.ends);
        self.utf8[..self.len].iter().fold(0, |most, &byte| byte.max(most)) < 0xf0
    }

    /// The bytes of all texts.
    pub(crate) fn bytes(&self) -> usize {
        self.len
    }

    /// The bytes of all texts that were split beyond one for each character.
    pub(crate) fn bytes_beyond(&self) -> usize {
        self.len - self.ends.last().map_or(0, |&end| end as usize)
    }

    /// The bytes of the characters of a text that was split, by its number, if it has no character beyond U+FFFF.
    #[inline(always)]
    pub(crate) fn text(&self, number: usize) -> [Text<'_>; 2] {
        let end = self.ends[number] as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] as usize };
        let [low, high] = &self.bytes;
        [Text::new(&low[start..], end - start), Text::new(&high[start..], end - start)]
    }
}

lanes_kernel! {
    /// Writes the bytes of the characters of `utf8`, behind which two more bytes are, and makes numbers of
    /// characters of the numbers of bytes in `ends`, which ascend.
    fn split[F, Z = 1 or 1](utf8: &[u8], to: &mut [Vec<u8>; 2], ends: &mut [u32]) {
        let chunks = utf8.len() / 64;
        assert!(utf8.len() >= 64 * chunks + 2);
        assert!(to.iter().all(|to| to.len() >= 64 * (chunks + 1)));
        let mut count = 0;
        let mut ends = ends.iter_mut().peekable();
        for chunk in 0..chunks {
            // SAFETY: the kernel runs the instructions of the form; two bytes follow the chunk, and 64 of each
            // kind have a place behind the count, which is at most 64 for each chunk before.
            let begins = unsafe {
                let to = [to[0].as_mut_ptr().add(count), to[1].as_mut_ptr().add(count)];
                F::split(utf8.as_ptr().add(64 * chunk), to)
            };
            while let Some(end) = ends.next_if(|end| **end as usize <= 64 * (chunk + 1)) {
                // A text ends in this chunk or behind it, if not right before it.
                let behind = 64 * (chunk + 1) - *end as usize;
                let within = (!0_u64).checked_shr(behind as u32).unwrap_or(0);
                *end = count as u32 + (begins & within).count_ones();
            }
            count += begins.count_ones() as usize;
        }
    }
}
