//! Rows that are listed one by one, in the order of their places.

use std::ops::Range;

use crate::engine::{ItemId, RowGroups};
use crate::exec::answer::batch::ProbeBatch;
use crate::exec::sink::Listed;

/// The rows on their way out.
pub(super) enum Listing {
    Probe(RowEmission),
    /// Build rows, once all partitions have ended.
    Build(RowWalk),
}

/// The probe rows of a batch on their way out.
pub(super) struct RowEmission {
    pub batch: ProbeBatch,
    pub listed: Listed,
    pub walk: RowWalk,
}

/// A walk over the rows of some items, and then over those without an item.
#[derive(Debug)]
pub(super) struct RowWalk {
    /// The item of the next row.
    item: ItemId,
    next: u32,
    end: u32,
    /// Places of rows without an item.
    itemless: Range<u32>,
}

impl RowWalk {
    /// A walk over the rows of `range`, and with `itemless` over the rows without an item.
    pub(super) fn new(groups: &RowGroups, range: Range<ItemId>, itemless: bool) -> Self {
        let places = groups.slots(range.clone());
        Self {
            item: range.start,
            next: places.start,
            end: places.end,
            itemless: if itemless { groups.slots_without_item() } else { 0..0 },
        }
    }

    /// The next row: its place, and its item where it has one.
    pub(super) fn next(&mut self, groups: &RowGroups) -> Option<(u32, Option<ItemId>)> {
        if self.next == self.end {
            return self.itemless.next().map(|place| (place, None));
        }
        let place = self.next;
        self.next += 1;
        while groups.slots(self.item..self.item + 1).end <= place {
            self.item += 1;
        }
        Some((place, Some(self.item)))
    }
}
