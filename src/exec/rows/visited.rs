//! Marks for items of the build side, or rows of either side, that have a match.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::BooleanArray;

/// A bitmap in which all probe partitions mark bits.
#[derive(Debug)]
pub(crate) struct Visited {
    words: Vec<AtomicU64>,
}

impl Visited {
    pub(crate) fn new(len: usize) -> Self {
        let mut words = Vec::new();
        words.resize_with(len.div_ceil(64), AtomicU64::default);
        Self { words }
    }

    /// The bytes of a bitmap of `len` bits.
    pub(crate) fn footprint(len: usize) -> usize {
        len.div_ceil(64) * size_of::<AtomicU64>()
    }

    /// Marks `index`; whether it was not marked before.
    #[inline]
    pub(crate) fn mark(&self, index: usize) -> bool {
        let word = &self.words[index / 64];
        let bit = 1 << (index % 64);
        // Most marks repeat: reading first keeps the cache line shared.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether `index` was marked. All marks of a partition are seen once that partition's end
    /// has been observed through an acquiring operation.
    #[inline]
    pub(crate) fn is_marked(&self, index: usize) -> bool {
        self.words[index / 64].load(Ordering::Relaxed) & (1 << (index % 64)) != 0
    }
}

/// The marks of a batch's probe rows from the pieces that they have met.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub marks: Option<Arc<Visited>>,
    /// The number of the first row in its side.
    pub first_row: u64,
    /// No later piece meets these rows.
    pub is_last: bool,
}

impl Visit {
    /// Whether a row, counted from the first one on, has a match.
    pub(crate) fn is_marked(&self, row: u32) -> bool {
        let index = (self.first_row + u64::from(row)) as usize;
        self.marks.as_ref().is_some_and(|marks| marks.is_marked(index))
    }

    /// The marks of the rows behind the first `rows`.
    pub(crate) fn skip(self, rows: usize) -> Self {
        Self { first_row: self.first_row + rows as u64, ..self }
    }

    /// Notes that a row has a match; whether it is its first one.
    pub(crate) fn mark(&self, row: u32) -> bool {
        let index = (self.first_row + u64::from(row)) as usize;
        self.marks.as_ref().is_none_or(|marks| marks.mark(index))
    }

    /// A mask of the first `rows` rows: those without a match so far. `None` where none of them has a match.
    pub(crate) fn without_match(&self, rows: usize) -> Option<BooleanArray> {
        let any = (0..rows as u32).any(|row| self.is_marked(row));
        any.then(|| (0..rows as u32).map(|row| Some(!self.is_marked(row))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stay_apart() {
        let visited = Visited::new(130);
        let new = [0, 63, 64, 129, 129].map(|i| visited.mark(i));
        assert_eq!(new, [true, true, true, true, false]);
        let marked: Vec<usize> = (0..130).filter(|&i| visited.is_marked(i)).collect();
        assert_eq!(marked, [0, 63, 64, 129]);
    }
}
