//! The residuals that several strings of one collection have.
//!
//! Most residuals are of one string alone, and are of no use where strings look for each other. So all of
//! them are spread over parts by their hashes, and each part, which the caches hold, is thinned out and sorted: only
//! what is left is ever read at random places.

mod build;
mod parts;
mod probe;

use parts::spread_bytes;
pub(crate) use probe::{OwnProbes, OwnSearcher};

/// Groups of items that share a residual.
///
/// A residual is a number: from the highest bit on its hash, then its item, then whether the item has lost
/// as many symbols as it may, as the longer string of a match has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Own {
    /// The items of group `g` are `items[groups[g]..groups[g + 1]]`, in their order: each twice its number,
    /// and one where it has lost as many symbols as it may.
    groups: Vec<u32>,
    items: Vec<u32>,
    /// The groups of item `i` by residuals for which it may be the longer string:
    /// `of_items[item_starts[i]..item_starts[i + 1]]`.
    item_starts: Vec<u32>,
    of_items: Vec<u32>,
    k: u32,
}

impl Own {
    /// The bytes that groups of so many strings with so many residuals take at most, while they are made.
    pub(crate) fn bytes_for(count: u64, residuals: u64) -> u64 {
        // The item of a residual in a group, and half a group, in lists that grow or are copied; a group of its item.
        let each = 2 * 4 + 2 * 2 + 4;
        spread_bytes(residuals)
            .saturating_add(residuals.saturating_mul(each))
            .saturating_add(4 * (count + 1))
    }

    /// The bytes that the groups hold beyond their own size.
    pub(crate) fn bytes(&self) -> usize {
        let Self { groups, items, item_starts, of_items, .. } = self;
        4 * (groups.capacity() + items.capacity() + item_starts.capacity() + of_items.capacity())
    }

    /// The groups of an item.
    #[inline]
    fn groups_of(&self, item: u32) -> &[u32] {
        let starts = &self.item_starts[item as usize..];
        &self.of_items[starts[0] as usize..starts[1] as usize]
    }
}
