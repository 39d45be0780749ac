//! A line on which rows lie such that partners lie within a known reach of each other.

use std::fmt::Debug;
use std::ops::Range;

use super::EncodeInput;
use crate::error::Result;
use crate::predicate::Side;

/// The position of a row whose partners may have any position.
pub const ANYWHERE: u32 = u32::MAX - 1;

/// The line on which a family places rows: by the size of their set, by the norm of their vector.
///
/// Bands and pieces on disk, and the tiles of a cluster, are intervals of the line. A position is a
/// number from 1 on; 0 says that a row can match nothing. On some axes rows may also lie
/// [`ANYWHERE`]: they meet every row, and every row meets them.
pub trait Axis: Debug + Send + Sync {
    /// The positions that partners of rows of `side` at `positions` may have, those of rows that lie
    /// [`ANYWHERE`] left out; `None` when none can match. The range covers the partners of every position
    /// in `positions`, which must not contain [`ANYWHERE`].
    fn reach(&self, side: Side, positions: Range<u32>) -> Option<Range<u64>>;

    /// Whether rows may lie [`ANYWHERE`].
    fn has_anywhere(&self) -> bool {
        false
    }

    /// The position up to which rows match only rows with an equal item, on either side; 0 where there
    /// is none. Such rows may be kept apart by a hash of their items.
    fn equal_up_to(&self) -> u32 {
        0
    }

    /// The elementary values (tokens of a set, dimensions of a vector) of an item at a position,
    /// which its bytes and the work for it follow. Every item is one by itself unless it says otherwise.
    fn weight(&self, _position: u32) -> u64 {
        1
    }
}

/// The place of a row, by which a sender finds the tasks of a cluster that may join it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowPlace {
    /// The position on the [`Axis`] among rows of its kind; 0 where the row cannot match anything.
    pub position: u32,
    /// The kind of the row, such as the length of its vector. Positions of different kinds cannot be
    /// compared: on an axis with [`Axis::has_anywhere`], the greatest kind of a join keeps its positions, and
    /// rows of other kinds lie [`ANYWHERE`].
    pub kind: u32,
    /// A hash of the item, the same for equal items in every process.
    pub hash: u32,
    /// A hash of the blocking key, the same for equal keys in every process; 0 where the join has
    /// none.
    pub key_hash: u32,
}

/// Reads the places of rows; keeps its buffers from batch to batch.
pub trait PlaceReader: Debug + Send {
    /// Puts the places of the rows of a batch into `places`, instead of its contents.
    ///
    /// # Errors
    ///
    /// When a row cannot be an item.
    fn read(&mut self, input: &EncodeInput<'_>, places: &mut Vec<RowPlace>) -> Result<()>;
}
