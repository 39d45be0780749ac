//! Marks for build sets or rows that have a match.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bitmap that all probe partitions set bits of.
#[derive(Debug)]
pub(crate) struct Visited {
    words: Vec<AtomicU64>,
}

impl Visited {
    pub fn new(len: usize) -> Self {
        let mut words = Vec::new();
        words.resize_with(len.div_ceil(64), AtomicU64::default);
        Self { words }
    }

    /// The bytes of a bitmap of `len` bits.
    pub fn footprint(len: usize) -> usize {
        len.div_ceil(64) * size_of::<AtomicU64>()
    }

    /// Marks `index`; whether it was not marked before.
    #[inline]
    pub fn mark(&self, index: usize) -> bool {
        let word = &self.words[index / 64];
        let bit = 1 << (index % 64);
        // Most marks repeat: reading first keeps the cache line shared.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether `index` was marked. All marks of a partition are seen once that partition's end
    /// has been observed through an acquiring operation.
    #[inline]
    pub fn is_marked(&self, index: usize) -> bool {
        self.words[index / 64].load(Ordering::Relaxed) & (1 << (index % 64)) != 0
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
