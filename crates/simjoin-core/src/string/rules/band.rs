//! The diagonals of a matrix that a path of bounded cost can touch.

use std::ops::Range;

/// The columns of a matrix of `rows` × `columns` cells that a path of at most `k` insertions and
/// deletions touches in some row: a path ends `columns - rows` diagonals to the right of its start
/// and needs two edits for each diagonal that it goes astray.
#[derive(Debug, Clone, Copy)]
pub(super) struct Band {
    rows: usize,
    columns: usize,
    left: usize,
    right: usize,
}

impl Band {
    /// The band for `k`, which is at least the difference of the lengths.
    pub(super) fn new(rows: usize, columns: usize, k: usize) -> Self {
        let astray = (k - rows.abs_diff(columns)) / 2;
        Self {
            rows,
            columns,
            left: rows.saturating_sub(columns) + astray,
            right: columns.saturating_sub(rows) + astray,
        }
    }

    /// This band with `more` diagonals on both sides.
    pub(super) fn wider(self, more: usize) -> Self {
        Self { left: self.left + more, right: self.right + more, ..self }
    }

    /// The columns, counted from 0, of the rows `rows`, counted from 0.
    #[inline]
    pub(super) fn columns(&self, rows: Range<usize>) -> Range<usize> {
        let first = rows.start.saturating_sub(self.left).min(self.columns);
        first..(rows.end + self.right).min(self.columns)
    }

    /// The edits that lead at least from the corner (`row`, `column`) to the last corner.
    #[inline]
    pub(super) fn rest(&self, row: usize, column: usize) -> usize {
        (self.rows - row).abs_diff(self.columns - column)
    }
}

/// The distance of two strings whose lengths differ by `difference` if it is at most `k`: `within` gets
/// one bound after the other, each twice the one before, until one holds.
pub(super) fn widening<E>(
    difference: usize,
    k: usize,
    step: usize,
    mut within: impl FnMut(usize) -> Result<Option<usize>, E>,
) -> Result<Option<usize>, E> {
    let mut bound = first_bound(difference, k, step);
    loop {
        let found = within(bound)?;
        if found.is_some() || bound == k {
            return Ok(found);
        }
        bound = (2 * bound).min(k);
    }
}

/// The first bound that is tried in place of `k`, for lengths that differ by `difference`: `step` edits
/// more, unless `k` is so near that most strings beyond the first would be given up nearly as soon.
fn first_bound(difference: usize, k: usize, step: usize) -> usize {
    let first = difference + step;
    if k <= difference + 4 * step { k } else { first }
}
