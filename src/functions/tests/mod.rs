//! The functions against naive oracles that share no code with them.

mod fold;
mod levenshtein;
mod similarity;
mod sql;
mod tokenize;
mod weights;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF};

/// Plans and evaluates `udf`, checking that the answer has the type and length promised.
fn call(udf: &ScalarUDF, args: Vec<ColumnarValue>, rows: usize) -> Result<ColumnarValue> {
    let arg_fields: Vec<_> =
        args.iter().map(|a| Arc::new(Field::new("a", a.data_type(), true))).collect();
    let scalar_arguments = vec![None; args.len()];
    let return_field = udf.return_field_from_args(ReturnFieldArgs {
        arg_fields: &arg_fields,
        scalar_arguments: &scalar_arguments,
    })?;
    let all_scalar = args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
    let found = udf.invoke_with_args(ScalarFunctionArgs {
        args,
        arg_fields,
        number_rows: rows,
        return_field: Arc::clone(&return_field),
        config_options: Arc::new(ConfigOptions::default()),
    })?;
    assert!(return_field.is_nullable());
    assert_eq!(&found.data_type(), return_field.data_type());
    match &found {
        ColumnarValue::Array(array) => {
            assert!(!all_scalar);
            assert_eq!(array.len(), rows);
        }
        ColumnarValue::Scalar(_) => assert!(all_scalar),
    }
    Ok(found)
}

fn column(array: &ArrayRef) -> ColumnarValue {
    ColumnarValue::Array(Arc::clone(array))
}

fn scalar(array: &ArrayRef, row: usize) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::try_from_array(array, row).unwrap())
}

/// The message of the error with which `udf` refuses arguments of these types at planning.
fn refusal(udf: &ScalarUDF, types: &[DataType]) -> String {
    let fields: Vec<_> = types.iter().map(|t| Arc::new(Field::new("a", t.clone(), true))).collect();
    let scalar_arguments = vec![None; types.len()];
    udf.return_field_from_args(ReturnFieldArgs {
        arg_fields: &fields,
        scalar_arguments: &scalar_arguments,
    })
    .expect_err("the types should be refused")
    .strip_backtrace()
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}
