//! The scalar function, which is the oracle.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::FAMILY;
use crate::spec::{Function, FunctionInfo, Order};

pub(super) static INT_DISTANCE: Function = Function::new(&FunctionInfo {
    family: FAMILY,
    name: "int_distance",
    data_type: |_| DataType::Int64,
    example: "<= 3",
    is_symmetric: true,
    orders_nan: false,
    is_partial: false,
    order: Order::Distance,
    range: [0.0, u32::MAX as f64],
    is_reflexive: false,
    least_is_far: false,
    rounds: &[],
    least_similar: "the greatest distance satisfies it; the threshold must be below it",
});

/// `|a - b|` of two `Int32`, an `Int64`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntDistance {
    signature: Signature,
}

pub(super) fn int_distance() -> ScalarUDF {
    let arguments = vec![DataType::Int32, DataType::Int32];
    ScalarUDF::from(IntDistance { signature: Signature::exact(arguments, Volatility::Immutable) })
}

pub(super) fn is_int_distance(udf: &ScalarUDF) -> bool {
    udf.inner().downcast_ref::<IntDistance>().is_some()
}

impl ScalarUDFImpl for IntDistance {
    fn name(&self) -> &str {
        INT_DISTANCE.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [a, b] = [0, 1].map(|i: usize| arrays[i].as_primitive::<Int32Type>());
        let distance = a.iter().zip(b).map(|(a, b)| Some(i64::from(a?.abs_diff(b?))));
        let distances: ArrayRef = Arc::new(distance.collect::<Int64Array>());
        Ok(ColumnarValue::Array(distances))
    }
}
