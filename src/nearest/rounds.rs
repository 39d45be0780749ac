//! The bounds of the rounds.

use std::sync::Arc;

use datafusion::common::Result;

use super::run::{InMemorySearch, LeftRows};
use crate::spec::{Function, Order};
use crate::top::{RoundSample, TopK, score_of};
use crate::util::evenly::Evenly;

/// Rows, at most, whose worst scores tell the bounds of the next rounds.
const FOLLOWED: usize = 1 << 16;

/// Samples, at most, before the last round.
const MOST_SAMPLES: usize = 4;

/// Chooses the bound of each round.
#[derive(Debug)]
pub(super) struct Rounds {
    function: Function,
    /// The bound of the last round.
    last: f64,
    /// Bounds of the next rounds, the next one at the end.
    planned: Vec<f64>,
    /// The samples drawn so far.
    samples: usize,
    /// The bound of the round before.
    former: Option<f64>,
    /// Whether the planned bounds are those of pairs that rows have already.
    follows: bool,
}

impl Rounds {
    /// Rounds that end with a join by the bound `last`.
    pub(super) fn new(function: Function, last: f64) -> Self {
        let planned = function.info().rounds.iter().rev().copied().collect();
        Self { function, last, planned, samples: 0, former: None, follows: false }
    }

    /// Plans bounds within which the rows at `places` have all pairs that are better than those they carry: rows
    /// that carry as many as they may have need no others. Where few rows do, the bounds stay as they are.
    pub(super) fn follow(&mut self, carried: &TopK, places: &[u32]) {
        let full = places.iter().filter(|place| carried.is_full(**place));
        let step = places.len().div_ceil(FOLLOWED).max(1);
        let (mut keys, mut last, mut rows) = (vec![], None, 0);
        for key in full.filter_map(|place| carried.worst(*place)) {
            last = last.max(Some(key));
            if rows % step == 0 {
                keys.push(key);
            }
            rows += 1;
        }
        if rows * 2 < places.len() || rows == 0 {
            return;
        }
        keys.sort_unstable();
        let order = self.function.info().order;
        let served = |part: &f64| keys.get((keys.len() as f64 * part) as usize).copied();
        let bounds = last.into_iter().chain(TopK::MOST.iter().rev().filter_map(served));
        let bounds = bounds.map(|key| score_of(key, order));
        self.planned = bounds.filter(|bound| bound.is_finite()).collect();
        self.follows = true;
    }

    /// Whether `bound` admits more than `other`.
    fn is_wider(&self, bound: f64, other: f64) -> bool {
        match self.function.info().order {
            Order::Similarity => bound < other,
            Order::Distance => bound > other,
        }
    }

    /// The bound by which the left rows `active` are to be joined next, wider than the one before, and
    /// whether it is the last one.
    ///
    /// # Errors
    ///
    /// The errors of joining a sample.
    pub(super) async fn next(
        &mut self,
        run: &InMemorySearch,
        active: &[u32],
    ) -> Result<(f64, bool)> {
        let sides = [active.len(), run.right_rows()];
        let is_small = !RoundSample::pays(sides, run.count(), run.threads().tuning);
        if self.follows && !self.planned.is_empty() {
            // These bounds are cheaper than the last one for any number of pairs.
        } else if is_small {
            self.planned.clear();
        } else if self.planned.is_empty() && self.takes_samples() {
            self.samples += 1;
            self.planned = self.sampled(run, active).await?;
        }
        while let Some(bound) = self.planned.pop() {
            let is_next = self.former.is_none_or(|former| self.is_wider(bound, former));
            if is_next && self.is_wider(self.last, bound) {
                self.former = Some(bound);
                return Ok((bound, false));
            }
        }
        Ok((self.last, true))
    }

    fn takes_samples(&self) -> bool {
        self.function.info().rounds.is_empty() && self.samples < MOST_SAMPLES
    }

    /// Bounds within which most rows of a sample have their neighbours, the narrowest at the end: none
    /// where that is the last.
    async fn sampled(&self, run: &InMemorySearch, active: &[u32]) -> Result<Vec<f64>> {
        let every = |rows: usize, wanted: usize| Evenly::new(rows as u32, wanted as u32).iter();
        let rows = run.right_rows();
        let sizes = RoundSample::of([active.len(), rows], run.count(), run.threads().tuning);
        let left = every(active.len(), sizes.left).map(|at| active[at as usize]);
        let left: Vec<u32> = left.collect();
        let right: Vec<u32> = every(rows, sizes.right).collect();
        let memory = Box::new(run.memory.new_empty());
        let best = Arc::new(TopK::try_new(left.len(), sizes.count, false, memory)?);
        let slots: Vec<u32> = (0..left.len() as u32).collect();
        let left_rows = LeftRows { rows: &left, slots: &slots };
        run.join(self.last, left_rows, Some(&right), &best).await?;
        let mut bounds = best.bounds_of_most(self.function.info().order);
        bounds.reverse();
        Ok(bounds)
    }
}
