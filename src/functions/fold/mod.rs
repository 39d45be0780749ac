//! Functions of one text that make spellings of it alike: `normalize`, `unaccent` and `casefold`.

mod documentation;
mod latin;
mod rules;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericStringBuilder, OffsetSizeTrait, StringViewBuilder,
    new_null_array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::text_arguments::{advice_for_text, is_text, without_dictionary};
use super::wrong_count;
use crate::values::Texts;
use rules::NormalForm;

/// A function that gives one text for several spellings of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextFold {
    /// `normalize(text, form)`, a normal form of Unicode.
    Normalize,
    /// `unaccent(text)`
    Unaccent,
    /// `casefold(text)`
    Casefold,
}

impl TextFold {
    /// Every function, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Normalize, Self::Unaccent, Self::Casefold];

    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normalize => "normalize",
            Self::Unaccent => "unaccent",
            Self::Casefold => "casefold",
        }
    }

    /// Whether texts of ASCII characters stay as they are.
    fn keeps_ascii(self) -> bool {
        self != Self::Casefold
    }
}

impl fmt::Display for TextFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A [`TextFold`] as a scalar function, of text of any layout, dictionary-encoded or not.
///
/// The result has the type of the text, of a dictionary that of its values. NULL gives NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TextFoldUdf {
    fold: TextFold,
    signature: Signature,
}

impl TextFoldUdf {
    /// The SQL function of `fold`.
    pub fn new(fold: TextFold) -> Self {
        // As for the tokenizers: any arguments are taken as they are, the return type checks them, and the
        // examples are for SHOW FUNCTIONS.
        let arguments = if fold == TextFold::Normalize { 2 } else { 1 };
        let signatures = vec![
            TypeSignature::Exact(vec![DataType::Utf8; arguments]),
            TypeSignature::VariadicAny,
            TypeSignature::Nullary,
        ];
        Self { fold, signature: Signature::one_of(signatures, Volatility::Immutable) }
    }

    /// The message for a form that is none.
    fn unknown(&self, form: impl fmt::Display) -> String {
        format!("{}: the form must be 'NFC', 'NFD', 'NFKC' or 'NFKD', found {form}", self.name())
    }

    fn form(&self, name: &str) -> Result<NormalForm> {
        match NormalForm::named(name) {
            Some(form) => Ok(form),
            None => exec_err!("{}", self.unknown(format_args!("'{name}'"))),
        }
    }

    /// The results for some texts as `data_type`; `forms` are their normal forms, one for each of them or one
    /// for all.
    fn of(
        &self,
        array: &ArrayRef,
        forms: Option<&Texts>,
        data_type: &DataType,
    ) -> Result<ArrayRef> {
        let has_one_form = forms.is_none_or(|forms| forms.len() == 1);
        if let Some(dictionary) = array.as_any_dictionary_opt()
            && has_one_form
        {
            let values = self.of(dictionary.values(), forms, data_type)?;
            return Ok(take(&values, dictionary.keys(), None)?);
        }
        // The form is judged all the same.
        if forms.is_none() && self.fold.keeps_ascii() && is_ascii(array) {
            return Ok(Arc::clone(array));
        }
        let texts = Texts::try_new(array)?;
        let of_row = |row: usize| -> Result<Option<Cow<'_, str>>> {
            let Some(text) = texts.value(row) else { return Ok(None) };
            Ok(match self.fold {
                TextFold::Unaccent => Some(rules::unaccent(text)),
                TextFold::Casefold => Some(rules::casefold(text)),
                TextFold::Normalize => match forms {
                    None => Some(rules::normalize(text, NormalForm::Nfc)),
                    Some(forms) => match forms.value(if has_one_form { 0 } else { row }) {
                        None => None,
                        Some(name) => Some(rules::normalize(text, self.form(name)?)),
                    },
                },
            })
        };
        match data_type {
            DataType::Utf8 => collect::<i32>(self.fold, texts.len(), of_row),
            DataType::LargeUtf8 => collect::<i64>(self.fold, texts.len(), of_row),
            DataType::Utf8View => {
                let mut views = StringViewBuilder::with_capacity(texts.len());
                for row in 0..texts.len() {
                    match of_row(row)? {
                        Some(text) => views.try_append_value(text)?,
                        None => views.append_null(),
                    }
                }
                Ok(Arc::new(views.finish()))
            }
            other => internal_err!("{} does not give {other}", self.name()),
        }
    }
}

/// Whether all texts of a column are ASCII for sure.
fn is_ascii(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().is_ascii(),
        DataType::LargeUtf8 => array.as_string::<i64>().is_ascii(),
        DataType::Utf8View => array.as_string_view().is_ascii(),
        _ => false,
    }
}

/// A column of the texts of the rows.
fn collect<'a, O: OffsetSizeTrait>(
    fold: TextFold,
    rows: usize,
    of_row: impl Fn(usize) -> Result<Option<Cow<'a, str>>>,
) -> Result<ArrayRef> {
    let mut texts = GenericStringBuilder::<O>::with_capacity(rows, 0);
    for row in 0..rows {
        match of_row(row)? {
            Some(text) => {
                if O::from_usize(texts.values_slice().len() + text.len()).is_none() {
                    return exec_err!(
                        "{fold}: the texts of one batch exceed 2 GiB; use a smaller \
                         datafusion.execution.batch_size"
                    );
                }
                texts.append_value(text);
            }
            None => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

impl ScalarUDFImpl for TextFoldUdf {
    fn name(&self) -> &str {
        self.fold.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let text = match (self.fold, arg_types) {
            (TextFold::Normalize, [text, form]) => {
                if !is_text(form) {
                    return plan_err!("{}", self.unknown(form));
                }
                text
            }
            (_, [text]) => text,
            (TextFold::Normalize, _) => {
                let takes = "a text and a normal form";
                return wrong_count(self.name(), takes, arg_types, "normalize(title, 'NFC')");
            }
            _ => {
                let example = format!("{}(title)", self.name());
                return wrong_count(self.name(), "a text", arg_types, &example);
            }
        };
        if !is_text(text) {
            return plan_err!(
                "{} expects text, found {text}; {}",
                self.name(),
                advice_for_text(text)
            );
        }
        let values = without_dictionary(text);
        Ok(if values.is_null() { DataType::Utf8 } else { values.clone() })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let data_type = self.return_type(&types)?;
        // A literal is judged before anything runs.
        if let [_, Some(form)] = args.scalar_arguments
            && let Some(Some(name)) = form.try_as_str()
            && NormalForm::named(name).is_none()
        {
            return plan_err!("{}", self.unknown(format_args!("'{name}'")));
        }
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let [text, form @ ..] = args.args.as_slice() else {
            return internal_err!("{} without a text", self.name());
        };
        let forms = match form.first() {
            None => None,
            Some(ColumnarValue::Scalar(form)) => Some(Texts::try_new(&form.to_array_of_size(1)?)?),
            Some(ColumnarValue::Array(forms)) => Some(Texts::try_new(forms)?),
        };
        let rows = if all_scalar { 1 } else { args.number_rows };
        let array = text.to_array(rows)?;
        let found = match array.data_type().is_null() {
            true => new_null_array(data_type, rows),
            false => self.of(&array, forms.as_ref(), data_type)?,
        };
        Ok(match all_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documentation::of_fold(self.fold))
    }
}
