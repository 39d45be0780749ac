//! The best rows of each row, while a join finds them.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use crate::engine::{Match, RowGroups};
use crate::error::Result;
use crate::library::collect::Collected;
use crate::library::expand::Scorer;
use crate::library::index::Index;
use crate::library::pairs::{Pair, Pairs};
use crate::library::probe::{Consumer, OpenUnit};
use crate::library::search::Search;
use crate::memory::{Memory, Reservation};

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
    pub is_distance: bool,
}

/// A score whose order is that of nearness.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key(f64);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Ranking {
    /// The key of a score, less for a nearer row. Zeros are equal.
    pub(super) fn key(self, score: f64) -> Key {
        let value = if self.is_distance { score } else { -score };
        Key(value + 0.0)
    }

    /// The pairs of several collections in the order of the answer.
    pub(super) fn sorted(self, all: Vec<Collected>, search: &Search<'_>) -> Result<Pairs> {
        Collected::sorted(all, search, |pair| (pair.left, self.key(pair.score), pair.right))
    }

    /// Adds the pairs of a left row, given its best ones among all.
    pub(super) fn settle(
        self,
        left: u32,
        found: &mut Vec<(f64, u32)>,
        to: &mut Collected,
    ) -> Result<()> {
        if self.itself {
            found.retain(|(_, right)| *right != left);
        }
        found.sort_unstable_by_key(|(score, right)| (self.key(*score), *right));
        found.truncate(self.kept(found, self.wanted));
        let pair = |(score, right): &(f64, u32)| Pair { left, right: *right, score: *score };
        to.extend(&found.iter().map(pair).collect::<Vec<_>>())
    }

    /// How many of sorted rows are among the `count` nearest.
    fn kept(self, sorted: &[(f64, u32)], count: usize) -> usize {
        match sorted.get(count.wrapping_sub(1)) {
            Some((last, _)) if self.with_ties => {
                let last = self.key(*last);
                sorted.partition_point(|(score, _)| self.key(*score) <= last)
            }
            Some(_) => count,
            None => sorted.len(),
        }
    }
}

/// The best right rows of a left item.
#[derive(Debug, Default)]
struct List {
    found: Vec<(f64, u32)>,
    /// The key of the last one that is among the best so far.
    worst: Option<Key>,
}

impl List {
    fn push(
        &mut self,
        ranking: Ranking,
        score: f64,
        right: u32,
        memory: &dyn Memory,
    ) -> Result<()> {
        let key = ranking.key(score);
        if self.worst.is_some_and(|worst| key > worst || (key == worst && !ranking.with_ties)) {
            return Ok(());
        }
        if self.found.len() == self.found.capacity() {
            let more = self.found.capacity().max(4);
            memory.try_grow(more * size_of::<(f64, u32)>())?;
            self.found.reserve_exact(more);
        }
        self.found.push((score, right));
        // Rows in a tie are kept, and would be looked at with each further one.
        if self.found.len() >= 2 * ranking.count && self.found.len() == self.found.capacity() {
            self.prune(ranking);
        }
        Ok(())
    }

    /// Leaves those that are among the best.
    fn prune(&mut self, ranking: Ranking) {
        self.found.sort_unstable_by_key(|(score, right)| (ranking.key(*score), *right));
        self.found.truncate(ranking.kept(&self.found, ranking.count));
        if self.found.len() >= ranking.count {
            self.worst = self.found.last().map(|(score, _)| ranking.key(*score));
        }
    }
}

/// Takes the matches of a round, and gives the nearest rows of left rows that have them.
pub(super) struct BestOfUnits<'a> {
    scorer: Scorer<'a>,
    build: &'a RowGroups,
    ranking: Ranking,
    /// Whether every neighbour has been found, so that rows with fewer are served as well.
    is_last: bool,
    /// The lists of open units, by their number; their memory.
    open: Vec<(u32, Vec<List>)>,
    memory: Reservation,
    pub answer: Collected,
    /// The left rows that were served.
    pub served: Vec<u32>,
}

impl<'a> BestOfUnits<'a> {
    pub(super) fn new(
        search: &'a Search<'a>,
        index: &'a Index,
        ranking: Ranking,
        is_last: bool,
    ) -> Self {
        Self {
            scorer: Scorer::new(search, index),
            build: index.items.groups(),
            ranking,
            is_last,
            open: vec![],
            memory: search.memory.reservation(),
            answer: Collected::new(search.memory.reservation()),
            served: vec![],
        }
    }
}

impl Consumer for BestOfUnits<'_> {
    fn take(&mut self, unit: &OpenUnit, matches: &[Match]) -> Result<ControlFlow<()>> {
        let Self { scorer, build, ranking, open, memory, .. } = self;
        let place = match open.iter().position(|(number, _)| *number == unit.number) {
            Some(place) => place,
            None => {
                memory.try_grow(unit.range.len() * size_of::<List>())?;
                open.push((unit.number, unit.range.clone().map(|_| List::default()).collect()));
                open.len() - 1
            }
        };
        let lists = &mut open[place].1;
        scorer.for_each(&unit.items, matches, |found, score| {
            let list = &mut lists[(found.probe - unit.range.start) as usize];
            for right in build.rows(found.build) {
                list.push(*ranking, score, *right, memory)?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn complete(&mut self, unit: &OpenUnit) -> Result<ControlFlow<()>> {
        let place = self.open.iter().position(|(number, _)| *number == unit.number);
        let lists = place.map(|place| self.open.swap_remove(place).1);
        let mut buffer = vec![];
        let groups = unit.items.groups();
        for (item, list) in unit.range.clone().zip(lists.into_iter().flatten()) {
            if list.found.len() < self.ranking.count && !self.is_last {
                continue;
            }
            for row in groups.rows(item) {
                let left = unit.first_row + row;
                buffer.clone_from(&list.found);
                self.ranking.settle(left, &mut buffer, &mut self.answer)?;
                self.served.push(left);
            }
        }
        if self.open.is_empty() {
            self.memory.shrink(self.memory.size());
        }
        Ok(ControlFlow::Continue(()))
    }
}
