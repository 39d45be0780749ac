//! DataFusion's `levenshtein`, evaluated many pairs at a time.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::string::levenshtein::LevenshteinFunc;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use super::strings::evaluate;
use crate::string::StringFunction;

/// DataFusion's `levenshtein` with its name, signature, types, values and errors, many times as fast.
///
/// Sessions get it in the place of DataFusion's. Plans name it alike, so that a process without this crate
/// runs DataFusion's.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct LevenshteinUdf {
    stock: LevenshteinFunc,
}

impl ScalarUDFImpl for LevenshteinUdf {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
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
