//! Matches that are counted, not given as pairs.

use std::ops::Range;

use crate::engine::{Collection, ItemId, RowPairCounts};
use crate::vector::collection::Vectors;
use crate::vector::tile::{PANEL, for_each_lane};

/// The lanes of the items of a range among the sixteen from `first` on.
pub(super) fn lanes_of(first: ItemId, items: Range<ItemId>) -> u16 {
    let below = |item: ItemId| (1_u32 << item.saturating_sub(first).min(PANEL as u32)) - 1;
    (below(items.end) & !below(items.start)) as u16
}

/// Matches of different items that are not given as pairs.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub pairs: u64,
    pub rows: RowPairCounts,
}

impl Counted {
    /// Adds those of a probe item with some of sixteen build items: of all, the rows at once.
    pub(super) fn add(
        &mut self,
        probe: ItemId,
        build: ItemId,
        some: u16,
        [items, of_build]: [&Vectors; 2],
    ) {
        if some == 0 {
            return;
        }
        let groups = of_build.groups();
        self.pairs += u64::from(some.count_ones());
        let mut others = 0;
        match some {
            _ if groups.has_no_repeats() => others = u64::from(some.count_ones()),
            u16::MAX => others = groups.slots(build..build + PANEL as ItemId).len() as u64,
            _ => for_each_lane(some, |lane| {
                others += u64::from(groups.row_count_of(build + lane as ItemId));
            }),
        }
        self.rows.cross += u64::from(items.groups().row_count_of(probe)) * others;
    }
}
