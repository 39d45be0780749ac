//! Pairs whose value is not a number.
//!
//! [Where NaN is as NULL](NanScore::Null) no such pair matches, and a vector with NaN, which has no other value
//! with any vector, is not compared at all: it is read as [`Content::WithNan`](super::collection::Content).
//! The rest is about [the other joins](NanScore::Ordered).
//!
//! NaN lies beyond all numbers in DataFusion's order, on the side of its sign: the sign decides. An
//! operation with one operand that is NaN gives that operand, with two one of them, as the compiler chose
//! to place them; one that has no result (∞ − ∞, 0 · ∞, ∞ / ∞) makes a NaN of a sign that the
//! processor has. So the value's sign is known where all that can come to it have one sign:
//!
//! * the NaN of both vectors, all of one sign, and nothing is made: the numbers of a vector besides are
//!   [tame](NumberKind), their products and squares and the sums of these finite;
//! * or they have the sign of what is made, or there are none.
//!
//! The module does not assume that operations are such: in each process it asks the function itself, about
//! vectors with NaN of both signs in all places and about all that is made. Where the function says something
//! else, and where signs are mixed, it is asked about each pair, many at a time.

use std::sync::{Arc, LazyLock, OnceLock};

use arrow::array::{ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};

use super::metric::{ArgumentOrder, Decision, Metric, Threshold};
use super::width::{Number, Vector, VectorPair, by_width};
use crate::error::{Result, internal_err};
use crate::predicate::{Function, NanScore};

/// Numbers of a side that are given to the function at once, unless one vector has more.
pub(super) const ASKED_NUMBERS: usize = 1 << 13;

/// About the bytes that this takes.
pub(super) const ASKING_BYTES: usize = 4 * ASKED_NUMBERS * size_of::<f64>();

/// The sign of a NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Positive,
    Negative,
}

impl Sign {
    fn of(nan: f64) -> Self {
        if nan.is_sign_negative() { Self::Negative } else { Self::Positive }
    }

    fn nan(self) -> f64 {
        f64::NAN.copysign(if self == Self::Positive { 1.0 } else { -1.0 })
    }
}

/// The kinds of numbers that a vector holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberKind {
    /// The sum of the squares of its numbers, those that are NaN apart, is at most 1e300: nothing that
    /// functions compute of two such vectors overflows.
    pub is_tame: bool,
    has_positive: bool,
    has_negative: bool,
}

impl NumberKind {
    pub(super) fn of(vector: Vector<'_>) -> Self {
        by_width!(vector, |numbers| Self::of_numbers(numbers))
    }

    fn of_numbers(numbers: &[impl Number]) -> Self {
        let (mut square, mut signs) = (0.0, [false; 2]);
        for number in numbers.iter().map(|number| number.wide()) {
            if number.is_nan() {
                signs[usize::from(number.is_sign_negative())] = true;
            } else {
                square += number * number;
            }
        }
        let [has_positive, has_negative] = signs;
        Self { is_tame: square <= 1e300, has_positive, has_negative }
    }

    /// The sign of every NaN, where all have one and the others are tame.
    pub(super) fn tame_sign(self) -> Option<Sign> {
        match (self.is_tame, self.has_positive, self.has_negative) {
            (true, true, false) => Some(Sign::Positive),
            (true, false, true) => Some(Sign::Negative),
            _ => None,
        }
    }
}

/// The answers of the function about NaN.
#[derive(Debug, Clone, Copy, Default)]
struct Rule {
    /// Whether its value has the sign of all NaN that it is given.
    keeps: bool,
    /// The sign of what is made of numbers, where it is always the same.
    made: Option<Sign>,
}

impl Rule {
    fn of(metric: Metric) -> Self {
        static RULES: [LazyLock<Rule>; 3] = [
            LazyLock::new(|| Rule::learn(Metric::Euclidean)),
            LazyLock::new(|| Rule::learn(Metric::InnerProduct)),
            LazyLock::new(|| Rule::learn(Metric::Cosine)),
        ];
        *RULES[metric as usize]
    }

    /// Asks the function. Where it fails nothing is known.
    fn learn(metric: Metric) -> Self {
        Self::told(metric).unwrap_or_default()
    }

    fn told(metric: Metric) -> Result<Self> {
        let mut keeps = true;
        for sign in [Sign::Positive, Sign::Negative] {
            let given = with_nan(sign);
            keeps &= values(metric, &pairs(&given))?.iter().all(|value| has_sign(*value, sign));
        }
        let given = making();
        let made = values(metric, &pairs(&given))?;
        let made: Vec<f64> = made.into_iter().flatten().filter(|value| value.is_nan()).collect();
        let sign = made.first().map(|nan| Sign::of(*nan));
        let is_one = made.iter().all(|nan| Some(Sign::of(*nan)) == sign);
        Ok(Self { keeps, made: sign.filter(|_| is_one) })
    }

    /// The sign of a value that is NaN, by what both vectors hold; `None` where only the function tells.
    fn sign(self, [x, y]: [NumberKind; 2]) -> Option<Sign> {
        let given = match (x.has_positive | y.has_positive, x.has_negative | y.has_negative) {
            (true, true) => return None,
            (false, false) => return self.made,
            (true, false) => Sign::Positive,
            (false, true) => Sign::Negative,
        };
        let is_kept = self.keeps && (x.is_tame && y.is_tame || self.made == Some(given));
        is_kept.then_some(given)
    }
}

fn has_sign(value: Option<f64>, sign: Sign) -> bool {
    value.is_some_and(|value| value.is_nan() && Sign::of(value) == sign)
}

fn pairs(given: &[[Vec<f64>; 2]]) -> Vec<VectorPair<'_>> {
    given.iter().map(|[x, y]| [x.as_slice().into(), y.as_slice().into()]).collect()
}

/// Vectors of several lengths with NaN of a sign: in either or in both, in every place alone and in all.
fn with_nan(sign: Sign) -> Vec<[Vec<f64>; 2]> {
    let mut given = vec![];
    for d in [1, 2, 3, 4, 5, 8, 11, 16, 17, 33] {
        let number =
            |side: f64| move |k: usize| side * (k as f64 + 0.5) * (1.0 - 2.0 * (k % 2) as f64);
        let numbers = |side: f64| (0..d).map(number(side)).collect::<Vec<_>>();
        for place in 0..=d {
            let put = |vector: &mut Vec<f64>, payload: u64| {
                let nan = f64::from_bits(sign.nan().to_bits() | payload);
                match vector.get_mut(place) {
                    Some(number) => *number = nan,
                    None => vector.fill(nan),
                }
            };
            for sides in 1..4 {
                let [mut x, mut y] = [numbers(1.0), numbers(-3.0)];
                if sides & 1 != 0 {
                    put(&mut x, 5);
                }
                if sides & 2 != 0 {
                    put(&mut y, 9);
                }
                given.push([x, y]);
            }
        }
    }
    given
}

/// Vectors of numbers of which functions make NaN: by sums, differences, products and quotients.
fn making() -> Vec<[Vec<f64>; 2]> {
    let inf = f64::INFINITY;
    let parts = [
        [vec![inf], vec![inf]],
        [vec![-inf], vec![-inf]],
        [vec![inf], vec![0.0]],
        [vec![-inf], vec![0.0]],
        [vec![inf, 1.0], vec![1.0, 1.0]],
        [vec![inf, inf], vec![1.0, -1.0]],
        [vec![inf, inf], vec![-1.0, 1.0]],
        [vec![1e200, 1e200], vec![1e200, -1e200]],
        [vec![1e200, -1e200], vec![1e200, 1e200]],
        [vec![inf, 2.0, inf], vec![inf, 3.0, -inf]],
        [vec![1e200, 0.0], vec![1e200, 0.0]],
    ];
    let mut given = vec![];
    for d in [0, 1, 2, 3, 6, 7, 13] {
        for [x, y] in &parts {
            let around = |vector: &[f64]| {
                let back = [2.5, -0.5].into_iter().cycle().take(d);
                [vec![1.5; d], vector.to_vec(), back.collect()].concat()
            };
            given.push([around(x), around(y)]);
            given.push([around(y), around(x)]);
        }
    }
    given
}

/// Computes a function for two columns of lists of `f64`, row by row, as `Float64`.
pub(super) type VectorFunction = fn(Function, [ArrayRef; 2]) -> Result<ArrayRef>;

/// The functions of this process, which decide the signs of NaN.
static FUNCTIONS: OnceLock<VectorFunction> = OnceLock::new();

/// Lets `functions` compute what is NaN in this process. The first ones stay: a process has one
/// implementation.
pub(super) fn compute_by(functions: VectorFunction) {
    FUNCTIONS.get_or_init(|| functions);
}

/// The values that the function of the process computes; `None` is NULL. All pairs are given to it at once.
fn values(metric: Metric, pairs: &[VectorPair<'_>]) -> Result<Vec<Option<f64>>> {
    let Some(functions) = FUNCTIONS.get() else {
        return Ok(pairs.iter().map(|[x, y]| metric.number(*x, *y)).collect());
    };
    let item: FieldRef = Arc::new(Field::new_list_field(DataType::Float64, true));
    let list = |side: usize| -> ArrayRef {
        let numbers = pairs.iter().flat_map(|pair| pair[side]);
        let elements: ArrayRef = Arc::new(Float64Array::from_iter_values(numbers));
        let offsets = OffsetBuffer::from_lengths(pairs.iter().map(|pair| pair[side].len()));
        Arc::new(ListArray::new(Arc::clone(&item), offsets, elements, None))
    };
    let value = functions(metric.function(), [list(0), list(1)])?;
    match value.as_primitive_opt::<Float64Type>() {
        Some(value) if value.len() == pairs.len() => Ok(value.iter().collect()),
        _ => internal_err!("{} gives a {}", metric.function(), value.data_type()),
    }
}

impl Metric {
    /// The values that the function of the process computes of some pairs, a few of which are given to it
    /// at once.
    ///
    /// # Errors
    ///
    /// When the function fails.
    pub(super) fn values_of_function(self, pairs: &[VectorPair<'_>]) -> Result<Vec<Option<f64>>> {
        let mut all = Vec::with_capacity(pairs.len());
        let mut rest = pairs;
        while let Some([first, _]) = rest.first() {
            let count = (ASKED_NUMBERS / first.len().max(1)).clamp(1, rest.len());
            let (some, others) = rest.split_at(count);
            all.extend(values(self, some)?);
            rest = others;
        }
        Ok(all)
    }
}

impl Threshold {
    /// Whether a vector of this [sign](NumberKind::tame_sign) matches those without NaN or with NaN of this
    /// sign that are tame and have a value; `None` where the function says.
    pub fn admits_nan(self, sign: Sign) -> Option<bool> {
        let is_known = self.nan == NanScore::Null || Rule::of(self.metric).keeps;
        is_known.then(|| self.admits(sign.nan()))
    }

    /// Whether two vectors match whose value is NaN; `None` where the function has to be
    /// [asked](Self::ask).
    #[cold]
    pub(super) fn decide_nan(self, x: Vector<'_>, y: Vector<'_>) -> Option<Decision> {
        if self.nan == NanScore::Null {
            return Some(Decision::Neither);
        }
        let sign = Rule::of(self.metric).sign([NumberKind::of(x), NumberKind::of(y)])?;
        Some(if self.admits(sign.nan()) { Decision::Match } else { Decision::Neither })
    }

    /// Evaluates DataFusion's function for pairs that [`Self::decide_nan`] leaves open, in one or in both orders
    /// of the arguments, and decides each pair by the value.
    ///
    /// # Errors
    ///
    /// When the function fails.
    pub(super) fn ask(
        self,
        pairs: &[VectorPair<'_>],
        orders: ArgumentOrder,
    ) -> Result<Vec<Decision>> {
        let holds = |is_exchanged: bool| -> Result<Vec<bool>> {
            let exchanged: Vec<VectorPair<'_>>;
            let pairs = if is_exchanged {
                exchanged = pairs.iter().map(|&[x, y]| [y, x]).collect();
                &exchanged
            } else {
                pairs
            };
            let values = self.metric.values_of_function(pairs)?.into_iter();
            Ok(values.map(|value| value.is_some_and(|value| self.admits(value))).collect())
        };
        let (first, second) = match orders {
            ArgumentOrder::Given => (holds(false)?, None),
            ArgumentOrder::Exchanged => (holds(true)?, None),
            ArgumentOrder::Both { exchanged } => (holds(exchanged)?, Some(holds(!exchanged)?)),
        };
        let decision = |(place, first): (usize, bool)| match (
            first,
            second.as_ref().map_or(first, |second| second[place]),
        ) {
            (true, true) => Decision::Match,
            (true, false) => Decision::AsGiven,
            (false, true) => Decision::Exchanged,
            (false, false) => Decision::Neither,
        };
        Ok(first.into_iter().enumerate().map(decision).collect())
    }
}
