//! Whether searches for single sets are less work than joins with bounds.

use super::side::{SideValues, encoded, merged};
use crate::engine::{Encoding, NeighbourRequest};
use crate::error::Result;
use crate::predicate::Side;
use crate::set::matcher::SetMatcher;
use crate::set::runs::SetId;
use crate::tuning::Tuning;

/// Rows of a sample, and the rows of it that lie together.
const SAMPLE: usize = 1 << 10;
const TOGETHER: usize = 1 << 7;

/// The share of the sets that the rarer half of a set's tokens may find, for which a set is searched for.
const MOST_FOUND: f64 = 0.18;

/// Steps for each right set with which joins find the neighbours of a left one, about.
const OF_JOINS: f64 = 0.35;

/// Whether the rarer half of a set's tokens finds few sets, by a sample of the right rows. Of small
/// sizes it always does.
pub(super) fn suits(matcher: &SetMatcher, request: &NeighbourRequest<'_>) -> Result<bool> {
    if request.threads.tuning.is_small() {
        return Ok(true);
    }
    let side = if request.itself { Side::Left } else { Side::Right };
    let (argument, of_origin) = (request.sides[side as usize].argument, matcher.reads_origin(side));
    let all: usize = argument.rows().iter().sum();
    let step = (all * TOGETHER / SAMPLE).max(TOGETHER);
    let memory = request.reservation.new_empty();
    let (mut encoders, mut start, mut next) = (vec![], 0, 0);
    for (batch, rows) in argument.rows().iter().copied().enumerate() {
        while next < start + rows {
            let from = next - start;
            let values = argument.values(batch, from..rows.min(from + TOGETHER), of_origin)?;
            let values = SideValues::all(next as u32, values, memory.new_empty());
            encoders.push(encoded(matcher, side, [Ok(values)], &memory)?);
            next += step;
        }
        start += rows;
    }
    let (sets, _) = merged(encoders, request, &memory)?;
    let mut counts = vec![0_u32; sets.universe() as usize];
    sets.csr().1.iter().for_each(|token| counts[*token as usize] += 1);
    let found = |set: SetId| -> u64 {
        let tokens = sets.tokens(set);
        let rarer = &tokens[..tokens.len().div_ceil(2)];
        rarer.iter().map(|token| u64::from(counts[*token as usize] - 1)).sum()
    };
    let found: u64 = (0..sets.len()).map(found).sum();
    let len = f64::from(sets.len());
    Ok(found as f64 <= MOST_FOUND * len * len)
}

/// The steps of some searches.
#[derive(Debug, Default)]
pub(super) struct Tried {
    sets: u64,
    steps: u64,
}

impl Tried {
    /// The sets to try among these.
    pub(super) fn sets(len: SetId) -> impl Iterator<Item = SetId> {
        const TRIED: u32 = 64;
        let step = len.div_ceil(TRIED).max(1);
        (step / 2..len).step_by(step as usize)
    }

    /// Adds the steps of a search.
    pub(super) fn add(&mut self, steps: u64) {
        self.sets += 1;
        self.steps += steps;
    }

    /// Whether searches among so many right sets are less work than joins. Of small sizes they always are.
    pub(super) fn pays(&self, right: SetId, tuning: Tuning) -> bool {
        /// Steps of a left set besides.
        const BESIDES: f64 = 4e3;
        let of_joins = OF_JOINS * f64::from(right) + BESIDES;
        tuning.is_small() || self.steps as f64 <= of_joins * self.sets as f64
    }
}
