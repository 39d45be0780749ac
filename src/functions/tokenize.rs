//! The tokenizers: text or lists in, `List<Utf8>` out.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};

use super::token_lists::TokenLists;
use super::tokenizer::Tokenizer;
use super::{documentation, wrong_count};
use crate::values::{Lists, TextTokenizer, Texts, TokenKind, list_element_type};

/// A [`Tokenizer`] as a scalar function that returns `List<Utf8>`.
///
/// Text is of any layout, dictionary-encoded or not; lists are of any layout, of text or
/// integers. A NULL argument gives NULL. A length below 1 is an execution error.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TokenizerUdf {
    tokenizer: Tokenizer,
    signature: Signature,
}

impl TokenizerUdf {
    /// The function that runs `tokenizer`.
    pub fn new(tokenizer: Tokenizer) -> Self {
        // As for the measures: any arguments are taken as they are, the return type checks them,
        // and the examples are for SHOW FUNCTIONS.
        let examples = match tokenizer {
            Tokenizer::QGrams => vec![DataType::Utf8, DataType::Int64],
            Tokenizer::WordTokens => vec![DataType::Utf8],
            Tokenizer::Shingles => vec![TokenLists::data_type(), DataType::Int64],
        };
        let examples = TypeSignature::Exact(examples);
        let signatures = vec![examples, TypeSignature::VariadicAny, TypeSignature::Nullary];
        Self { tokenizer, signature: Signature::one_of(signatures, Volatility::Immutable) }
    }

    /// The tokenizer that the function runs.
    pub fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    fn check_source(&self, source: &DataType) -> Result<()> {
        let name = self.name();
        if self.tokenizer == Tokenizer::Shingles {
            return match TokenKind::of_list(source) {
                Some(TokenKind::Text | TokenKind::Integer | TokenKind::Null) => Ok(()),
                _ if TokenKind::of_element(source) == Some(TokenKind::Text) => plan_err!(
                    "{name} expects a list of text or integers, found {source}; turn text into a \
                     list first, as in {name}(word_tokens(text), 3)"
                ),
                _ => plan_err!(
                    "{name} expects a list of text or integers, found {source}; cast it, for \
                     example with arrow_cast(list, 'List(Utf8)')"
                ),
            };
        }
        match TokenKind::of_element(source) {
            Some(TokenKind::Text | TokenKind::Null) => Ok(()),
            _ if list_element_type(source).is_some() => plan_err!(
                "{name} expects text, found {source}; array_to_string(list, ' ') joins a list to \
                 text"
            ),
            _ => plan_err!("{name} expects text, found {source}; CAST(... AS VARCHAR) gives text"),
        }
    }

    fn check_length(&self, argument: &str, length: &DataType) -> Result<()> {
        match TokenKind::of_element(length) {
            Some(TokenKind::Integer | TokenKind::Null) => Ok(()),
            _ => plan_err!(
                "{}: {argument} must be an integer of at least 1, found {length}; write for \
                 example 3, or CAST({argument} AS BIGINT)",
                self.name()
            ),
        }
    }

    /// The length of row `row`'s runs, `None` when it is NULL.
    fn length(&self, lengths: &Lengths, row: usize) -> Result<Option<usize>> {
        match lengths.value(row) {
            Some(length) if length < 1 => exec_err!(
                "{}: {} must be at least 1, found {length}",
                self.name(),
                self.tokenizer.length_name().unwrap_or("length")
            ),
            length => Ok(length.map(|l| usize::try_from(l).unwrap_or(usize::MAX))),
        }
    }
}

impl ScalarUDFImpl for TokenizerUdf {
    fn name(&self) -> &str {
        self.tokenizer.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.tokenizer.length_name(), arg_types) {
            (Some(argument), [source, length]) => {
                self.check_source(source)?;
                self.check_length(argument, length)?;
            }
            (None, [source]) => self.check_source(source)?,
            _ => {
                let (takes, example) = match self.tokenizer {
                    Tokenizer::QGrams => ("a text and the length q", "qgrams(title, 3)"),
                    Tokenizer::WordTokens => ("a text", "word_tokens(title)"),
                    Tokenizer::Shingles => {
                        ("a list and the length k", "shingles(word_tokens(title), 2)")
                    }
                };
                return wrong_count(self.name(), takes, arg_types, example);
            }
        }
        Ok(TokenLists::data_type())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if all_scalar { 1 } else { args.number_rows };
        let mut lists = TokenLists::new(self.tokenizer, rows);
        match self.tokenizer {
            Tokenizer::QGrams => {
                let [text, q] = take_function_args(self.name(), &args.args)?;
                let (texts, lengths) = (TextArgument::try_new(text)?, Lengths::try_new(q)?);
                for row in 0..rows {
                    // NULL text is NULL whatever the length, as a strict function has it.
                    let Some(text) = texts.value(row) else {
                        lists.push_null()?;
                        continue;
                    };
                    match self.length(&lengths, row)? {
                        Some(q) => lists.push_qgrams(text, q)?,
                        None => lists.push_null()?,
                    }
                }
            }
            Tokenizer::WordTokens => {
                let [text] = take_function_args(self.name(), &args.args)?;
                let texts = TextArgument::try_new(text)?;
                for row in 0..rows {
                    match texts.value(row) {
                        Some(text) => lists.push_words(text)?,
                        None => lists.push_null()?,
                    }
                }
            }
            Tokenizer::Shingles => {
                let [list, k] = take_function_args(self.name(), &args.args)?;
                let (column, lengths) = (TextLists::try_new(list)?, Lengths::try_new(k)?);
                let mut elements = Vec::new();
                for row in 0..rows {
                    if !column.read(row, &mut elements) {
                        lists.push_null()?;
                        continue;
                    }
                    match self.length(&lengths, row)? {
                        Some(k) => lists.push_shingles(&elements, k)?,
                        None => lists.push_null()?,
                    }
                }
            }
        }
        let lists = lists.finish()?;
        if all_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(lists)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documentation::of_tokenizer(self.tokenizer))
    }
}

/// The text of an expression that makes its tokens, with what it makes them by; `None` for other
/// expressions, and where the length of the runs is no constant.
pub(crate) fn text_source(
    expression: &PhysicalExprRef,
) -> Option<(PhysicalExprRef, TextTokenizer)> {
    let call = expression.downcast_ref::<ScalarFunctionExpr>()?;
    let udf = call.fun().inner().downcast_ref::<TokenizerUdf>()?;
    match (udf.tokenizer, call.args()) {
        (Tokenizer::QGrams, [text, q]) => {
            let q = q.downcast_ref::<Literal>()?.value();
            let lengths = Lengths::try_new(&ColumnarValue::Scalar(q.clone())).ok()?;
            let q = NonZeroUsize::new(udf.length(&lengths, 0).ok()??)?;
            Some((Arc::clone(text), TextTokenizer::QGrams(q)))
        }
        (Tokenizer::WordTokens, [text]) => Some((Arc::clone(text), TextTokenizer::Words)),
        _ => None,
    }
}

/// An argument as an array, and whether its only row stands for every row.
fn array_of(argument: &ColumnarValue) -> Result<(ArrayRef, bool)> {
    Ok(match argument {
        ColumnarValue::Array(array) => (Arc::clone(array), false),
        ColumnarValue::Scalar(scalar) => (scalar.to_array_of_size(1)?, true),
    })
}

/// The text argument.
struct TextArgument {
    texts: Texts,
    constant: bool,
}

impl TextArgument {
    fn try_new(argument: &ColumnarValue) -> Result<Self> {
        let (array, constant) = array_of(argument)?;
        Ok(Self { texts: Texts::try_new(&array)?, constant })
    }

    #[inline]
    fn value(&self, row: usize) -> Option<&str> {
        self.texts.value(if self.constant { 0 } else { row })
    }
}

/// The list argument, its elements as text.
struct TextLists {
    lists: Lists,
    elements: Texts,
    /// The index of the first of `elements` among the elements of `lists`.
    base: usize,
    constant: bool,
}

impl TextLists {
    fn try_new(argument: &ColumnarValue) -> Result<Self> {
        let (array, constant) = array_of(argument)?;
        let lists = Lists::try_new(&array)?;
        let covered = lists.covered();
        let mut elements = lists.elements().slice(covered.start, covered.len());
        if TokenKind::of_element(elements.data_type()) == Some(TokenKind::Integer) {
            elements = cast(&elements, &DataType::LargeUtf8)?;
        }
        let elements = Texts::try_new(&elements)?;
        Ok(Self { lists, elements, base: covered.start, constant })
    }

    /// Reads the elements of row `row` that are not NULL; false when the list is NULL.
    fn read<'a>(&'a self, row: usize, elements: &mut Vec<&'a str>) -> bool {
        elements.clear();
        let Some(range) = self.lists.row(if self.constant { 0 } else { row }) else {
            return false;
        };
        elements.extend(range.filter_map(|i| self.elements.value(i - self.base)));
        true
    }
}

/// The lengths of the runs, as written: checking them is the caller's.
struct Lengths {
    values: Int64Array,
    constant: bool,
}

impl Lengths {
    fn try_new(argument: &ColumnarValue) -> Result<Self> {
        let (mut array, constant) = array_of(argument)?;
        if let DataType::Dictionary(_, values) = array.data_type() {
            array = cast(&array, values)?;
        }
        let values = match array.data_type() {
            // No text is that long: a length beyond `i64` may as well be its maximum.
            DataType::UInt64 => {
                let values: &PrimitiveArray<UInt64Type> = array.as_primitive();
                values.unary::<_, Int64Type>(|v| i64::try_from(v).unwrap_or(i64::MAX))
            }
            _ => cast(&array, &DataType::Int64)?.as_primitive().clone(),
        };
        Ok(Self { values, constant })
    }

    #[inline]
    fn value(&self, row: usize) -> Option<i64> {
        let row = if self.constant { 0 } else { row };
        self.values.is_valid(row).then(|| self.values.value(row))
    }
}
