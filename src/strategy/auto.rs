//! The choice of a strategy.

use super::{Cost, FilterVerify, JoinSpec, JoinStrategy};
use crate::config::StrategyChoice;
use crate::sets::SetCollection;

/// The strategy that `choice` names, or the cheapest one by its own estimate, with that estimate.
pub fn choose(
    choice: StrategyChoice,
    build: &SetCollection,
    spec: &JoinSpec,
) -> (&'static dyn JoinStrategy, Cost) {
    const ALL_PAIRS: &FilterVerify = &FilterVerify { positional: false };
    const PP_JOIN: &FilterVerify = &FilterVerify { positional: true };
    let fixed: &'static dyn JoinStrategy = match choice {
        StrategyChoice::AllPairs => ALL_PAIRS,
        StrategyChoice::PPJoin => PP_JOIN,
        StrategyChoice::Auto => {
            let strategies: [&'static dyn JoinStrategy; 2] = [ALL_PAIRS, PP_JOIN];
            let costs = strategies.map(|s| (s, s.estimate(build, spec)));
            let [first, second] = costs;
            return if first.1 <= second.1 { first } else { second };
        }
    };
    (fixed, fixed.estimate(build, spec))
}
