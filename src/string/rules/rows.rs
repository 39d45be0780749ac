//! The rows of a matrix that a distance with transpositions looks back at.

/// A value beyond every distance that can still grow.
pub(super) const FAR: u32 = u32::MAX / 2;

/// The part of the matrix that is kept: two rows, and for each column the last row that holds its symbol.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// The row at hand, and before it is computed the last but one; cell 0 lies before column 0.
    pub current: Vec<u32>,
    pub previous: Vec<u32>,
    /// For each column, the last row in the band that holds its symbol, and the value of the cell
    /// from which a transposition with that row starts.
    pub seen: Vec<(u32, u32)>,
}

impl Rows {
    /// The row before the first: values up to column `end`, none behind.
    pub(super) fn reset(&mut self, columns: usize, end: usize) {
        self.current.clear();
        self.current.resize(columns + 2, FAR);
        self.previous.clear();
        self.previous.resize(columns + 2, FAR);
        for (value, cell) in self.current[1..=end + 1].iter_mut().enumerate() {
            *cell = value as u32;
        }
        self.seen.clear();
        self.seen.resize(columns + 1, (0, FAR));
    }
}
