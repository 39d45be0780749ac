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
use super::scratch::{Cancelled, Meter};
use crate::simd::Simd;
use crate::simd::texts::lanes_kernel;

/// The shortest strings for which waves are tried.
const SHORTEST: usize = 256;

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

/// The steps of a meter for a diagonal of a wave: what a block takes as long as.
const CELLS_A_DIAGONAL: usize = 64;

/// The answer of waves.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met {
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
struct Matrix {
    rows: i32,
    columns: i32,
    /// The place of diagonal 0 in a wave.
    zero: i32,
    /// The bytes of a symbol.
    bytes: usize,
}

impl Waves {
    /// The distance of two strings if it is at most `k` and if waves find it. The strings differ in their first and
    /// in their last symbols.
    pub(super) fn meet<T: Symbol>(
        &mut self,
        simd: Simd,
        [a, b]: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<Met, Cancelled> {
        let longer = a.len().max(b.len());
        let most = k.min(longer / SYMBOLS_AN_EDIT);
        let difference = a.len().abs_diff(b.len());
        if a.len().min(b.len()) < SHORTEST || most < difference || longer > (1 << 28) {
            return Ok(Met::Unlike);
        }
        let Some(matrix) = self.begin([a, b], most + difference + 4) else {
            return Ok(Met::Unlike);
        };
        for edits in 1..=most {
            let is_back = edits % 2 == 0;
            let diagonals = self.diagonals(&matrix, is_back, most);
            meter.add(CELLS_A_DIAGONAL * diagonals.len())?;
            if self.step(simd, &matrix, is_back, diagonals) {
                return Ok(Met::At(edits));
            }
            let looks = edits >= FIRST_LOOK && edits.is_power_of_two() && 2 * edits < most;
            if looks && self.rows_behind(&matrix) * 2 * most < a.len() * edits {
                return Ok(Met::Unlike);
            }
        }
        Ok(if most == k { Met::Beyond } else { Met::Unlike })
    }

    /// Takes up two strings, and sets off at both ends; `zero` is the place of diagonal 0. `None` where a string
    /// has a symbol whose last byte is one of [`BORDERS`].
    fn begin<T: Symbol>(&mut self, strings: [&[T]; 2], zero: usize) -> Option<Matrix> {
        for ((string, bytes), border) in strings.into_iter().zip(&mut self.strings).zip(BORDERS) {
            bytes.clear();
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
        Some(Matrix { rows, columns, zero, bytes: T::BYTES })
    }

    /// The places of the diagonals that the next wave from an end reaches, and from which the edits that are left
    /// of `most` lead to the other end.
    fn diagonals(&self, matrix: &Matrix, is_back: bool, most: usize) -> Range<usize> {
        let &Matrix { rows, columns, zero, .. } = matrix;
        let (edits, ends) = match is_back {
            false => (self.forth.edits + 1, [0, rows - columns]),
            true => (self.back.edits + 1, [rows - columns, 0]),
        };
        let (edits, left) = (edits as i32, (most - edits) as i32);
        let first = (ends[0] - edits).max(ends[1] - left).max(-columns);
        let last = (ends[0] + edits).min(ends[1] + left).min(rows);
        (zero + first) as usize..(zero + last + 1) as usize
    }

    /// Takes an edit more from an end. Returns whether the waves meet.
    fn step(
        &mut self,
        simd: Simd,
        matrix: &Matrix,
        is_back: bool,
        diagonals: Range<usize>,
    ) -> bool {
        let Self { strings: [a, b], forth, back } = self;
        let (wave, other) = if is_back { (back, forth) } else { (forth, back) };
        wave.diagonals = diagonals;
        wave.edits += 1;
        let met = match is_back {
            false => step_forth(simd, [a, b], matrix, wave, &other.rows),
            true => step_back(simd, [a, b], matrix, wave, &other.rows),
        };
        std::mem::swap(&mut wave.rows, &mut wave.next);
        met
    }

    /// The rows that the waves have behind them.
    fn rows_behind(&self, matrix: &Matrix) -> usize {
        let [forth, back] =
            [&self.forth, &self.back].map(|wave| &wave.rows[wave.diagonals.clone()]);
        let forth = forth.iter().fold(0, |most, &row| row.max(most));
        let back = back.iter().fold(matrix.rows, |least, &row| row.min(least));
        (forth + matrix.rows - back) as usize
    }
}

impl Wave {
    /// Sets off in a row of the diagonal at `end`; there are so many places.
    fn begin(&mut self, end: usize, places: usize, [row, none]: [i32; 2]) {
        self.edits = 0;
        self.diagonals = end..end + 1;
        for rows in [&mut self.rows, &mut self.next] {
            rows.clear();
            rows.resize(places, none);
        }
        self.rows[end] = row;
    }
}

lanes_kernel! {
    /// Takes an edit more from the start on the diagonals of a wave. Returns whether it meets the other.
    fn step_forth[F, Z = 1 or 1](
        strings: [&[u8]; 2],
        matrix: &Matrix,
        wave: &mut Wave,
        other: &[i32],
    ) -> bool {
        let Range { start, end } = wave.diagonals;
        let count = end - start;
        let before = [start - 1, start, start + 1].map(|at| &wave.rows[at..at + count]);
        let next = &mut wave.next[start..end];
        let first = start as i32 - matrix.zero;
        for i in 0..count {
            // The edit takes a symbol of both strings, of the first or of the second.
            let row = (before[1][i] + 1).max(before[0][i] + 1).max(before[2][i]);
            next[i] = row.min(matrix.rows.min(matrix.columns + first + i as i32));
        }
        // SAFETY: the cells are in the matrix of the strings.
        unsafe { run::<false>(strings, matrix.bytes, first, next, &other[start..end]) }
    }
}

lanes_kernel! {
    /// Takes an edit more from the end on the diagonals of a wave. Returns whether it meets the other.
    fn step_back[F, Z = 1 or 1](
        strings: [&[u8]; 2],
        matrix: &Matrix,
        wave: &mut Wave,
        other: &[i32],
    ) -> bool {
        let Range { start, end } = wave.diagonals;
        let count = end - start;
        let before = [start - 1, start, start + 1].map(|at| &wave.rows[at..at + count]);
        let next = &mut wave.next[start..end];
        let first = start as i32 - matrix.zero;
        for i in 0..count {
            let row = (before[1][i] - 1).min(before[2][i] - 1).min(before[0][i]);
            next[i] = row.max(0.max(first + i as i32));
        }
        // SAFETY: the cells are in the matrix of the strings.
        unsafe { run::<true>(strings, matrix.bytes, first, next, &other[start..end]) }
    }
}

/// Goes on from a row of each diagonal from `first` on, as far as symbols are equal. Returns whether one gets to the row
/// of another wave.
///
/// # Safety
///
/// The cells are in the matrix of two strings, around which a word lies that ends all equal parts.
#[inline(always)]
unsafe fn run<const BACK: bool>(
    strings: [&[u8]; 2],
    bytes: usize,
    first: i32,
    rows: &mut [i32],
    other: &[i32],
) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        match bytes {
            1 => run_bytes::<1, BACK>(strings, first, rows, other),
            _ => run_bytes::<4, BACK>(strings, first, rows, other),
        }
    }
}

/// [`run`] for symbols of so many bytes.
///
/// # Safety
///
/// As for [`run`].
#[inline(always)]
unsafe fn run_bytes<const BYTES: usize, const BACK: bool>(
    [a, b]: [&[u8]; 2],
    first: i32,
    rows: &mut [i32],
    other: &[i32],
) -> bool {
    // The word behind a row, or before it.
    let start = if BACK { 0 } else { WORD };
    // SAFETY: as the caller promises.
    let differing = |row: isize, diagonal: isize| unsafe {
        let a = a.as_ptr().add(start).offset(row * BYTES as isize);
        let b = b.as_ptr().add(start).offset((row - diagonal) * BYTES as isize);
        a.cast::<u64>().read_unaligned() ^ b.cast::<u64>().read_unaligned()
    };
    let sign = if BACK { -1 } else { 1 };
    let mut met = false;
    for (i, (to, other)) in rows.iter_mut().zip(other).enumerate() {
        let diagonal = first as isize + i as isize;
        let mut row = *to as isize;
        let mut word = differing(row, diagonal);
        while word == 0 {
            row += sign * (WORD / BYTES) as isize;
            word = differing(row, diagonal);
        }
        let nearest = if BACK { word.swap_bytes() } else { word };
        row += sign * (nearest.trailing_zeros() as usize / (8 * BYTES)) as isize;
        *to = row as i32;
        met |= if BACK { *to <= *other } else { *to >= *other };
    }
    met
}
