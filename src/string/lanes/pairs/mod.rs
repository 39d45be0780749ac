//! Functions of two columns of strings, without a bound: as a plain function has them.
//!
//! A vector holds 32 pairs of at most 16 bytes, 16 of at most 32 or 8 of at most 64. No pair needs a
//! table of its own: a comparison of patterns with a byte of their texts gives their match masks at
//! once. No score is kept along: the bits of the last column tell it.

mod kernels;

use std::hint::select_unpredictable;

use crate::simd::{Form, Simd};
use crate::string::rules::window;

/// A string of bytes: the first `len` of `rest`. Bytes behind it that can be read as well, such
/// as those of the strings that follow, spare a careful copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Text<'a> {
    /// The first `len` bytes of `rest`, which has as many.
    #[inline]
    pub(crate) fn new(rest: &'a [u8], len: usize) -> Self {
        assert!(len <= rest.len());
        Self { rest, len }
    }

    /// A text without a symbol.
    pub(crate) fn empty() -> Self {
        Self { rest: &[], len: 0 }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        &self.rest[..self.len]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes, bytes.len())
    }
}

/// A count of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// Insertions, deletions and substitutions.
    Levenshtein,
    /// The same and transpositions, as [`Damerau`](crate::string::rules::Damerau) has them.
    Damerau,
    /// Insertions and deletions.
    Indel,
    /// Substitutions, of strings of one length.
    Hamming,
    /// Jaro's common symbols, and in the upper 16 bits the transpositions.
    Jaro,
}

/// The longest string that lanes take.
pub(crate) const LONGEST: usize = 64;

/// Pairs of strings that wait for their vectors to be full.
#[derive(Debug, Clone)]
pub(crate) struct Pairs {
    count: Count,
    short: Batch,
    middle: Batch,
    long: Batch,
}

impl Pairs {
    pub(crate) fn new(count: Count) -> Self {
        let batch = Batch::default();
        Self { count, short: batch.clone(), middle: batch.clone(), long: batch }
    }

    /// Whether lanes are quicker than a table for each pair.
    pub(crate) fn pays(simd: Simd) -> bool {
        simd.form() != Form::Portable
    }

    /// Whether strings of these lengths have a count.
    #[inline(always)]
    pub(crate) fn counts(&self, a: usize, b: usize) -> bool {
        a == b || self.count != Count::Hamming
    }

    /// The count of an empty string and one of `len` symbols.
    pub(crate) fn of_empty(&self, len: usize) -> u32 {
        if self.count == Count::Jaro { 0 } else { len as u32 }
    }

    /// Takes a pair of at most [`LONGEST`] symbols each, up to [`MAX_SYMBOL`]; its count goes to
    /// `out[at]`, at the latest with [`Self::flush`].
    #[inline(always)]
    pub(crate) fn push(&mut self, simd: Simd, at: usize, [a, b]: [Text<'_>; 2], out: &mut [u32]) {
        let longer = a.len.max(b.len);
        if longer <= 16 {
            self.short.add::<16>(simd, self.count, at, [a, b], out);
        } else if longer <= 32 {
            self.middle.add::<32>(simd, self.count, at, [a, b], out);
        } else {
            self.long.add::<64>(simd, self.count, at, [a, b], out);
        }
    }

    /// Writes the counts of the pairs that wait.
    pub(crate) fn flush(&mut self, simd: Simd, out: &mut [u32]) {
        self.short.flush::<16>(simd, self.count, out);
        self.middle.flush::<32>(simd, self.count, out);
        self.long.flush::<64>(simd, self.count, out);
    }
}

/// The bytes that no string holds: what is beside a text, and behind a pattern.
const NO_SYMBOLS: [u8; 2] = [0xff, 0xfe];

/// The greatest symbol.
pub(crate) const MAX_SYMBOL: u8 = 0xfd;

/// Bytes of the pairs of a vector.
const BYTES: usize = 512;

/// Two vectors of bits; each kernel says which.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Bits([[u8; 64]; 2]);

/// The pairs of a vector.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Batch {
    /// The match masks of each column.
    masks: [u64; 8 * 64],
    /// Patterns from the start of their lane on, anything behind, and space for a lane's overflow.
    patterns: [u8; BYTES + 64],
    /// Texts at the start or the end of their lane, no symbol beside where a count looks there, and space for a
    /// lane's overflow.
    texts: [u8; BYTES + 64],
    /// A number for each lane: the column in which the text starts, or Jaro's window.
    marks: [u8; 64],
    /// The rows within Jaro's reach of the first column.
    near: [u8; 64],
    /// Where the counts go.
    at: [usize; 32],
    /// The lengths of patterns and texts.
    lens: [[u8; 2]; 32],
    len: usize,
    /// The longest text.
    columns: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            masks: [0; 8 * 64],
            patterns: [0; BYTES + 64],
            texts: [0; BYTES + 64],
            marks: [0; 64],
            near: [0; 64],
            at: [0; 32],
            lens: [[0; 2]; 32],
            len: 0,
            columns: 0,
        }
    }
}

impl Batch {
    #[inline(always)]
    fn add<const W: usize>(
        &mut self,
        simd: Simd,
        count: Count,
        at: usize,
        [a, b]: [Text<'_>; 2],
        out: &mut [u32],
    ) {
        let (pattern, text) = select_unpredictable(a.len >= b.len, (a, b), (b, a));
        let lane = self.len * W;
        copy::<W>(&mut self.patterns[lane..], pattern);
        // What is written beyond the lane is the next lane's, which is not yet there.
        if matches!(count, Count::Levenshtein | Count::Damerau) {
            self.texts[lane..lane + W].fill(NO_SYMBOLS[0]);
            copy::<W>(&mut self.texts[lane + W - text.len..], text);
            self.marks[lane / 8] = (W - text.len) as u8;
        } else {
            copy::<W>(&mut self.texts[lane..], text);
            if count != Count::Hamming {
                self.texts[lane + text.len..lane + text.len + W].fill(NO_SYMBOLS[0]);
            }
        }
        if count == Count::Jaro {
            self.patterns[lane + pattern.len..][..W].fill(NO_SYMBOLS[1]);
            let window = window(pattern.len, text.len);
            self.marks[lane / 8] = window as u8;
            let near = !0_u64 >> (63 - window);
            self.near[lane / 8..][..W / 8].copy_from_slice(&near.to_le_bytes()[..W / 8]);
        }
        self.at[self.len] = at;
        self.lens[self.len] = [pattern.len as u8, text.len as u8];
        self.columns = self.columns.max(text.len);
        self.len += 1;
        if self.len == BYTES / W {
            self.flush::<W>(simd, count, out);
        }
    }

    fn flush<const W: usize>(&mut self, simd: Simd, count: Count, out: &mut [u32]) {
        if self.len == 0 {
            return;
        }
        let mut bits = Bits([[0; 64]; 2]);
        match count {
            Count::Levenshtein => self.levenshtein::<W>(simd, &mut bits),
            Count::Damerau => self.damerau::<W>(simd, &mut bits),
            Count::Indel => self.indel::<W>(simd, &mut bits),
            Count::Hamming => self.alike(simd, &mut bits),
            Count::Jaro => self.jaro::<W>(simd, &mut bits),
        }
        for lane in 0..self.len {
            let words = [0, 1].map(|i| word::<W>(&bits.0[i], lane));
            out[self.at[lane]] = self.read::<W>(count, lane, words);
        }
        self.len = 0;
        self.columns = 0;
    }

    /// The count of a lane from the bits of its last column.
    #[inline(always)]
    fn read<const W: usize>(&self, count: Count, lane: usize, words: [u64; 2]) -> u32 {
        let [rows, columns] = self.lens[lane].map(u32::from);
        let within = !(!0_u64).checked_shl(rows).unwrap_or(0);
        let [first, second] = words.map(|word| (word & within).count_ones());
        match count {
            Count::Levenshtein | Count::Damerau => columns + first - second,
            Count::Hamming => rows - first,
            // The rows without a bit are those of the common subsequence.
            Count::Indel => rows + columns - 2 * (rows - first),
            Count::Jaro => {
                let pattern = &self.patterns[lane * W..][..W];
                let text = &self.texts[lane * W..][..W];
                let of_text = words[1].checked_shr((W - self.columns) as u32).unwrap_or(0);
                words[0].count_ones() | transpositions(pattern, words[0], text, of_text) << 16
            }
        }
    }
}

/// Half the number of places, rounded down, at which the symbols of two strings that are chosen by bits
/// differ.
#[inline(always)]
fn transpositions(a: &[u8], mut of_a: u64, b: &[u8], mut of_b: u64) -> u32 {
    let mut differing = 0;
    while of_a != 0 {
        let (i, j) = (of_a.trailing_zeros() as usize, of_b.trailing_zeros() as usize);
        differing += u32::from(a[i] != b[j]);
        of_a &= of_a - 1;
        of_b &= of_b.wrapping_sub(1);
    }
    differing / 2
}

/// A lane of `W` bits.
#[inline(always)]
fn word<const W: usize>(bytes: &[u8; 64], lane: usize) -> u64 {
    let at = lane * W / 8;
    match W {
        16 => u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])),
        32 => bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes).into()),
        _ => bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
    }
}

/// Copies a text of at most `W` bytes to the start of `to`, and anything behind it up to `W` bytes.
#[inline(always)]
fn copy<const W: usize>(to: &mut [u8], text: Text<'_>) {
    match (to.first_chunk_mut::<W>(), text.rest.first_chunk::<W>()) {
        (Some(to), Some(from)) => *to = *from,
        _ => to[..text.len].copy_from_slice(text.bytes()),
    }
}
