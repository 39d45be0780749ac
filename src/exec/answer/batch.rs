//! Probe batches whose matches are being found.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Collection, ItemId, ProbeUnit};
use crate::exec::build_side::BuildSide;
use crate::exec::layout::JoinLayout;
use crate::exec::rows::payload::Payload;
use crate::exec::rows::visited::Visit;

/// Probe items that were fed to the cursor together, and their rows.
pub(crate) struct ProbeBatch {
    /// The number of the batch's [`ProbeUnit`].
    pub number: u32,
    pub items: Arc<dyn Collection>,
    pub range: Range<ItemId>,
    pub payload: Arc<Payload>,
    /// Whether this batch gives out the rows without items.
    pub has_itemless: bool,
    /// The visit of rows that may meet several pieces of the build side.
    pub visit: Option<Visit>,
    /// By place, the ranks of the rows among the build rows; `None` where the rows have no ranks,
    /// or are build rows themselves.
    pub ranks: Option<Vec<u32>>,
    /// By item, the place of its least row by the row order, where pairs of first rows are given; `None` where the
    /// rows are build rows, which ascend within an item.
    pub firsts: Option<Vec<u32>>,
    /// Whether matches of its items tell everything, where those of other batches may not.
    pub items_suffice: bool,
    pub counted: MatchCounts,
    /// Rows of pairs that are materialised at once.
    pub rows_at_once: usize,
    /// The bytes reserved for the batch.
    pub bytes: usize,
}

impl ProbeBatch {
    /// The batch as the cursor takes it.
    pub(crate) fn unit(&self) -> ProbeUnit {
        let (number, range) = (self.number, self.range.clone());
        ProbeUnit::new(number, Arc::clone(&self.items), range)
    }

    /// Whether the batch counts the matches of its rows.
    pub(crate) fn is_counted(&self) -> bool {
        !self.counted.matches.is_empty()
    }

    /// Whether every row of an item has a match, where rows are counted.
    pub(crate) fn has_matched(&self, item: ItemId) -> bool {
        let MatchCounts { matches, first_place, .. } = &self.counted;
        let has_match = |place: u32| matches.get((place - first_place) as usize) > Some(&0);
        self.items.groups().slots(item..item + 1).all(has_match)
    }
}

/// The numbers of matches of the probe rows of a batch.
#[derive(Debug, Default)]
pub(crate) struct MatchCounts {
    /// The row pairs found, by item of the batch's range or, where a residual decides, by place.
    pub matches: Vec<u64>,
    /// By counted column, the row pairs in which the column is not NULL; empty where all row pairs
    /// count.
    pub non_null: Vec<Vec<u64>>,
    /// The place of the batch's first row.
    pub first_place: u32,
}

impl MatchCounts {
    /// Counts of 0 for the items or rows of `batch`, where `layout` counts probe rows.
    pub(crate) fn of_batch(layout: &JoinLayout, batch: &ProbeBatch, build: &BuildSide) -> Self {
        let places = batch.items.groups().slots(batch.range.clone());
        let Some(len) = Self::len(layout, batch) else { return Self::default() };
        let partners = build.partners.iter();
        Self {
            matches: vec![0; len],
            non_null: partners.map(|p| vec![0; if p.is_some() { len } else { 0 }]).collect(),
            first_place: places.start,
        }
    }

    /// The number of items or rows of a batch that have counts; `None` where nothing is counted.
    fn len(layout: &JoinLayout, batch: &ProbeBatch) -> Option<usize> {
        let rows = batch.items.groups().slots(batch.range.clone()).len();
        match (layout.counts_probe(), layout.items_decide()) {
            (false, _) => None,
            (true, true) => Some(batch.range.len()),
            (true, false) => Some(rows),
        }
    }

    /// The bytes that [`Self::of_batch`] takes.
    pub(crate) fn bytes_of_batch(
        layout: &JoinLayout,
        batch: &ProbeBatch,
        build: &BuildSide,
    ) -> usize {
        let columns = build.partners.iter().flatten().count();
        Self::len(layout, batch).map_or(0, |len| (1 + columns) * len * size_of::<u64>())
    }

    /// The bytes for `rows` rows of an input joined with itself, of which all may have one item,
    /// and `columns` counted columns. Where items decide, batches are short.
    pub(crate) fn footprint(layout: &JoinLayout, rows: usize, columns: usize) -> usize {
        match layout.counts_probe() && !layout.items_decide() {
            true => (1 + columns) * rows * size_of::<u64>(),
            false => 0,
        }
    }
}
