//! The best rows of each row, while a join finds them.

use std::ops::ControlFlow;

use crate::engine::{Match, RowGroups};
use crate::error::Result;
use crate::library::collect::Collected;
use crate::library::expand::Scorer;
use crate::library::index::BuildIndex;
use crate::library::pairs::{Pair, Pairs};
use crate::library::probe::{Consumer, OpenUnit};
use crate::library::search::PairSearch;
use crate::predicate::Order;
use crate::top::{Entry, ScoreKey, TopK, key_of, score_of};

/// Which rows are the nearest ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranking {
    /// The rows that are looked for: one more where a row may find itself.
    pub count: usize,
    /// The rows that are wanted.
    pub wanted: usize,
    pub with_ties: bool,
    /// Whether a row is no neighbour of itself.
    pub itself: bool,
    pub order: Order,
}

impl Ranking {
    /// The key of a score. Zeros are equal.
    pub(super) fn key(self, score: f64) -> ScoreKey {
        key_of(score + 0.0, self.order)
    }

    /// The pairs of several collections in the order of the answer.
    pub(super) fn sorted(self, all: Vec<Collected>, search: &PairSearch<'_>) -> Result<Pairs> {
        Collected::sorted(all, search, |pair| (pair.left, self.key(pair.score), pair.right))
    }

    /// Adds the pairs of a left row, given its best ones among all.
    pub(super) fn settle(
        self,
        left: u32,
        found: &mut Vec<Entry>,
        to: &mut Collected,
    ) -> Result<()> {
        if self.itself {
            found.retain(|(_, right)| *right != left);
        }
        found.sort_unstable();
        if let Some((last, _)) = found.get(self.wanted - 1).copied() {
            found.truncate(match self.with_ties {
                true => found.partition_point(|(key, _)| *key <= last),
                false => self.wanted,
            });
        }
        let pair =
            |(key, right): &Entry| Pair { left, right: *right, score: score_of(*key, self.order) };
        to.extend(&found.iter().map(pair).collect::<Vec<_>>())
    }
}

/// Takes the matches of a round, and gives the nearest rows of left rows that have them.
pub(super) struct BestOfUnits<'a> {
    search: &'a PairSearch<'a>,
    scorer: Scorer<'a>,
    build: &'a RowGroups,
    ranking: Ranking,
    /// Whether every neighbour has been found, so that rows with fewer are served as well.
    is_last: bool,
    /// The best rows of the items of open units, by their number.
    open: Vec<(u32, TopK)>,
    /// Pairs on their way to them: the place of an item in its unit, a right row, its key.
    pairs: Vec<(u32, u32, ScoreKey)>,
    pub answer: Collected,
    /// The left rows that were served.
    pub served: Vec<u32>,
}

impl<'a> BestOfUnits<'a> {
    pub(super) fn new(
        search: &'a PairSearch<'a>,
        index: &'a BuildIndex,
        ranking: Ranking,
        is_last: bool,
    ) -> Self {
        Self {
            search,
            scorer: Scorer::new(search, index),
            build: index.items.groups(),
            ranking,
            is_last,
            open: vec![],
            pairs: vec![],
            answer: Collected::new(search.memory.reservation()),
            served: vec![],
        }
    }

    /// The place among open units of one that has a match.
    fn place_of(&mut self, unit: &OpenUnit) -> Result<usize> {
        if let Some(place) = self.open.iter().position(|(number, _)| *number == unit.number) {
            return Ok(place);
        }
        let Ranking { count, with_ties, .. } = self.ranking;
        let memory = self.search.memory.reservation();
        let best = TopK::try_new(unit.range.len(), count, with_ties, memory)?;
        self.open.push((unit.number, best));
        Ok(self.open.len() - 1)
    }
}

impl Consumer for BestOfUnits<'_> {
    fn take(&mut self, unit: &OpenUnit, matches: &[Match]) -> Result<ControlFlow<()>> {
        /// Pairs that are offered at once, about.
        const OFFERED: usize = 1 << 10;
        let place = self.place_of(unit)?;
        let Self { scorer, build, ranking, open, pairs, .. } = self;
        let best = &open[place].1;
        let flow = scorer.for_each(&unit.items, matches, |found, score| {
            let (item, key) = (found.probe - unit.range.start, ranking.key(score));
            pairs.extend(build.rows(found.build).iter().map(|right| (item, *right, key)));
            if pairs.len() >= OFFERED {
                best.offer(pairs.drain(..));
                best.settle()?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        best.offer(pairs.drain(..));
        best.settle()?;
        Ok(flow)
    }

    fn complete(&mut self, unit: &OpenUnit) -> Result<ControlFlow<()>> {
        let place = self.open.iter().position(|(number, _)| *number == unit.number);
        let Some((_, best)) = place.map(|place| self.open.swap_remove(place)) else {
            return Ok(ControlFlow::Continue(()));
        };
        let (mut entries, mut buffer) = (vec![], vec![]);
        let groups = unit.items.groups();
        for (place, item) in (0..).zip(unit.range.clone()) {
            if !self.is_last && !best.is_full(place) {
                continue;
            }
            best.sorted(place, &mut entries);
            for row in groups.rows(item) {
                let left = unit.first_row + row;
                buffer.clone_from(&entries);
                self.ranking.settle(left, &mut buffer, &mut self.answer)?;
                self.served.push(left);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
