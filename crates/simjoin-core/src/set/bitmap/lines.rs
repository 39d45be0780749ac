//! Lines of signatures: a word of each of eight sets.

/// Sets abreast in a block.
pub(super) const ABREAST: usize = 8;
/// Probe sets tested together against a block.
pub(super) const GROUP: usize = 4;

/// A word of eight sets.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u64; ABREAST]);

impl Line {
    pub(super) const EMPTY: Self = Self([0; ABREAST]);
    pub(super) const FULL: Self = Self([u64::MAX; ABREAST]);

    /// The word of a lane.
    #[inline]
    pub(super) fn lane(&self, lane: usize) -> u64 {
        self.0[lane]
    }

    /// Replaces the word of a lane.
    #[inline]
    pub(super) fn put(&mut self, lane: usize, bits: u64) {
        self.0[lane] = bits;
    }

    /// Adds bits to the word of a lane.
    #[inline]
    pub(super) fn unite(&mut self, lane: usize, bits: u64) {
        self.0[lane] |= bits;
    }
}
