//! Step 0: the scalar function, which is the oracle.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

use crate::spec::{Function, FunctionInfo, Order};

pub(super) static INT_DISTANCE: Function = Function::new(&FunctionInfo {
    family: "near",
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
pub(super) static UDF: LazyLock<ScalarUDF> = LazyLock::new(|| {
    let (arguments, returned) = (vec![DataType::Int32, DataType::Int32], DataType::Int64);
    let distances = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let [a, b] = [0, 1].map(|i: usize| arrays[i].as_primitive::<Int32Type>());
        let distance = a.iter().zip(b).map(|(a, b)| Some(i64::from(a?.abs_diff(b?))));
        Ok(ColumnarValue::Array(Arc::new(distance.collect::<Int64Array>())))
    };
    create_udf(INT_DISTANCE.name(), arguments, returned, Volatility::Immutable, Arc::new(distances))
});
