//! DataFusion's `levenshtein`, evaluated many pairs at a time.

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::functions::string::levenshtein::LevenshteinFunc;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
};

use super::strings::{check_texts, evaluate};
use crate::string::StringFunction;

/// DataFusion's `levenshtein` with its name, types and values, many times as fast, and with errors that give
/// advice where the arguments are no texts.
///
/// Sessions get it in the place of DataFusion's. Plans name it alike, so that a process without this crate
/// runs DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct LevenshteinUdf {
    stock: LevenshteinFunc,
    signature: Signature,
}

impl Default for LevenshteinUdf {
    fn default() -> Self {
        let stock = LevenshteinFunc::default();
        // The others take the arguments that are none of DataFusion's, for `return_type` to refuse.
        let signatures = vec![
            stock.signature().type_signature.clone(),
            TypeSignature::UserDefined,
            TypeSignature::Nullary,
        ];
        let signature = Signature::one_of(signatures, stock.signature().volatility);
        Self { stock, signature }
    }
}

impl ScalarUDFImpl for LevenshteinUdf {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match check_texts(self.name(), arg_types) {
            Ok(()) => plan_err!("{} coerces texts as DataFusion does", self.name()),
            Err(_) => Ok(arg_types.to_vec()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        check_texts(self.name(), arg_types)?;
        self.stock.return_type(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        match value_type(&types) {
            Some(data_type) => {
                evaluate(StringFunction::Levenshtein, &data_type, &args.args, args.number_rows)
            }
            None => self.stock.invoke_with_args(args),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }
}

/// The type of the values that DataFusion's function gives for arguments of these types; `None` where it
/// gives an error, or is left to itself.
fn value_type(types: &[DataType]) -> Option<DataType> {
    use DataType::{Int32, Int64, LargeUtf8, Utf8, Utf8View};
    match types {
        [Utf8View, Utf8 | LargeUtf8 | Utf8View] | [Utf8 | LargeUtf8, Utf8View] => Some(Int32),
        [Utf8, Utf8] => Some(Int32),
        [LargeUtf8, Utf8 | LargeUtf8] => Some(Int64),
        _ => None,
    }
}
