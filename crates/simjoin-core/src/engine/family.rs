//! The boundary between the operator and a family of similarities.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::DataType;

use super::{AnyMatcher, Axis, NeighbourRequest, NeighbourSearch, PlaceReader};
use crate::error::{Result, plan_err};
use crate::predicate::{Call, Function, Predicate, Side};

/// A family of similarities: sets of tokens, vectors.
///
/// A family knows its functions and the types that they take, the exact bounds that follow from a
/// predicate, how rows become items, and the strategies that find pairs of items. Join types,
/// residual filters, blocking keys, counts, the rows of items and output lie above it. Methods are
/// called for a plan, a batch or a buffer of matches, never for a pair.
pub trait Family: Debug + Send + Sync {
    /// The name, as in [`Function::family`].
    fn name(&self) -> &'static str;

    /// Every function by which the family joins.
    fn functions(&self) -> Vec<Function>;

    /// The selectivity of a predicate: greater where it leaves fewer pairs, compared element by element. The
    /// greatest of several predicates drives their join.
    fn selectivity(&self, predicate: &Predicate) -> [f64; 2];

    /// The predicate over these arguments (left, right).
    ///
    /// # Errors
    ///
    /// A plan error that names the types when they cannot be joined.
    fn bind(
        &self,
        predicate: Predicate,
        arguments: [Argument<'_>; 2],
    ) -> Result<Arc<dyn AnyMatcher>>;

    /// The line on which the rows of both sides lie.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    fn axis(&self, predicate: Predicate) -> Result<Arc<dyn Axis>>;

    /// A reader of the places of rows with an argument of this type on the axis of a predicate.
    ///
    /// # Errors
    ///
    /// A plan error that names the type when it cannot be joined.
    fn place_reader(
        &self,
        predicate: Predicate,
        side: Side,
        argument: &DataType,
    ) -> Result<Box<dyn PlaceReader>>;

    /// Whether [`Self::neighbours`] tells rows apart by their blocking keys. Otherwise it is asked for the rows of each
    /// key by themselves.
    fn knows_keys(&self) -> bool {
        true
    }

    /// The nearest right rows of left rows, all at once, where the family has a way that is better than to search
    /// for items. It takes as long as it takes: the caller is no task.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function; when the work is cancelled.
    fn neighbours(&self, _request: &NeighbourRequest<'_>) -> Result<NeighbourSearch> {
        Ok(NeighbourSearch::Declined(None))
    }
}

/// An argument of a predicate.
#[derive(Debug, Clone, Copy)]
pub struct Argument<'a> {
    /// The type of its values.
    pub data_type: &'a DataType,
    /// The values that it is made of, where these can be had in its place.
    pub origin: Option<&'a Origin>,
}

impl<'a> Argument<'a> {
    /// Any argument of this type.
    pub fn of_type(data_type: &'a DataType) -> Self {
        Self { data_type, origin: None }
    }
}

/// The way in which an argument is made of other values.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A cast of values of this type.
    Cast(DataType),
    /// A function of the values that the family computes by itself. It knows the type of what says how.
    Computed(Arc<dyn Any + Send + Sync>),
}

/// Fails with a plan error where the type of an argument does not hold the values that `call` compares. The
/// error names the type; `values` names the values, and `cast` ends the advice "cast it …".
pub fn check_arguments(
    call: &Call,
    arguments: [Argument<'_>; 2],
    holds: impl Fn(&DataType) -> bool,
    [values, cast]: [&str; 2],
) -> Result<()> {
    for (side, Argument { data_type, .. }) in [Side::Left, Side::Right].into_iter().zip(arguments) {
        if !holds(data_type) {
            return plan_err!(
                "{} joins {values}, but the {side} argument is {data_type}; cast it{cast}",
                call.function
            );
        }
    }
    Ok(())
}
