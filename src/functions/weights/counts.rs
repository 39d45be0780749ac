//! `token_counts`: how often each token stands in a list.

use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::bags::Bags;
use super::{documentation, sets};
use crate::functions::columns::{ListColumn, kind_of_lists};
use crate::functions::wrong_count;

/// The weighted set of a list: its distinct tokens, each with the number of its occurrences.
///
/// Lists are of any layout, of integers, text or binary, dictionary-encoded or not. The tokens have the type of
/// the elements, of a dictionary that of its values, and stand in the order of their first appearance. NULL
/// elements count nowhere; a NULL list gives NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TokenCountsUdf {
    signature: Signature,
}

const NAME: &str = "token_counts";

impl Default for TokenCountsUdf {
    fn default() -> Self {
        Self { signature: documented_lists() }
    }
}

/// The signature of a function of lists: any arguments are taken as they are, and the result type checks them. The
/// exact signatures are for SHOW FUNCTIONS.
pub(super) fn documented_lists() -> Signature {
    let examples = [DataType::Int64, DataType::Utf8]
        .map(|element| TypeSignature::Exact(vec![DataType::new_list(element, true)]));
    let any = [TypeSignature::VariadicAny, TypeSignature::Nullary];
    Signature::one_of(examples.into_iter().chain(any).collect(), Volatility::Immutable)
}

impl ScalarUDFImpl for TokenCountsUdf {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [list] = arg_types else {
            return wrong_count(
                NAME,
                "a list of tokens",
                arg_types,
                "token_counts(word_tokens(title))",
            );
        };
        kind_of_lists(NAME, list)?;
        Ok(sets::type_of(sets::token_type(list)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [list] = take_function_args(NAME, &args.args)?;
        let is_scalar = matches!(list, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let lists = ListColumn::of_argument(list)?;
        let sets = Bags::count(NAME, &lists, rows)?.into_sets(&lists)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&sets, 0)?),
            false => ColumnarValue::Array(sets),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&documentation::TOKEN_COUNTS)
    }
}
