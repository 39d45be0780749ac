//! The registry of strategies: the lists of all families that a session knows, with what only comparisons
//! run.

use crate::engine::StrategyInfo;
#[cfg(test)]
use crate::session::texts;
use crate::session::{sets, vectors};
#[cfg(test)]
use crate::weighted::WeightedFamily;

/// The strategies of sets: those that `auto` compares, in the order in which equal estimates are preferred,
/// and those that a join has to name.
pub fn of_sets() -> Vec<StrategyInfo> {
    sets().strategies()
}

/// The strategies of distances between vectors, in the same order. Other metrics have fewer.
pub fn of_vectors() -> Vec<StrategyInfo> {
    vectors().strategies()
}

/// The strategies of weighted sets, in the same order.
#[cfg(test)]
pub(crate) fn of_weighted_sets() -> Vec<StrategyInfo> {
    WeightedFamily::strategies()
}

/// The strategies of texts, in the same order.
#[cfg(test)]
pub(crate) fn of_strings() -> Vec<StrategyInfo> {
    texts().strategies()
}

/// The names of all strategies, which `simjoin.strategy` accepts besides `auto`. Strategies of several
/// families may share one.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let families = [of_sets(), of_strings(), of_vectors(), of_weighted_sets()];
    let mut names: Vec<&str> = vec![];
    for name in families.into_iter().flatten().map(|strategy| strategy.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ_and_are_written_in_small_letters() {
        for family in [of_sets(), of_strings(), of_vectors(), of_weighted_sets()] {
            let distinct: BTreeSet<_> = family.iter().map(|strategy| strategy.name()).collect();
            assert_eq!(distinct.len(), family.len());
            assert!(!distinct.contains("auto"));
        }
        for name in names() {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        }
    }
}
