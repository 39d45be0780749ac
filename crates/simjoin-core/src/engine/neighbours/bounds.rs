//! The bounds of the rounds before the last one.

use super::NeighbourRequest;
use crate::error::Result;
use crate::predicate::{Function, Order};
use crate::top::{RoundSample, ScoreKey, TopK, key_of, score_of};
use crate::tuning::Tuning;

/// Samples, at most, before the last round.
const MOST_SAMPLES: usize = 4;

/// Chooses the bound of each round.
pub(super) struct RoundBounds {
    function: Function,
    /// The bound of the last round.
    last: f64,
    /// RoundBounds of the next rounds, the next one at the end.
    planned: Vec<f64>,
    /// The samples drawn so far.
    samples: usize,
    /// The bound of the round before.
    former: Option<f64>,
    /// Whether the planned bounds are those of the rows.
    follows: bool,
    /// The neighbours of a row, and the sizes of samples.
    count: usize,
    tuning: Tuning,
}

impl RoundBounds {
    pub(super) fn new(request: &NeighbourRequest<'_>) -> Self {
        let function = request.predicate.call.function;
        let last = request.predicate.bound;
        let of_rows = request.bounds.map(|bounds| bounds_of_rows(bounds, function.info().order));
        let follows = of_rows.as_ref().is_some_and(|bounds| !bounds.is_empty());
        let planned = match of_rows.filter(|_| follows) {
            Some(bounds) => bounds,
            None => function.info().rounds.iter().rev().copied().collect(),
        };
        let (count, tuning) = (request.count, request.threads.tuning);
        Self { function, last, planned, samples: 0, former: None, follows, count, tuning }
    }

    /// Whether `bound` admits more than `other`.
    fn is_wider(&self, bound: f64, other: f64) -> bool {
        match self.function.info().order {
            Order::Similarity => bound < other,
            Order::Distance => bound > other,
        }
    }

    /// The bound of the next round, wider than the one before, given the left and the right rows that take part; `None`
    /// for the last one. `sampled` gives bounds for most left rows, the narrowest at the end.
    pub(super) fn next(
        &mut self,
        rows: [usize; 2],
        sampled: impl FnOnce() -> Result<Vec<f64>>,
    ) -> Result<Option<f64>> {
        let pays = RoundSample::pays(rows, self.count, self.tuning);
        if self.follows && !self.planned.is_empty() {
            // These bounds are cheaper than the last one for any number of pairs.
        } else if !pays {
            self.planned.clear();
        } else if self.planned.is_empty()
            && self.function.info().rounds.is_empty()
            && self.samples < MOST_SAMPLES
        {
            self.samples += 1;
            self.planned = sampled()?;
        }
        while let Some(bound) = self.planned.pop() {
            let is_next = self.former.is_none_or(|former| self.is_wider(bound, former));
            if is_next && self.is_wider(self.last, bound) {
                self.former = Some(bound);
                return Ok(Some(bound));
            }
        }
        Ok(None)
    }
}

/// RoundBounds within which four in five rows, 19 in 20 and all that have a bound of their own have all partners that are
/// needed, the narrowest at the end. None where less than half of the rows have one.
fn bounds_of_rows(bounds: &[f64], order: Order) -> Vec<f64> {
    let mut keys: Vec<ScoreKey> = bounds
        .iter()
        .filter(|bound| bound.is_finite())
        .map(|bound| key_of(*bound, order))
        .collect();
    if keys.len() * 2 < bounds.len() || keys.is_empty() {
        return vec![];
    }
    keys.sort_unstable();
    let served = |part: &f64| keys.get((keys.len() as f64 * part) as usize).copied();
    let planned =
        keys.last().copied().into_iter().chain(TopK::MOST.iter().rev().filter_map(served));
    planned.map(|key| score_of(key, order)).collect()
}
