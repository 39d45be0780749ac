//! The functions over two texts that DataFusion lacks, and the evaluation of all.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::text_arguments::{advice_for_pair, is_text};
use super::{documentation, wrong_count};
use crate::string::{ColumnValues, StringFunction, TextColumn, Unequal, Value};
use crate::values::Texts;

/// A distance or similarity of two texts.
///
/// The arguments are text of any layout (`Utf8`, `LargeUtf8`, `Utf8View`), dictionary-encoded or not; the
/// two need not have the same layout. A NULL text gives NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct StringUdf {
    function: StringFunction,
    signature: Signature,
}

impl StringUdf {
    /// The SQL function that computes `function`.
    pub fn new(function: StringFunction) -> Self {
        // As for the measures of sets: the last two accept any arguments as they are, and the first is an
        // example for SHOW FUNCTIONS.
        let signatures = vec![
            TypeSignature::Exact(vec![DataType::Utf8; 2]),
            TypeSignature::VariadicAny,
            TypeSignature::Nullary,
        ];
        Self { function, signature: Signature::one_of(signatures, Volatility::Immutable) }
    }

    /// The function.
    pub(super) fn function(&self) -> StringFunction {
        self.function
    }
}

/// Checks the types of the arguments of a function of two texts.
///
/// # Errors
///
/// A plan error that says what would work, where they are not two texts.
pub(super) fn check_texts(name: &str, arguments: &[DataType]) -> Result<()> {
    let [_, _] = arguments else {
        return wrong_count(name, "two texts", arguments, &format!("{name}(a.name, b.name)"));
    };
    match arguments.iter().find(|argument| !is_text(argument)) {
        Some(other) => {
            plan_err!("{name} expects text, found {other}; {}", advice_for_pair(name, other))
        }
        None => Ok(()),
    }
}

impl ScalarUDFImpl for StringUdf {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        check_texts(self.name(), arg_types)?;
        Ok(if self.function.is_distance() { DataType::Int64 } else { DataType::Float64 })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        evaluate(self.function, data_type, &args.args, args.number_rows)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documentation::of_string_function(self.function))
    }
}

/// The texts of an argument.
struct ArgumentTexts {
    texts: Texts,
    /// One text for all rows.
    is_scalar: bool,
}

impl ArgumentTexts {
    fn of(argument: &ColumnarValue) -> Result<Self> {
        Ok(match argument {
            ColumnarValue::Array(array) => {
                Self { texts: Texts::try_new(array.as_ref())?, is_scalar: false }
            }
            ColumnarValue::Scalar(scalar) => {
                let texts = Texts::try_new(scalar.to_array_of_size(1)?.as_ref())?;
                Self { texts, is_scalar: true }
            }
        })
    }

    fn texts(&self) -> TextColumn<'_> {
        TextColumn { texts: &self.texts, is_scalar: self.is_scalar }
    }

    /// The rows that are NULL, of `rows` rows; `None` if none is.
    fn nulls(&self, rows: usize) -> Option<NullBuffer> {
        match self.is_scalar {
            true => self.texts.value(0).is_none().then(|| NullBuffer::new_null(rows)),
            false => self.texts.nulls(),
        }
    }
}

/// The values of a function as `data_type`: `Int32`, `Int64` or `Float64`.
pub(super) fn evaluate(
    function: StringFunction,
    data_type: &DataType,
    arguments: &[ColumnarValue],
    rows: usize,
) -> Result<ColumnarValue> {
    let [a, b] = take_function_args(function.name(), arguments)?;
    let all_scalar = matches!((a, b), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if all_scalar { 1 } else { rows };
    let columns = [ArgumentTexts::of(a)?, ArgumentTexts::of(b)?];
    let nulls = NullBuffer::union(columns[0].nulls(rows).as_ref(), columns[1].nulls(rows).as_ref());
    let values: ArrayRef = if nulls.as_ref().is_some_and(|nulls| nulls.null_count() == rows) {
        new_null_array(data_type, rows)
    } else {
        let texts = columns.each_ref().map(ArgumentTexts::texts);
        match data_type {
            DataType::Int32 => array_of::<Int32Type>(function, texts, rows, nulls, distance)?,
            DataType::Int64 => {
                array_of::<Int64Type>(function, texts, rows, nulls, |value| distance(value).into())?
            }
            DataType::Float64 => {
                array_of::<Float64Type>(function, texts, rows, nulls, Value::number)?
            }
            other => return internal_err!("{} does not give {other}", function.name()),
        }
    };
    Ok(match all_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
        false => ColumnarValue::Array(values),
    })
}

/// A number of edits, of which texts in memory have fewer than 2^31.
fn distance(value: Value) -> i32 {
    match value {
        Value::Distance(distance) => distance as i32,
        Value::Similarity(_) => 0,
    }
}

fn array_of<T: ArrowPrimitiveType>(
    function: StringFunction,
    texts: [TextColumn<'_>; 2],
    rows: usize,
    nulls: Option<NullBuffer>,
    number: impl Fn(Value) -> T::Native,
) -> Result<ArrayRef> {
    let mut numbers = Vec::with_capacity(rows);
    let found = ColumnValues::new(function, texts).each(rows, |value| numbers.push(number(value)));
    if let Err(Unequal(row)) = found {
        let [a, b] = texts.map(|column| column.value(row).unwrap_or_default());
        return exec_err!(
            "{} needs two texts of the same length, found {a:?} of {} and {b:?} of {} characters",
            function.name(),
            a.chars().count(),
            b.chars().count()
        );
    }
    Ok(Arc::new(PrimitiveArray::<T>::try_new(numbers.into(), nulls)?))
}
