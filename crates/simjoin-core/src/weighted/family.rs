//! The family as the planner knows it.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::axis::TotalAxis;
use super::column::{is_weighted_set, token_kind};
use super::encode::WeightedValues;
use super::matcher::WeightedMatcher;
use super::measure::{FAMILY, WeightedMeasure};
use super::strategies::STRATEGIES;
use crate::engine::{
    AnyMatcher, Argument, Axis, Family, PlaceReader, RowPlaces, StrategyInfo, check_arguments,
};
use crate::error::{Result, plan_err};
use crate::predicate::{Function, Predicate, Side};

/// Joins by similarities of weighted sets.
#[derive(Debug, Clone, Copy, Default)]
pub struct WeightedFamily;

impl WeightedFamily {
    /// The strategies that `auto` compares, in the order in which equal estimates are preferred.
    pub fn strategies() -> Vec<StrategyInfo> {
        StrategyInfo::listed(&[&STRATEGIES])
    }
}

fn values(predicate: &Predicate) -> Result<WeightedValues> {
    let measure = WeightedMeasure::of(predicate.call.function)?;
    Ok(WeightedValues::new(measure, TotalAxis::new(measure, predicate)))
}

impl Family for WeightedFamily {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn functions(&self) -> Vec<Function> {
        WeightedMeasure::ALL.into_iter().map(WeightedMeasure::function).collect()
    }

    /// As for sets: by the least ratio of totals, then by the threshold.
    fn selectivity(&self, predicate: &Predicate) -> [f64; 2] {
        let Ok(measure) = WeightedMeasure::of(predicate.call.function) else {
            return [f64::NEG_INFINITY; 2];
        };
        let threshold = predicate.bound;
        if threshold.is_nan() {
            return [f64::INFINITY; 2];
        }
        let ratio = match measure {
            WeightedMeasure::Jaccard => threshold,
            WeightedMeasure::Dice => threshold / (2.0 - threshold),
            WeightedMeasure::Cosine => threshold * threshold,
            WeightedMeasure::Containment => 0.0,
            WeightedMeasure::Overlap => -2.0,
        };
        [ratio, threshold]
    }

    fn bind(
        &self,
        predicate: Predicate,
        arguments: [Argument<'_>; 2],
    ) -> Result<Arc<dyn AnyMatcher>> {
        let names = [
            "weighted sets (lists of structs with the fields token and weight, an unsigned 32-bit integer)",
            ", or make them with tfidf(word_tokens(text)) OVER (), token_counts(list) or weigh(list, weights)",
        ];
        check_arguments(&predicate.call, arguments, is_weighted_set, names)?;
        if let [Some(left), Some(right)] = arguments.map(|argument| token_kind(argument.data_type))
            && !left.comparable(right)
        {
            return plan_err!(
                "{} cannot compare {left} tokens with {right} tokens; cast one side",
                predicate.call.function
            );
        }
        Ok(Arc::new(WeightedMatcher { predicate, values: values(&predicate)? }))
    }

    fn axis(&self, predicate: Predicate) -> Result<Arc<dyn Axis>> {
        Ok(Arc::new(values(&predicate)?.axis))
    }

    fn place_reader(
        &self,
        predicate: Predicate,
        side: Side,
        argument: &DataType,
    ) -> Result<Box<dyn PlaceReader>> {
        match is_weighted_set(argument) {
            true => Ok(Box::new(RowPlaces::new(values(&predicate)?))),
            false => plan_err!(
                "rows are placed by a weighted set, but the {side} argument is {argument}"
            ),
        }
    }
}
