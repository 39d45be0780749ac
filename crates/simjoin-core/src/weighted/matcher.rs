//! A predicate over weighted sets, as the operator knows it.

use std::sync::Arc;

use super::collection::WeightedSets;
use super::encode::WeightedValues;
use super::join::WeightedJoin;
use super::limits::WeightLimits;
use super::lookup::cursor_bytes;
use super::measure::WeightedMeasure;
use super::postings::Postings;
use super::strategies::{STRATEGIES, WeightedLoop};
use crate::engine::{
    Axis, BuildEncoder, Encoding, Growth, ItemPair, KeyDictionary, MatchSpec, Matcher,
    PrepareContext, RowEncoder, RowMatcher, Strategy, StrategyName,
};
use crate::error::Result;
use crate::predicate::{Call, Predicate, Side};

/// A measure of weighted sets with its threshold.
#[derive(Debug)]
pub(super) struct WeightedMatcher {
    pub predicate: Predicate,
    pub values: WeightedValues,
}

impl RowMatcher for WeightedMatcher {
    type Values = WeightedValues;

    fn values(&self) -> &WeightedValues {
        &self.values
    }

    fn axis(&self) -> &dyn Axis {
        &self.values.axis
    }
}

impl Matcher for WeightedMatcher {
    type Join = WeightedJoin;

    fn growth(
        &self,
        parts: &[(&RowEncoder<WeightedValues>, &KeyDictionary)],
        _: &MatchSpec,
        strategy: StrategyName,
    ) -> Result<Growth> {
        let rows = parts.iter().map(|(encoder, _)| encoder.row_count()).sum();
        let tokens = parts.iter().map(|(encoder, _)| encoder.element_count()).sum();
        let prepare = match strategy == StrategyName::new(WeightedLoop.name()) {
            true => 0,
            false => Postings::bytes(rows, tokens),
        };
        Ok(Growth { prepare, cursor: cursor_bytes(rows, tokens), ..self.finish_growth(parts) })
    }

    fn strategies(&self) -> &[&'static dyn Strategy<WeightedJoin>] {
        &STRATEGIES
    }

    fn smallest(&self) -> Option<StrategyName> {
        Some(StrategyName::new(WeightedLoop.name()))
    }

    fn join(
        &self,
        build: &Arc<WeightedSets>,
        spec: &MatchSpec,
        _: PrepareContext<'_>,
    ) -> Result<WeightedJoin> {
        let limits = WeightLimits::of(&self.predicate, spec)?;
        Ok(WeightedJoin { build: Arc::clone(build), limits, spec: *spec })
    }

    fn scores(
        &self,
        call: Call,
        [left, right]: [&WeightedSets; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()> {
        let measure = WeightedMeasure::of(call.function)?;
        for &ItemPair { items: [l, r], .. } in pairs {
            let common = common(measure, left.set(l), right.set(r));
            let is_first = call.first == Side::Left;
            values.push(measure.value_in(is_first, common, left.mass(l), right.mass(r)));
        }
        Ok(())
    }
}

/// What two sets have in common, by their tokens in order.
fn common(measure: WeightedMeasure, a: (&[u32], &[u32]), b: (&[u32], &[u32])) -> u64 {
    let (mut common, mut rest) = (0, b.0.iter().zip(b.1).peekable());
    for (token, weight) in a.0.iter().zip(a.1) {
        while rest.next_if(|(other, _)| *other < token).is_some() {}
        if let Some((_, other)) = rest.next_if(|(other, _)| *other == token) {
            common += measure.common(*weight, *other);
        }
    }
    common
}
