//! The functions over two vectors, and the threshold of a join.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::functions_nested::cosine_distance::{CosineDistance, cosine_distance_udf};
use datafusion::functions_nested::distance::{ArrayDistance, array_distance_udf};
use datafusion::functions_nested::inner_product::{InnerProduct, inner_product_udf};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use crate::spec::{Function, FunctionInfo, Order, Predicate};

/// The family's name.
pub(super) const FAMILY: &str = "vector";

/// The ends of DataFusion's order of `Float64`: NaN lies there, by its sign.
const LEAST: f64 = f64::from_bits(u64::MAX);
const GREATEST: f64 = f64::from_bits(u64::MAX >> 1);

const fn info(name: &'static str, order: Order, least_similar: &'static str) -> FunctionInfo {
    FunctionInfo {
        family: FAMILY,
        name,
        is_integer: false,
        is_symmetric: true,
        is_partial: false,
        order,
        range: [LEAST, GREATEST],
        least_similar,
    }
}

const ANY_DISTANCE: &str = "every distance satisfies it; the threshold must be a number";

/// By the number of the metric.
static FUNCTIONS: [FunctionInfo; 3] = [
    info("array_distance", Order::Distance, ANY_DISTANCE),
    info(
        "inner_product",
        Order::Similarity,
        "every inner product satisfies it; the threshold must be a number",
    ),
    FunctionInfo { is_partial: true, ..info("cosine_distance", Order::Distance, ANY_DISTANCE) },
];

/// A function of DataFusion over two vectors of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// `array_distance`, the Euclidean distance.
    Euclidean,
    /// `inner_product`.
    InnerProduct,
    /// `cosine_distance`, NULL for a vector of zeros.
    Cosine,
}

impl Metric {
    pub(crate) const ALL: [Self; 3] = [Self::Euclidean, Self::InnerProduct, Self::Cosine];

    pub(crate) const fn function(self) -> Function {
        Function::new(&FUNCTIONS[self as usize])
    }

    /// The metric of a function.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(super) fn of(function: Function) -> Result<Self> {
        match Self::ALL.into_iter().find(|metric| metric.function() == function) {
            Some(metric) => Ok(metric),
            None => internal_err!("{function:?} is no function of vectors"),
        }
    }

    /// The metric that `udf` computes; the implementation decides, not the name.
    pub(super) fn of_udf(udf: &ScalarUDF) -> Option<Self> {
        let inner = udf.inner();
        if inner.downcast_ref::<ArrayDistance>().is_some() {
            Some(Self::Euclidean)
        } else if inner.downcast_ref::<InnerProduct>().is_some() {
            Some(Self::InnerProduct)
        } else if inner.downcast_ref::<CosineDistance>().is_some() {
            Some(Self::Cosine)
        } else {
            None
        }
    }

    pub(crate) fn udf(self) -> Arc<ScalarUDF> {
        match self {
            Self::Euclidean => array_distance_udf(),
            Self::InnerProduct => inner_product_udf(),
            Self::Cosine => cosine_distance_udf(),
        }
    }

    /// Whether the function compares the lengths of vectors before it looks for NULL elements.
    pub(super) fn measures_nulls(self) -> bool {
        self != Self::Euclidean
    }

    /// The value of the function for two vectors of one length, equal bit for bit to DataFusion's:
    /// the same operations in the same order. `None` is NULL.
    ///
    /// # Errors
    ///
    /// When DataFusion's function fails.
    pub(crate) fn value(self, x: &[f64], y: &[f64]) -> Result<Option<f64>> {
        match self.number(x, y) {
            // The sign of NaN, which decides comparisons, follows from the order of operands that
            // the compiler chose for DataFusion's function.
            Some(value) if value.is_nan() => self.value_of_function(x, y),
            value => Ok(value),
        }
    }

    /// The value, NaN of any sign.
    #[inline]
    fn number(self, x: &[f64], y: &[f64]) -> Option<f64> {
        let pairs = x.iter().zip(y);
        match self {
            Self::Euclidean => {
                let squares = pairs.map(|(x, y)| (x - y) * (x - y));
                Some(squares.sum::<f64>().sqrt())
            }
            Self::InnerProduct => {
                let mut product = 0.0;
                pairs.for_each(|(x, y)| product += x * y);
                Some(product)
            }
            Self::Cosine => {
                let (mut product, mut xx, mut yy) = (0.0, 0.0, 0.0);
                for (x, y) in pairs {
                    product += x * y;
                    xx += x * x;
                    yy += y * y;
                }
                let is_zero = xx == 0.0 || yy == 0.0;
                (!is_zero).then(|| 1.0 - product / (f64::sqrt(xx) * f64::sqrt(yy)))
            }
        }
    }

    /// The value that DataFusion's function computes.
    fn value_of_function(self, x: &[f64], y: &[f64]) -> Result<Option<f64>> {
        static CONFIG: LazyLock<Arc<ConfigOptions>> = LazyLock::new(Arc::default);
        let item: FieldRef = Arc::new(Field::new_list_field(DataType::Float64, true));
        let list = |vector: &[f64]| {
            let elements: ArrayRef = Arc::new(Float64Array::from(vector.to_vec()));
            let offsets = OffsetBuffer::from_lengths([vector.len()]);
            let list = ListArray::new(Arc::clone(&item), offsets, elements, None);
            ColumnarValue::Array(Arc::new(list))
        };
        let field = |data_type| -> FieldRef { Arc::new(Field::new("", data_type, true)) };
        let list_type = DataType::List(Arc::clone(&item));
        let value = self.udf().inner().invoke_with_args(ScalarFunctionArgs {
            args: vec![list(x), list(y)],
            arg_fields: vec![field(list_type.clone()), field(list_type)],
            number_rows: 1,
            return_field: field(DataType::Float64),
            config_options: Arc::clone(&CONFIG),
        })?;
        let value = value.into_array(1)?;
        match value.as_primitive_opt::<Float64Type>() {
            Some(value) => Ok(value.iter().next().flatten()),
            None => internal_err!("{} gives a {}", self.function(), value.data_type()),
        }
    }
}

/// A metric and the bound that a pair has to satisfy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold {
    pub metric: Metric,
    /// The least similar value that qualifies; NaN when none does.
    pub bound: f64,
}

impl Threshold {
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(super) fn of(predicate: &Predicate) -> Result<Self> {
        Ok(Self { metric: Metric::of(predicate.call.function)?, bound: predicate.bound })
    }

    /// Whether nothing matches.
    pub(super) fn is_void(self) -> bool {
        self.bound.is_nan()
    }

    /// Whether a value qualifies, in DataFusion's order: -0.0 lies below 0.0, NaN beyond infinity.
    pub(super) fn admits(self, value: f64) -> bool {
        let order = value.total_cmp(&self.bound);
        !self.is_void()
            && match self.metric {
                Metric::InnerProduct => order.is_ge(),
                Metric::Euclidean | Metric::Cosine => order.is_le(),
            }
    }

    /// Whether two vectors of one length match.
    ///
    /// # Errors
    ///
    /// When DataFusion's function fails.
    pub(super) fn matches(self, x: &[f64], y: &[f64]) -> Result<bool> {
        Ok(self.metric.value(x, y)?.is_some_and(|value| self.admits(value)))
    }
}
