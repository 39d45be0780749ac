//! DataFusion's functions of two vectors.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::config::ConfigOptions;
use datafusion::functions_nested::cosine_distance::{CosineDistance, cosine_distance_udf};
use datafusion::functions_nested::distance::{ArrayDistance, array_distance_udf};
use datafusion::functions_nested::inner_product::{InnerProduct, inner_product_udf};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use crate::error;
use crate::spec::Function;
use crate::vector::Metric;

/// The function of vectors that `udf` computes; the implementation decides, not the name.
pub(crate) fn metric_of(udf: &ScalarUDF) -> Option<Metric> {
    let inner = udf.inner();
    if inner.is::<ArrayDistance>() {
        Some(Metric::Euclidean)
    } else if inner.is::<InnerProduct>() {
        Some(Metric::InnerProduct)
    } else if inner.is::<CosineDistance>() {
        Some(Metric::Cosine)
    } else {
        None
    }
}

/// Whether `udf` is DataFusion's `cosine_distance`.
pub(crate) fn is_cosine_distance(udf: &ScalarUDF) -> bool {
    metric_of(udf) == Some(Metric::Cosine)
}

fn udf(metric: Metric) -> Arc<ScalarUDF> {
    match metric {
        Metric::Euclidean => array_distance_udf(),
        Metric::InnerProduct => inner_product_udf(),
        Metric::Cosine => cosine_distance_udf(),
    }
}

/// The values of DataFusion's function for two columns of lists of `f64`.
///
/// # Errors
///
/// When the function fails.
pub(crate) fn evaluate(function: Function, lists: [ArrayRef; 2]) -> error::Result<ArrayRef> {
    static CONFIG: LazyLock<Arc<ConfigOptions>> = LazyLock::new(Arc::default);
    let field =
        |data_type: &DataType| -> FieldRef { Arc::new(Field::new("", data_type.clone(), true)) };
    let rows = lists[0].len();
    let arguments = ScalarFunctionArgs {
        arg_fields: lists.iter().map(|list| field(list.data_type())).collect(),
        args: lists.into_iter().map(ColumnarValue::Array).collect(),
        number_rows: rows,
        return_field: field(&DataType::Float64),
        config_options: Arc::clone(&CONFIG),
    };
    let value = udf(Metric::of(function)?).inner().invoke_with_args(arguments)?;
    Ok(value.into_array(rows)?)
}
