//! Levenshtein's distance of long strings that differ in little, by the furthest points that edits reach: Ukkonen
//! ("Algorithms for approximate string matching", Information and Control 1985) and Myers ("An O(ND)
//! difference algorithm and its variations", Algorithmica 1986).
//!
//! A wave has for each diagonal the furthest point that so many edits reach from one end of the
//! strings. Waves set out from both ends and take an edit by turns. Since values never descend along a
//! diagonal, the edits of both are the distance once they meet on one. So the time grows with the square of the
//! distance, and hardly with the lengths.

use std::ops::Range;

use super::masks::Symbol;
use super::meter::{Cancelled, Meter};
use crate::simd::Simd;
use crate::simd::texts::lanes_kernel;

/// The shortest strings for which waves are tried.
const SHORTEST: usize = 256;

/// The longest strings for which waves are tried.
const LONGEST: usize = 1 << 28;

/// The symbols of a string for each edit that waves may take: with more edits, blocks of bits are quicker.
const SYMBOLS_AN_EDIT: usize = 16;

/// The edits after which waves first look how far they got.
const FIRST_LOOK: usize = 32;

/// The bytes that are compared at once, and that lie on both sides of a string.
const WORD: usize = 8;

/// The bytes around each of two strings. No symbol ends in one of them, so that equal parts end there.
const BORDERS: [u8; 2] = [0xff, 0xfe];

/// The row of no point of a wave, even after many edits: before all others of a wave that goes forth, and behind all
/// of one that comes back.
const BEFORE: i32 = i32::MIN / 2;
const BEHIND: i32 = i32::MAX / 2;

/// The edits between two questions whether to stop.
const STRIDE: usize = 32;

/// Edits are taken on a multiple of so many diagonals: vectors leave none over.
const DIAGONALS: usize = 16;

/// The steps of a meter for a diagonal of a wave: what a block takes as long as.
const CELLS_A_DIAGONAL: usize = 64;

/// The answer of waves.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WaveAnswer {
    /// The distance.
    At(usize),
    /// The distance is greater than the bound.
    Beyond,
    /// The strings are short or seem to differ in much: blocks are quicker.
    Unlike,
}

/// Space for waves.
#[derive(Debug, Clone, Default)]
pub(super) struct Waves {
    /// The bytes of the symbols of both strings, with a word of [`BORDERS`] on both sides.
    strings: [Vec<u8>; 2],
    forth: Wave,
    back: Wave,
}

/// The points that a number of edits reaches from an end.
#[derive(Debug, Clone, Default)]
struct Wave {
    edits: usize,
    /// The places of the diagonals that were reached.
    diagonals: Range<usize>,
    /// The row of the furthest point on each diagonal, of fewer edits where the last wave did not go.
    rows: Vec<i32>,
    /// Space for the next wave.
    next: Vec<i32>,
}

/// The matrix of two strings. A cell (i, j) is on diagonal i - j.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaveMatrix {
    rows: i32,
    columns: i32,
    /// The place of diagonal 0 in a wave.
    zero: i32,
    /// The bytes of a symbol.
    bytes: usize,
}

impl Waves {
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let rows =
            [&self.forth, &self.back].map(|wave| wave.rows.capacity() + wave.next.capacity());
        let strings = self.strings.iter().map(Vec::capacity);
        strings.sum::<usize>() + 4 * rows.iter().sum::<usize>()
    }

    /// The distance of two strings if it is at most `k` and if waves find it. The strings differ in their first and
    /// in their last symbols.
    pub(super) fn meet<T: Symbol>(
        &mut self,
        simd: Simd,
        [a, b]: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<WaveAnswer, Cancelled> {
        let longer = a.len().max(b.len());
        let most = k.min(longer / SYMBOLS_AN_EDIT);
        let difference = a.len().abs_diff(b.len());
        if a.len().min(b.len()) < SHORTEST || most < difference || longer > LONGEST {
            return Ok(WaveAnswer::Unlike);
        }
        let Some(matrix) = self.begin([a, b], most + difference + 4) else {
            return Ok(WaveAnswer::Unlike);
        };
        let mut edits = 0;
        while edits < most {
            let end = most.min(edits + STRIDE);
            meter.add(CELLS_A_DIAGONAL * (end - edits) * (end + 1))?;
            if let Some(distance) = go_on(simd, self, &matrix, edits..end, most) {
                return Ok(WaveAnswer::At(distance));
            }
            edits = end;
            let looks = edits >= FIRST_LOOK && edits.is_power_of_two() && 2 * edits < most;
            if looks && self.rows_behind(&matrix) * 2 * most < a.len() * edits {
                return Ok(WaveAnswer::Unlike);
            }
        }
        Ok(if most == k { WaveAnswer::Beyond } else { WaveAnswer::Unlike })
    }

    /// Takes up two strings, and sets off at both ends; `zero` is the place of diagonal 0. `None` where a string
    /// has a symbol whose last byte is one of [`BORDERS`].
    fn begin<T: Symbol>(&mut self, strings: [&[T]; 2], zero: usize) -> Option<WaveMatrix> {
        for ((string, bytes), border) in strings.into_iter().zip(&mut self.strings).zip(BORDERS) {
            bytes.clear();
            bytes.reserve_exact(string.len() * T::BYTES + 2 * WORD);
            bytes.resize(WORD, border);
            T::append(string, bytes);
            let greatest = match T::BYTES {
                1 => bytes[WORD..].iter().fold(0, |most, &byte| byte.max(most)),
                _ => (string.iter().fold(0, |most, symbol| symbol.key().max(most)) >> 24) as u8,
            };
            if BORDERS.contains(&greatest) {
                return None;
            }
            bytes.resize(bytes.len() + WORD, border);
        }
        let [rows, columns] = strings.map(|string| string.len());
        self.forth.begin(zero, 2 * zero + 1, [0, BEFORE]);
        self.back.begin(zero + rows - columns, 2 * zero + 1, [rows as i32, BEHIND]);
        let [rows, columns, zero] = [rows, columns, zero].map(|number| number as i32);
        Some(WaveMatrix { rows, columns, zero, bytes: T::BYTES })
    }

    /// Takes an edit more from an end. Returns whether the waves meet.
    #[inline(always)]
    fn step<const BACK: bool>(&mut self, matrix: &WaveMatrix, most: usize) -> bool {
        let Self { strings: [a, b], forth, back } = self;
        let (wave, other) = if BACK { (back, forth) } else { (forth, back) };
        wave.edits += 1;
        wave.diagonals = matrix.diagonals::<BACK>(wave.edits as i32, most as i32);
        wave.take_edit::<BACK>(matrix);
        let diagonals = wave.diagonals.clone();
        let first = diagonals.start as i32 - matrix.zero;
        let (rows, other) = (&mut wave.rows[diagonals.clone()], &other.rows[diagonals]);
        // SAFETY: the cells are in the matrix of the strings.
        unsafe {
            match matrix.bytes {
                1 => run::<1, BACK>([a, b], first, rows, other),
                _ => run::<4, BACK>([a, b], first, rows, other),
            }
        }
    }

    /// The rows that the waves have behind them.
    fn rows_behind(&self, matrix: &WaveMatrix) -> usize {
        let [forth, back] =
            [&self.forth, &self.back].map(|wave| &wave.rows[wave.diagonals.clone()]);
        let forth = forth.iter().fold(0, |most, &row| row.max(most));
        let back = back.iter().fold(matrix.rows, |least, &row| row.min(least));
        (forth + matrix.rows - back) as usize
    }
}

impl WaveMatrix {
    /// The places of the diagonals that so many edits reach from an end, and from which the edits that are left of
    /// `most` lead to the other end.
    #[inline(always)]
    fn diagonals<const BACK: bool>(&self, edits: i32, most: i32) -> Range<usize> {
        let last = self.rows - self.columns;
        let [start, end] = if BACK { [last, 0] } else { [0, last] };
        let left = most - edits;
        let (low, high) = ((start - edits).max(end - left), (start + edits).min(end + left));
        (self.zero + low) as usize..(self.zero + high + 1) as usize
    }
}

impl Wave {
    /// Sets off in a row of the diagonal at `end`; there are so many places.
    fn begin(&mut self, end: usize, places: usize, [row, none]: [i32; 2]) {
        self.edits = 0;
        self.diagonals = end..end + 1;
        for rows in [&mut self.rows, &mut self.next] {
            rows.clear();
            rows.resize(places + DIAGONALS, none);
        }
        self.rows[end] = row;
    }

    /// The points that an edit more reaches, without what is equal behind it. Some diagonals behind the last are
    /// computed as well.
    #[inline(always)]
    fn take_edit<const BACK: bool>(&mut self, matrix: &WaveMatrix) {
        let start = self.diagonals.start;
        let count = self.diagonals.len().next_multiple_of(DIAGONALS);
        let [left, same, right] =
            [start - 1, start, start + 1].map(|at| &self.rows[at..at + count]);
        let next = &mut self.next[start..start + count];
        let first = start as i32 - matrix.zero;
        for i in 0..count {
            let diagonal = first + i as i32;
            // The edit takes a symbol of both strings, of the first or of the second.
            next[i] = if BACK {
                (same[i] - 1).min(right[i] - 1).min(left[i]).max(0).max(diagonal)
            } else {
                let row = (same[i] + 1).max(left[i] + 1).max(right[i]);
                row.min(matrix.rows).min(matrix.columns + diagonal)
            };
        }
        std::mem::swap(&mut self.rows, &mut self.next);
    }
}

lanes_kernel! {
    /// Takes edits by turns at both ends, from so many on. Returns the number after which the waves meet.
    fn go_on[F, Z = 1 or 1](
        waves: &mut Waves,
        matrix: &WaveMatrix,
        edits: Range<usize>,
        most: usize,
    ) -> Option<usize> {
        for edits in edits {
            let is_met = match edits % 2 {
                0 => waves.step::<false>(matrix, most),
                _ => waves.step::<true>(matrix, most),
            };
            if is_met {
                return Some(edits + 1);
            }
        }
        None
    }
}

/// Goes on from a row of each diagonal from `first` on, as far as symbols of `BYTES` bytes are equal. Returns whether one
/// gets to the row of another wave.
///
/// # Safety
///
/// The cells are in the matrix of two strings, around which a word lies that ends all equal parts.
#[inline(always)]
unsafe fn run<const BYTES: usize, const BACK: bool>(
    [a, b]: [&[u8]; 2],
    first: i32,
    rows: &mut [i32],
    other: &[i32],
) -> bool {
    debug_assert!(rows.iter().all(|row| (0..=LONGEST as i32).contains(row)));
    // The word behind a row, or before it.
    let start = if BACK { 0 } else { WORD };
    // SAFETY: as the caller promises.
    let differing = |row: isize, diagonal: isize| unsafe {
        let a = a.as_ptr().add(start).offset(row * BYTES as isize);
        let b = b.as_ptr().add(start).offset((row - diagonal) * BYTES as isize);
        a.cast::<u64>().read_unaligned() ^ b.cast::<u64>().read_unaligned()
    };
    let sign = if BACK { -1 } else { 1 };
    let further = |row: isize, diagonal: isize| {
        let (mut row, mut word) = (row, differing(row, diagonal));
        while word == 0 {
            row += sign * (WORD / BYTES) as isize;
            word = differing(row, diagonal);
        }
        let nearest = if BACK { word.swap_bytes() } else { word };
        row + sign * (nearest.trailing_zeros() as usize / (8 * BYTES)) as isize
    };
    // Four at a time are some tenths quicker.
    let mut four = rows.chunks_exact_mut(4);
    let mut diagonal = first as isize;
    for rows in &mut four {
        for row in rows {
            *row = further(*row as isize, diagonal) as i32;
            diagonal += 1;
        }
    }
    for row in four.into_remainder() {
        *row = further(*row as isize, diagonal) as i32;
        diagonal += 1;
    }
    let met = |(row, other): (&i32, &i32)| if BACK { row <= other } else { row >= other };
    rows.iter().zip(other).fold(false, |any, pair| any | met(pair))
}
