//! Damerau and Levenshtein's unrestricted distance: Lowrance and Wagner ("An extension of the
//! string-to-string correction problem", JACM 1975), by bit vectors as in [Levenshtein's](super::Levenshtein).
//!
//! A transposition that ends in the cell (i, j) starts in (k − 1, l − 1), where k is the last row
//! before i that holds the symbol of column j, and l the last column before j that holds the symbol
//! of row i. It costs i − k + j − l − 1. Only those with l = j − 1 or k = i − 1 can be better than
//! substitutions (Zhao and Sahni, "String correction using the Damerau-Levenshtein distance", BMC
//! Bioinformatics 2019). A value is that of the cell before it on its diagonal or one more, and
//! neighbours differ by at most one. So a transposition matters only where it gives the value before on
//! the diagonal, (i − 1, j − 1), and this is as far from (k − 1, l − 1) as can be: one more at (k, l), and one more
//! in each step from there, along the row for k = i − 1 and along the column for l = j − 1. Bits follow these
//! steps, along rows from column to column and along a column by the carries of an addition.

use std::ops::ControlFlow;

use super::band::Band;
use super::blocks::{ASCENDS, Column, DESCENDS, blocked, one_word};
use super::edits::Edits;
use super::masks::Symbol;
use super::meter::{Cancelled, Meter};
use super::scratch::Scratch;

/// Insertions, deletions, substitutions and transpositions of neighbours; between two symbols that are
/// transposed there may be other edits.
pub(crate) struct Damerau;

impl Edits for Damerau {
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
        let distance = scratch
            .masks
            .with(long, |masks| one_word::<Differences, T>(masks, long.len(), short, k));
        ControlFlow::Break(distance)
    }

    /// A transposition reads cells one diagonal beside the path, hence the wider band.
    fn in_band<T: Symbol>(
        scratch: &mut Scratch,
        [long, short]: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<Option<usize>, Cancelled> {
        let band = Band::new(long.len(), short.len(), k).wider(2);
        blocked::<Differences, T>(scratch, long, short, (band, k), meter)
    }
}

/// The bit of a carry that says that the last row holds the symbol of the column.
const EQUAL: u8 = 4;

/// The bit of a carry that says that the value of the last row is that before it on the diagonal.
const STAYS: u8 = 8;

/// The bit of a carry that says that the column has ascended by one in each step from the row that holds the
/// symbol of the next column and is one more than the value before it on the diagonal.
const CLIMBS: u8 = 16;

/// The vertical differences of a column, and what transpositions with the next one need.
struct Differences {
    plus: u64,
    minus: u64,
    /// The rows that hold the symbol.
    equal: u64,
    /// The rows with the value before on the diagonal.
    stays: u64,
    /// The rows above which the values have ascended by one in each step from the last column with the symbol
    /// of the row, where the value above is one more than that before it on the diagonal.
    climbs: u64,
    /// The number of the last row.
    last: u32,
}

impl Column for Differences {
    // The value before on the diagonal of a cell outside is not known: no transposition starts there.
    const OUTSIDE: u8 = ASCENDS | STAYS;

    #[inline(always)]
    fn new(rows: usize) -> Self {
        Self { plus: !0, minus: 0, equal: 0, stays: 0, climbs: 0, last: rows as u32 - 1 }
    }

    #[inline(always)]
    fn step(&mut self, equal: u64, above: u8) -> u8 {
        let above = |bit: u8| u64::from((above / bit) & 1);
        let along_row = self.climbs & (equal << 1 | above(EQUAL));
        // From the row below a start on, as far as the column ascends and does not hold the symbol again.
        let starts = equal & !self.stays;
        let below = starts << 1 | above(CLIMBS);
        let ascending = self.plus & !equal;
        let (sum, over) = (below & ascending).overflowing_add(ascending);
        let along_column = self.equal & (below | (sum ^ ascending));
        let minus_above = above(DESCENDS);
        let vertical = equal | self.minus | along_row | along_column;
        let reached = equal | minus_above;
        let stays =
            ((reached & self.plus).wrapping_add(self.plus) ^ self.plus) | reached | vertical;
        let up = self.minus | !(stays | self.plus);
        let down = self.plus & stays;
        let at_last = |bits: u64, bit: u8| (bits >> self.last & 1) as u8 * bit;
        let out = at_last(up, ASCENDS)
            | at_last(down, DESCENDS)
            | at_last(equal, EQUAL)
            | at_last(stays, STAYS)
            | at_last(starts, CLIMBS)
            | (u8::from(over) * CLIMBS);
        let up = up << 1 | above(ASCENDS);
        let down = down << 1 | minus_above;
        let first = equal & !(stays << 1 | above(STAYS));
        self.climbs = first | (!equal & self.climbs & up);
        self.plus = down | !(vertical | up);
        self.minus = up & vertical;
        self.equal = equal;
        self.stays = stays;
        out
    }
}
