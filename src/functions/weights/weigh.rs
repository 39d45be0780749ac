//! `weigh`: tokens with weights of the caller's own.

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::bags::Bags;
use super::{documentation, sets};
use crate::functions::columns::{ListColumn, kind_of_lists};
use crate::functions::wrong_count;
use crate::values::{TokenKind, Tokens, list_element_type};

/// The weighted set of two lists, of tokens and of their weights.
///
/// Weights are integers from 0 to 4,294,967,295 of any width; both lists of a row have one length. The weights of
/// a repeated token add up. A pair with a NULL, and one of weight 0, is left out. A NULL list gives NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct WeighUdf {
    signature: Signature,
}

const NAME: &str = "weigh";

impl Default for WeighUdf {
    fn default() -> Self {
        let list = |element| DataType::new_list(element, true);
        let example = |tokens| TypeSignature::Exact(vec![list(tokens), list(DataType::Int64)]);
        let signatures = vec![
            example(DataType::Int64),
            example(DataType::Utf8),
            TypeSignature::VariadicAny,
            TypeSignature::Nullary,
        ];
        Self { signature: Signature::one_of(signatures, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for WeighUdf {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [tokens, weights] = arg_types else {
            let takes = "a list of tokens and a list of their weights";
            return wrong_count(NAME, takes, arg_types, "weigh(['data', 'base'], [3, 1])");
        };
        kind_of_lists(NAME, tokens)?;
        check_weights(weights)?;
        Ok(sets::type_of(sets::token_type(tokens)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [tokens, weights] = take_function_args(NAME, &args.args)?;
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if all_scalar { 1 } else { args.number_rows };
        let lists = ListColumn::of_argument(tokens)?;
        let weights = ListColumn::of_argument(weights)?;
        let sets = weigh(&lists, &weights, rows)?.into_sets(&lists)?;
        Ok(match all_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&sets, 0)?),
            false => ColumnarValue::Array(sets),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&documentation::WEIGH)
    }
}

/// Refuses a type that is no list of integers.
fn check_weights(weights: &DataType) -> Result<()> {
    if let Some(TokenKind::Integer | TokenKind::Null) = TokenKind::of_list(weights) {
        return Ok(());
    }
    let expected = format!("{NAME} expects weights as a list of integers, found {weights}");
    match list_element_type(sets::plain(weights)).map(sets::plain) {
        Some(element) if element.is_floating() || element.is_decimal() => plan_err!(
            "{expected}; make integers of them, for example CAST(round(65536 * w) AS BIGINT) of each weight w"
        ),
        Some(_) => {
            plan_err!("{expected}; cast them, for example with arrow_cast(list, 'List(Int64)')")
        }
        None => plan_err!("{expected}; make_array(...) builds a list"),
    }
}

/// The weight at a position, `None` for NULL and 0.
fn weight(weights: &Tokens, position: usize) -> Result<Option<u32>> {
    let value = match weights {
        Tokens::Signed(array) if array.is_valid(position) => i128::from(array.value(position)),
        Tokens::Unsigned(array) if array.is_valid(position) => i128::from(array.value(position)),
        _ => return Ok(None),
    };
    match u32::try_from(value) {
        Ok(weight) => Ok((weight > 0).then_some(weight)),
        Err(_) => exec_err!(
            "{NAME}: a weight must be an integer from 0 to {}, found {value}; divide the weights, or leave negative \
             ones out",
            u32::MAX
        ),
    }
}

/// The tokens of each row with the sums of their weights.
fn weigh(lists: &ListColumn, weights: &ListColumn, rows: usize) -> Result<Bags> {
    let mut bags = Bags::new(NAME, rows);
    let tokens = Tokens::try_new(lists.elements())?;
    let values = Tokens::try_new(weights.elements())?;
    for row in 0..rows {
        let (Some(range), Some(of_weights)) = (lists.row(row), weights.row(row)) else {
            bags.push_null();
            continue;
        };
        if range.len() != of_weights.len() {
            return exec_err!(
                "{NAME}: each token needs a weight, found a list of {} tokens and a list of {} weights in one row; \
                 make both lists of one length",
                range.len(),
                of_weights.len()
            );
        }
        bags.push(&tokens, range, |place| weight(&values, of_weights.start + place))?;
    }
    Ok(bags)
}
