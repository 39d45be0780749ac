//! The similarities of weighted sets as scalar functions.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_ARRAY;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::documentation::example;
use super::{weights, wrong_count};
use crate::values::{TokenKind, list_element_type};
use crate::weighted::{PairValues, WeightedMeasure, token_kind};

/// A similarity of two weighted sets: lists of tokens with whole numbers for weights.
///
/// The arguments are lists of any layout of structs with the fields `token` (an integer, text or binary) and
/// `weight`, whole numbers below 2³². The weights of a token that a list repeats are added; NULL tokens and tokens of
/// weight 0 or NULL do not count. A NULL list gives NULL, an empty set 0.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct WeightedUdf {
    measure: WeightedMeasure,
    signature: Signature,
}

impl WeightedUdf {
    /// The function that computes `measure`.
    pub fn new(measure: WeightedMeasure) -> Self {
        // As for the measures of sets: arguments are taken as they are, the return type checks them, and the example is
        // for SHOW FUNCTIONS.
        let example = TypeSignature::Exact(vec![weights::type_of(DataType::Utf8); 2]);
        let signatures = vec![example, TypeSignature::VariadicAny, TypeSignature::Nullary];
        Self { measure, signature: Signature::one_of(signatures, Volatility::Immutable) }
    }

    /// The measure that the function computes.
    pub fn measure(&self) -> WeightedMeasure {
        self.measure
    }

    /// The kind of the tokens of an argument.
    fn kind(&self, argument: &DataType) -> Result<TokenKind> {
        if let Some(kind) = token_kind(argument) {
            return Ok(kind);
        }
        let name = self.name();
        let mut list = argument;
        while let DataType::Dictionary(_, values) = list {
            list = values;
        }
        let element = list_element_type(list);
        if let Some(DataType::Struct(fields)) = element
            && let (Some((_, token)), Some((_, weight))) =
                (fields.find("token"), fields.find("weight"))
            && fields.len() == 2
        {
            let (tokens, weights) = (token.data_type(), weight.data_type());
            if TokenKind::of_element(tokens).is_none() {
                return plan_err!(
                    "{name} compares tokens that are integers, text or binary, found {tokens}; cast them"
                );
            }
            return plan_err!(
                "{name} expects whole numbers for weights, found {weights}; round them, for example with \
                 CAST(round(65536 * weight) AS BIGINT)"
            );
        }
        let advice = match (element, TokenKind::of_element(list)) {
            (Some(element), _) if TokenKind::of_element(element).is_some() => {
                "token_counts(list) counts the tokens of a list, tfidf(list) OVER () weighs them by their rarity, \
                 weigh(list, weights) by weights of yours"
            }
            (_, Some(TokenKind::Text)) => {
                "turn text into one with tfidf(word_tokens(text)) OVER () or tfidf(qgrams(text, 3)) OVER ()"
            }
            _ => {
                "it is a list of structs with the fields token and weight, as token_counts, weigh and tfidf make it"
            }
        };
        plan_err!("{name} expects weighted sets, found {argument}; {advice}")
    }
}

impl ScalarUDFImpl for WeightedUdf {
    fn name(&self) -> &str {
        self.measure.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [a, b] = arg_types else {
            let name = self.name();
            let example = format!("{name}(a.words, b.words)");
            return wrong_count(name, "two weighted sets", arg_types, &example);
        };
        let (of_a, of_b) = (self.kind(a)?, self.kind(b)?);
        if !of_a.comparable(of_b) {
            return plan_err!(
                "{} expects weighted sets whose tokens can be equal, found {of_a} and {of_b} tokens; cast the \
                 tokens of one to the type of the other",
                self.name()
            );
        }
        Ok(DataType::Float64)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [a, b] = take_function_args(self.name(), &args.args)?;
        let all_scalar = matches!((a, b), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if all_scalar { 1 } else { args.number_rows };
        let (a, is_a_constant) = read(a)?;
        let (b, is_b_constant) = read(b)?;
        let mut values = PairValues::try_new(self.measure, [a.as_ref(), b.as_ref()])?;
        let row = |row: usize, is_constant: bool| if is_constant { 0 } else { row };
        let value = |at: usize| values.of([row(at, is_a_constant), row(at, is_b_constant)]);
        let values: Float64Array = (0..rows).map(value).collect::<Result<_, _>>()?;
        if all_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(values)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION[self.measure as usize])
    }
}

/// An argument as an array, and whether its only row stands for every row.
fn read(argument: &ColumnarValue) -> Result<(ArrayRef, bool)> {
    Ok(match argument {
        ColumnarValue::Array(array) => (Arc::clone(array), false),
        ColumnarValue::Scalar(scalar) => (scalar.to_array_of_size(1)?, true),
    })
}

static WEIGHTED: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
    WeightedMeasure::ALL.map(|measure| Arc::new(ScalarUDF::from(WeightedUdf::new(measure))))
});

/// The function that computes a similarity of weighted sets.
pub fn weighted_udf(measure: WeightedMeasure) -> Arc<ScalarUDF> {
    Arc::clone(&WEIGHTED[measure as usize])
}

/// The similarity of weighted sets that `udf` computes; the implementation decides, not the name.
pub(crate) fn weighted_measure_of(udf: &ScalarUDF) -> Option<WeightedMeasure> {
    udf.inner().downcast_ref::<WeightedUdf>().map(WeightedUdf::measure)
}

static DOCUMENTATION: LazyLock<[Documentation; 5]> =
    LazyLock::new(|| WeightedMeasure::ALL.map(documentation));

fn documentation(measure: WeightedMeasure) -> Documentation {
    let (description, answer) = match measure {
        WeightedMeasure::Jaccard => (
            "Returns the Jaccard similarity of two weighted sets: the sum of the lesser weights of all tokens divided \
             by the sum of the greater ones.",
            "0.5",
        ),
        WeightedMeasure::Dice => (
            "Returns the Sørensen–Dice similarity of two weighted sets: twice the sum of the lesser weights of common \
             tokens divided by the sum of all weights.",
            "0.6666666666666666",
        ),
        WeightedMeasure::Cosine => (
            "Returns the cosine of two weighted sets: the sum of the products of the weights of common tokens divided \
             by the product of both norms. With weights of `tfidf` it is the similarity of texts by rare words.",
            "0.7071067811865475",
        ),
        WeightedMeasure::Containment => (
            "Returns the share of the first weighted set that the second contains: the sum of the lesser weights of \
             common tokens divided by the sum of the weights of the first.",
            "1.0",
        ),
        WeightedMeasure::Overlap => (
            "Returns the sum of the products of the weights of common tokens. With weights of `bm25_weights` for \
             documents and counts for queries it is BM25.",
            "1.0",
        ),
    };
    let argument = "Weighted set: list of structs with the fields token and weight, as token_counts, weigh and tfidf \
                    make it. A NULL list gives NULL, an empty set 0.";
    let name = measure.name();
    let query = format!("SELECT {name}(token_counts(['ann']), token_counts(['ann', 'lee']));");
    Documentation::builder(DOC_SECTION_ARRAY, description, format!("{name}(a, b)"))
        .with_sql_example(example(&query, answer))
        .with_argument("a", argument)
        .with_argument("b", argument)
        .build()
}
