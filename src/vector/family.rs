//! The family as the planner knows it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::CastExpr;

use super::axis::NormAxis;
use super::encode::VectorValues;
use super::join::VectorJoin;
use super::matcher::VectorMatcher;
use super::metric::{FAMILY, Metric, Threshold};
use super::nearest;
use super::numbers::holds_vectors;
use crate::engine::{
    AnyMatcher, Argument, Axis, Family, NeighbourRequest, NeighbourSearch, PlaceReader, RowPlaces,
    Strategy, check_arguments,
};
use crate::spec::{Function, Predicate, Side};
use crate::util::errors::first_line;
use crate::values::list_element_type;

/// Joins by the distance of vectors.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VectorFamily {
    comparisons: &'static [&'static dyn Strategy<VectorJoin>],
}

impl VectorFamily {
    /// The family with further strategies, for joins by `array_distance` that name them.
    pub(crate) fn with_comparisons(
        self,
        comparisons: &'static [&'static dyn Strategy<VectorJoin>],
    ) -> Self {
        Self { comparisons }
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

    fn function_of(&self, udf: &ScalarUDF) -> Option<Function> {
        Metric::of_udf(udf).map(Metric::function)
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
        let sources: Vec<_> = arguments.iter().filter_map(source).collect();
        let dimensions = sources.iter().find_map(|(_, child)| child.dimensions);
        let axis = NormAxis::new(threshold, dimensions.unwrap_or(USUAL_DIMENSIONS));
        let values = VectorValues::new(threshold, axis);
        let sources = sources.into_iter().map(|(argument, child)| (argument, child.expression));
        let comparisons = match threshold.metric {
            Metric::Euclidean => self.comparisons,
            Metric::Cosine | Metric::InnerProduct => &[],
        };
        let sources = sources.collect();
        Ok(Arc::new(VectorMatcher { threshold, first, values, sources, comparisons }))
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

    fn neighbours(&self, request: &NeighbourRequest<'_>) -> Result<NeighbourSearch> {
        let metric = Metric::of(request.predicate.call.function)?;
        let sources = request.sides.map(|side| {
            let batch = side.batches.first()?;
            let data_type = side.argument.data_type(&batch.schema()).ok()?;
            let schema = batch.schema();
            let argument = Argument {
                data_type: &data_type,
                expression: Some(side.argument),
                input: Some(&schema),
            };
            source(&argument).map(|(_, child)| child.expression)
        });
        // Rounds say what is wrong, if it is for them too.
        let found = nearest::neighbours(metric, request, sources);
        Ok(found.unwrap_or_else(|error| NeighbourSearch::Declined(Some(first_line(&error)))))
    }
}

/// The expression that a cast is applied to.
struct Child {
    expression: PhysicalExprRef,
    /// The dimensions, where the type tells them.
    dimensions: Option<u64>,
}

/// An argument that is a cast of a list of numbers to a list of `f64`, and what it is a cast of:
/// encoders convert numbers as the cast does.
fn source(argument: &Argument<'_>) -> Option<(PhysicalExprRef, Child)> {
    let (expression, schema): (_, &Schema) = argument.expression.zip(argument.input)?;
    let cast = expression.downcast_ref::<CastExpr>()?;
    let target = cast.cast_type();
    if list_element_type(target) != Some(&DataType::Float64)
        || !matches!(target, DataType::List(_) | DataType::LargeList(_))
    {
        return None;
    }
    let data_type = cast.expr().data_type(schema).ok().filter(holds_vectors)?;
    let dimensions = match data_type {
        DataType::FixedSizeList(_, dimensions) => u64::try_from(dimensions).ok(),
        _ => None,
    };
    Some((Arc::clone(expression), Child { expression: Arc::clone(cast.expr()), dimensions }))
}
