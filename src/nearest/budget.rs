//! The shares of a memory limit.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};

use crate::config::{SimJoinOptions, SpillChoice};

/// The part of the memory that the joins of the rounds have at least, and the bytes that they have where these are
/// half of it at most.
const PART_OF_JOINS: usize = 4;
const BYTES_OF_JOINS: usize = 4 << 20;

/// The bytes of a piece on disk, at least and at most.
const PIECE_BYTES: [usize; 2] = [16 << 10, 64 << 20];

/// The bytes that the rows and the heaps of a search may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchBudget {
    bytes: usize,
    /// The most rows of a piece on disk.
    piece_rows: Option<usize>,
    spill: SpillChoice,
}

impl SearchBudget {
    /// The budget of a search that begins now.
    pub(super) fn new(pool: &Arc<dyn MemoryPool>, options: &SimJoinOptions) -> Self {
        let bytes = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => {
                let left = limit.saturating_sub(pool.reserved());
                let joins = (left / PART_OF_JOINS).max(BYTES_OF_JOINS.min(left / 2));
                left - joins
            }
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        Self { bytes, piece_rows: options.spill_piece_rows.0, spill: options.spill }
    }

    /// The budget where no more than `held` bytes were to be had.
    pub(super) fn within(self, held: usize) -> Self {
        Self { bytes: self.bytes.min(held), ..self }
    }

    /// Whether inputs go to disk in any case.
    pub(super) fn spills_always(&self) -> bool {
        self.spill == SpillChoice::Always
    }

    /// Whether inputs may go to disk.
    pub(super) fn may_spill(&self) -> bool {
        self.spill != SpillChoice::Never
    }

    /// The bytes up to which an input stays in memory whole: the right one, or the one that is both sides.
    pub(super) fn whole(&self, itself: bool) -> usize {
        match self.may_spill() {
            true if itself => self.bytes / 4 * 3,
            true => self.bytes / 2,
            false => usize::MAX,
        }
    }

    /// The bytes of the rows of an input on disk that are in memory at a time.
    pub(super) fn window(&self) -> usize {
        self.bytes / 4
    }

    /// The bytes of the left rows that are searched for together, beside right rows of `right` bytes.
    pub(super) fn left(&self, right: usize) -> usize {
        (self.bytes / 4 * 3).saturating_sub(right).max(self.bytes / 4)
    }

    /// The bytes of the heaps of left rows.
    pub(super) fn heaps(&self) -> usize {
        self.bytes / 4
    }

    /// The bytes of a piece on disk.
    pub(super) fn piece(&self) -> usize {
        let [least, most] = PIECE_BYTES;
        (self.bytes / 8).clamp(least, most)
    }

    /// The most rows of a piece on disk, and of the rows in memory where pieces are.
    pub(super) fn piece_rows(&self) -> usize {
        self.piece_rows.unwrap_or(usize::MAX).max(1)
    }
}
