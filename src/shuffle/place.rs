//! The places of rows on the axis of a side.

use std::ops::Range;

use crate::engine::RowPlace;

/// Rows with blocking keys are told apart by this many classes of their keys' hashes.
pub(crate) const KEY_CLASSES: u32 = 256;

/// A place on the axis of a side: from above, 32 bits of the position of an item, 20 of its hash,
/// and 12 of a hash of the row, which tell rows with the same item apart.
pub type Place = u64;

/// The number of places that share an item, or items with similar hashes.
pub(crate) const BLOCK: Place = 1 << 12;

/// A tile, and the places on a side's axis whose rows are joined there.
pub(crate) type PlacesOfTile = (Range<Place>, u32);

/// The start of the block of a row's item.
pub(crate) fn block_of(shape: RowPlace) -> Place {
    (u64::from(shape.position) << 32) + u64::from(shape.hash) / BLOCK * BLOCK
}

/// The place of a row; `row_hash` is the hash of all its columns.
pub fn place_of(shape: RowPlace, row_hash: u64) -> Place {
    block_of(shape) + row_hash % BLOCK
}
