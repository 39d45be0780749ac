//! A predicate over texts, as the operator knows it.

use std::sync::Arc;

use super::axis::LengthAxis;
use super::collection::Strings;
use super::cursor::CURSOR_BYTES;
use super::deletion_join::{self, Neighbourhoods};
use super::encode::TextValues;
use super::finder::{boxes_bytes, scratch_bytes};
use super::function::StringFunction;
use super::join::StringJoin;
use super::strategies;
use super::threshold::Threshold;
use super::value::PairEvaluator;
use crate::engine::{
    Axis, BuildEncoder, Encoding, Growth, ItemPair, KeyDictionary, MatchSpec, Matcher, Pairing,
    PrepareContext, RowEncoder, RowMatcher, Strategy, StrategyName, WorkStep,
};
use crate::error::{Result, internal_err};
use crate::predicate::Call;

/// A function of texts with its threshold.
#[derive(Debug)]
pub(super) struct StringMatcher {
    threshold: Threshold,
    values: TextValues,
    strategies: Vec<&'static dyn Strategy<StringJoin>>,
}

impl StringMatcher {
    /// The predicate, with further strategies on devices.
    pub(super) fn new(
        threshold: Threshold,
        on_devices: &[&'static dyn Strategy<StringJoin>],
    ) -> Self {
        let strategies = [strategies::of(threshold), on_devices].concat();
        Self { threshold, values: TextValues::new(LengthAxis::new(threshold)), strategies }
    }
}

impl RowMatcher for StringMatcher {
    type Values = TextValues;

    fn values(&self) -> &TextValues {
        &self.values
    }

    fn axis(&self) -> &dyn Axis {
        &self.values.axis
    }
}

impl Matcher for StringMatcher {
    type Join = StringJoin;

    fn growth(
        &self,
        parts: &[(&RowEncoder<TextValues>, &KeyDictionary)],
        _: &MatchSpec,
        strategy: StrategyName,
    ) -> Result<Growth> {
        let (mut rows, mut bytes, mut longest, mut key_count) = (0, 0, 0, 0);
        for (encoder, keys) in parts {
            rows += encoder.row_count();
            bytes += encoder.element_count();
            longest = longest.max(encoder.longest());
            key_count += keys.len() as usize;
        }
        // `auto` takes an index of deletions only where memory has room for it.
        let prepare = match self.threshold.deletions() {
            Some(edits) if strategy == StrategyName::new(Neighbourhoods.name()) => {
                deletion_join::index_bytes(rows, bytes, longest, edits)
            }
            _ => boxes_bytes(rows, bytes, longest, key_count.max(1), self.threshold.by_prefix()),
        };
        let runs = rows.min(key_count.max(1).saturating_mul(longest + 1));
        let cursor = scratch_bytes(self.threshold, longest, runs);
        Ok(Growth { prepare, cursor, ..self.finish_growth(parts) })
    }

    fn cursor_bytes(&self, _: &MatchSpec) -> usize {
        CURSOR_BYTES
    }

    fn strategies(&self) -> &[&'static dyn Strategy<StringJoin>] {
        &self.strategies
    }

    fn join(
        &self,
        build: &Arc<Strings>,
        spec: &MatchSpec,
        _: PrepareContext<'_>,
    ) -> Result<StringJoin> {
        Ok(StringJoin::new(Arc::clone(build), self.threshold, *spec))
    }

    fn work(&self, strings: &Strings, spec: &MatchSpec) -> Result<Vec<WorkStep>> {
        /// Nanoseconds of a pair that most filters leave out.
        const PAIR: f64 = 0.2;
        if strings.runs().len() > WorkStep::MOST {
            return Ok(WorkStep::even(strings.len()));
        }
        let steps = strings.runs().iter().map(|run| {
            let lens = self.threshold.partner_lens(run.len);
            let of_run = |partner: &super::collection::Run| match spec.pairing() {
                Pairing::Unordered if partner.items.start >= run.items.start => 0.0,
                _ => PAIR * partner.items.len() as f64,
            };
            let partners = &strings.runs()[strings.runs_within(run.key, &lens)];
            let first = 100.0 + partners.iter().map(of_run).sum::<f64>();
            let slope = match spec.pairing() {
                Pairing::All => 0.0,
                Pairing::Unordered => PAIR,
            };
            let items = run.items.len() as u32;
            // In sixteenths of a nanosecond: a pair takes less than one.
            let [first, slope] = [first, slope].map(|nanos| (16.0 * nanos) as u64);
            WorkStep { start: run.items.start, items, first, slope }
        });
        Ok(steps.collect())
    }

    fn scores(
        &self,
        call: Call,
        [left, right]: [&Strings; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()> {
        let function = StringFunction::of(call.function)?;
        let mut of_function = PairEvaluator::new(function);
        for &ItemPair { items: [l, r], detail } in pairs {
            if function == self.threshold.function && function.is_distance() {
                values.push(f64::from(detail));
                continue;
            }
            match of_function.of(left.text(l), right.text(r)) {
                Some(value) => values.push(value.number()),
                None => return internal_err!("a matching pair has no {} value", function.name()),
            }
        }
        Ok(())
    }
}
