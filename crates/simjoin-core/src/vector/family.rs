//! The family as the planner knows it.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::axis::NormAxis;
use super::encode::VectorValues;
use super::join::VectorJoin;
use super::matcher::VectorMatcher;
use super::metric::{FAMILY, Metric, Threshold};
use super::nan::{self, VectorFunction};
use super::nearest::{self, NearestOnDevices};
use super::numbers::holds_vectors;
use super::strategies::{OF_PRODUCTS, STRATEGIES};
use crate::engine::{
    AnyMatcher, Argument, Axis, Family, NeighbourRequest, NeighbourSearch, Origin, PlaceReader,
    RowPlaces, Strategy, StrategyInfo, check_arguments,
};
use crate::error::{Result, plan_err};
use crate::predicate::{Function, Predicate, Side};
use crate::values::list_element_type;

/// Joins by the distance of vectors.
#[derive(Debug, Clone, Copy, Default)]
pub struct VectorFamily {
    on_devices: &'static [&'static dyn Strategy<VectorJoin>],
    nearest_on_devices: Option<&'static dyn NearestOnDevices>,
    comparisons: &'static [&'static dyn Strategy<VectorJoin>],
}

impl VectorFamily {
    /// The family, for which `functions` decide the signs of NaN.
    pub fn new(functions: VectorFunction) -> Self {
        nan::compute_by(functions);
        Self::default()
    }

    /// The family with strategies on devices, which `auto` compares with its own, and a search of
    /// neighbours there.
    pub fn with_devices(
        self,
        on_devices: &'static [&'static dyn Strategy<VectorJoin>],
        nearest_on_devices: Option<&'static dyn NearestOnDevices>,
    ) -> Self {
        Self { on_devices, nearest_on_devices, ..self }
    }

    /// The family with further strategies, for joins by `array_distance` that name them.
    pub fn with_comparisons(
        self,
        comparisons: &'static [&'static dyn Strategy<VectorJoin>],
    ) -> Self {
        Self { comparisons, ..self }
    }

    /// The strategies of distances that `auto` compares, in the order in which equal estimates are preferred,
    /// and the further ones. Other metrics have fewer.
    pub fn strategies(&self) -> Vec<StrategyInfo> {
        StrategyInfo::listed(&[STRATEGIES, self.on_devices, self.comparisons])
    }
}

/// The dimensions of vectors of which no type tells them.
const USUAL_DIMENSIONS: u64 = 128;

impl Family for VectorFamily {
    fn name(&self) -> &'static str {
        FAMILY
    }

    fn functions(&self) -> Vec<Function> {
        Metric::ALL.into_iter().map(Metric::function).collect()
    }

    /// Less than any similarity of sets, for which there are indexes; then by the threshold.
    fn selectivity(&self, predicate: &Predicate) -> [f64; 2] {
        match Threshold::of(predicate) {
            Ok(threshold) if threshold.is_void() => [f64::INFINITY; 2],
            Ok(Threshold { metric: Metric::InnerProduct, bound, .. }) => [-4.0, bound],
            Ok(Threshold { bound, .. }) => [-3.0, -bound],
            Err(_) => [f64::NEG_INFINITY; 2],
        }
    }

    fn bind(
        &self,
        predicate: Predicate,
        arguments: [Argument<'_>; 2],
    ) -> Result<Arc<dyn AnyMatcher>> {
        let names = ["lists of numbers", ", for example with arrow_cast(v, 'List(Float64)')"];
        check_arguments(&predicate.call, arguments, holds_vectors, names)?;
        let (threshold, first) = (Threshold::of(&predicate)?, predicate.call.first);
        let origins = arguments.map(|argument| origin(&argument));
        let dimensions = origins.iter().flatten().find_map(|data_type| dimensions_of(data_type));
        let casts = origins.map(|origin| origin.is_some());
        let axis = NormAxis::new(threshold, dimensions.unwrap_or(USUAL_DIMENSIONS));
        let values = VectorValues::new(threshold, axis);
        let comparisons = match threshold.metric {
            Metric::Euclidean => self.comparisons,
            Metric::Cosine | Metric::InnerProduct => &[],
        };
        let strategies = match threshold.metric {
            Metric::InnerProduct => [OF_PRODUCTS, self.on_devices].concat(),
            Metric::Euclidean | Metric::Cosine => [STRATEGIES, self.on_devices].concat(),
        };
        let matcher = VectorMatcher { threshold, first, values, casts, strategies, comparisons };
        Ok(Arc::new(matcher))
    }

    fn axis(&self, predicate: Predicate) -> Result<Arc<dyn Axis>> {
        Ok(Arc::new(NormAxis::new(Threshold::of(&predicate)?, USUAL_DIMENSIONS)))
    }

    fn place_reader(
        &self,
        predicate: Predicate,
        side: Side,
        argument: &DataType,
    ) -> Result<Box<dyn PlaceReader>> {
        let threshold = Threshold::of(&predicate)?;
        let axis = NormAxis::new(threshold, USUAL_DIMENSIONS);
        match holds_vectors(argument) {
            true => Ok(Box::new(RowPlaces::new(VectorValues::new(threshold, axis)))),
            false => plan_err!(
                "rows are placed by a list of numbers, but the {side} argument is {argument}"
            ),
        }
    }

    fn knows_keys(&self) -> bool {
        false
    }

    fn neighbours(&self, request: &NeighbourRequest<'_>) -> Result<NeighbourSearch> {
        if !request.strategy.is_auto() {
            return Ok(NeighbourSearch::Declined(None));
        }
        let metric = Metric::of(request.predicate.call.function)?;
        let casts = request.sides.map(|side| origin(&side.bound()).is_some());
        // Rounds say what is wrong, if it is for them too.
        let found = nearest::neighbours(metric, request, casts, self.nearest_on_devices);
        Ok(found.unwrap_or_else(|error| NeighbourSearch::Declined(Some(error.first_line()))))
    }
}

/// The dimensions of vectors, where their type tells them.
fn dimensions_of(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::FixedSizeList(_, dimensions) => u64::try_from(*dimensions).ok(),
        _ => None,
    }
}

/// The type of which an argument is a cast, where it is one of a list of numbers to a list of `f64`: encoders
/// convert numbers as the cast does.
fn origin<'a>(argument: &Argument<'a>) -> Option<&'a DataType> {
    let Some(Origin::Cast(data_type)) = argument.origin else { return None };
    let target = argument.data_type;
    let is_wide = list_element_type(target) == Some(&DataType::Float64)
        && matches!(target, DataType::List(_) | DataType::LargeList(_));
    (is_wide && holds_vectors(data_type)).then_some(data_type)
}
