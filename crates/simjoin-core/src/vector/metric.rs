//! The functions over two vectors, and the threshold of a join.

use arrow::datatypes::DataType;

use super::width::{Number, Vector, VectorPair, by_width, narrow_pairs, wide_pairs};
use crate::engine::{MatchOrder, MatchSpec, Orders};
use crate::error::{Result, internal_err};
use crate::predicate::{Function, FunctionInfo, NanScore, Order, Predicate, Side};

/// The family's name.
pub(super) const FAMILY: &str = "vector";

/// The ends of DataFusion's order of `Float64`: NaN lies there, by its sign.
const LEAST: f64 = f64::from_bits(u64::MAX);
const GREATEST: f64 = f64::from_bits(u64::MAX >> 1);

const fn info(name: &'static str, order: Order, least_similar: &'static str) -> FunctionInfo {
    FunctionInfo {
        family: FAMILY,
        name,
        data_type: |_| DataType::Float64,
        example: match order {
            Order::Similarity => ">= 0.8",
            Order::Distance => "<= 0.5",
        },
        is_symmetric: true,
        orders_nan: true,
        is_partial: false,
        order,
        range: [LEAST, GREATEST],
        // Numbers that are not finite differ from themselves, and rounding may part equal ones.
        is_reflexive: false,
        least_is_far: false,
        rounds: &[],
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
pub enum Metric {
    /// `array_distance`, the Euclidean distance.
    Euclidean,
    /// `inner_product`.
    InnerProduct,
    /// `cosine_distance`, NULL for a vector of zeros.
    Cosine,
}

impl Metric {
    pub const ALL: [Self; 3] = [Self::Euclidean, Self::InnerProduct, Self::Cosine];

    pub const fn function(self) -> Function {
        Function::new(&FUNCTIONS[self as usize])
    }

    /// The metric of a function.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub fn of(function: Function) -> Result<Self> {
        match Self::ALL.into_iter().find(|metric| metric.function() == function) {
            Some(metric) => Ok(metric),
            None => internal_err!("{function:?} is no function of vectors"),
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
    pub fn value<'a>(
        self,
        x: impl Into<Vector<'a>>,
        y: impl Into<Vector<'a>>,
    ) -> Result<Option<f64>> {
        let (x, y) = (x.into(), y.into());
        match self.number(x, y) {
            // The sign of NaN, which decides comparisons, follows from the order of operands that
            // the compiler chose for DataFusion's function.
            Some(value) if value.is_nan() => {
                Ok(self.values_of_function(&[[x, y]])?.pop().flatten())
            }
            value => Ok(value),
        }
    }

    /// The value, NaN of any sign.
    #[inline]
    pub fn number(self, x: Vector<'_>, y: Vector<'_>) -> Option<f64> {
        let [number] = by_width!(x, |x| by_width!(y, |y| self.numbers_of([(x, y)])));
        number
    }

    /// The values for some pairs of vectors of one length. Each is a chain of additions that wait for each other;
    /// those of several pairs of like widths do not.
    #[inline]
    pub(super) fn numbers<const N: usize>(self, pairs: [VectorPair<'_>; N]) -> [Option<f64>; N] {
        if let Some(pairs) = narrow_pairs(pairs) {
            return self.numbers_of(pairs);
        }
        if let Some(pairs) = wide_pairs(pairs) {
            return self.numbers_of(pairs);
        }
        pairs.map(|[x, y]| self.number(x, y))
    }

    #[inline]
    fn numbers_of<X: Number, Y: Number, const N: usize>(
        self,
        pairs: [(&[X], &[Y]); N],
    ) -> [Option<f64>; N] {
        match self {
            Self::Euclidean => {
                // The sum of an iterator begins with it.
                let sums = sums(pairs, [-0.0], |x, y| [(x - y) * (x - y)]);
                sums.map(|[sum]| Some(f64::sqrt(sum)))
            }
            Self::InnerProduct => sums(pairs, [0.0], |x, y| [x * y]).map(|[product]| Some(product)),
            Self::Cosine => {
                let sums = sums(pairs, [0.0; 3], |x, y| [x * y, x * x, y * y]);
                sums.map(|[product, xx, yy]| {
                    let is_zero = xx == 0.0 || yy == 0.0;
                    (!is_zero).then(|| 1.0 - product / (f64::sqrt(xx) * f64::sqrt(yy)))
                })
            }
        }
    }
}

/// Sums over the coordinates of pairs of vectors of one length, from left to right, of what `terms` gives.
#[inline(always)]
fn sums<X: Number, Y: Number, const N: usize, const S: usize>(
    pairs: [(&[X], &[Y]); N],
    first: [f64; S],
    terms: impl Fn(f64, f64) -> [f64; S],
) -> [[f64; S]; N] {
    /// Coordinates whose terms are computed before they are added.
    const RUN: usize = 8;
    let len = pairs.iter().map(|(x, y)| x.len().min(y.len())).min().unwrap_or(0);
    let mut sums = [first; N];
    let runs = pairs.map(|(x, y)| (x[..len].as_chunks::<RUN>(), y[..len].as_chunks::<RUN>()));
    for run in 0..len / RUN {
        let terms = runs.map(|((xs, _), (ys, _))| {
            let (xs, ys) = (&xs[run], &ys[run]);
            std::array::from_fn::<_, RUN, _>(|place| terms(xs[place].wide(), ys[place].wide()))
        });
        for place in 0..RUN {
            for (sums, terms) in sums.iter_mut().zip(&terms) {
                sums.iter_mut().zip(terms[place]).for_each(|(sum, term)| *sum += term);
            }
        }
    }
    for (sums, ((_, xs), (_, ys))) in sums.iter_mut().zip(runs) {
        for (x, y) in xs.iter().zip(ys) {
            sums.iter_mut().zip(terms(x.wide(), y.wide())).for_each(|(sum, term)| *sum += term);
        }
    }
    sums
}

/// A metric and the bound that a pair has to satisfy.
#[derive(Debug, Clone, Copy)]
pub struct Threshold {
    pub metric: Metric,
    /// The least similar value that qualifies; NaN when none does.
    pub bound: f64,
    /// Whether a value that is NaN may qualify.
    pub nan: NanScore,
}

impl Threshold {
    /// A threshold that NaN is compared with in DataFusion's order.
    pub const fn new(metric: Metric, bound: f64) -> Self {
        Self { metric, bound, nan: NanScore::Ordered }
    }

    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub(super) fn of(predicate: &Predicate) -> Result<Self> {
        let &Predicate { call, bound, nan } = predicate;
        Ok(Self { metric: Metric::of(call.function)?, bound, nan })
    }

    /// Whether nothing matches.
    pub fn is_void(self) -> bool {
        self.bound.is_nan()
    }

    /// Whether a value qualifies, in DataFusion's order: -0.0 lies below 0.0, NaN beyond infinity, where it
    /// is [not as NULL](NanScore).
    pub(super) fn admits(self, value: f64) -> bool {
        let order = value.total_cmp(&self.bound);
        let is_null = value.is_nan() && self.nan == NanScore::Null;
        !self.is_void()
            && !is_null
            && match self.metric {
                Metric::InnerProduct => order.is_ge(),
                Metric::Euclidean | Metric::Cosine => order.is_le(),
            }
    }

    /// Whether two vectors of one length match, in one or in both orders of the arguments.
    ///
    /// # Errors
    ///
    /// When DataFusion's function fails.
    #[inline]
    pub fn decide(self, x: Vector<'_>, y: Vector<'_>, orders: ArgumentOrder) -> Result<Decision> {
        match self.decide_alone(x, y) {
            Some(decision) => Ok(decision),
            None => Ok(self.ask(&[[x, y]], orders)?.pop().unwrap_or(Decision::Neither)),
        }
    }

    /// The decision in any order; `None` where the value is NaN, and the sign of it, which the order of the
    /// arguments may change, is what the function [says](Self::ask).
    #[inline]
    pub(super) fn decide_alone(self, x: Vector<'_>, y: Vector<'_>) -> Option<Decision> {
        match self.metric.number(x, y) {
            None => Some(Decision::Neither),
            Some(value) if value.is_nan() => self.decide_nan(x, y),
            Some(value) if self.admits(value) => Some(Decision::Match),
            Some(_) => Some(Decision::Neither),
        }
    }

    /// The threshold of a round of a test: in some rounds NaN is as NULL.
    #[cfg(test)]
    pub(crate) fn of_round(metric: Metric, bound: f64, round: usize) -> Self {
        let nan = if (round / 7).is_multiple_of(2) { NanScore::Ordered } else { NanScore::Null };
        Self { metric, bound, nan }
    }

    /// Whether two vectors of one length match, in the order given, by the function where that is NaN.
    ///
    /// # Errors
    ///
    /// When DataFusion's function fails.
    pub fn matches<'a>(self, x: impl Into<Vector<'a>>, y: impl Into<Vector<'a>>) -> Result<bool> {
        Ok(self.metric.value(x, y)?.is_some_and(|value| self.admits(value)))
    }
}

/// The argument of the function that a probe vector is. It matters only where the value is NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentOrder {
    /// The first.
    Given,
    /// The second.
    Exchanged,
    /// The first or, `exchanged`, the second; and then the other one with the sides exchanged.
    Both { exchanged: bool },
}

impl ArgumentOrder {
    /// The orders of a join whose function takes the vectors of side `first` as its first argument.
    pub fn of(spec: &MatchSpec, first: Side) -> Self {
        match (spec.orders, spec.probe != first) {
            (Orders::Given, false) => Self::Given,
            (Orders::Given, true) => Self::Exchanged,
            (Orders::Mirrored | Orders::Unordered, exchanged) => Self::Both { exchanged },
        }
    }
}

/// The question that a join asks of pairs.
#[derive(Debug, Clone, Copy)]
pub struct Joining {
    pub threshold: Threshold,
    pub orders: ArgumentOrder,
    pub spec: MatchSpec,
}

/// Whether a pair matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Neither,
    /// The pair matches in every order that is asked for.
    Match,
    /// The pair matches in one of both orders: the probe vector on the probe side.
    AsGiven,
    /// The pair matches in one of both orders: the build vector on the probe side.
    Exchanged,
}

impl Decision {
    /// The orders in which the pair matches, if it does.
    pub fn order(self) -> Option<MatchOrder> {
        match self {
            Self::Neither => None,
            Self::Match => Some(MatchOrder::All),
            Self::AsGiven => Some(MatchOrder::Given),
            Self::Exchanged => Some(MatchOrder::Exchanged),
        }
    }
}
