//! Buckets of values, by which rows meet whose values may lie in a band.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, ListBuilder};
use arrow::array::{Int64Builder, PrimitiveBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use super::find::{Axis, ValueBand};

static BUCKET: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(BucketForm::Own));
static BUCKETS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(BucketForm::Within));

/// The functions of buckets, to be registered in a session.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::clone(&BUCKET), Arc::clone(&BUCKETS)]
}

fn function(form: BucketForm) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(BucketUdf {
        form,
        signature: Signature::any(6, Volatility::Immutable),
    }))
}

/// The bucket of `value` in a band.
pub(super) fn bucket_of(band: &ValueBand, value: Expr) -> Expr {
    BUCKET.call(Buckets::of(band).arguments(value))
}

/// The buckets in which the partners of `value` are, where the partner minus `value` lies in `range`.
pub(super) fn buckets_of(band: &ValueBand, range: [f64; 2], value: Expr) -> Expr {
    BUCKETS.call(Buckets { range, ..Buckets::of(band) }.arguments(value))
}

/// Buckets of one width.
#[derive(Debug, Clone, Copy)]
struct Buckets {
    range: [f64; 2],
    width: f64,
    /// The part of a value that arithmetic may round.
    rounding: f64,
    /// Values from here on, and below its negative, have one bucket: differences of integers wrap, and others round by
    /// more than a bucket is wide.
    limit: f64,
}

/// The bucket of values beyond the limit, and of those that are no finite numbers.
const FAR: i64 = i64::MIN;

impl Buckets {
    fn of(band: &ValueBand) -> Self {
        let [low, high] = band.range;
        // A band lies in two buckets at most.
        let width = 2.0 * (high - low);
        let rounding = if band.axis == Axis::Single { 1e-6 } else { 1e-15 };
        let wraps = match band.axis {
            Axis::Integers(bits) => 2f64.powi(bits - 2),
            _ => f64::MAX,
        };
        Self { range: band.range, width, rounding, limit: wraps.min(width / rounding) }
    }

    fn arguments(self, value: Expr) -> Vec<Expr> {
        let Self { range: [low, high], width, rounding, limit } = self;
        vec![value, lit(low), lit(high), lit(width), lit(rounding), lit(limit)]
    }

    fn read(arguments: &[ColumnarValue]) -> Result<Self> {
        let number = |argument: &ColumnarValue| match argument {
            ColumnarValue::Scalar(ScalarValue::Float64(Some(number))) => Ok(*number),
            _ => internal_err!("a bucket of {argument:?}"),
        };
        let numbers = arguments.iter().map(number).collect::<Result<Vec<_>>>()?;
        match numbers.as_slice() {
            &[low, high, width, rounding, limit] => {
                Ok(Self { range: [low, high], width, rounding, limit })
            }
            _ => internal_err!("buckets of {} numbers", numbers.len()),
        }
    }

    fn number(self, value: f64) -> i64 {
        // A cast keeps to the ends of the integers.
        ((value / self.width).floor() as i64).max(FAR + 1)
    }

    /// The bucket of a value.
    fn own(self, value: f64) -> i64 {
        if value.abs() < self.limit { self.number(value) } else { FAR }
    }

    /// Appends the buckets of the values that make a pair with `value`.
    fn append_within(self, value: f64, to: &mut PrimitiveBuilder<Int64Type>) {
        let widest = self.range[0].abs().max(self.range[1].abs());
        let slack = value.abs() * self.rounding + widest * self.rounding.max(1e-9);
        if value.is_finite() && value.abs() <= 2.0 * self.limit {
            let ends = [value + self.range[0] - slack, value + self.range[1] + slack];
            let [first, last] = ends.map(|end| self.number(end));
            (first..=last).for_each(|bucket| to.append_value(bucket));
        }
        let is_near = value.abs() + 2.0 * (widest + slack) < self.limit;
        if !is_near {
            to.append_value(FAR);
        }
    }
}

/// The values of an array as numbers, times in seconds.
fn positions(values: &ArrayRef) -> Result<Float64Array> {
    let unit = match values.data_type() {
        DataType::Date32 => Some(86_400.0),
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1e-3),
        DataType::Timestamp(TimeUnit::Second, _) => Some(1.0),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1e-6),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1e-9),
        _ => None,
    };
    let Some(unit) = unit else {
        let numbers = cast(values, &DataType::Float64)?;
        return Ok(numbers.as_primitive::<Float64Type>().clone());
    };
    let of_calendar: ArrayRef = match values.data_type() {
        DataType::Date32 => cast(values, &DataType::Int32)?,
        _ => Arc::clone(values),
    };
    let integers = cast(&of_calendar, &DataType::Int64)?;
    Ok(integers.as_primitive::<Int64Type>().unary(|value| value as f64 * unit))
}

/// The number of buckets that a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BucketForm {
    /// The bucket in which the value lies.
    Own,
    /// All in which its partners may lie.
    Within,
}

/// A function of a value and the numbers of [`Buckets`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct BucketUdf {
    form: BucketForm,
    signature: Signature,
}

impl ScalarUDFImpl for BucketUdf {
    fn name(&self) -> &str {
        match self.form {
            BucketForm::Own => "__simjoin_bucket",
            BucketForm::Within => "__simjoin_buckets",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.form {
            BucketForm::Own => DataType::Int64,
            BucketForm::Within => DataType::new_list(DataType::Int64, true),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((value, numbers)) = args.args.split_first() else {
            return internal_err!("a bucket of nothing");
        };
        let buckets = Buckets::read(numbers)?;
        let values = positions(&value.to_array(args.number_rows)?)?;
        Ok(ColumnarValue::Array(match self.form {
            BucketForm::Own => {
                let own = values.iter().map(|value| value.map(|value| buckets.own(value)));
                Arc::new(own.collect::<Int64Array>())
            }
            BucketForm::Within => Arc::new(within(buckets, &values)),
        }))
    }
}

fn within(buckets: Buckets, values: &Float64Array) -> ListArray {
    let mut lists = ListBuilder::with_capacity(Int64Builder::new(), values.len());
    for value in values {
        if let Some(value) = value {
            buckets.append_within(value, lists.values());
        }
        lists.append(true);
    }
    lists.finish()
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Values whose difference lies in a band, as it is computed, share exactly one bucket.
    #[test]
    fn values_in_a_band_share_a_bucket() {
        let mut rng = StdRng::seed_from_u64(5);
        let mut shared = 0;
        for round in 0..200_000 {
            let width = 10f64.powi(rng.random_range(-9..9)) * rng.random_range(1.0..9.0);
            let low = [-width, 0.0, -3.0 * width, width][rng.random_range(0..4)];
            let range = [low, low + width];
            let buckets = Buckets::of(&ValueBand::of_columns(range, Axis::Double));
            let a = 10f64.powi(rng.random_range(-9..20)) * rng.random_range(-1.0..1.0);
            let near = [0.0, 1.0, -1.0, 0.3, 2.0][rng.random_range(0..5)];
            let b = a - (low + near * width) * [1.0, 1.0 + 1e-15][round % 2];
            let mut within = Int64Builder::new();
            Buckets { range, ..buckets }.append_within(b, &mut within);
            let within = within.finish();
            assert!(within.len() <= 7, "{a} {b} {range:?}");
            let count = within.values().iter().filter(|&&bucket| bucket == buckets.own(a)).count();
            assert!(count <= 1);
            // By a difference, and by sums.
            let difference = a - b;
            let is_in = (range[0]..=range[1]).contains(&difference)
                || (a >= b + range[0] && a <= b + range[1]);
            assert!(count == 1 || !is_in, "{a} - {b} in {range:?}");
            shared += usize::from(is_in);
        }
        assert!(shared > 80_000, "{shared}");
    }

    /// Differences of integers that wrap, and values that are no numbers, are found in the bucket of what is far.
    #[test]
    fn integers_wrap() {
        let mut rng = StdRng::seed_from_u64(6);
        let mut wrapped = 0;
        for _ in 0..200_000 {
            let end = |rng: &mut StdRng| {
                let ends = [i8::MIN, i8::MAX, 0, 64, -64, 60];
                ends[rng.random_range(0..6)].wrapping_add(rng.random_range(-5..6))
            };
            let (a, b) = (end(&mut rng), end(&mut rng));
            let (low, high) = (rng.random_range(-6..3i8), rng.random_range(3..7i8));
            let range = [f64::from(low), f64::from(high)];
            let buckets = Buckets::of(&ValueBand::of_columns(range, Axis::Integers(8)));
            let mut within = Int64Builder::new();
            buckets.append_within(f64::from(b), &mut within);
            let own = buckets.own(f64::from(a));
            let count = within.finish().values().iter().filter(|&&bucket| bucket == own).count();
            let difference = a.wrapping_sub(b);
            let is_in = (low..=high).contains(&difference)
                || (a >= b.wrapping_add(low) && a <= b.wrapping_add(high));
            assert!(count == 1 || !is_in, "{a} - {b} in {range:?}");
            assert!(count <= 1);
            wrapped += usize::from(is_in && i16::from(a) - i16::from(b) != i16::from(difference));
        }
        assert!(wrapped > 1000, "{wrapped}");
        let buckets = Buckets::of(&ValueBand::of_columns([-1.0, 1.0], Axis::Double));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
            let mut within = Int64Builder::new();
            buckets.append_within(value, &mut within);
            assert!(within.finish().values().contains(&buckets.own(value)), "{value}");
        }
    }
}
