//! Levenshtein's distance by bit vectors: Myers ("A fast bit-vector algorithm for approximate string
//! matching based on dynamic programming", JACM 1999) in the form of Hyyrö ("A bit-vector algorithm
//! for computing Levenshtein and Damerau edit distances", Nordic Journal of Computing 2003).
//!
//! Strings beyond 64 symbols are swept in rows of blocks of 64 × 1 cells, one row of blocks after the
//! other, within the band of the bound: so one table of masks suffices, and of the row above only
//! the horizontal differences at its bottom are kept. The bound is doubled until it holds.

use std::ops::ControlFlow;

use super::band::Band;
use super::edits::Edits;
use super::masks::{Masks, Symbol};
use super::scratch::{CELLS, Cancelled, Meter, Scratch};

/// The columns of a sweep over 64 rows between two questions whether to stop.
const COLUMNS: usize = CELLS / 64;

/// Insertions, deletions and substitutions.
pub(crate) struct Levenshtein;

impl Edits for Levenshtein {
    const FIRST_BOUND: usize = 64;

    fn most(long: usize, _: usize) -> usize {
        long
    }

    #[inline]
    fn in_word<T: Symbol>(
        scratch: &mut Scratch,
        [long, short]: [&[T]; 2],
        k: usize,
    ) -> ControlFlow<Option<usize>> {
        if long.len() > 64 {
            return ControlFlow::Continue(());
        }
        let distance = scratch.masks.with(long, |masks| one_word(masks, long.len(), short, k));
        ControlFlow::Break(distance)
    }

    fn in_band<T: Symbol>(
        scratch: &mut Scratch,
        [long, short]: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<Option<usize>, Cancelled> {
        blocked(scratch, long, short, k, meter)
    }
}

/// Calls `found` with the number of each text within `k` of `a`, and its distance: [`Edits::within`] of
/// [`Levenshtein`] for one string against many.
pub(crate) fn levenshtein_each<'a, T: Symbol + 'a>(
    scratch: &mut Scratch,
    a: &[T],
    texts: impl Iterator<Item = (u32, &'a [T])>,
    k: u32,
    stop: &mut impl FnMut() -> bool,
    mut found: impl FnMut(u32, u32),
) -> Result<(), Cancelled> {
    if a.is_empty() || a.len() > 64 {
        for (number, text) in texts {
            if let Some(distance) = Levenshtein::within(scratch, a, text, k, stop)? {
                found(number, distance);
            }
        }
        return Ok(());
    }
    let mut meter = Meter::new(stop);
    scratch.masks.with(a, |masks| {
        for (number, text) in texts {
            if text.len().abs_diff(a.len()) > k as usize {
                continue;
            }
            meter.add(64 * text.len())?;
            if let Some(distance) = one_word(masks, a.len(), text, k as usize) {
                found(number, distance as u32);
            }
        }
        Ok(())
    })
}

/// The distance between a pattern of `rows` (1 to 64) symbols and a text, if it is at most `k`.
#[inline]
fn one_word<T: Symbol>(masks: &Masks, rows: usize, text: &[T], k: usize) -> Option<usize> {
    let mut column = Column::new(rows);
    // The score sinks by at most one for each symbol that is left.
    let mut most = (k + text.len()) as isize;
    let mut score = rows as isize;
    for &symbol in text {
        let out = column.step(masks.of(symbol), 1);
        score += isize::from(out & 1) - isize::from(out >> 1);
        most -= 1;
        if score > most {
            return None;
        }
    }
    Some(score as usize)
}

/// The vertical differences of a column of at most 64 cells.
struct Column {
    plus: u64,
    minus: u64,
    /// The number of the last row.
    last: u32,
}

impl Column {
    /// A column whose cells ascend by one from row to row.
    #[inline(always)]
    fn new(rows: usize) -> Self {
        Self { plus: !0, minus: 0, last: rows as u32 - 1 }
    }

    /// Goes on to the next column. `above` and the result are horizontal differences above and in
    /// the last row: 1 for plus one, 2 for minus one.
    #[inline(always)]
    fn step(&mut self, equal: u64, above: u8) -> u8 {
        let (above_plus, above_minus) = (u64::from(above & 1), u64::from(above >> 1));
        let vertical = equal | self.minus;
        let equal = equal | above_minus;
        let horizontal = ((equal & self.plus).wrapping_add(self.plus) ^ self.plus) | equal;
        let plus = self.minus | !(horizontal | self.plus);
        let minus = self.plus & horizontal;
        let out = (plus >> self.last & 1) | (minus >> self.last & 1) << 1;
        let plus = plus << 1 | above_plus;
        let minus = minus << 1 | above_minus;
        self.plus = minus | !(vertical | plus);
        self.minus = plus & vertical;
        out as u8
    }
}

/// The distance between two strings of which neither is empty if it is at most `k`, which is at
/// least the difference of their lengths.
///
/// Cells outside the band count as if they were reached straight along a row or a column from the
/// band: never less than their value, and exact wherever a path within the bound goes.
fn blocked<T: Symbol>(
    scratch: &mut Scratch,
    pattern: &[T],
    text: &[T],
    k: usize,
    meter: &mut Meter<'_, impl FnMut() -> bool>,
) -> Result<Option<usize>, Cancelled> {
    let band = Band::new(pattern.len(), text.len(), k);
    let carries = &mut scratch.carries;
    carries.clear();
    carries.resize(text.len(), 1);
    // The value at the bottom of the blocks above, before their first column that the next need.
    let mut above = 0;
    let mut score = 0;
    for (block, part) in pattern.chunks(64).enumerate() {
        let first = block * 64;
        let next = first + part.len();
        let columns = band.columns(first..next);
        // The corner at which the next blocks start.
        let corner = band.columns(next..next).start.clamp(columns.start, columns.end);
        let mut least = usize::MAX;
        score = above + part.len();
        above = score;
        scratch.masks.with(part, |masks| {
            let mut column = Column::new(part.len());
            let mut at = columns.start;
            least = score + band.rest(next, at);
            while at < columns.end {
                let limit = if at < corner { corner } else { columns.end };
                let end = limit.min(at + COLUMNS);
                meter.add((end - at) * 64)?;
                for (j, (&symbol, carry)) in
                    text[at..end].iter().zip(&mut carries[at..end]).enumerate()
                {
                    let out = column.step(masks.of(symbol), *carry);
                    *carry = out;
                    score = score + usize::from(out & 1) - usize::from(out >> 1);
                    least = least.min(score + band.rest(next, at + j + 1));
                }
                at = end;
                if at == corner {
                    above = score;
                }
            }
            Ok(())
        })?;
        if least > k {
            return Ok(None);
        }
        // Beyond the columns of this row of blocks, cells ascend by one: the carries are still 1.
    }
    Ok((score <= k).then_some(score))
}
