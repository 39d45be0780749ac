//! Sets as a family of similarities.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::engine::{AnyMatcher, Argument, Axis, Family, PlaceReader, Strategy, StrategyInfo};
use crate::error::{Result, plan_err};
use crate::predicate::{Function, Predicate, Side};
use crate::set::axis::SizeAxis;
use crate::set::encode::stored_tokens::StoredTokens;
use crate::set::join::SetJoin;
use crate::set::matcher::{SetMatcher, Sources};
use crate::set::measure::{Bounds, FAMILY, Measure};
use crate::set::shape::ShapeReader;
use crate::set::strategies::STRATEGIES;
use crate::values::TokenKind;

/// The six measures over sets of tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetFamily {
    on_devices: &'static [&'static dyn Strategy<SetJoin>],
    comparisons: &'static [&'static dyn Strategy<SetJoin>],
}

impl SetFamily {
    /// The predicate over lists of tokens.
    fn matcher(&self, predicate: Predicate, arguments: [Argument<'_>; 2]) -> Result<SetMatcher> {
        let function = predicate.call.function;
        let kind = |side: Side| {
            let data_type = arguments[side as usize].data_type;
            match TokenKind::of_list(data_type) {
                Some(kind) => Ok(kind),
                None => plan_err!(
                    "{function} joins lists of tokens, but the {side} argument is {data_type}; \
                     turn text into a list with qgrams(text, 3) or word_tokens(text)"
                ),
            }
        };
        let (left, right) = (kind(Side::Left)?, kind(Side::Right)?);
        if !left.comparable(right) {
            return plan_err!(
                "{function} cannot compare {left} tokens with {right} tokens; cast one side"
            );
        }
        let stored = arguments.map(|argument| StoredTokens::of_list(argument.data_type));
        let sources = Sources::of(arguments);
        SetMatcher::try_new(predicate, stored, sources)
    }

    /// The family with strategies on devices, which `auto` compares with its own.
    pub fn with_devices(self, on_devices: &'static [&'static dyn Strategy<SetJoin>]) -> Self {
        Self { on_devices, ..self }
    }

    /// The family with further strategies, for joins that name them.
    pub fn with_comparisons(self, comparisons: &'static [&'static dyn Strategy<SetJoin>]) -> Self {
        Self { comparisons, ..self }
    }

    /// The strategies that `auto` compares, in the order in which equal estimates are preferred, and the
    /// further ones.
    pub fn strategies(&self) -> Vec<StrategyInfo> {
        StrategyInfo::listed(&[STRATEGIES, self.on_devices, self.comparisons])
    }
}

impl Family for SetFamily {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn functions(&self) -> Vec<Function> {
        Measure::ALL.into_iter().map(Measure::function).collect()
    }

    /// By the least ratio of set sizes that the predicate admits, then by the threshold.
    fn selectivity(&self, predicate: &Predicate) -> [f64; 2] {
        let Ok(Bounds { measure, threshold }) = Bounds::of(predicate) else {
            return [f64::NEG_INFINITY; 2];
        };
        if threshold.is_nan() {
            return [f64::INFINITY; 2];
        }
        let ratio = match measure {
            Measure::Jaccard => threshold,
            Measure::Dice => threshold / (2.0 - threshold),
            Measure::Cosine => threshold * threshold,
            // These bound one size at most.
            Measure::Containment => 0.0,
            Measure::OverlapCoefficient => -1.0,
            Measure::Overlap => -2.0,
        };
        [ratio, threshold]
    }

    fn bind(
        &self,
        predicate: Predicate,
        arguments: [Argument<'_>; 2],
    ) -> Result<Arc<dyn AnyMatcher>> {
        let matcher = self.matcher(predicate, arguments)?;
        Ok(Arc::new(matcher.with_strategies(self.on_devices, self.comparisons)))
    }

    fn axis(&self, predicate: Predicate) -> Result<Arc<dyn Axis>> {
        Ok(Arc::new(SizeAxis::try_new(predicate)?))
    }

    fn place_reader(
        &self,
        _: Predicate,
        side: Side,
        argument: &DataType,
    ) -> Result<Box<dyn PlaceReader>> {
        match TokenKind::of_list(argument) {
            Some(_) => Ok(Box::new(ShapeReader::default())),
            None => plan_err!(
                "rows are placed by a list of tokens, but the {side} argument is {argument}"
            ),
        }
    }
}
