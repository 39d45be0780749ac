//! A condition that decides pairs of rows.

use std::fmt::Debug;

use super::{NeighbourRequest, Neighbours};
use crate::error::Result;
use crate::predicate::Call;
use crate::util::evenly::Evenly;
use crate::util::parallel::map;

/// Pairs that are held against a condition together, about.
pub(super) const BLOCK: usize = 1 << 13;

/// A condition on pairs of rows.
pub trait PairCondition: Debug + Send + Sync {
    /// The functions whose values it reads.
    fn calls(&self) -> &[Call];

    /// Whether pairs of a left and a right row, given by their numbers, meet the condition. `values` has the values of
    /// each of [`Self::calls`].
    ///
    /// # Errors
    ///
    /// The errors of evaluating it.
    fn hold(&self, left: &[u32], right: &[u32], values: &[Vec<f64>]) -> Result<Vec<bool>>;
}

/// Whether a condition holds for most pairs of rows, by some of them. One that reads the value of the function is taken to
/// hold, and one that reads others not to: a search finds these pair by pair.
pub(super) fn mostly_holds(condition: &dyn PairCondition, request: &NeighbourRequest<'_>) -> bool {
    const PAIRS: u32 = 1 << 10;
    const MOST: f64 = 0.9;
    if !condition.calls().is_empty() {
        return condition.calls().iter().all(|call| *call == request.predicate.call);
    }
    let [lefts, rights] = request.sides.map(|side| side.rows);
    if lefts.is_empty() || rights.is_empty() {
        return false;
    }
    // Rows far from each other in one side meet rows all over the other one.
    const STRIDE: usize = 7919;
    let left: Vec<u32> =
        Evenly::new(lefts.len() as u32, PAIRS).iter().map(|place| lefts[place as usize]).collect();
    let right: Vec<u32> =
        (1..=left.len()).map(|pair| rights[pair * STRIDE % rights.len()]).collect();
    // Its errors count for pairs that are found.
    let Ok(holds) = condition.hold(&left, &right, &[]) else { return false };
    let held = holds.iter().filter(|holds| **holds).count();
    held as f64 >= MOST * holds.len() as f64
}

/// Leaves of the neighbours of each row those that meet a condition. Where the row had as many as were `asked` for and has
/// too few now, it is not served.
///
/// # Errors
///
/// The errors of the condition, and when memory is refused.
pub(super) fn meeting(
    condition: &dyn PairCondition,
    request: &NeighbourRequest<'_>,
    found: Neighbours,
    asked: usize,
) -> Result<Neighbours> {
    let step = (BLOCK / asked.max(1)).max(1);
    let places = (0..found.counts.len()).step_by(step);
    let parts = map(request.threads, places.collect(), |start: usize| {
        request.cancel.check()?;
        let places = start..found.counts.len().min(start + step);
        let (mut left, mut right, mut values) = (vec![], vec![], vec![]);
        for (place, row) in places.clone().zip(&request.sides[0].rows[places]) {
            let Some((partners, of_row)) = found.of(place) else { continue };
            left.extend(partners.iter().map(|_| *row));
            right.extend(partners);
            values.extend(of_row);
        }
        let values = vec![values; condition.calls().len()];
        condition.hold(&left, &right, &values)
    })?;
    let mut met = Neighbours::none(request)?;
    let mut holds = parts.into_iter().flatten();
    let mut again = 0;
    for place in 0..found.counts.len() {
        let Some((partners, values)) = found.of(place) else { continue };
        let start = met.partners.len();
        let beyond = |value: f64| !request.predicate.admits(value);
        let mut is_bounded = partners.len() < asked;
        for (partner, value) in partners.iter().zip(values) {
            is_bounded |= beyond(*value);
            if holds.next() == Some(true) {
                met.partners.try_push(*partner)?;
                met.values.try_push(*value)?;
            }
        }
        let kept = met.partners.len() - start;
        // Every pair within the bound is known where one beyond it is.
        if kept >= request.count || is_bounded {
            (met.starts[place], met.counts[place]) = (start as u32, kept as u32);
        } else {
            met.partners.truncate(start);
            met.values.truncate(start);
            again += 1;
        }
    }
    met.rounds = found.rounds;
    // The last searches have served the rows that take part again.
    for round in met.rounds.iter_mut().rev() {
        let of_round = again.min(round.served);
        round.served -= of_round;
        again -= of_round;
    }
    Ok(met)
}
