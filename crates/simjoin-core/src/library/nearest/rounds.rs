//! Rounds of joins, by wider and wider bounds.
//!
//! A left row with `k` matches by a bound has its nearest rows among them, as every row that is not is
//! less similar. It takes no part in the next round, whose bound is wider.

use arrow::array::{BooleanArray, UInt32Array};
use arrow::compute::take;

use super::at_once::{find_at_once, rows_with_value};
use super::best::{BestOfUnits, Ranking};
use crate::error::Result;
use crate::library::collect::Collected;
use crate::library::index::BuildIndex;
use crate::library::measure::Measure;
use crate::library::options::Options;
use crate::library::pairs::Pairs;
use crate::library::probe::run;
use crate::library::search::{PairSearch, SideRows};
use crate::memory::Memory;
use crate::predicate::{Predicate, Side};
use crate::top::{Entry, RoundSample, TopK};
use crate::util::evenly::Evenly;

/// Neighbours of the left rows that a thread takes together.
const MOST_NEIGHBOURS: usize = 1 << 18;

/// A search in rounds.
pub(super) struct Rounds<'a> {
    search: PairSearch<'a>,
    ranking: Ranking,
    /// The bound of the last round.
    last: Predicate,
    /// Whether every neighbour satisfies the last bound; all others have the least similarity.
    is_complete: bool,
}

impl<'a> Rounds<'a> {
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
        let function = measure.function();
        let (widest, is_complete) = function.widest_bound();
        let widest = measure.predicate(widest);
        // A bound that admits more pairs than the widest one is none.
        let within = within.map(|score| measure.predicate(measure.bound(score, false)));
        let (last, is_complete) = match within.filter(|within| within.implies(&widest)) {
            Some(within) => (within, true),
            None => (widest, is_complete),
        };
        let search = PairSearch::try_new(measure, last, options, sides, ranking.itself)?;
        Ok(Self { search, ranking, last, is_complete })
    }

    /// The nearest rows of all left rows.
    ///
    /// # Errors
    ///
    /// When memory is refused, the search is cancelled, or a row cannot be an item.
    pub(super) fn run(&mut self) -> Result<Pairs> {
        let mut answer = Collected::new(self.search.memory.reservation());
        let lists = self.search.memory.reservation();
        lists.try_grow(3 * size_of::<u32>() * self.search.sides[0].len())?;
        let mut active = find_at_once(&self.search, self.ranking, &mut answer)?;
        let mut all = vec![answer];
        let bounds = self.bounds(&active)?;
        for (place, bound) in bounds.iter().enumerate() {
            if active.is_empty() {
                break;
            }
            let is_last = place + 1 == bounds.len();
            let served = self.round(*bound, &active, is_last && self.is_complete, &mut all)?;
            let mut is_served = vec![false; self.search.sides[0].len()];
            served.into_iter().for_each(|row| is_served[row as usize] = true);
            active.retain(|row| !is_served[*row as usize]);
        }
        if !self.is_complete && !active.is_empty() {
            self.fill(&active, &mut all)?;
        }
        self.ranking.sorted(all, &self.search)
    }

    /// Joins some left rows by a bound; those of them that have their nearest rows now.
    fn round(
        &self,
        bound: Predicate,
        active: &[u32],
        is_last: bool,
        all: &mut Vec<Collected>,
    ) -> Result<Vec<u32>> {
        let PairSearch { measure, options, .. } = self.search;
        let mut sides = self.search.sides.clone();
        if active.len() < sides[0].len() {
            let mut takes_part = vec![false; sides[0].len()];
            active.iter().for_each(|row| takes_part[*row as usize] = true);
            sides[0].filter = Some(BooleanArray::from(takes_part));
        }
        // One column is read as two: the nearest rows of a row are found with the row as the probe.
        let mut search = PairSearch::try_new(measure, bound, options, sides, false)?;
        search.probe = Side::Left;
        search.batch_rows = (MOST_NEIGHBOURS / self.ranking.count).max(1);
        search.memory = self.search.memory.clone();
        let index = BuildIndex::build(&search)?;
        let best = || BestOfUnits::new(&search, &index, self.ranking, is_last);
        let found = run(&search, &index, best)?;
        let mut served = vec![];
        for BestOfUnits { answer, served: of_thread, .. } in found {
            all.push(answer);
            served.extend(of_thread);
        }
        Ok(served)
    }

    /// The bounds of the rounds, the last one at the end.
    fn bounds(&self, active: &[u32]) -> Result<Vec<Predicate>> {
        let function = self.last.call.function;
        let rows = [active.len(), self.search.sides[1].len()];
        let mut bounds = vec![];
        if RoundSample::pays(rows, self.ranking.count, self.search.options.tuning) {
            bounds = function.info().rounds.to_vec();
            if bounds.is_empty() {
                bounds = self.sampled(active)?;
            }
        }
        let bounds = bounds.into_iter().map(|bound| self.last.with_bound(bound));
        let narrower = bounds.filter(|bound| *bound != self.last && bound.implies(&self.last));
        Ok(narrower.chain([self.last]).collect())
    }

    /// Bounds within which most rows of a sample have their neighbours; none where few have any.
    fn sampled(&self, active: &[u32]) -> Result<Vec<f64>> {
        let [left, right] = &self.search.sides;
        let rights = rows_with_value(&right.array);
        let rows = [active.len(), rights.len()];
        let sizes = RoundSample::of(rows, self.ranking.count, self.search.options.tuning);
        let count = sizes.count;
        let sample = |rows: &SideRows, numbers: Vec<u32>| {
            SideRows::try_new(take(&rows.array, &UInt32Array::from(numbers), None)?)
        };
        let sides = [
            sample(left, evenly(active, sizes.left))?,
            sample(right, evenly(&rights, sizes.right))?,
        ];
        let ranking =
            Ranking { count, wanted: count, with_ties: false, itself: false, ..self.ranking };
        let lefts = sides[0].len();
        let PairSearch { measure, options, .. } = self.search;
        let mut search = PairSearch::try_new(measure, self.last, options, sides, false)?;
        search.memory = self.search.memory.clone();
        let rounds = Rounds { search, ranking, last: self.last, is_complete: true };
        let mut all = vec![];
        let numbers: Vec<u32> = (0..lefts as u32).collect();
        rounds.round(self.last, &numbers, true, &mut all)?;
        let best = TopK::try_new(lefts, count, false, self.search.memory.reservation())?;
        let pairs = all.iter().flat_map(Collected::pairs);
        best.offer(pairs.map(|pair| (pair.left, pair.right, ranking.key(pair.score))));
        Ok(best.bounds_of_most(ranking.order))
    }

    /// Gives left rows that have too few neighbours by the last bound those with the least similarity:
    /// all right rows with a value that it did not find.
    fn fill(&self, active: &[u32], all: &mut Vec<Collected>) -> Result<()> {
        let rights = rows_with_value(&self.search.sides[1].array);
        let least = self.ranking.key(self.last.call.function.extremes()[0]);
        let mut found = vec![];
        self.round(self.last, active, true, &mut found)?;
        let lefts = self.search.sides[0].len();
        let pairs: usize = found.iter().map(|pairs| pairs.pairs().len()).sum();
        let lists = self.search.memory.reservation();
        // Vectors double as they grow.
        let bytes = 2 * pairs * size_of::<Entry>() + rights.len() * size_of::<u32>();
        lists.try_grow(lefts * size_of::<Vec<Entry>>() + bytes)?;
        let mut of_rows: Vec<Vec<Entry>> = vec![vec![]; lefts];
        for pair in found.iter().flat_map(Collected::pairs) {
            of_rows[pair.left as usize].push((self.ranking.key(pair.score), pair.right));
        }
        let mut answer = Collected::new(self.search.memory.reservation());
        for left in active {
            self.search.options.cancel.check()?;
            let mut list = std::mem::take(&mut of_rows[*left as usize]);
            let mut known: Vec<u32> = list.iter().map(|(_, right)| *right).collect();
            known.sort_unstable();
            let others = rights.iter().filter(|right| known.binary_search(right).is_err());
            let most = if self.ranking.with_ties { usize::MAX } else { self.ranking.count };
            list.extend(others.take(most).map(|right| (least, *right)));
            self.ranking.settle(*left, &mut list, &mut answer)?;
        }
        all.push(answer);
        Ok(())
    }
}

/// At most `count` of some numbers, evenly spread.
fn evenly(numbers: &[u32], count: usize) -> Vec<u32> {
    let places = Evenly::new(numbers.len() as u32, count as u32).iter();
    places.map(|place| numbers[place as usize]).collect()
}
