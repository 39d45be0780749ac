//! The cosine similarity of two vectors, which is 1 minus DataFusion's `cosine_distance`.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::functions::math::expr_fn::nanvl;
use datafusion::functions_nested::cosine_distance::{CosineDistance, cosine_distance_udf};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_ARRAY;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, lit,
};

use super::documentation::example;

/// `cosine_similarity`: 1 − `cosine_distance`, and NULL where that is no number: for a vector of zeros, and for
/// one with NaN or an infinite value.
///
/// The analyzer writes the difference in its place, by which joins run.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CosineSimilarityUdf {
    distance: CosineDistance,
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for CosineSimilarityUdf {
    fn default() -> Self {
        let aliases = ["array_cosine_similarity", "list_cosine_similarity"];
        let list = DataType::new_list(DataType::Float64, true);
        // SHOW FUNCTIONS lists what has types.
        let signatures =
            vec![TypeSignature::UserDefined, TypeSignature::Exact(vec![list.clone(), list])];
        Self {
            distance: CosineDistance::new(),
            signature: Signature::one_of(signatures, Volatility::Immutable),
            aliases: aliases.map(str::to_string).to_vec(),
        }
    }
}

impl ScalarUDFImpl for CosineSimilarityUdf {
    fn name(&self) -> &str {
        "cosine_similarity"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        // `return_type` refuses others, by a message of its own.
        Ok(self.distance.coerce_types(arg_types).unwrap_or_else(|_| arg_types.to_vec()))
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match self.distance.coerce_types(arg_types) {
            Ok(_) => self.distance.return_type(arg_types),
            Err(_) => {
                let types: Vec<String> = arg_types.iter().map(ToString::to_string).collect();
                plan_err!(
                    "cosine_similarity takes two lists of numbers, found ({}); for example: \
                     cosine_similarity([1.0, 0.0], [0.5, 0.5])",
                    types.join(", ")
                )
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let similarity = |distance: f64| Some(1.0 - distance).filter(|value| !value.is_nan());
        Ok(match self.distance.invoke_with_args(args)? {
            ColumnarValue::Array(distances) => {
                let distances = distances.as_primitive::<Float64Type>();
                let values: Float64Array =
                    distances.iter().map(|distance| distance.and_then(similarity)).collect();
                ColumnarValue::Array(Arc::new(values) as ArrayRef)
            }
            ColumnarValue::Scalar(ScalarValue::Float64(distance)) => {
                ColumnarValue::Scalar(ScalarValue::Float64(distance.and_then(similarity)))
            }
            other => other,
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
            let argument = "List of numbers. Both have one length.";
            Documentation::builder(
                DOC_SECTION_ARRAY,
                "Returns the cosine of the angle between two vectors: 1 - cosine_distance(a, b). \
                 NULL for a vector of zeros, and where a value is NULL, NaN or infinite.",
                "cosine_similarity(a, b)",
            )
            .with_sql_example(example("SELECT cosine_similarity([1.0, 0.0], [0.0, 2.0]);", "0.0"))
            .with_argument("a", argument)
            .with_argument("b", argument)
            .with_alternative_syntax("array_cosine_similarity(a, b)")
            .with_alternative_syntax("list_cosine_similarity(a, b)")
            .with_related_udf("cosine_distance")
            .build()
        });
        Some(&DOCUMENTATION)
    }
}

/// The analyzer's rewrite of `cosine_similarity(a, b)` to `nanvl(1 - cosine_distance(a, b), NULL)`.
#[derive(Debug)]
pub(crate) struct ExpandCosineSimilarity;

impl ExpandCosineSimilarity {
    /// The name of the rewrite.
    pub(crate) const NAME: &str = "expand_cosine_similarity";
}

impl FunctionRewrite for ExpandCosineSimilarity {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::ScalarFunction(ScalarFunction { func, args })
                if func.inner().is::<CosineSimilarityUdf>() =>
            {
                let difference = lit(1.0) - cosine_distance_udf().call(args);
                Transformed::yes(nanvl(difference, lit(ScalarValue::Float64(None))))
            }
            other => Transformed::no(other),
        })
    }
}
