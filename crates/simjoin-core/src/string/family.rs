//! The family as the planner knows it.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::axis::LengthAxis;
use super::encode::TextValues;
use super::function::{FAMILY, StringFunction};
use super::join::StringJoin;
use super::matcher::StringMatcher;
use super::strategies::STRATEGIES;
use super::threshold::Threshold;
use crate::engine::{
    AnyMatcher, Argument, Axis, Family, PlaceReader, RowPlaces, Strategy, StrategyInfo,
    check_arguments,
};
use crate::error::{Result, plan_err};
use crate::predicate::{Function, Predicate, Side};

/// Joins by the distance or the similarity of texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct StringFamily {
    on_devices: &'static [&'static dyn Strategy<StringJoin>],
}

impl StringFamily {
    /// The family with strategies on devices, which `auto` compares with its own.
    pub fn with_devices(self, on_devices: &'static [&'static dyn Strategy<StringJoin>]) -> Self {
        Self { on_devices }
    }

    /// The strategies that `auto` compares, in the order in which equal estimates are preferred.
    pub fn strategies(&self) -> Vec<StrategyInfo> {
        StrategyInfo::listed(&[&STRATEGIES, self.on_devices])
    }
}

/// Whether a column of this type holds texts.
fn holds_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, values) => holds_text(values),
        _ => false,
    }
}

impl Family for StringFamily {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn functions(&self) -> Vec<Function> {
        StringFunction::ALL.into_iter().map(StringFunction::function).collect()
    }

    /// Less than any similarity of sets, for which there are indexes, and more than vectors; then by the
    /// threshold.
    fn selectivity(&self, predicate: &Predicate) -> [f64; 2] {
        match Threshold::of(predicate) {
            Ok(threshold) if threshold.is_void() => [f64::INFINITY; 2],
            Ok(Threshold { function, bound }) if function.is_distance() => [-2.0, -bound],
            // All pairs are compared, so that even distances of points leave out more.
            Ok(Threshold {
                function: StringFunction::Jaro | StringFunction::JaroWinkler,
                bound,
            }) => [-3.5, bound],
            Ok(Threshold { bound, .. }) => [-2.5, bound],
            Err(_) => [f64::NEG_INFINITY; 2],
        }
    }

    fn bind(
        &self,
        predicate: Predicate,
        arguments: [Argument<'_>; 2],
    ) -> Result<Arc<dyn AnyMatcher>> {
        let names = ["text", ", for example with CAST(x AS VARCHAR)"];
        check_arguments(&predicate.call, arguments, holds_text, names)?;
        Ok(Arc::new(StringMatcher::new(Threshold::of(&predicate)?, self.on_devices)))
    }

    fn axis(&self, predicate: Predicate) -> Result<Arc<dyn Axis>> {
        Ok(Arc::new(LengthAxis::new(Threshold::of(&predicate)?)))
    }

    fn place_reader(
        &self,
        predicate: Predicate,
        side: Side,
        argument: &DataType,
    ) -> Result<Box<dyn PlaceReader>> {
        match holds_text(argument) {
            true => {
                let axis = LengthAxis::new(Threshold::of(&predicate)?);
                Ok(Box::new(RowPlaces::new(TextValues::new(axis))))
            }
            false => {
                plan_err!("rows are placed by a text, but the {side} argument is {argument}")
            }
        }
    }
}
