//! A predicate over vectors, as the operator knows it.

use std::sync::Arc;

use super::collection::Vectors;
use super::cost::pair_cost;
use super::encode::VectorValues;
use super::index::{self, VectorIndex};
use super::join::VectorJoin;
use super::metric::{ArgumentOrder, Joining, Metric, Threshold};
use super::nested_loop;
use super::numbers::NumberColumn;
use super::strategies::NestedLoop;
use super::width::VectorPair;
use crate::engine::{
    Axis, BuildEncoder, EncodeInput, Encoding, Growth, ItemPair, KeyDictionary, MatchSpec, Matcher,
    Pairing, PrepareContext, RowEncoder, RowMatcher, Strategy, StrategyName, WorkStep,
};
use crate::error::{Result, internal_err};
use crate::predicate::{Call, Side};

/// A metric with its threshold.
#[derive(Debug)]
pub(super) struct VectorMatcher {
    pub threshold: Threshold,
    /// The side that gives the first argument.
    pub first: Side,
    pub values: VectorValues,
    /// By side, whether the argument is a cast whose values are read in its place.
    pub casts: [bool; 2],
    /// The strategies of the metric.
    pub strategies: Vec<&'static dyn Strategy<VectorJoin>>,
    /// Further ones, for joins that name them.
    pub comparisons: &'static [&'static dyn Strategy<VectorJoin>],
}

impl RowMatcher for VectorMatcher {
    type Values = VectorValues;

    fn values(&self) -> &VectorValues {
        &self.values
    }

    fn axis(&self) -> &dyn Axis {
        &self.values.axis
    }

    fn reads_origin(&self, side: Side) -> bool {
        self.casts[side as usize]
    }
}

impl Matcher for VectorMatcher {
    type Join = VectorJoin;

    fn rows_with_nan(&self, input: &EncodeInput<'_>) -> usize {
        // Any other column fails when it is encoded.
        let Ok(numbers) = NumberColumn::try_new(input.values) else { return 0 };
        numbers.rows_with_nan().filter(|row| input.may_match(*row)).count()
    }

    fn growth(
        &self,
        parts: &[(&RowEncoder<VectorValues>, &KeyDictionary)],
        _: &MatchSpec,
        _: StrategyName,
    ) -> Result<Growth> {
        let (mut rows, mut numbers, mut widest) = (0, 0, 0);
        for (encoder, _) in parts {
            rows += encoder.row_count();
            numbers += encoder.element_count();
            widest = widest.max(encoder.longest());
        }
        let panels = nested_loop::prepared_bytes(rows, numbers);
        let prepare = match self.threshold.metric {
            Metric::InnerProduct => panels,
            Metric::Euclidean | Metric::Cosine => panels.max(VectorIndex::bytes(rows, numbers)),
        };
        let cursor = nested_loop::least_block_bytes(widest);
        Ok(Growth { prepare, cursor, ..self.finish_growth(parts) })
    }

    fn cursor_bytes(&self, _: &MatchSpec) -> usize {
        nested_loop::CURSOR_BYTES.max(index::CURSOR_BYTES)
    }

    fn strategies(&self) -> &[&'static dyn Strategy<VectorJoin>] {
        &self.strategies
    }

    fn comparisons(&self) -> &[&'static dyn Strategy<VectorJoin>] {
        self.comparisons
    }

    fn smallest(&self) -> Option<StrategyName> {
        Some(StrategyName::new(NestedLoop.name()))
    }

    fn join(
        &self,
        build: &Arc<Vectors>,
        spec: &MatchSpec,
        _: PrepareContext<'_>,
    ) -> Result<VectorJoin> {
        let orders = ArgumentOrder::of(spec, self.first);
        let joining = Joining { threshold: self.threshold, orders, spec: *spec };
        Ok(VectorJoin::new(Arc::clone(build), joining))
    }

    fn work(&self, vectors: &Vectors, spec: &MatchSpec) -> Result<Vec<WorkStep>> {
        if vectors.runs().len() > WorkStep::MOST {
            return Ok(WorkStep::even(vectors.len()));
        }
        let steps = vectors.runs().iter().map(|run| {
            let cost = pair_cost(run.lens[1]).max(1.0) as u64;
            let items = run.items.len() as u32;
            // To convert a vector, and its own pairs.
            let first = 50 + u64::from(run.lens[1]);
            let (first, slope) = match spec.pairing() {
                Pairing::All => (first + cost * u64::from(items), 0),
                Pairing::Unordered => (first, cost),
            };
            WorkStep { start: run.items.start, items, first, slope }
        });
        Ok(steps.collect())
    }

    fn scores(
        &self,
        call: Call,
        [left, right]: [&Vectors; 2],
        pairs: &[ItemPair],
        values: &mut Vec<f64>,
    ) -> Result<()> {
        let metric = Metric::of(call.function)?;
        let vectors = |pair: &ItemPair| {
            let [l, r] = pair.items;
            let (x, y) = (left.vector(l), right.vector(r));
            if call.first == Side::Left { [x, y] } else { [y, x] }
        };
        let start = values.len();
        // Of NaN, the function says which.
        let mut asked: Vec<(usize, VectorPair<'_>)> = vec![];
        let (fours, rest) = pairs.as_chunks::<4>();
        let of_fours = fours.iter().flat_map(|four| {
            let pairs = four.each_ref().map(vectors);
            let is_even = pairs.iter().flatten().all(|vector| vector.len() == pairs[0][0].len());
            match is_even {
                true => metric.numbers(pairs),
                false => pairs.map(|[x, y]| metric.number(x, y)),
            }
        });
        let of_rest = rest.iter().map(vectors).map(|[x, y]| metric.number(x, y));
        for (place, value) in of_fours.chain(of_rest).enumerate() {
            match value {
                Some(value) => values.push(value),
                None => return internal_err!("a matching pair has no {metric:?} value"),
            }
            if values.last().is_some_and(|value| value.is_nan()) {
                asked.push((start + place, vectors(&pairs[place])));
            }
        }
        let of_asked: Vec<VectorPair<'_>> = asked.iter().map(|(_, pair)| *pair).collect();
        let of_asked = metric.values_of_function(&of_asked)?;
        for ((place, _), value) in asked.into_iter().zip(of_asked) {
            values[place] = value.unwrap_or(f64::NAN);
        }
        Ok(())
    }
}
