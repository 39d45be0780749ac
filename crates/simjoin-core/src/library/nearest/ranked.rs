//! The nearest rows as pairs.

use super::batches::{Batches, rows_with_value};
use crate::engine::{GpuOptions, NeighbourRequest, NeighbourSide, Neighbours, neighbours};
use crate::error::Result;
use crate::library::collect::Collected;
use crate::library::measure::Measure;
use crate::library::options::Options;
use crate::library::pairs::{Pair, Pairs};
use crate::library::search::{PairSearch, SideRows};
use crate::memory::Memory;
use crate::predicate::Order;
use crate::simd::Simd;
use crate::top::{Entry, ScoreKey, key_of, score_of};

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
    fn key(self, score: f64) -> ScoreKey {
        key_of(score + 0.0, self.order)
    }

    /// Adds the pairs of a left row, given its best ones among all.
    fn settle(self, left: u32, found: &mut Vec<Entry>, to: &mut Collected) -> Result<()> {
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

/// A search for the nearest rows of the rows of a column.
pub(super) struct RankedSearch<'a> {
    search: PairSearch<'a>,
    ranking: Ranking,
    /// Whether every neighbour satisfies the bound of the search; all others have the least similarity.
    is_complete: bool,
}

impl<'a> RankedSearch<'a> {
    /// # Errors
    ///
    /// A plan error when the columns cannot be joined, or no strategy has the name.
    pub(super) fn try_new(
        measure: Measure,
        options: &'a Options,
        ranking: Ranking,
        sides: [SideRows; 2],
        within: Option<f64>,
    ) -> Result<Self> {
        let (widest, is_complete) = measure.function().widest_bound();
        let widest = measure.predicate(widest);
        // A bound that admits more pairs than the widest one is none.
        let within = within.map(|score| measure.predicate(measure.bound(score, false)));
        let (last, is_complete) = match within.filter(|within| within.implies(&widest)) {
            Some(within) => (within, true),
            None => (widest, is_complete),
        };
        let search = PairSearch::try_new(measure, last, options, sides, ranking.itself)?;
        Ok(Self { search, ranking, is_complete })
    }

    /// The nearest rows of all left rows.
    ///
    /// # Errors
    ///
    /// When memory is refused, the search is cancelled, or a row cannot be an item.
    pub(super) fn run(&self) -> Result<Pairs> {
        let Self { search, ranking, is_complete } = self;
        let mut answer = Collected::new(&search.memory.reservation());
        let lists = search.memory.reservation();
        lists.try_grow(3 * size_of::<u32>() * search.sides[0].len())?;
        let rows = search.sides.each_ref().map(|rows| rows_with_value(&rows.array));
        let [lefts, rights] = &rows;
        let found = self.neighbours([lefts, rights])?;
        let mut buffer = vec![];
        for (place, left) in lefts.iter().enumerate() {
            search.options.cancel.check()?;
            buffer.clear();
            if let Some((partners, values)) = found.of(place) {
                let pairs = values.iter().copied().zip(partners.iter().copied());
                // Every row within the bound is there, or the nearest ones are.
                let near = pairs.filter(|(value, _)| search.predicate.admits(*value));
                buffer.extend(near.map(|(value, right)| (ranking.key(value), right)));
            }
            if !is_complete && buffer.len() < ranking.count {
                self.fill(rights, &mut buffer)?;
            }
            ranking.settle(*left, &mut buffer, &mut answer)?;
        }
        drop(found);
        let key = |pair: &Pair| (pair.left, ranking.key(pair.score), pair.right);
        Collected::sorted(vec![answer], search, key)
    }

    /// The neighbours of left rows within the bound.
    fn neighbours(&self, [lefts, rights]: [&[u32]; 2]) -> Result<Neighbours> {
        let Self { search, ranking, .. } = self;
        let [left, right] = [0, 1].map(|side| Batches::try_new(search, &search.sides[side]));
        let (left, right) = (left?, right?);
        neighbours(
            search.measure.family(search.options.devices).as_ref(),
            &NeighbourRequest {
                predicate: search.predicate,
                count: ranking.count.min(rights.len()).max(1),
                with_ties: ranking.with_ties,
                bounds: None,
                condition: None,
                sides: [
                    NeighbourSide { argument: &left, rows: lefts },
                    NeighbourSide { argument: &right, rows: rights },
                ],
                itself: search.itself,
                kept: None,
                strategy: search.strategy,
                device: search.options.device,
                gpu: GpuOptions::default(),
                threads: search.options.threads(),
                simd: Simd::detect(),
                reservation: &search.memory.reservation(),
                cancel: &search.options.cancel,
            },
        )
    }

    /// Adds neighbours of the least similarity to those of a row that has too few: right rows with a value that are
    /// not among them.
    fn fill(&self, rights: &[u32], found: &mut Vec<Entry>) -> Result<()> {
        let least = self.ranking.key(self.search.predicate.call.function.extremes()[0]);
        let most = if self.ranking.with_ties { usize::MAX } else { self.ranking.count };
        let held = self.search.memory.reservation();
        // Vectors double as they grow.
        let bytes = size_of::<u32>() + 2 * size_of::<Entry>();
        held.try_grow((found.len() + most.min(rights.len())).saturating_mul(bytes))?;
        let mut known: Vec<u32> = found.iter().map(|(_, right)| *right).collect();
        known.sort_unstable();
        let others = rights.iter().filter(|right| known.binary_search(right).is_err());
        found.extend(others.take(most).map(|right| (least, *right)));
        Ok(())
    }
}
