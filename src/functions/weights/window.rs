//! Weights of tokens by the rows of a partition, as window functions.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::{Documentation, PartitionEvaluator, Signature, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Literal;

use super::bags::Bags;
use super::collection::{self, Bm25Parameters, Weighting};
use super::counts::documented_lists;
use super::{documentation, sets};
use crate::functions::columns::{ListColumn, kind_of_lists};
use crate::functions::wrong_count;

/// A [`Weighting`] as a window function, which gives the weighted set of each row's list.
///
/// The collection is the partition: ORDER BY and a frame in OVER make no difference. A NULL list gives NULL and
/// counts as no row. The tokens of text and binary stand in a dictionary that the rows of a partition share, and
/// within a row in the order of their first appearance.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CollectionWeightsUdf {
    weighting: Weighting,
    signature: Signature,
}

impl CollectionWeightsUdf {
    /// The function that weighs by `weighting`.
    pub fn new(weighting: Weighting) -> Self {
        Self { weighting, signature: documented_lists() }
    }

    /// The rule that the function weighs by.
    pub fn weighting(&self) -> Weighting {
        self.weighting
    }
}

impl WindowUDFImpl for CollectionWeightsUdf {
    fn name(&self) -> &str {
        self.weighting.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<PhysicalExprRef> {
        // The parameters are no columns.
        args.input_exprs().iter().take(1).map(Arc::clone).collect()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let name = self.name();
        let types: Vec<_> =
            args.input_fields().iter().map(|field| field.data_type().clone()).collect();
        let list = match (self.weighting, types.as_slice()) {
            (_, [list]) => list,
            (Weighting::Bm25, [list, k1, b]) => {
                check_number(name, "k1", k1)?;
                check_number(name, "b", b)?;
                list
            }
            (Weighting::Bm25, _) => {
                let takes = "a list of tokens, alone or with both numbers k1 and b";
                return wrong_count(
                    name,
                    takes,
                    &types,
                    "bm25_weights(word_tokens(title), 1.2, 0.75) OVER ()",
                );
            }
            _ => {
                let example = format!("{name}(word_tokens(title)) OVER ()");
                return wrong_count(name, "a list of tokens", &types, &example);
            }
        };
        kind_of_lists(name, list)?;
        let token = sets::shared_type(sets::token_type(list));
        Ok(Arc::new(Field::new(args.name(), sets::type_of(token), true)))
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let parameters = match args.input_exprs() {
            [_, k1, b] => Bm25Parameters {
                k1: number(self.name(), "k1", k1, f64::MAX)?,
                b: number(self.name(), "b", b, 1.0)?,
            },
            _ => Bm25Parameters::default(),
        };
        Ok(Box::new(PartitionWeights { weighting: self.weighting, parameters }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documentation::of_weighting(self.weighting))
    }
}

/// The numbers that a parameter may be, and one of them.
fn expected(parameter: &str) -> (&'static str, &'static str) {
    match parameter {
        "k1" => ("a literal number of at least 0", "1.2"),
        _ => ("a literal number from 0 to 1", "0.75"),
    }
}

/// Refuses a type that has no numbers.
fn check_number(name: &str, parameter: &str, data_type: &DataType) -> Result<()> {
    if data_type.is_numeric() {
        return Ok(());
    }
    let (kind, usual) = expected(parameter);
    plan_err!("{name}: {parameter} must be {kind}, found {data_type}; write for example {usual}")
}

/// The number from 0 to `greatest` that an argument is.
fn number(name: &str, parameter: &str, argument: &PhysicalExprRef, greatest: f64) -> Result<f64> {
    let (kind, usual) = expected(parameter);
    let value = match argument.downcast_ref::<Literal>() {
        Some(literal) => literal.value().cast_to(&DataType::Float64)?,
        None => ScalarValue::Null,
    };
    match value {
        ScalarValue::Float64(Some(number)) if (0.0..=greatest).contains(&number) => Ok(number),
        _ => plan_err!(
            "{name}: {parameter} must be {kind}, found {argument}; write for example {usual}"
        ),
    }
}

/// The evaluation over one partition.
#[derive(Debug)]
struct PartitionWeights {
    weighting: Weighting,
    parameters: Bm25Parameters,
}

impl PartitionEvaluator for PartitionWeights {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        let [lists] = values else {
            return internal_err!("{} reads one column", self.weighting);
        };
        let lists = ListColumn::try_new(lists, false)?;
        let bags = Bags::count(self.weighting.name(), &lists, num_rows)?;
        let weights = collection::weights(self.weighting, self.parameters, &bags)?;
        bags.into_shared_sets(&lists, weights)
    }

    fn is_causal(&self) -> bool {
        false
    }

    fn uses_window_frame(&self) -> bool {
        false
    }
}
