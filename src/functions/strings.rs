//! The functions over two texts that DataFusion lacks.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, Int64Builder};
use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::{documentation, wrong_count};
use crate::simd::Simd;
use crate::string::{StringFunction, Value, Values, levenshtein_similarity};
use crate::values::{Texts, TokenKind};

/// A distance or similarity of two texts.
///
/// The arguments are text of any layout (`Utf8`, `LargeUtf8`, `Utf8View`), dictionary-encoded or not; the
/// two need not have the same layout. A NULL text gives NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct StringUdf {
    function: StringFunction,
    signature: Signature,
}

/// The function of this crate that `udf` computes.
pub(crate) fn string_function_of(udf: &ScalarUDF) -> Option<StringFunction> {
    udf.inner().downcast_ref::<StringUdf>().map(|udf| udf.function)
}

impl StringUdf {
    /// The function.
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

    fn check(&self, argument: &DataType) -> Result<()> {
        let mut values = argument;
        while let DataType::Dictionary(_, inner) = values {
            values = inner;
        }
        let is_text = matches!(
            values,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
        );
        if is_text {
            return Ok(());
        }
        let advice = if TokenKind::of_element(values) == Some(TokenKind::Binary) {
            "decode it, for example with arrow_cast(x, 'Utf8') or encode(x, 'hex')"
        } else if crate::values::list_element_type(values).is_some() {
            "array_to_string(list, ' ') makes a text of a list; lists are joined by jaccard and its \
             kind"
        } else {
            "cast it, for example with CAST(x AS VARCHAR)"
        };
        plan_err!("{} expects text, found {argument}; {advice}", self.name())
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
        let [a, b] = arg_types else {
            let name = self.name();
            return wrong_count(name, "two texts", arg_types, &format!("{name}(a.name, b.name)"));
        };
        self.check(a)?;
        self.check(b)?;
        Ok(if self.function.is_distance() { DataType::Int64 } else { DataType::Float64 })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [a, b] = take_function_args(self.name(), &args.args)?;
        let all_scalar = matches!((a, b), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if all_scalar { 1 } else { args.number_rows };
        let values = evaluate(self.function, [&Column::of(a)?, &Column::of(b)?], rows)?;
        if all_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documentation::of_string_function(self.function))
    }
}

/// The texts of an argument.
struct Column {
    texts: Texts,
    /// One text for all rows.
    is_scalar: bool,
}

impl Column {
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

    fn value(&self, row: usize) -> Option<&str> {
        self.texts.value(if self.is_scalar { 0 } else { row })
    }
}

fn evaluate(function: StringFunction, [a, b]: [&Column; 2], rows: usize) -> Result<ArrayRef> {
    let mut values = Values::new(function);
    let pair = |values: &mut Values, row: usize| -> Result<Option<Value>> {
        let Some((a, b)) = a.value(row).zip(b.value(row)) else { return Ok(None) };
        match values.of(a, b) {
            Some(value) => Ok(Some(value)),
            None => exec_err!(
                "{} needs two texts of the same length, found {a:?} of {} and {b:?} of {} characters",
                function.name(),
                a.chars().count(),
                b.chars().count()
            ),
        }
    };
    if function.is_distance() {
        let mut distances = Int64Builder::with_capacity(rows);
        for row in 0..rows {
            distances.append_option(pair(&mut values, row)?.map(|value| value.number() as i64));
        }
        return Ok(Arc::new(distances.finish()));
    }
    if function == StringFunction::LevenshteinSimilarity {
        return Ok(similarities_by_lanes(&mut values, [a, b], rows));
    }
    let mut similarities = Float64Builder::with_capacity(rows);
    for row in 0..rows {
        similarities.append_option(pair(&mut values, row)?.map(Value::number));
    }
    Ok(Arc::new(similarities.finish()))
}

/// `levenshtein_similarity`, of many pairs at a time.
fn similarities_by_lanes(values: &mut Values, [a, b]: [&Column; 2], rows: usize) -> ArrayRef {
    /// Pairs at a time.
    const PAIRS: usize = 1 << 12;
    let simd = Simd::detect();
    let mut similarities = Float64Builder::with_capacity(rows);
    let (mut pairs, mut distances) = (Vec::with_capacity(PAIRS.min(rows)), vec![]);
    for start in (0..rows).step_by(PAIRS) {
        let some = start..rows.min(start + PAIRS);
        let pair = |row: usize| a.value(row).zip(b.value(row));
        pairs.clear();
        pairs.extend(some.clone().filter_map(pair).map(|(a, b)| [a, b]));
        values.levenshteins(simd, &pairs, &mut distances);
        let mut known = pairs.iter().zip(&distances).map(|([a, b], distance)| {
            levenshtein_similarity(*distance, a.chars().count().max(b.chars().count()))
        });
        for row in some {
            similarities.append_option(pair(row).and_then(|_| known.next()));
        }
    }
    Arc::new(similarities.finish())
}
