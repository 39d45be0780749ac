//! Pairs of rows that connect what all pairs connect.
//!
//! A match of two items connects all of their rows. Once both items are connected, by other matches even,
//! it says nothing new; and of the pairs of rows of a match, a row of one item with all of the other one,
//! and a row of this with all of the first, connect as much as all. So the output has at most some two
//! rows for each row of the input, however many pairs there are.
//!
//! ```text
//!  run of matches ─► forest over items: new? ─► one row × rows ─► output
//!                        └─► connected already: nothing
//! ```

use std::ops::Range;

use datafusion::common::Result;
use datafusion::logical_expr::Operator;

use crate::engine::{ItemId, ItemPair, Match, MatchRun};
use crate::exec::answer::Answer;
use crate::exec::answer::batch::ProbeBatch;
use crate::exec::answer::blocks::{Block, RowPairs};
use crate::exec::build_side::BuildSide;
use crate::exec::layout::Layout;
use crate::results::Forest;

/// Blocks that connect the rows of matches, and the probe item that has been connected last.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Each has one row of a side at least. They are given out from `next` on.
    blocks: Vec<Block>,
    next: usize,
    /// Of two inputs: the unit and the probe item of the last match, and a build item that it
    /// matches. The matches of a probe item mostly follow each other; where they do not, a few
    /// pairs more are given out.
    hub: Option<(u32, ItemId, ItemId)>,
}

/// What is known of the rows of two items.
struct Rows<'a> {
    layout: &'a Layout,
    batch: &'a ProbeBatch,
    build: &'a BuildSide,
    /// Whether a row makes no pair with an equal one by the row order.
    strict: bool,
}

impl Links {
    /// Adds what a run of matches connects anew.
    fn add(&mut self, rows: &Rows<'_>, forest: &Forest, run: MatchRun<'_>) {
        let is_shared = std::sync::Arc::ptr_eq(&rows.batch.payload, &rows.build.payload);
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

    /// Adds the blocks of a match: of the first row of an item with the rows of the other one, all of
    /// them where the item has not been connected before.
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
        let ranks = rows.build.ranks.as_ref().filter(|_| rows.strict);
        let Some(ranks) = ranks else { return add(probe, build) };
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

    /// Moves pairs to `pairs` until these are `limit`; whether none is left.
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
    /// Whether of the matches of a batch only those are given out that connect anew.
    pub(super) fn connects(&self, place: usize) -> bool {
        // Without ranks it is not known which rows make no pair because they are equal.
        let knows_equal = !self.is_strict() || self.build.ranks.is_some();
        self.build.connected.is_some() && knows_equal && !self.batches[place].payload.has_nulls()
    }

    /// Whether equal rows by the row order make no pair, and are not listed besides.
    fn is_strict(&self) -> bool {
        let order = self.layout.row_order.map(|order| order.operator);
        matches!(order, Some(Operator::Lt | Operator::Gt | Operator::NotEq))
            && !self.layout.lists_all_build_rows()
    }

    /// Gathers pairs that connect what a run of matches connects, and stops at a full batch of output;
    /// whether all are gathered.
    pub(super) fn take_links(&mut self, place: usize, run: MatchRun<'_>) -> Result<bool> {
        self.gather_for(place, run.order)?;
        let batch = &self.batches[place];
        if let Some(forest) = &self.build.connected
            && !self.is_amid_run
        {
            let (layout, build, strict) = (&*self.layout, &*self.build, self.is_strict());
            self.links.add(&Rows { layout, batch, build, strict }, forest, run);
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
