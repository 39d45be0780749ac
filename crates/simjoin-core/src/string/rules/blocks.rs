//! Matrices of distances in blocks of 64 × 1 cells, each a few words of bits.
//!
//! Strings beyond 64 symbols are swept in rows of blocks, one row of blocks after the other, within the
//! band of a bound: so one table of masks suffices, and of the row above only a few bits of each
//! column are kept.

use super::band::Band;
use super::masks::{Masks, Symbol};
use super::meter::{CELLS, Cancelled, Meter};
use super::scratch::Scratch;

/// The columns of a sweep over 64 rows between two questions whether to stop.
const COLUMNS: usize = CELLS / 64;

/// The bit of a carry that says that the last row ascends by one from the column before.
pub(super) const ASCENDS: u8 = 1;

/// The bit of a carry that says that the last row descends by one.
pub(super) const DESCENDS: u8 = 0x80;

/// A column of at most 64 cells of a distance whose neighbouring cells differ by at most one.
pub(super) trait Column {
    /// The carry of a column that was not computed, which counts as reached along the row.
    const OUTSIDE: u8;

    /// A column whose `rows` cells ascend by one from row to row.
    fn new(rows: usize) -> Self;

    /// Goes on to the next column, whose symbol stands in the rows `equal`. `above` is the carry of the row
    /// above, the result that of the last row.
    fn step(&mut self, equal: u64, above: u8) -> u8;
}

/// The distance between a pattern of `rows` (1 to 64) symbols and a text, if it is at most `k`.
#[inline]
pub(super) fn one_word<C: Column, T: Symbol>(
    masks: &Masks,
    rows: usize,
    text: &[T],
    k: usize,
) -> Option<usize> {
    let mut column = C::new(rows);
    // The score sinks by at most one for each symbol that is left.
    let mut most = (k + text.len()) as isize;
    let mut score = rows as isize;
    for &symbol in text {
        let out = column.step(masks.of(symbol), C::OUTSIDE);
        score += isize::from(out & ASCENDS) - isize::from(out >> 7);
        most -= 1;
        if score > most {
            return None;
        }
    }
    Some(score as usize)
}

/// The distance between two strings of which neither is empty if it is at most `k`, by the blocks of `band`,
/// in which every path within the bound lies.
///
/// Cells outside the band count as if they were reached straight along a row or a column from the
/// band: never less than their value, and exact wherever a path within the bound goes.
pub(super) fn blocked<C: Column, T: Symbol>(
    scratch: &mut Scratch,
    pattern: &[T],
    text: &[T],
    (band, k): (Band, usize),
    meter: &mut Meter<'_, impl FnMut() -> bool>,
) -> Result<Option<usize>, Cancelled> {
    let carries = &mut scratch.carries;
    carries.clear();
    carries.resize(text.len(), C::OUTSIDE);
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
            let mut column = C::new(part.len());
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
                    score = score + usize::from(out & ASCENDS) - usize::from(out >> 7);
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
        // Beyond the columns of this row of blocks, the carries are still those of cells outside.
    }
    Ok((score <= k).then_some(score))
}
