//! Damerau and Levenshtein's unrestricted distance: Lowrance and Wagner ("An extension of the
//! string-to-string correction problem", JACM 1975) in space linear in the shorter length as Zhao and
//! Sahni have it ("String correction using the Damerau-Levenshtein distance", BMC Bioinformatics
//! 2019), within the band of a bound that is doubled until it holds.
//!
//! A transposition that ends in the cell (i, j) starts in (k − 1, l − 1), where k is the last row
//! before i that holds the symbol of column j, and l the last column before j that holds the symbol
//! of row i. Only those with l = j − 1 or k = i − 1 can be better than substitutions.

use super::band::Band;
use super::edits::Edits;
use super::masks::Symbol;
use super::rows::{FAR, Rows};
use super::scratch::{Cancelled, Meter, Scratch};

/// Insertions, deletions, substitutions and transpositions of neighbours; between two symbols that are
/// transposed there may be other edits.
pub(crate) struct Damerau;

impl Edits for Damerau {
    const FIRST_BOUND: usize = 32;

    fn most(long: usize, _: usize) -> usize {
        long
    }

    /// A transposition reads cells one diagonal beside the path, hence the wider band; cells outside
    /// it count as far.
    fn in_band<T: Symbol>(
        scratch: &mut Scratch,
        [a, b]: [&[T]; 2],
        k: usize,
        meter: &mut Meter<'_, impl FnMut() -> bool>,
    ) -> Result<Option<usize>, Cancelled> {
        let band = Band::new(a.len(), b.len(), k).wider(2);
        let rows = &mut scratch.rows;
        rows.reset(b.len(), band.columns(0..0).end);
        for (row, &symbol) in a.iter().enumerate() {
            let columns = band.columns(row..row + 1);
            meter.add(16 * columns.len())?;
            std::mem::swap(&mut rows.current, &mut rows.previous);
            let first = columns.start;
            let mut line = Line {
                row: row as u32 + 1,
                left: if first == 0 { row as u32 + 1 } else { FAR },
                before: rows.current[first + 1],
                match_column: usize::MAX,
                match_value: FAR,
            };
            rows.current[first + 1] = line.left;
            let mut least = line.left;
            for column in columns {
                least = least.min(line.cell(rows, column, symbol == b[column]));
            }
            if least as usize > k {
                return Ok(None);
            }
        }
        let distance = rows.current[b.len() + 1] as usize;
        Ok((distance <= k).then_some(distance))
    }
}

/// A row of the matrix while its cells are computed from left to right.
struct Line {
    /// The number of the row, from 1 on.
    row: u32,
    /// The value of the cell on the left.
    left: u32,
    /// The value two rows above the cell on the left.
    before: u32,
    /// The last column that holds the row's symbol.
    match_column: usize,
    /// The value from which a transposition with that column starts, if the row above holds the
    /// other symbol.
    match_value: u32,
}

impl Line {
    /// Computes and returns the cell of a column, counted from 0.
    #[inline(always)]
    fn cell(&mut self, rows: &mut Rows, column: usize, equal: bool) -> u32 {
        // In both rows, the cell of column `c` is at `c + 2`; behind it, the border is at 1.
        let at = column + 2;
        let up = rows.previous[at];
        let diagonal = rows.previous[at - 1] + u32::from(!equal);
        let mut value = diagonal.min(self.left + 1).min(up + 1);
        if equal {
            self.match_column = column;
            self.match_value = self.before;
            rows.seen[column] = (self.row, rows.previous[at - 2]);
        } else {
            let (row, start) = rows.seen[column];
            if self.match_column.wrapping_add(1) == column {
                value = value.min(start + (self.row - row));
            } else if self.row - row == 1 && self.match_column != usize::MAX {
                value = value.min(self.match_value + (column - self.match_column) as u32);
            }
        }
        self.before = rows.current[at];
        rows.current[at] = value;
        self.left = value;
        value
    }
}
