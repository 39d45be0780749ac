//! The shares of a memory limit.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};

use crate::config::{SimJoinOptions, SpillChoice};
use crate::disk::SegmentLimits;

/// The part of the memory that the joins of the rounds have at least, beside rows on disk and beside others, and the
/// bytes that they have where these are half of it at most.
const PART_OF_JOINS: [f64; 2] = [0.4, 0.25];
const BYTES_OF_JOINS: usize = 4 << 20;

/// The pieces of a window that is full.
const PIECES_OF_WINDOW: usize = 10;

/// The bytes of a piece on disk, at least and at most.
const PIECE_BYTES: [usize; 2] = [16 << 10, 64 << 20];

/// The bytes of a budget with a window of the least pieces.
const LEAST_BYTES: usize = 4 * PIECES_OF_WINDOW * PIECE_BYTES[0];

/// The bytes that the rows and the heaps of a search may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchBudget {
    /// Where rows are on disk.
    bytes: usize,
    /// Where all rows are in memory.
    in_memory: usize,
    /// The most rows of a piece on disk.
    piece_rows: Option<usize>,
    spill: SpillChoice,
}

impl SearchBudget {
    /// The budget of a search that begins now.
    pub(super) fn new(pool: &Arc<dyn MemoryPool>, options: &SimJoinOptions) -> Self {
        let [bytes, in_memory] = PART_OF_JOINS.map(|part| match pool.memory_limit() {
            MemoryLimit::Finite(limit) => {
                let left = limit.saturating_sub(pool.reserved());
                let part = (left as f64 * part) as usize;
                left - part.max(BYTES_OF_JOINS.min(left / 2))
            }
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        });
        let piece_rows = options.spill_piece_rows.0;
        Self { bytes, in_memory, piece_rows, spill: options.spill }
    }

    /// The budget where no more than `held` bytes were to be had: a batch that was refused may be the first one.
    pub(super) fn within(self, held: usize) -> Self {
        let held = held.max(LEAST_BYTES);
        let [bytes, in_memory] = [self.bytes, self.in_memory].map(|bytes| bytes.min(held));
        Self { bytes, in_memory, ..self }
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
            true if itself => self.in_memory / 4 * 3,
            true => self.in_memory / 2,
            false => usize::MAX,
        }
    }

    /// The bytes of the right rows on disk that are in memory at a time. Left rows take more of the joins' memory.
    pub(super) fn window(&self) -> usize {
        self.bytes / 4
    }

    /// The bytes of the left rows that are searched for together, beside windows of right rows on disk.
    pub(super) fn beside_windows(&self) -> usize {
        self.bytes / 5
    }

    /// The bytes of the left rows that are searched for together, beside right rows of `right` bytes in memory.
    pub(super) fn left(&self, right: usize) -> usize {
        (self.in_memory / 4 * 3).saturating_sub(right).max(self.in_memory / 4)
    }

    /// The bytes of the heaps of left rows.
    pub(super) fn heaps(&self) -> usize {
        self.bytes / 4
    }

    /// The pieces on disk: a window has some of them, so that little of its room is left.
    pub(super) fn pieces(&self) -> SegmentLimits {
        let [least, most] = PIECE_BYTES;
        let bytes = (self.window() / PIECES_OF_WINDOW).clamp(least, most);
        SegmentLimits {
            buffer_bytes: bytes,
            // A segment has up to half as many more bytes, and less than twice as many rows.
            segment_bytes: bytes / 3 * 2,
            most_segment_bytes: bytes,
            segment_rows: self.piece_rows().div_ceil(2),
        }
    }

    /// The most rows of a piece on disk, and of the rows in memory where pieces are.
    pub(super) fn piece_rows(&self) -> usize {
        self.piece_rows.unwrap_or(usize::MAX).max(1)
    }
}
