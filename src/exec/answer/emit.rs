//! Rows that the answer lists one by one: semi and anti joins, padded rows, counts per row.
//!
//! Rows are listed in the order of their places, a batch at a time: an item may have any number of
//! them.

use std::sync::Arc;

use datafusion::common::Result;

use crate::exec::answer::Answer;
use crate::exec::answer::batch::ProbeBatch;
use crate::exec::answer::listing::{Listing, RowEmission, RowWalk};
use crate::exec::answer::output::RowCounts;

/// Rows looked at in one step: some milliseconds.
const ROWS_PER_STEP: usize = 1 << 17;

impl Answer {
    /// Lists the rows that have been begun; `false` where there are none.
    pub(crate) fn list(&mut self) -> Result<bool> {
        match self.listing.take() {
            None => return Ok(false),
            Some(Listing::Probe(emission)) => self.list_probe_rows(emission)?,
            Some(Listing::Build(walk)) => self.list_build_rows(walk)?,
        }
        Ok(true)
    }

    /// Begins to list probe rows of a batch that is complete, where the answer lists them one by
    /// one.
    pub(super) fn begin_list(&mut self, batch: ProbeBatch) {
        let listed = self.layout.listed(self.layout.probe);
        if listed.any() {
            let itemless = listed.unmatched && batch.has_itemless;
            let walk = RowWalk::new(batch.items.groups(), batch.range.clone(), itemless);
            self.listing = Some(Listing::Probe(RowEmission { batch, listed, walk }));
        }
    }

    /// Gives out the next rows of a batch.
    fn list_probe_rows(&mut self, mut emission: RowEmission) -> Result<()> {
        let RowEmission { batch, listed, walk } = &mut emission;
        let (counted, visit) = (&batch.counted, batch.visit.as_ref());
        let counts = self.layout.sink.counts;
        let rows_at_once = self.output.rows_at_once(batch.payload.row_bytes());
        let mut places = vec![];
        let mut matches = vec![];
        let mut non_null = vec![vec![]; counted.non_null.len()];
        let mut ended = false;
        let (mut bytes, most) = (0, self.output.limits().bytes);
        let are_even = self.output.holds_any_rows(batch.payload.widest_row());
        for _ in 0..ROWS_PER_STEP {
            if places.len() == rows_at_once || bytes >= most {
                break;
            }
            let Some((place, item)) = walk.next(batch.items.groups()) else {
                ended = true;
                break;
            };
            let index = item.map(|item| match self.layout.items_decide() {
                true => (item - batch.range.start) as usize,
                false => (place - counted.first_place) as usize,
            });
            let count = index.and_then(|index| counted.matches.get(index)).copied().unwrap_or(0);
            // Rows that meet several pieces of the build side are listed once, but counted each
            // time.
            let is_listed = match (count, visit) {
                (0, None) => listed.unmatched,
                (0, Some(visit)) => {
                    let row = batch.items.groups().row_at(place);
                    listed.unmatched && visit.is_last && !visit.is_marked(row)
                }
                (_, None) => listed.matched,
                (_, Some(visit)) => {
                    let is_first = visit.mark(batch.items.groups().row_at(place));
                    listed.matched && (is_first || counts)
                }
            };
            if !is_listed {
                continue;
            }
            places.push(place);
            bytes += if are_even { 0 } else { batch.payload.bytes_at(place) };
            if counts {
                matches.push(count);
                for (all, some) in counted.non_null.iter().zip(&mut non_null) {
                    // Empty where every match counts.
                    let count = index.map_or(0, |index| all.get(index).copied().unwrap_or(0));
                    some.extend((!all.is_empty()).then_some(count));
                }
            }
        }
        let payload = Arc::clone(&batch.payload);
        let row_counts = counts.then_some(RowCounts { matches: &matches, non_null: &non_null });
        self.output.push_rows(self.layout.probe, &payload, places, row_counts)?;
        self.output.cut_after(rows_at_once)?;
        if !ended {
            self.listing = Some(Listing::Probe(emission));
        }
        Ok(())
    }

    /// Begins to list build rows, once all partitions have ended.
    pub(super) fn begin_build_list(&mut self) {
        let groups = self.build.items.groups();
        let itemless = self.layout.listed(self.layout.build()).unmatched;
        let walk = RowWalk::new(groups, 0..groups.len(), itemless);
        self.listing = Some(Listing::Build(walk));
    }

    /// Gives out the next build rows.
    fn list_build_rows(&mut self, mut walk: RowWalk) -> Result<()> {
        let build = Arc::clone(&self.build);
        let side = self.layout.build();
        let wanted = self.layout.listed(side).matched;
        let lists_all = self.layout.lists_all_build_rows();
        let rows_at_once = self.output.rows_at_once(build.row_bytes);
        let mut places = vec![];
        let mut ended = false;
        let (mut bytes, most) = (0, self.output.limits().bytes);
        let are_even = self.output.holds_any_rows(build.payload.widest_row());
        for _ in 0..ROWS_PER_STEP {
            if places.len() == rows_at_once || bytes >= most {
                break;
            }
            let Some((place, item)) = walk.next(build.items.groups()) else {
                ended = true;
                break;
            };
            let index = item.map(|item| if self.layout.items_decide() { item } else { place });
            let is_marked = |index: u32| {
                build.visited.as_ref().is_some_and(|visited| visited.is_marked(index as usize))
            };
            if lists_all || index.is_some_and(is_marked) == wanted {
                places.push(place);
                bytes += if are_even { 0 } else { build.payload.bytes_at(place) };
            }
        }
        self.output.push_rows(side, &build.payload, places, None)?;
        self.output.cut_after(rows_at_once)?;
        match ended {
            true => self.output.finish(),
            false => {
                self.listing = Some(Listing::Build(walk));
                Ok(())
            }
        }
    }
}
