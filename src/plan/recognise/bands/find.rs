//! Bands in the condition of a join.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::functions::math::abs::AbsFunc;
use datafusion::logical_expr::expr::{Between, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};

use crate::plan::recognise::predicate::side_of;
use crate::spec::Side;

/// A range in which the difference of a left and a right value lies.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValueBand {
    /// The values by side.
    pub terms: [Expr; 2],
    /// The least and the greatest difference, left minus right; of times in seconds.
    pub range: [f64; 2],
    pub axis: Axis,
    form: BoundForm,
}

impl ValueBand {
    /// The part of an end of the band that arithmetic may round.
    pub(super) fn rounding(&self) -> f64 {
        if self.axis == Axis::Single { 1e-6 } else { 1e-9 }
    }
}

/// The form of the bounds of a band. In each, integers wrap and NaN compares in another way, so that bounds of two
/// forms make no band.
#[derive(Debug, Clone, Copy, PartialEq)]
enum BoundForm {
    /// A value is compared with the sum of the other one and a constant.
    Sum,
    /// The difference left minus right is, or right minus left.
    Difference { is_swapped: bool },
}

/// The values of a type as numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Axis {
    /// The integers of a number of bits. Their differences wrap.
    Integers(i32),
    Single,
    /// Floating-point numbers and decimals.
    Double,
    /// The points in time of a type with a zone or without one. The unit is in seconds.
    Time {
        has_zone: bool,
        unit: f64,
    },
}

impl Axis {
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::Integers(8),
            DataType::Int16 => Self::Integers(16),
            DataType::Int32 => Self::Integers(32),
            DataType::Int64 => Self::Integers(64),
            DataType::Float32 => Self::Single,
            DataType::Float64 | DataType::Decimal128(..) | DataType::Decimal256(..) => Self::Double,
            DataType::Date32 | DataType::Date64 => Self::Time { has_zone: false, unit: DAY },
            DataType::Timestamp(unit, zone) => {
                let unit = match unit {
                    TimeUnit::Second => 1.0,
                    TimeUnit::Millisecond => 1e-3,
                    TimeUnit::Microsecond => 1e-6,
                    TimeUnit::Nanosecond => 1e-9,
                };
                Self::Time { has_zone: zone.is_some(), unit }
            }
            _ => return None,
        })
    }

    fn is_time(self) -> bool {
        matches!(self, Self::Time { .. })
    }

    /// The axis of a difference of values of two axes.
    fn with(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Time { has_zone: a, unit }, Self::Time { has_zone: b, unit: of_other }) => {
                Some(Self::Time { has_zone: a || b, unit: unit.max(of_other) })
            }
            (a, b) if a.is_time() || b.is_time() => None,
            (Self::Integers(a), Self::Integers(b)) => Some(Self::Integers(a.min(b))),
            (Self::Integers(_), Self::Single) | (Self::Single, Self::Integers(_)) => None,
            // A sum of integers may stand below a cast.
            (Self::Integers(bits), _) | (_, Self::Integers(bits)) => Some(Self::Integers(bits)),
            (Self::Single, _) | (_, Self::Single) => Some(Self::Single),
            _ => Some(Self::Double),
        }
    }
}

/// The bands that follow from the conjuncts of a condition.
pub(super) fn bands<'a>(
    conjuncts: impl Iterator<Item = &'a Expr>,
    left: &DFSchema,
    right: &DFSchema,
) -> Vec<ValueBand> {
    let mut found = BandFinder { sides: [left, right], bands: vec![] };
    for conjunct in conjuncts.filter(|conjunct| !conjunct.is_volatile()) {
        found.read(conjunct);
    }
    let is_band = |band: &ValueBand| {
        let [low, high] = band.range;
        let most = match band.axis {
            Axis::Integers(bits) => most_of(bits),
            _ => f64::MAX,
        };
        // Far from 0 the ends are not known to a part of such a band.
        let widest = low.abs().max(high.abs());
        let is_wide = widest * 10.0 * band.rounding() <= high - low;
        widest <= most && low < high && is_wide
    };
    found.bands.into_iter().filter(is_band).collect()
}

struct BandFinder<'a> {
    sides: [&'a DFSchema; 2],
    /// Ranges of which an end may be infinite.
    bands: Vec<ValueBand>,
}

/// A value and what is added to it.
struct Sum<'a> {
    term: &'a Expr,
    offset: Offset,
}

/// A constant: a number, or a time in seconds, as far as it is known.
#[derive(Debug, Clone, Copy)]
struct Offset {
    range: [f64; 2],
    is_time: bool,
    /// Whether days are added, which are not of one length where a zone has summer time.
    has_days: bool,
    /// The finest unit of all that is added, in seconds.
    unit: f64,
    /// The greatest number of all that are added.
    largest: f64,
}

impl Offset {
    const NONE: Self = Self {
        range: [0.0; 2],
        is_time: false,
        has_days: false,
        unit: f64::INFINITY,
        largest: 0.0,
    };

    fn is_none(self) -> bool {
        self.range == [0.0; 2]
    }

    fn negated(self) -> Self {
        let [low, high] = self.range;
        Self { range: [-high, -low], ..self }
    }

    fn plus(self, other: Self) -> Option<Self> {
        if self.is_time != other.is_time && !self.is_none() && !other.is_none() {
            return None;
        }
        Some(Self {
            range: [self.range[0] + other.range[0], self.range[1] + other.range[1]],
            is_time: self.is_time || other.is_time,
            has_days: self.has_days || other.has_days,
            unit: self.unit.min(other.unit),
            largest: self.largest.max(other.largest),
        })
    }
}

impl BandFinder<'_> {
    fn read(&mut self, conjunct: &Expr) {
        match conjunct {
            Expr::Alias(alias) => self.read(&alias.expr),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                self.compare(left, *op, right);
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                self.compare(expr, Operator::GtEq, low);
                self.compare(expr, Operator::LtEq, high);
            }
            _ => {}
        }
    }

    fn compare(&mut self, left: &Expr, op: Operator, right: &Expr) -> Option<()> {
        if offset_of(left).is_some() {
            return self.compare(right, op.swap()?, left);
        }
        let is_upper = match op {
            Operator::Lt | Operator::LtEq => true,
            Operator::Gt | Operator::GtEq => false,
            _ => return None,
        };
        let Some(bound) = offset_of(right) else {
            let (left, right) = (sum_of(left), sum_of(right));
            let bound = right.offset.plus(left.offset.negated())?;
            return self.bound([left.term, right.term], is_upper, bound, false);
        };
        match absolute(left) {
            Some(difference) if is_upper => {
                self.difference(difference, true, bound);
                self.difference(difference, false, bound.negated())
            }
            Some(_) => None,
            None => self.difference(left, is_upper, bound),
        }
    }

    /// Reads a bound of a difference.
    fn difference(&mut self, expr: &Expr, is_upper: bool, bound: Offset) -> Option<()> {
        match expr {
            Expr::Alias(alias) => self.difference(&alias.expr, is_upper, bound),
            Expr::Cast(Cast { expr, field }) if is_wide(field.data_type()) => {
                self.difference(expr, is_upper, bound)
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
                let (left, right) = (sum_of(left), sum_of(right));
                let bound = bound.plus(right.offset)?.plus(left.offset.negated())?;
                self.bound([left.term, right.term], is_upper, bound, true)
            }
            _ => None,
        }
    }

    /// Notes a bound of the first term minus the second.
    fn bound(
        &mut self,
        terms: [&Expr; 2],
        is_upper: bool,
        bound: Offset,
        is_difference: bool,
    ) -> Option<()> {
        let exprs = terms.map(Clone::clone);
        let [left, right] = self.sides;
        let sides = exprs.each_ref().map(|expr| side_of(expr, left, right));
        let is_swapped = sides[0] == Some(Side::Right);
        let form = match is_difference {
            true => BoundForm::Difference { is_swapped },
            false => BoundForm::Sum,
        };
        let (terms, is_upper, bound) = match (sides, exprs) {
            ([Some(Side::Left), Some(Side::Right)], exprs) => (exprs, is_upper, bound),
            ([Some(Side::Right), Some(Side::Left)], [first, second]) => {
                ([second, first], !is_upper, bound.negated())
            }
            _ => return None,
        };
        if terms.iter().any(|term| term.contains_outer()) {
            return None;
        }
        let types = [terms[0].get_type(left).ok()?, terms[1].get_type(right).ok()?];
        let axis = Axis::of(&types[0])?.with(Axis::of(&types[1])?)?;
        if axis.is_time() != bound.is_time && !bound.is_none() {
            return None;
        }
        // What is added is cut to the unit of the values, or may wrap.
        let is_exact = match axis {
            Axis::Time { unit, .. } => bound.unit >= unit,
            Axis::Integers(bits) => bound.largest <= most_of(bits),
            // Large numbers that cancel each other leave their rounding.
            Axis::Single | Axis::Double => {
                let [low, high] = bound.range;
                bound.largest <= 10.0 * low.abs().max(high.abs())
            }
        };
        if !is_exact {
            return None;
        }
        let leeway = match axis {
            Axis::Time { has_zone: true, .. } if bound.has_days => DAY,
            _ => 0.0,
        };
        let is_of = |band: &ValueBand| band.terms == terms && band.form == form;
        let at = self.bands.iter().position(is_of).unwrap_or_else(|| {
            let range = [f64::NEG_INFINITY, f64::INFINITY];
            self.bands.push(ValueBand { terms, range, axis, form });
            self.bands.len() - 1
        });
        let [low, high] = &mut self.bands[at].range;
        match is_upper {
            true => *high = high.min(bound.range[1] + leeway),
            false => *low = low.max(bound.range[0] - leeway),
        }
        Some(())
    }
}

/// The greatest number that a band may add to integers of a number of bits. A sum wraps then only where both values of a
/// pair are near the ends.
fn most_of(bits: i32) -> f64 {
    2f64.powi(bits - 4)
}

/// The argument of `abs`.
fn absolute(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Alias(alias) => absolute(&alias.expr),
        Expr::Cast(Cast { expr, field }) if is_wide(field.data_type()) => absolute(expr),
        Expr::ScalarFunction(ScalarFunction { func, args }) => match args.as_slice() {
            [argument] if func.inner().is::<AbsFunc>() => Some(argument),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a cast to a type keeps numbers of others, but for rounding that buckets allow for.
fn is_wide(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float64)
}

/// A value and the constants that are added to it. Buckets allow for the rounding of a cast to `Float64`.
fn sum_of(expr: &Expr) -> Sum<'_> {
    let plain = || Sum { term: expr, offset: Offset::NONE };
    match expr {
        Expr::Alias(alias) => sum_of(&alias.expr),
        Expr::Cast(Cast { expr, field }) if is_wide(field.data_type()) => sum_of(expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            let is_minus = matches!(expr, Expr::BinaryExpr(e) if e.op == Operator::Minus);
            let (inner, constant) = match (offset_of(right), offset_of(left)) {
                (Some(constant), _) if is_minus => (left, constant.negated()),
                (Some(constant), _) => (left, constant),
                (None, Some(constant)) if !is_minus => (right, constant),
                _ => return plain(),
            };
            let Sum { term, offset } = sum_of(inner);
            match offset.plus(constant) {
                Some(offset) => Sum { term, offset },
                None => plain(),
            }
        }
        _ => plain(),
    }
}

const DAY: f64 = 86_400.0;

/// A constant as a number, or as a time in seconds.
fn offset_of(expr: &Expr) -> Option<Offset> {
    let value = match expr {
        Expr::Alias(alias) => return offset_of(&alias.expr),
        Expr::Literal(value, _) => value,
        Expr::Negative(inner) => return offset_of(inner).map(Offset::negated),
        _ => return None,
    };
    let time = |range: [f64; 2], has_days, unit| Offset {
        range,
        is_time: true,
        has_days,
        unit,
        ..Offset::NONE
    };
    // The unit of a number of nanoseconds.
    let unit_of = |nanoseconds: i128| match nanoseconds {
        n if n % 1_000_000_000 == 0 => 1.0,
        n if n % 1_000_000 == 0 => 1e-3,
        n if n % 1_000 == 0 => 1e-6,
        _ => 1e-9,
    };
    let of_nanoseconds = |n: i128| time([n as f64 / 1e9; 2], false, unit_of(n));
    let of_parts = |months: i32, days: i32, nanoseconds: i64| {
        let (months, days) = (f64::from(months), f64::from(days));
        // A month has 28 to 31 days.
        let seconds = nanoseconds as f64 / 1e9;
        let ends = [28.0, 31.0].map(|month| (months * month + days) * DAY + seconds);
        let unit = if nanoseconds == 0 { DAY } else { unit_of(i128::from(nanoseconds)) };
        let has_days = months != 0.0 || days != 0.0;
        time([ends[0].min(ends[1]), ends[0].max(ends[1])], has_days, unit)
    };
    Some(match value {
        ScalarValue::IntervalYearMonth(Some(months)) => of_parts(*months, 0, 0),
        ScalarValue::IntervalDayTime(Some(parts)) => {
            of_parts(0, parts.days, i64::from(parts.milliseconds) * 1_000_000)
        }
        ScalarValue::IntervalMonthDayNano(Some(parts)) => {
            of_parts(parts.months, parts.days, parts.nanoseconds)
        }
        ScalarValue::DurationSecond(Some(n)) => of_nanoseconds(i128::from(*n) * 1_000_000_000),
        ScalarValue::DurationMillisecond(Some(n)) => of_nanoseconds(i128::from(*n) * 1_000_000),
        ScalarValue::DurationMicrosecond(Some(n)) => of_nanoseconds(i128::from(*n) * 1_000),
        ScalarValue::DurationNanosecond(Some(n)) => of_nanoseconds(i128::from(*n)),
        number if number.data_type().is_numeric() => {
            let ScalarValue::Float64(Some(number)) = number.cast_to(&DataType::Float64).ok()?
            else {
                return None;
            };
            let number = Some(number).filter(|number| number.is_finite())?;
            Offset { range: [number; 2], largest: number.abs(), ..Offset::NONE }
        }
        _ => return None,
    })
}

#[cfg(test)]
impl ValueBand {
    /// A band of two columns.
    pub(super) fn of_columns(range: [f64; 2], axis: Axis) -> Self {
        let terms = ["a", "b"].map(datafusion::prelude::col);
        Self { terms, range, axis, form: BoundForm::Sum }
    }
}
