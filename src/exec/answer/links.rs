//! Pairs of rows that connect what all pairs connect.
//!
//! A match of two items connects all of their rows. It connects nothing anew where other matches have
//! connected the two items. Of its pairs of rows, the pairs of one row of each item with all rows of the
//! other item connect as much as all. So the output has some two rows at most for each row of the input.
//!
//! ```text
//!  cursor ─► match buffer, with a forest over items: new? ─► one row × rows ─► output
//!                └─► connected already: nothing
//! ```

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;

use crate::engine::{Connections, ItemId, ItemPair, Match, MatchBuffer, MatchRun};
use crate::exec::answer::Answer;
use crate::exec::answer::batch::ProbeBatch;
use crate::exec::answer::blocks::{Block, RowPairs};
use crate::exec::build_side::{BuildSide, Connected};
use crate::exec::layout::JoinLayout;
use crate::exec::rows::ranks::Ranks;
use crate::exec::rows::visited::Visited;

/// Blocks that connect the rows of matches, and the probe item that has been connected last.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Each has one row of a side at least. They are given out from `next` on.
    blocks: Vec<Block>,
    next: usize,
    /// In a join of two inputs, the unit and the probe item of the last match. Matches of a probe item
    /// mostly follow each other; where they do not, the answer has a few pairs more.
    last: Option<(u32, ItemId)>,
}

/// The rows of the items of matches.
struct MatchedRows<'a> {
    layout: &'a JoinLayout,
    batch: &'a ProbeBatch,
    build: &'a BuildSide,
    /// Ranks by place of the build rows, where rows of equal rank make no pair.
    ranks: Option<&'a Ranks>,
}

impl Links {
    /// Adds what a run of matches connects, each of which connects something anew.
    fn add(&mut self, rows: &MatchedRows<'_>, given: &Visited, run: MatchRun<'_>) {
        for found in run.matches {
            let Match { probe, build, .. } = *found;
            let is_first = given.mark(build as usize);
            if rows.layout.self_join && probe == build {
                if is_first {
                    self.push(rows, found, true, false);
                }
                continue;
            }
            let probe_is_first = match rows.layout.self_join {
                true => given.mark(probe as usize),
                false => self.last.replace((run.unit, probe)) != Some((run.unit, probe)),
            };
            self.push(rows, found, is_first, probe_is_first);
        }
    }

    /// Adds the blocks of a match: the first row of each item with the first row of the other one, or
    /// with all its rows where no match has connected that item before.
    fn push(&mut self, rows: &MatchedRows<'_>, found: &Match, all_build: bool, all_probe: bool) {
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
    fn push_block(
        &mut self,
        rows: &MatchedRows<'_>,
        found: &Match,
        probe: Range<u32>,
        build: Range<u32>,
    ) {
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
    /// Whether the answer needs only what connects of the matches of a batch. Pairs that have a NULL
    /// connect nothing: all matches are needed then.
    pub(super) fn connects(&self, place: usize) -> bool {
        self.build.connected.is_some() && !self.batches[place].payload.has_nulls()
    }

    /// A buffer for the matches that the answer takes.
    pub(crate) fn match_buffer(&self) -> MatchBuffer {
        let connected = self.build.connected.as_ref();
        let connections = connected.map(|connected| {
            Connections::new(Arc::clone(&connected.forest), self.layout.self_join)
        });
        MatchBuffer::new(self.layout.spec.match_buffer).connecting(connections)
    }

    /// Gathers pairs that connect what a run of matches connects, and stops at a full batch of output.
    /// Returns whether all are gathered.
    pub(super) fn take_links(&mut self, place: usize, run: MatchRun<'_>) -> Result<bool> {
        self.gather_for(place, run.order)?;
        let batch = &self.batches[place];
        if let Some(Connected { given, .. }) = &self.build.connected
            && !self.is_amid_run
        {
            let (layout, build) = (&*self.layout, &*self.build);
            let ranks = build.ranks.as_ref().filter(|_| layout.parts_equal());
            self.links.add(&MatchedRows { layout, batch, build, ranks }, given, run);
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
