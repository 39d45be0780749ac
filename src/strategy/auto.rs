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
    const ALL_PAIRS: &FilterVerify = &FilterVerify::AllPairs;
    const PP_JOIN: &FilterVerify = &FilterVerify::PPJoin;
    const GROUP_JOIN: &FilterVerify = &FilterVerify::GroupJoin;
    let fixed: &'static dyn JoinStrategy = match choice {
        StrategyChoice::AllPairs => ALL_PAIRS,
        StrategyChoice::PPJoin => PP_JOIN,
        StrategyChoice::GroupJoin => GROUP_JOIN,
        // Stands in until the strategy of that name is there.
        StrategyChoice::Bitmap => PP_JOIN,
        StrategyChoice::Auto => {
            let strategies: [&'static dyn JoinStrategy; 3] = [ALL_PAIRS, PP_JOIN, GROUP_JOIN];
            let costs = strategies.map(|s| (s, s.estimate(build, spec)));
            let [first, rest @ ..] = costs;
            return rest.into_iter().fold(first, |best, s| if s.1 < best.1 { s } else { best });
        }
    };
    (fixed, fixed.estimate(build, spec))
}
