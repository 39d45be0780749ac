//! Pairs of rows that connect what all pairs connect.
//!
//! A match of two items connects all of their rows. It connects nothing anew where other matches have
//! connected the two items. Of its pairs of rows, the pairs of one row of each item with all rows of the
//! other item connect as much as all. So the output has some two rows at most for each row of the input.
//!
//! ```text
//!  run of matches ─► forest over items: new? ─► one row × rows ─► output
//!                        └─► connected already: nothing
//! ```

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;

use crate::engine::{ItemId, ItemPair, Match, MatchRun};
use crate::exec::answer::Answer;
use crate::exec::answer::batch::ProbeBatch;
use crate::exec::answer::blocks::{Block, RowPairs};
use crate::exec::build_side::BuildSide;
use crate::exec::layout::Layout;
use crate::exec::rows::ranks::Ranks;
use crate::results::Forest;

/// Blocks that connect the rows of matches, and the probe item that has been connected last.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Each has one row of a side at least. They are given out from `next` on.
    blocks: Vec<Block>,
    next: usize,
    /// In a join of two inputs, the unit and the probe item of the last match, and a build item that
    /// this probe item matches. Matches of a probe item mostly follow each other; where they do not, the
    /// answer has a few pairs more.
    hub: Option<(u32, ItemId, ItemId)>,
}

/// The rows of the items of matches.
struct Rows<'a> {
    layout: &'a Layout,
    batch: &'a ProbeBatch,
    build: &'a BuildSide,
    /// Ranks by place of the build rows, where rows of equal rank make no pair.
    ranks: Option<&'a Ranks>,
}

impl Links {
    /// Adds what a run of matches connects anew.
    fn add(&mut self, rows: &Rows<'_>, forest: &Forest, run: MatchRun<'_>) {
        let is_shared = Arc::ptr_eq(&rows.batch.payload, &rows.build.payload);
        for found in run.matches {
            let Match { probe, build, .. } = *found;
            let is_first = forest.declare(build);
            if is_shared && probe == build {
                if is_first {
                    self.push(rows, found, true, false);
                }
                continue;
            }
            let hub = self.hub.filter(|(unit, item, _)| (*unit, *item) == (run.unit, probe));
            let (probe_is_first, is_new) = match (is_shared, hub) {
                (true, _) => (forest.declare(probe), forest.unite(probe, build)),
                (false, Some((_, _, hub))) => (false, forest.unite(hub, build)),
                (false, None) => {
                    self.hub = Some((run.unit, probe, build));
                    (true, true)
                }
            };
            if is_first || probe_is_first || is_new {
                self.push(rows, found, is_first, probe_is_first);
            }
        }
    }

    /// Adds the blocks of a match: the first row of each item with the first row of the other one, or
    /// with all its rows where no match has connected that item before.
    fn push(&mut self, rows: &Rows<'_>, found: &Match, all_build: bool, all_probe: bool) {
        let probe = rows.batch.items.groups().slots(found.probe..found.probe + 1);
        let build = rows.build.items.groups().slots(found.build..found.build + 1);
        let one = |slots: &Range<u32>| slots.start..(slots.start + 1).min(slots.end);
        let first = if all_build { build.clone() } else { one(&build) };
        self.push_block(rows, found, one(&probe), first);
        if all_probe && probe.len() > 1 {
            self.push_block(rows, found, probe.start + 1..probe.end, one(&build));
        }
    }

    /// Adds a block in which one side has one row, without rows of its rank where these make no pair.
    fn push_block(&mut self, rows: &Rows<'_>, found: &Match, probe: Range<u32>, build: Range<u32>) {
        let sides = |probe: u32, build: u32| {
            let (left, right) = rows.layout.left_right(probe, build);
            [left, right]
        };
        let mut add = |probe: Range<u32>, build: Range<u32>| {
            if probe.is_empty() || build.is_empty() {
                return;
            }
            self.blocks.push(Block {
                starts: sides(probe.start, build.start),
                lens: sides(probe.len() as u32, build.len() as u32),
                pair: ItemPair { items: sides(found.probe, found.build), detail: found.detail },
            });
        };
        let Some(ranks) = rows.ranks else { return add(probe, build) };
        let of_probe = rows.batch.ranks.as_deref().unwrap_or(&ranks.by_place);
        let (probe_ranks, build_ranks) = (
            of_probe.get(probe.start as usize..probe.end as usize).unwrap_or_default(),
            ranks.by_place.get(build.start as usize..build.end as usize).unwrap_or_default(),
        );
        // The rows of an item ascend by rank.
        let equal = |many: &[u32], rank: u32, start: u32| {
            let from = many.partition_point(|other| *other < rank) as u32;
            let to = many.partition_point(|other| *other <= rank) as u32;
            start + from..start + to
        };
        match (probe_ranks, build_ranks) {
            ([rank], many) => {
                let same = equal(many, *rank, build.start);
                add(probe.clone(), build.start..same.start);
                add(probe, same.end..build.end);
            }
            (many, [rank]) => {
                let same = equal(many, *rank, probe.start);
                add(probe.start..same.start, build.clone());
                add(same.end..probe.end, build);
            }
            _ => add(probe, build),
        }
    }

    /// Moves pairs until `pairs` has `limit` of them. Returns whether none is left.
    fn fill(&mut self, limit: usize, pairs: &mut RowPairs) -> bool {
        while let Some(block) = self.blocks.get_mut(self.next) {
            let room = limit.saturating_sub(pairs.len());
            if room == 0 {
                return false;
            }
            let many = block.inner();
            let taken = (block.lens[many] as usize).min(room) as u32;
            let mut part = *block;
            part.lens[many] = taken;
            pairs.push(part);
            block.starts[many] += taken;
            block.lens[many] -= taken;
            self.next += usize::from(block.lens[many] == 0);
        }
        self.blocks.clear();
        self.next = 0;
        true
    }
}

impl Answer {
    /// Whether the answer leaves out matches of a batch that connect nothing anew. Links take no condition
    /// but a row order, and need ranks to tell equal rows where these make no pair.
    pub(super) fn connects(&self, place: usize) -> bool {
        let knows_pairs = match self.layout.row_order {
            None => self.layout.items_decide(),
            Some(_) => !self.parts_equal() || self.build.ranks.is_some(),
        };
        self.build.connected.is_some() && knows_pairs && !self.batches[place].payload.has_nulls()
    }

    /// Whether equal rows by the row order make no pair, and are not listed besides.
    fn parts_equal(&self) -> bool {
        self.layout.row_order.is_some_and(|order| order.parts_equal())
            && !self.layout.lists_all_build_rows()
    }

    /// Gathers pairs that connect what a run of matches connects, and stops at a full batch of output.
    /// Returns whether all are gathered.
    pub(super) fn take_links(&mut self, place: usize, run: MatchRun<'_>) -> Result<bool> {
        self.gather_for(place, run.order)?;
        let batch = &self.batches[place];
        if let Some(forest) = &self.build.connected
            && !self.is_amid_run
        {
            let (layout, build) = (&*self.layout, &*self.build);
            let ranks = build.ranks.as_ref().filter(|_| self.parts_equal());
            self.links.add(&Rows { layout, batch, build, ranks }, forest, run);
        }
        let rows_at_once = batch.rows_at_once;
        let limit = rows_at_once.min(self.output.rows_to_full());
        let done = self.links.fill(limit, &mut self.pairs);
        if self.pairs.len() >= limit {
            self.flush()?;
            self.output.cut_after(rows_at_once)?;
        }
        Ok(done)
    }
}
