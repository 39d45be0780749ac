//! From matches of items to pairs of rows with their scores.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::index::BuildIndex;
use super::pairs::{Pair, SelfPairs};
use super::search::PairSearch;
use crate::engine::probing::{Consumer, OpenUnit};
use crate::engine::{Collection, ItemPair, Match, Pairing, RowGroups, RowPairCounts};
use crate::error::Result;
use crate::predicate::Side;

/// Matches whose scores are computed together.
const SCORED: usize = 1 << 10;

/// Takes the pairs of a thread, a batch at a time.
pub(super) trait PairSink: Send {
    /// Takes the pairs of a batch, at least one, and leaves it empty. A break ends the search.
    fn give(&mut self, pairs: &mut Vec<Pair>) -> Result<ControlFlow<()>>;
}

/// Computes the scores of matches.
pub(super) struct Scorer<'a> {
    search: &'a PairSearch<'a>,
    index: &'a BuildIndex,
    pairs: Vec<ItemPair>,
    scores: Vec<f64>,
}

impl<'a> Scorer<'a> {
    pub(super) fn new(search: &'a PairSearch<'a>, index: &'a BuildIndex) -> Self {
        Self { search, index, pairs: vec![], scores: vec![] }
    }

    /// Calls `each` with all matches and their scores, until it breaks.
    pub(super) fn for_each(
        &mut self,
        items: &Arc<dyn Collection>,
        matches: &[Match],
        mut each: impl FnMut(&Match, f64) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let PairSearch { probe, matcher, predicate, .. } = self.search;
        let in_order = |probed, built| match probe {
            Side::Left => [probed, built],
            Side::Right => [built, probed],
        };
        let collections = match probe {
            Side::Left => [items.as_ref(), self.index.items.as_ref()],
            Side::Right => [self.index.items.as_ref(), items.as_ref()],
        };
        for matches in matches.chunks(SCORED) {
            self.pairs.clear();
            self.scores.clear();
            self.pairs.extend(matches.iter().map(|found| ItemPair {
                items: in_order(found.probe, found.build),
                detail: found.detail,
            }));
            matcher.scores(predicate.call, collections, &self.pairs, &mut self.scores)?;
            for (found, score) in matches.iter().zip(&self.scores) {
                if each(found, *score)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Gives a sink the pairs of rows behind matches.
pub(super) struct Expansion<'a, S> {
    scorer: Scorer<'a>,
    build: &'a RowGroups,
    batch: PairBuffer<S>,
    probe: Side,
    /// The pairs of one column with itself that are wanted, where one is both sides.
    of_itself: Option<SelfPairs>,
    is_unordered: bool,
}

/// Pairs on their way to a sink.
struct PairBuffer<S> {
    sink: S,
    pairs: Vec<Pair>,
    len: usize,
}

impl<S: PairSink> PairBuffer<S> {
    #[inline]
    fn push(&mut self, left: u32, right: u32, score: f64) -> Result<ControlFlow<()>> {
        self.pairs.push(Pair { left, right, score });
        match self.pairs.len() < self.len {
            true => Ok(ControlFlow::Continue(())),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<ControlFlow<()>> {
        match self.pairs.is_empty() {
            true => Ok(ControlFlow::Continue(())),
            false => self.sink.give(&mut self.pairs),
        }
    }
}

impl<'a, S: PairSink> Expansion<'a, S> {
    pub(super) fn new(
        search: &'a PairSearch<'a>,
        index: &'a BuildIndex,
        of_itself: Option<SelfPairs>,
        sink: S,
    ) -> Self {
        let len = search.options.batch_pairs;
        Self {
            scorer: Scorer::new(search, index),
            build: index.items.groups(),
            batch: PairBuffer { sink, pairs: vec![], len },
            probe: search.probe,
            of_itself,
            is_unordered: search.is_unordered(),
        }
    }

    pub(super) fn into_sink(self) -> S {
        self.batch.sink
    }
}

impl<S: PairSink> Consumer for Expansion<'_, S> {
    fn take(&mut self, unit: &OpenUnit, matches: &[Match]) -> Result<ControlFlow<()>> {
        let Self { scorer, build, batch, probe, of_itself, is_unordered } = self;
        let groups = unit.items.groups();
        scorer.for_each(&unit.items, matches, |found, score| {
            let is_same = *is_unordered && found.probe == found.build;
            for probed in groups.rows(found.probe) {
                let probed = unit.first_row + probed;
                for &built in build.rows(found.build) {
                    let (left, right) = match probe {
                        Side::Left => (probed, built),
                        Side::Right => (built, probed),
                    };
                    let orders = match of_itself {
                        None => [true, false],
                        Some(wanted) => wanted.orders(left, right, *is_unordered && !is_same),
                    };
                    if orders[0] && batch.push(left, right, score)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    if orders[1] && batch.push(right, left, score)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn complete(&mut self, _: &OpenUnit) -> Result<ControlFlow<()>> {
        self.batch.flush()
    }
}

/// Counts pairs of rows.
pub(super) struct PairCounter<'a> {
    build: &'a RowGroups,
    of_itself: Option<SelfPairs>,
    is_unordered: bool,
    pub total: u64,
}

impl<'a> PairCounter<'a> {
    pub(super) fn new(
        search: &'a PairSearch<'a>,
        index: &'a BuildIndex,
        of_itself: Option<SelfPairs>,
    ) -> Self {
        let (build, is_unordered) = (index.items.groups(), search.is_unordered());
        Self { build, of_itself, is_unordered, total: 0 }
    }

    /// Whether the counts of rows of two items tell how many of their pairs are wanted.
    pub(super) fn is_of_items(of_itself: Option<SelfPairs>, is_unordered: bool) -> bool {
        is_unordered || of_itself.is_none_or(|wanted| wanted == SelfPairs::All)
    }

    fn add(&mut self, RowPairCounts { cross, squares, rows }: RowPairCounts) {
        self.total += match self.of_itself {
            None => cross + squares,
            Some(_) if !self.is_unordered => cross + squares,
            Some(SelfPairs::Once) => cross + (squares - rows) / 2,
            Some(SelfPairs::BothOrders) => 2 * cross + squares - rows,
            Some(SelfPairs::All) => 2 * cross + squares,
        };
    }
}

impl Consumer for PairCounter<'_> {
    fn take(&mut self, unit: &OpenUnit, matches: &[Match]) -> Result<ControlFlow<()>> {
        let probe = unit.items.groups();
        let is_of_items = Self::is_of_items(self.of_itself, self.is_unordered);
        for found in matches {
            if !is_of_items && let Some(wanted) = self.of_itself {
                let (left, right) = (probe.rows(found.probe), self.build.rows(found.build));
                let pairs =
                    left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
                self.total += pairs
                    .filter(|(left, right)| wanted.orders(**left, **right, false)[0])
                    .count() as u64;
                continue;
            }
            let pairing = match self.is_unordered {
                true => Pairing::Unordered,
                false => Pairing::All,
            };
            self.add(RowPairCounts::of(pairing, [probe, self.build], [found.probe, found.build]));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn count(&mut self, counts: RowPairCounts) {
        self.add(counts);
    }
}
