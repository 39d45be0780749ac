//! A join of left items with the right items, of which each left item keeps its nearest.

use std::ops::Range;
use std::sync::Arc;

use super::NeighbourRequest;
use super::nearest::NearestOfUnits;
use super::served::{FoundRows, ItemSearch, ServedRows, UnitRows, place_of};
use super::sides::LeftItems;
use crate::engine::probing::{PartSizes, ProbeItems, Probing, UnitSource, threads_of};
use crate::engine::{ItemBounds, Orders, Scratch};
use crate::error::Result;
use crate::memory::Memory;
use crate::top::{ScoreKey, TopK, key_of, score_of};
use crate::tuning::Size;
use crate::util::parallel::map;

/// The left rows that a search has served, and those that it has not.
#[derive(Default)]
pub(super) struct SearchedRows {
    pub found: Vec<FoundRows>,
    /// The numbers of rows whose items have too few neighbours within the bound, in rising order.
    pub others: Vec<u32>,
}

/// Neighbours of the left items that a thread takes together, at most.
const MOST_NEIGHBOURS: Size = Size { usual: 1 << 18, small: 1 << 6 };

/// Left items that a thread takes together where each unordered pair of items is found once, at most.
const MOST_ITEMS: Size = Size { usual: 1 << 14, small: 1 << 4 };

/// Left items that a thread takes together where each is looked up by itself.
const SHARE: Size = Size { usual: 256, small: 7 };

/// The bounds of some items: of the rows of an item, the one that admits most.
fn bounds_of(request: &NeighbourRequest<'_>, left: &LeftItems) -> Option<ItemBounds> {
    let of_rows = request.bounds?;
    let order = request.predicate.call.function.info().order;
    let groups = left.items.groups();
    let of_item = |item| {
        let rows =
            groups.rows(item).iter().filter_map(|row| place_of(request, left.first_row + row));
        let keys = rows.map(|place| key_of(of_rows[place], order));
        score_of(keys.max().unwrap_or(ScoreKey::MAX), order)
    };
    Some((0..groups.len()).map(of_item).collect())
}

impl<'a> ItemSearch<'a> {
    /// Finds the neighbours of left items.
    ///
    /// # Errors
    ///
    /// When memory is refused, the work is cancelled, or a device that is demanded fails.
    pub(super) fn run(&'a self, left: &[LeftItems]) -> Result<SearchedRows> {
        let source = LeftSource::new(self, left);
        let all = match (self.spec.orders, left) {
            (Orders::Unordered, [left]) => {
                let groups = left.items.groups();
                Some(self.partners(groups, 0..groups.len())?)
            }
            _ => None,
        };
        let consumers = self.probe(&source, all.as_ref())?;
        let mut served: Vec<ServedRows<'_>> =
            consumers.into_iter().map(NearestOfUnits::into_served).collect();
        if let Some(all) = &all {
            served.extend(self.serve_all(&source, all)?);
        }
        let mut searched = SearchedRows::default();
        for ServedRows { found, others, .. } in served {
            searched.found.push(found);
            searched.others.extend(others);
        }
        searched.others.sort_unstable();
        Ok(searched)
    }

    /// Finds the matches of all left items.
    fn probe(
        &'a self,
        source: &LeftSource<'_>,
        all: Option<&'a TopK>,
    ) -> Result<Vec<NearestOfUnits<'a>>> {
        let request = self.request;
        let sides = [self.right.items.groups().row_count(), source.parts().all];
        let probing = Probing {
            prepared: self.prepared,
            spec: self.spec,
            source,
            threads: threads_of(sides, request.threads),
            memory: request.reservation,
            consumer_bytes: 0,
            cancel: request.cancel,
        };
        probing.run(|| NearestOfUnits::new(self, all))
    }

    /// Serves all left rows, whose items have the partners `all`.
    fn serve_all(&'a self, source: &LeftSource<'_>, all: &TopK) -> Result<Vec<ServedRows<'a>>> {
        const SHARE: usize = 1 << 12;
        let (Some(left), Some(bounds)) = (source.left.first(), source.bounds.first()) else {
            return Ok(vec![]);
        };
        let (groups, bounds) = (left.items.groups(), bounds.as_deref());
        let unit = UnitRows { groups, first_row: left.first_row, bounds };
        let shares = (0..groups.len()).step_by(SHARE);
        map(self.request.threads, shares.collect(), |first: u32| {
            self.request.cancel.check()?;
            let mut served = ServedRows::new(self);
            let range = first..groups.len().min(first + SHARE as u32);
            served.serve(Some(all), &unit, range, true)?;
            Ok(served)
        })
    }
}

/// The left items, collection by collection.
struct LeftSource<'a> {
    left: &'a [LeftItems],
    /// Behind each collection, the number of items so far.
    ends: Vec<usize>,
    /// By collection, the bounds of its items.
    bounds: Vec<Option<ItemBounds>>,
    sizes: PartSizes,
}

impl<'a> LeftSource<'a> {
    fn new(search: &ItemSearch<'_>, left: &'a [LeftItems]) -> Self {
        let tuning = search.request.threads.tuning;
        let ends: Vec<usize> = left
            .iter()
            .scan(0, |all, left| {
                *all += left.items.groups().len() as usize;
                Some(*all)
            })
            .collect();
        let bounds = left.iter().map(|left| bounds_of(search.request, left)).collect();
        let held = tuning.size(MOST_NEIGHBOURS) / search.request.count.max(1);
        let all = ends.last().copied().unwrap_or(0);
        let prepared = search.prepared;
        let is_unordered = search.spec.orders == Orders::Unordered;
        let (least, most) = match search.spec.nearest {
            _ if is_unordered => (prepared.least_range() as usize, tuning.size(MOST_ITEMS)),
            Some(_) => (1, held.min(tuning.size(SHARE))),
            None => (prepared.least_probe_rows(), held.min(prepared.probe_rows())),
        };
        let sizes = PartSizes { all, least, most, from_behind: is_unordered };
        Self { left, ends, bounds, sizes }
    }
}

impl UnitSource for LeftSource<'_> {
    fn parts(&self) -> PartSizes {
        self.sizes
    }

    fn items(&self, part: Range<usize>, _: &mut Scratch, _: &dyn Memory) -> Result<ProbeItems> {
        let number = self.ends.partition_point(|end| *end <= part.start);
        let LeftItems { first_row, items, .. } = &self.left[number];
        let first = self.ends[number] - items.groups().len() as usize;
        let end = part.end.min(self.ends[number]);
        let range = (part.start - first) as u32..(end - first) as u32;
        let (items, bounds) = (Arc::clone(items), self.bounds[number].clone());
        let places = end - part.start;
        Ok(ProbeItems { items, range, first_row: *first_row, bounds, places })
    }
}
