//! The strategies of weighted sets.

use std::sync::Arc;

use super::join::WeightedJoin;
use super::lookup::{AllSets, IndexedSets};
use super::postings::{self, Postings};
use crate::engine::{Cost, DevicePlace, Estimate, PrepareContext, PreparedJoin, Strategy, Terms};
use crate::error::Result;

/// Every strategy that `auto` compares, in the order in which equal estimates are preferred.
pub(super) static STRATEGIES: [&dyn Strategy<WeightedJoin>; 2] = [&PrefixLists, &WeightedLoop];

/// Prefixes of sets by token, with what is left of each set: PPJoin with weights.
#[derive(Debug)]
pub(super) struct PrefixLists;

/// All pairs, without an index.
#[derive(Debug)]
pub(super) struct WeightedLoop;

/// Nanoseconds of one core, as measured on an AMD EPYC.
mod nanos {
    /// Taking up a probe set, going to a list, and looking at a posting.
    pub(super) const SET: f64 = 400.0;
    pub(super) const LIST: f64 = 60.0;
    pub(super) const POSTING: f64 = 1.0;
    /// Indexing a token.
    pub(super) const INDEX: f64 = 40.0;
    /// Comparing two sets: always, and for each token of the build set.
    pub(super) const PAIR: f64 = 8.0;
    pub(super) const TOKEN: f64 = 0.8;
}

impl Strategy<WeightedJoin> for PrefixLists {
    fn name(&self) -> &'static str {
        "ppjoin"
    }

    fn estimate(&self, join: &mut WeightedJoin, terms: &Terms<'_>) -> Result<Estimate> {
        if terms.is_only {
            return Ok(Estimate::new(Some(Cost::cpu(0.0)), ()));
        }
        let ratio = join.build.probe_ratio(&join.spec);
        let lists = postings::lengths(&join.limits, &join.build, terms.context)?;
        let (mut indexed, mut pairs) = (0.0, 0.0);
        for length in lists.into_iter().map(f64::from) {
            indexed += length;
            pairs += length * length;
        }
        let cpu = indexed * nanos::INDEX
            + ratio * (indexed * nanos::LIST + f64::from(join.build.len()) * nanos::SET)
            + ratio * pairs * join.share_of_pairs() * nanos::POSTING;
        Ok(Estimate::new(Some(Cost::cpu(cpu)), ()))
    }

    fn prepare(
        &self,
        join: &WeightedJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let postings = Arc::new(Postings::new(&join.limits, &join.build, context)?);
        Ok(Arc::new(IndexedSets { join: join.clone(), postings }))
    }
}

impl Strategy<WeightedJoin> for WeightedLoop {
    fn name(&self) -> &'static str {
        "nested-loop"
    }

    fn estimate(&self, join: &mut WeightedJoin, _: &Terms<'_>) -> Result<Estimate> {
        let sets = f64::from(join.build.len());
        let pairs = sets * sets * join.build.probe_ratio(&join.spec) * join.share_of_pairs();
        let tokens = join.build.tokens.len() as f64 / sets.max(1.0);
        Ok(Estimate::new(Some(Cost::cpu(pairs * (nanos::PAIR + nanos::TOKEN * tokens))), ()))
    }

    fn prepare(
        &self,
        join: &WeightedJoin,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        _: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(AllSets(join.clone())))
    }
}
