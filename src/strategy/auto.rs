//! The choice of a strategy.

use std::fmt;

use datafusion::common::Result;

use super::{BitmapBlocks, Cost, FilterVerify, JoinSpec, JoinStrategy, PrepareContext, Statistics};
use crate::config::StrategyChoice;
use crate::sets::SetCollection;

/// Joins estimated to take less (nanoseconds of a core) are not worth a sample.
const WORTH_SAMPLING: f64 = 12e6;

const ALL_PAIRS: &FilterVerify = &FilterVerify::AllPairs;
const PP_JOIN: &FilterVerify = &FilterVerify::PPJoin;
const GROUP_JOIN: &FilterVerify = &FilterVerify::GroupJoin;
const BITMAP: &BitmapBlocks = &BitmapBlocks;

/// A strategy with the figures that speak for it.
#[derive(Debug)]
pub struct Choice {
    pub strategy: &'static dyn JoinStrategy,
    pub statistics: Statistics,
    /// Its estimate.
    pub cost: Cost,
    /// The other strategies and their estimates, where they were compared.
    pub others: Vec<(&'static str, Cost)>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (estimated {}", self.strategy.name(), self.cost)?;
        for (i, (name, cost)) in self.others.iter().enumerate() {
            write!(f, "{} {name} {cost}", if i == 0 { ";" } else { "," })?;
        }
        f.write_str(")")
    }
}

/// The strategy that `choice` names, or the cheapest one by its own estimate.
pub fn choose(
    choice: StrategyChoice,
    build: &SetCollection,
    spec: &JoinSpec,
    context: PrepareContext<'_>,
) -> Result<Choice> {
    let mut statistics = Statistics::gather(build, spec, context)?;
    let indexed = PP_JOIN.estimate(&statistics, spec).0;
    let fixed: Option<&'static dyn JoinStrategy> = match choice {
        StrategyChoice::AllPairs => Some(ALL_PAIRS),
        StrategyChoice::PPJoin => Some(PP_JOIN),
        StrategyChoice::GroupJoin => Some(GROUP_JOIN),
        StrategyChoice::Bitmap => Some(BITMAP),
        StrategyChoice::Auto => None,
    };
    if indexed > WORTH_SAMPLING || choice == StrategyChoice::Bitmap {
        statistics.sample(build, spec);
    }
    if let Some(strategy) = fixed {
        let cost = strategy.estimate(&statistics, spec);
        return Ok(Choice { strategy, statistics, cost, others: vec![] });
    }
    let strategies: [&'static dyn JoinStrategy; 4] = [PP_JOIN, BITMAP, ALL_PAIRS, GROUP_JOIN];
    let mut costs = strategies.map(|s| (s, s.estimate(&statistics, spec)));
    costs.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let [(strategy, cost), others @ ..] = costs;
    let others = others.into_iter().map(|(s, cost)| (s.name(), cost)).collect();
    Ok(Choice { strategy, statistics, cost, others })
}
