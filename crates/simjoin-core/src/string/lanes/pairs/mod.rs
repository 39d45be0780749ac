//! Functions of two columns of strings, without a bound: as a plain function has them.
//!
//! A vector holds 32 pairs of at most 16 bytes, 16 of at most 32 or 8 of at most 64. No pair needs a
//! table of its own: a comparison of patterns with a byte of their texts gives their match masks at
//! once. No score is kept along: the bits of the last column tell it.

mod kernels;

use std::hint::select_unpredictable;

use kernels::BatchColumns;

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

    /// The text, and what can be read behind it.
    #[inline]
    pub(crate) fn with_rest(&self) -> &'a [u8] {
        self.rest
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
pub(crate) enum LaneCount {
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

/// Pairs of strings that wait for their vectors to be full. A symbol has `P` bytes, one or two: each in a text
/// of its own, all of one length.
#[derive(Debug, Clone)]
pub(crate) struct PendingPairs<const P: usize> {
    count: LaneCount,
    short: LaneBatch<P>,
    middle: LaneBatch<P>,
    long: LaneBatch<P>,
}

impl<const P: usize> PendingPairs<P> {
    pub(crate) fn new(count: LaneCount) -> Self {
        let batch = LaneBatch::default();
        Self { count, short: batch.clone(), middle: batch.clone(), long: batch }
    }

    /// Whether lanes are quicker than a table for each pair.
    pub(crate) fn pays(simd: Simd) -> bool {
        simd.form() != Form::Portable
    }

    /// Whether strings of these lengths have a count.
    #[inline(always)]
    pub(crate) fn counts(&self, a: usize, b: usize) -> bool {
        a == b || self.count != LaneCount::Hamming
    }

    /// The count of an empty string and one of `len` symbols.
    pub(crate) fn of_empty(&self, len: usize) -> u32 {
        if self.count == LaneCount::Jaro { 0 } else { len as u32 }
    }

    /// Takes a pair of at most [`LONGEST`] symbols each, of one byte up to [`MAX_SYMBOL`] or of the low and the
    /// high byte of a character; its count goes to `out[at]`, at the latest with [`Self::flush`].
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        simd: Simd,
        at: usize,
        [a, b]: [[Text<'_>; P]; 2],
        out: &mut [u32],
    ) {
        let longer = a[0].len.max(b[0].len);
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

/// Fillers beside a text, and behind a pattern: for the only or the low byte of a symbol, and for the high one, which
/// is that of a surrogate. No symbol has the last of its bytes from here.
const NO_SYMBOLS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xd8, 0xd9]];

/// The greatest symbol of one byte.
pub(crate) const MAX_SYMBOL: u8 = 0xfd;

/// Bytes of the pairs of a vector.
const BYTES: usize = 512;

/// Two vectors of bits; each kernel says which.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct LaneBits([[u8; 64]; 2]);

/// The bytes of the symbols of a vector's pairs, and space for a lane's overflow.
type Symbols = [u8; BYTES + 64];

/// The pairs of a vector.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct LaneBatch<const P: usize> {
    /// The match masks of each column, by each byte of a symbol.
    masks: [[u64; 8 * 64]; P],
    /// Patterns, aligned to the start of their lanes. Bytes behind a pattern are arbitrary, for Jaro's count
    /// [`NO_SYMBOLS`].
    patterns: [Symbols; P],
    /// Texts, aligned to the start or to the end of their lanes. Where a count reads the bytes beside a text,
    /// they are [`NO_SYMBOLS`].
    texts: [Symbols; P],
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

impl<const P: usize> Default for LaneBatch<P> {
    fn default() -> Self {
        Self {
            masks: [[0; 8 * 64]; P],
            patterns: [[0; BYTES + 64]; P],
            texts: [[0; BYTES + 64]; P],
            marks: [0; 64],
            near: [0; 64],
            at: [0; 32],
            lens: [[0; 2]; 32],
            len: 0,
            columns: 0,
        }
    }
}

impl<const P: usize> LaneBatch<P> {
    #[inline(always)]
    fn add<const W: usize>(
        &mut self,
        simd: Simd,
        count: LaneCount,
        at: usize,
        [a, b]: [[Text<'_>; P]; 2],
        out: &mut [u32],
    ) {
        let is_pattern = a[0].len >= b[0].len;
        for byte in 0..P {
            let (a, b) = (a[byte], b[byte]);
            let (pattern, text) = select_unpredictable(is_pattern, (a, b), (b, a));
            self.put::<W>(byte, count, pattern, text);
        }
        let (pattern, text) = (a[0].len.max(b[0].len), a[0].len.min(b[0].len));
        let lane = self.len * W;
        match count {
            LaneCount::Levenshtein | LaneCount::Damerau => self.marks[lane / 8] = (W - text) as u8,
            LaneCount::Jaro => {
                let window = window(pattern, text);
                self.marks[lane / 8] = window as u8;
                let near = !0_u64 >> (63 - window);
                self.near[lane / 8..][..W / 8].copy_from_slice(&near.to_le_bytes()[..W / 8]);
            }
            LaneCount::Indel | LaneCount::Hamming => {}
        }
        self.at[self.len] = at;
        self.lens[self.len] = [pattern as u8, text as u8];
        self.columns = self.columns.max(text);
        self.len += 1;
        if self.len == BYTES / W {
            self.flush::<W>(simd, count, out);
        }
    }

    /// Puts a byte of the symbols of a pair into the next lane.
    #[inline(always)]
    fn put<const W: usize>(
        &mut self,
        byte: usize,
        count: LaneCount,
        pattern: Text<'_>,
        text: Text<'_>,
    ) {
        let lane = self.len * W;
        let (patterns, texts) = (&mut self.patterns[byte], &mut self.texts[byte]);
        copy::<W>(&mut patterns[lane..], pattern);
        // What is written beyond the lane is the next lane's, which is not yet there.
        match count {
            LaneCount::Levenshtein | LaneCount::Damerau => {
                texts[lane..lane + W].fill(NO_SYMBOLS[byte][0]);
                copy::<W>(&mut texts[lane + W - text.len..], text);
            }
            LaneCount::Indel | LaneCount::Jaro => {
                copy::<W>(&mut texts[lane..], text);
                texts[lane + text.len..][..W].fill(NO_SYMBOLS[byte][0]);
            }
            LaneCount::Hamming => copy::<W>(&mut texts[lane..], text),
        }
        if count == LaneCount::Jaro {
            patterns[lane + pattern.len..][..W].fill(NO_SYMBOLS[byte][1]);
        }
    }

    fn flush<const W: usize>(&mut self, simd: Simd, count: LaneCount, out: &mut [u32]) {
        if self.len == 0 {
            return;
        }
        let mut bits = LaneBits([[0; 64]; 2]);
        self.columns().count::<W>(simd, count, &mut bits);
        for lane in 0..self.len {
            let words = [0, 1].map(|i| word::<W>(&bits.0[i], lane));
            out[self.at[lane]] = self.read::<W>(count, lane, words);
        }
        self.len = 0;
        self.columns = 0;
    }

    fn columns(&mut self) -> BatchColumns<'_> {
        BatchColumns {
            masks: &mut self.masks,
            patterns: &self.patterns,
            texts: &self.texts,
            marks: &self.marks,
            near: &self.near,
            columns: self.columns,
        }
    }

    /// The count of a lane from the bits of its last column.
    #[inline(always)]
    fn read<const W: usize>(&self, count: LaneCount, lane: usize, words: [u64; 2]) -> u32 {
        let [rows, columns] = self.lens[lane].map(u32::from);
        let within = !(!0_u64).checked_shl(rows).unwrap_or(0);
        let [first, second] = words.map(|word| (word & within).count_ones());
        match count {
            LaneCount::Levenshtein | LaneCount::Damerau => columns + first - second,
            LaneCount::Hamming => rows - first,
            // The rows without a bit are those of the common subsequence.
            LaneCount::Indel => rows + columns - 2 * (rows - first),
            LaneCount::Jaro => {
                let lane = lane * W;
                let is_equal = |row: usize, column: usize| {
                    let mut bytes = self.patterns.iter().zip(&self.texts);
                    bytes.all(|(pattern, text)| {
                        pattern[lane..lane + W][row] == text[lane..lane + W][column]
                    })
                };
                let of_text = words[1].checked_shr((W - self.columns) as u32).unwrap_or(0);
                words[0].count_ones() | transpositions(is_equal, words[0], of_text) << 16
            }
        }
    }
}

/// Half the number of places, rounded down, at which the symbols of two strings that are chosen by bits
/// differ.
#[inline(always)]
fn transpositions(is_equal: impl Fn(usize, usize) -> bool, mut of_a: u64, mut of_b: u64) -> u32 {
    let mut differing = 0;
    while of_a != 0 {
        let (i, j) = (of_a.trailing_zeros() as usize, of_b.trailing_zeros() as usize);
        differing += u32::from(!is_equal(i, j));
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
