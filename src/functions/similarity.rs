//! The six similarity measures as scalar functions.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::columns::{ListColumn, kind_of_lists};
use super::{documentation, integers, overlap, wrong_count};
use crate::set::Measure;
use crate::util::parallel::Threads;

/// A similarity measure over two lists, each read as the set of its elements that are not NULL.
///
/// The arguments are lists of any layout (`List`, `LargeList`, `ListView`, `LargeListView`,
/// `FixedSizeList`) of integers, text or binary, dictionary-encoded or not; the two sides need
/// not have the same layout or width. A NULL list gives NULL, an empty set 0.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SimilarityUdf {
    measure: Measure,
    signature: Signature,
    aliases: Vec<String>,
}

impl SimilarityUdf {
    /// The function that computes `measure`.
    pub fn new(measure: Measure) -> Self {
        // The last two accept any arguments as they are, so that no cast copies a column; what
        // and how many they may be is checked with the return type, which can say it well. The
        // exact signatures coerce nothing: SHOW FUNCTIONS lists only functions with example types.
        let list = |element| DataType::List(Arc::new(Field::new_list_field(element, true)));
        let example = |element| TypeSignature::Exact(vec![list(element); 2]);
        let signatures = vec![
            example(DataType::Int64),
            example(DataType::UInt64),
            example(DataType::Utf8),
            example(DataType::Binary),
            TypeSignature::VariadicAny,
            TypeSignature::Nullary,
        ];
        Self {
            measure,
            signature: Signature::one_of(signatures, Volatility::Immutable),
            aliases: measure.aliases().iter().map(ToString::to_string).collect(),
        }
    }

    /// The measure that the function computes.
    pub fn measure(&self) -> Measure {
        self.measure
    }
}

impl ScalarUDFImpl for SimilarityUdf {
    fn name(&self) -> &str {
        self.measure.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [a, b] = arg_types else {
            let name = self.name();
            let example = format!("{name}(a.tokens, b.tokens)");
            return wrong_count(name, "two lists of tokens", arg_types, &example);
        };
        let (kind_a, kind_b) = (kind_of_lists(self.name(), a)?, kind_of_lists(self.name(), b)?);
        if !kind_a.comparable(kind_b) {
            return plan_err!(
                "{} expects lists whose elements can be equal, found {kind_a} ({a}) and {kind_b} \
                 ({b}); cast the elements of one list to the type of the other",
                self.name()
            );
        }
        Ok(if self.measure.is_integer() { DataType::Int64 } else { DataType::Float64 })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [a, b] = take_function_args(self.name(), &args.args)?;
        let all_scalar = matches!((a, b), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if all_scalar { 1 } else { args.number_rows };
        let threads = args.config_options.execution.target_partitions;
        let threads = Threads::usual(threads);
        let values = evaluate(
            self.measure,
            &ListColumn::of_argument(a)?,
            &ListColumn::of_argument(b)?,
            rows,
            threads,
        )?;
        if all_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documentation::of_measure(self.measure))
    }
}

/// The values of `measure` for `rows` pairs of lists, on up to `threads` threads.
fn evaluate(
    measure: Measure,
    a: &ListColumn,
    b: &ListColumn,
    rows: usize,
    threads: Threads,
) -> Result<ArrayRef> {
    match integers::compare(measure, a, b, rows, threads) {
        Some(values) => values,
        None => overlap::compare(measure, a, b, rows),
    }
}
