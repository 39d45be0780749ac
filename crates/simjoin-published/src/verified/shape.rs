//! The shape of a chunk of candidates, and the form of a kernel's answer.

/// The form of a kernel's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Every match, in any order.
    Pairs,
    /// The number of matches, in pairs of sets and pairs of rows.
    Count,
}

/// The sizes of a chunk of candidates, by which its kernel is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkShape {
    pub groups: u32,
    pub candidates: u32,
    /// Tokens of the largest probe set, and of a candidate's probe set on average.
    pub greatest_probe: u32,
    pub average_probe: u32,
    /// Tokens are ranks below this.
    pub universe: u32,
}

impl ChunkShape {
    /// Candidates of a group on average.
    pub(super) fn group(&self) -> u32 {
        self.candidates / self.groups.max(1)
    }
}

/// Words of shared memory that a block has on every device without asking for more, less those
/// that kernels declare themselves.
pub(super) const SHARED_WORDS: u32 = 11 * 1024;
