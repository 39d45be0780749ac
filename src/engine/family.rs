//! The boundary between the operator and a family of similarities.

use std::fmt::{self, Debug};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::PhysicalExprRef;

use super::{AnyMatcher, Axis, NeighbourRequest, NeighbourSearch, PlaceReader};
use crate::spec::{Call, Function, Predicate, Side};

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

    /// The function that `udf` computes; `None` when it is none of the family's. The implementation
    /// decides, not the name: a user may register another function of the same name.
    fn function_of(&self, udf: &ScalarUDF) -> Option<Function>;

    /// How few pairs a predicate leaves: greater means fewer, compared element by element. The
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

    /// The expression that the matchers of the family take in place of an argument:
    /// [`Encoding::source`](super::Encoding::source).
    fn source(&self, _argument: &PhysicalExprRef) -> Option<PhysicalExprRef> {
        None
    }

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

    /// The nearest right rows of left rows, all at once, where the family has a way that is better than joins
    /// with bounds. It takes as long as it takes: the caller is no task.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    fn neighbours(&self, _request: &NeighbourRequest<'_>) -> Result<NeighbourSearch> {
        Ok(NeighbourSearch::Declined(None))
    }
}

/// An argument of a predicate.
#[derive(Debug, Clone, Copy)]
pub struct Argument<'a> {
    /// The type of its values.
    pub data_type: &'a DataType,
    /// The expression that computes it, where a family may compute a part of it itself.
    pub expression: Option<&'a PhysicalExprRef>,
    /// The schema that the expression reads.
    pub input: Option<&'a Schema>,
}

impl<'a> Argument<'a> {
    /// Any argument of this type.
    pub fn of_type(data_type: &'a DataType) -> Self {
        Self { data_type, expression: None, input: None }
    }
}

/// Fails with a plan error where the type of an argument does not hold the values that `call` compares. The
/// error names the type; `values` names the values, and `cast` ends the advice "cast it …".
pub(crate) fn check_arguments(
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

/// The families that a session knows.
#[derive(Clone)]
pub struct Families(Arc<[Arc<dyn Family>]>);

impl Families {
    /// The families of a session, whose names differ.
    pub(crate) fn new(families: impl IntoIterator<Item = Arc<dyn Family>>) -> Self {
        Self(families.into_iter().collect())
    }

    /// The function that `udf` computes; `None` when no family has it.
    pub fn function_of(&self, udf: &ScalarUDF) -> Option<Function> {
        self.0.iter().find_map(|family| family.function_of(udf))
    }

    /// Every function by which the session joins.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Function> {
        self.0.iter().flat_map(|family| family.functions())
    }

    /// The function of this name in the family of that name.
    pub fn function(&self, family: &str, name: &str) -> Option<Function> {
        let family = self.0.iter().find(|known| known.name() == family)?;
        family.functions().into_iter().find(|function| function.name() == name)
    }

    /// The family of this name.
    ///
    /// # Errors
    ///
    /// An internal error when the session does not know it.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<dyn Family>> {
        match self.0.iter().find(|family| family.name() == name) {
            Some(family) => Ok(family),
            None => internal_err!("this session does not know the family {name} of similarities"),
        }
    }
}

impl Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|family| family.name())).finish()
    }
}
