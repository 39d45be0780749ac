//! Types that hold the values of a text column exactly.
//!
//! A value has a type if the type gives it back: `007`, `+5` and `1E2` are text, because as numbers they
//! would be other texts' equals. A fraction is a Float64 if the Float64, written with as many digits, is
//! the same number again.

use std::fmt::Write;

use arrow::datatypes::{DataType, TimeUnit};

/// Integers up to here are Float64s, each of its own.
const EXACT: u64 = 1 << 53;

/// Digits that every Float64 of usual size keeps.
const SURE_DIGITS: usize = 15;

/// Digits of a number beyond which it is text.
const MOST_DIGITS: usize = 400;

/// A value as the type that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Boolean,
    Integer {
        negative: bool,
        /// Whether an Int64 does not hold it, but a UInt64.
        beyond_i64: bool,
        /// Whether the value is a Float64 as well.
        exact: bool,
    },
    Fraction,
    Date,
    Time {
        unit: TimePrecision,
        /// Minutes east of UTC.
        zone: Option<i16>,
        /// Whether nanoseconds since 1970 hold its year.
        near: bool,
    },
    Text,
}

/// The unit of a time, coarsest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimePrecision {
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Value {
    /// The value of a field of CSV, which is not empty.
    pub(super) fn of_field(text: &[u8]) -> Self {
        match text {
            b"true" | b"True" | b"TRUE" | b"false" | b"False" | b"FALSE" => Self::Boolean,
            b"NaN" | b"nan" | b"inf" | b"-inf" => Self::Fraction,
            [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'-', ..] => {
                time(text).unwrap_or(Self::Text)
            }
            [b'0'..=b'9' | b'-' | b'.', ..] => number(text, true),
            _ => Self::Text,
        }
    }

    /// The value of a number of JSON.
    pub(super) fn of_number(text: &[u8]) -> Self {
        number(text, false)
    }
}

/// A number; text where no type holds it.
fn number(text: &[u8], may_be_code: bool) -> Value {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(rest);
    if whole > 1 && rest[0] == b'0' {
        return Value::Text;
    }
    if whole == rest.len() && whole > 0 && !(negative && rest == b"0") {
        return integer(rest, negative);
    }
    let (point, fraction) = match rest[whole..] {
        [b'.', ref after @ ..] => (1, digits(after)),
        _ => (0, 0),
    };
    if whole + fraction == 0 {
        return Value::Text;
    }
    let mantissa = &rest[..whole + point + fraction];
    let exponent = &rest[mantissa.len()..];
    if may_be_code && point == 0 && !exponent.is_empty() && !is_written_by_program(rest) {
        return Value::Text;
    }
    match is_fraction(text, mantissa, whole, exponent) {
        true => Value::Fraction,
        false => Value::Text,
    }
}

fn integer(digits: &[u8], negative: bool) -> Value {
    let magnitude = std::str::from_utf8(digits).ok().filter(|d| d.len() <= 20);
    let Some(magnitude) = magnitude.and_then(|digits| digits.parse::<u64>().ok()) else {
        return Value::Text;
    };
    let least = i64::MIN.unsigned_abs();
    if negative && magnitude > least {
        return Value::Text;
    }
    let exact = magnitude <= EXACT || magnitude as f64 as u128 == u128::from(magnitude);
    Value::Integer { negative, beyond_i64: !negative && magnitude >= least, exact }
}

/// Whether a number without a point, but with an exponent, is as programs write a Float64: `1e-05`,
/// `1e+16`, `1e16`. Codes such as `1E2` and `12e5` are not.
fn is_written_by_program(text: &[u8]) -> bool {
    let [b'1'..=b'9', b'e', exponent @ ..] = text else { return false };
    match exponent {
        [b'+', digits @ ..] => digits.len() >= 2,
        [b'-', digits @ ..] => !digits.is_empty(),
        digits => std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse::<u16>().ok())
            .is_some_and(|exponent| exponent >= 16 && !digits.starts_with(b"0")),
    }
}

/// Whether the nearest Float64, written with as many digits, is the number again.
fn is_fraction(text: &[u8], mantissa: &[u8], whole: usize, exponent: &[u8]) -> bool {
    let power = match exponent {
        [] => 0,
        [b'e' | b'E', digits @ ..] => {
            let digits = digits.strip_prefix(b"+").unwrap_or(digits);
            let is_number = !digits.is_empty() && digits[0] != b'+';
            let power = std::str::from_utf8(digits).ok().filter(|_| is_number);
            match power.and_then(|digits| digits.parse::<i32>().ok()) {
                Some(power) if power.abs() < 10_000 => power,
                _ => return false,
            }
        }
        _ => return false,
    };
    let all: Vec<u8> = match mantissa.len() <= SURE_DIGITS && power == 0 {
        true => return true,
        false => mantissa.iter().copied().filter(u8::is_ascii_digit).collect(),
    };
    let zeros = all.iter().take_while(|digit| **digit == b'0').count();
    let digits = &all[zeros..];
    if digits.is_empty() {
        return true;
    }
    let scale = i64::from(power) + whole as i64 - 1 - zeros as i64;
    if digits.len() <= SURE_DIGITS && scale.abs() < 290 {
        return true;
    }
    let Some(value) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok())
    else {
        return false;
    };
    if !value.is_finite() || digits.len() > MOST_DIGITS {
        return false;
    }
    let mut written = String::new();
    if write!(written, "{:.*e}", digits.len() - 1, value.abs()).is_err() {
        return false;
    }
    let Some((mantissa, power)) = written.split_once('e') else { return false };
    let is_same = mantissa.bytes().filter(u8::is_ascii_digit).eq(digits.iter().copied());
    is_same && power.parse::<i64>() == Ok(scale)
}

/// `2026-11-28`, `2026-11-28 14:46:00.25`, `2026-11-28T14:46:00+01:00`
fn time(text: &[u8]) -> Option<Value> {
    let two = |at: usize| {
        let [a, b]: [u8; 2] = text.get(at..at + 2)?.try_into().ok()?;
        (u8::is_ascii_digit(&a) && u8::is_ascii_digit(&b))
            .then(|| i16::from(a - b'0') * 10 + i16::from(b - b'0'))
    };
    let at = |place: usize, byte: u8| text.get(place) == Some(&byte);
    let year = two(0)? * 100 + two(2)?;
    let (month, day) = (two(5)?, two(8)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i16::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !at(4, b'-') || !at(7, b'-') || !(1..=days).contains(&day) {
        return None;
    }
    if text.len() == 10 {
        return Some(Value::Date);
    }
    let clock = two(11)? < 24 && two(14)? < 60 && two(17)? < 60;
    if !(at(10, b' ') || at(10, b'T')) || !at(13, b':') || !at(16, b':') || !clock {
        return None;
    }
    let rest = &text[19..];
    let (digits, rest) = match rest {
        [b'.', after @ ..] => {
            let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
            (digits, &after[digits..])
        }
        rest => (0, rest),
    };
    let unit = match digits {
        0 if text.get(19) == Some(&b'.') => return None,
        0 => TimePrecision::Second,
        1..=3 => TimePrecision::Millisecond,
        4..=6 => TimePrecision::Microsecond,
        7..=9 => TimePrecision::Nanosecond,
        _ => return None,
    };
    let zone = match rest {
        [] => None,
        rest => Some(zone(rest)?),
    };
    Some(Value::Time { unit, zone, near: (1678..2262).contains(&year) })
}

/// `Z`, `+01:00`, `+0100`, `+01`
fn zone(text: &[u8]) -> Option<i16> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i16::from(byte - b'0'));
    let (sign, hours, minutes) = match *text {
        [b'Z'] => return Some(0),
        [sign @ (b'+' | b'-'), a, b] => (sign, digit(a)? * 10 + digit(b)?, 0),
        [sign @ (b'+' | b'-'), a, b, c, d] | [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
            (sign, digit(a)? * 10 + digit(b)?, digit(c)? * 10 + digit(d)?)
        }
        _ => return None,
    };
    let minutes = (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)?;
    match (sign, minutes) {
        // RFC 3339 has it for a time whose zone is not known.
        (b'-', 0) => None,
        (b'-', minutes) => Some(-minutes),
        _ => Some(minutes),
    }
}

/// The values that a column has been seen to have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    boolean: bool,
    integer: bool,
    negative: bool,
    beyond_i64: bool,
    /// An integer that is no Float64.
    inexact: bool,
    fraction: bool,
    date: bool,
    time: Option<Times>,
    text: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    unit: TimePrecision,
    zone: Option<i16>,
    near: bool,
}

impl Seen {
    pub(super) fn add(&mut self, value: Value) {
        match value {
            Value::Boolean => self.boolean = true,
            Value::Integer { negative, beyond_i64, exact } => {
                self.integer = true;
                self.negative |= negative;
                self.beyond_i64 |= beyond_i64;
                self.inexact |= !exact;
            }
            Value::Fraction => self.fraction = true,
            Value::Date => self.date = true,
            Value::Time { unit, zone, near } => self.add_times(Times { unit, zone, near }),
            Value::Text => self.text = true,
        }
    }

    fn add_times(&mut self, other: Times) {
        match &mut self.time {
            None => self.time = Some(other),
            Some(times) if times.zone != other.zone => self.text = true,
            Some(times) => {
                times.unit = times.unit.max(other.unit);
                times.near &= other.near;
            }
        }
    }

    /// Whether no further value changes the type.
    pub(super) fn is_text(&self) -> bool {
        self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.boolean |= other.boolean;
        self.integer |= other.integer;
        self.negative |= other.negative;
        self.beyond_i64 |= other.beyond_i64;
        self.inexact |= other.inexact;
        self.fraction |= other.fraction;
        self.date |= other.date;
        self.text |= other.text;
        if let Some(times) = other.time {
            self.add_times(times);
        }
    }

    /// The type that holds all of them; text for a column without values.
    pub(super) fn data_type(&self) -> DataType {
        let numbers = self.integer || self.fraction;
        let kinds = [self.boolean, numbers, self.date, self.time.is_some()];
        if self.text || kinds.into_iter().filter(|kind| *kind).count() != 1 {
            return DataType::Utf8;
        }
        if self.boolean {
            return DataType::Boolean;
        }
        if self.date {
            return DataType::Date32;
        }
        match self.time {
            Some(times) if times.unit == TimePrecision::Nanosecond && !times.near => DataType::Utf8,
            Some(times) => DataType::Timestamp(unit_of(times.unit), times.zone.map(zone_name)),
            None if self.fraction && self.inexact => DataType::Utf8,
            None if self.fraction => DataType::Float64,
            None if self.beyond_i64 && self.negative => DataType::Utf8,
            None if self.beyond_i64 => DataType::UInt64,
            None => DataType::Int64,
        }
    }
}

fn unit_of(unit: TimePrecision) -> TimeUnit {
    match unit {
        TimePrecision::Second => TimeUnit::Second,
        TimePrecision::Millisecond => TimeUnit::Millisecond,
        TimePrecision::Microsecond => TimeUnit::Microsecond,
        TimePrecision::Nanosecond => TimeUnit::Nanosecond,
    }
}

/// `+01:00`
fn zone_name(minutes: i16) -> std::sync::Arc<str> {
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60).into()
}

/// Whether a type that was guessed holds a value exactly.
pub(super) fn holds(data_type: &DataType, value: Value) -> bool {
    match (data_type, value) {
        (DataType::Boolean, Value::Boolean)
        | (DataType::Float64, Value::Fraction)
        | (DataType::Date32, Value::Date) => true,
        (DataType::Int64, Value::Integer { beyond_i64, .. }) => !beyond_i64,
        (DataType::UInt64, Value::Integer { negative, .. }) => !negative,
        (DataType::Float64, Value::Integer { exact, .. }) => exact,
        (DataType::Timestamp(of_column, name), Value::Time { unit, zone, near }) => {
            let finest = match of_column {
                TimeUnit::Second => TimePrecision::Second,
                TimeUnit::Millisecond => TimePrecision::Millisecond,
                TimeUnit::Microsecond => TimePrecision::Microsecond,
                TimeUnit::Nanosecond => TimePrecision::Nanosecond,
            };
            unit <= finest
                && zone.map(zone_name) == *name
                && (near || finest != TimePrecision::Nanosecond)
        }
        (data_type, _) => matches!(data_type, DataType::Utf8 | DataType::Utf8View),
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::kernels::cast_utils::{Parser, string_to_timestamp_nanos};
    use arrow::datatypes::{Date32Type, Float64Type, Int64Type, UInt64Type};

    use super::*;

    fn type_of(fields: &[&str]) -> DataType {
        let mut seen = Seen::default();
        fields.iter().for_each(|field| seen.add(Value::of_field(field.as_bytes())));
        seen.data_type()
    }

    #[test]
    fn columns_have_the_least_type_that_holds_them() {
        let time = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
        for (fields, expected) in [
            (&["1", "-2", "9223372036854775807", "-9223372036854775808"][..], DataType::Int64),
            (&["1", "18446744073709551615"], DataType::UInt64),
            (&["-1", "18446744073709551615"], DataType::Utf8),
            (&["18446744073709551616"], DataType::Utf8),
            (&["-9223372036854775809"], DataType::Utf8),
            (&["1", "1.50", ".5", "5.", "-0", "1e-05", "1e16"], DataType::Float64),
            (&["9007199254740993", "1.5"], DataType::Utf8),
            (&["9007199254740992", "NaN"], DataType::Float64),
            (&["9007199254740993", "nan"], DataType::Utf8),
            (&["1.000000000000000056e-01"], DataType::Float64),
            (&["0.1234567890123456789"], DataType::Utf8),
            (&["true", "FALSE"], DataType::Boolean),
            (&["true", "1"], DataType::Utf8),
            (&["2024-02-29"], DataType::Date32),
            (&["2023-02-29"], DataType::Utf8),
            (&["2024-02-29", "2024-02-29 10:00:00"], DataType::Utf8),
            (&["2024-02-29T10:00:00"], time(TimeUnit::Second, None)),
            (
                &["2024-02-29T10:00:00", "2024-02-29 10:00:00.1234567"],
                time(TimeUnit::Nanosecond, None),
            ),
            (&["1024-02-29T10:00:00", "2024-02-29 10:00:00.12345678"], DataType::Utf8),
            (&["1024-02-29T10:00:00.123456"], time(TimeUnit::Microsecond, None)),
            (&["2024-02-29T10:00:00.1234567891"], DataType::Utf8),
            (&["2024-02-29T10:00:00Z"], time(TimeUnit::Second, Some("+00:00"))),
            (&["2024-02-29T10:00:00-03:30"], time(TimeUnit::Second, Some("-03:30"))),
            (&["2024-02-29T10:00:00Z", "2024-02-29T10:00:00+01:00"], DataType::Utf8),
            (&["2024-02-29T10:00:00Z", "2024-02-29T10:00:00"], DataType::Utf8),
            (&["2024-02-29T24:00:00"], DataType::Utf8),
            (&[], DataType::Utf8),
        ] {
            assert_eq!(type_of(fields), expected, "{fields:?}");
        }
        for text in [
            "007", "+5", "-007", "00.5", "1E2", "12E500", "0012e345", "12e5", "1e5", "1e400",
            "1_000", "1.5e400", "0x10", "1,5", "-", ".", "e5", "1e", "1e+", "1.5e", "Infinity",
            "--1", "1-2", "1.2.3", "2024-1-1", "5e016", "1e-400x", "9e+", "1.5e++5", " 1", "1 ",
            "NAN", "1e-999",
        ] {
            assert_eq!(type_of(&[text]), DataType::Utf8, "{text}");
        }
    }

    /// The readers are Arrow's: what is taken for a number here is the same number there.
    #[test]
    fn arrow_reads_what_is_taken_for_a_number_or_a_time() {
        for text in [
            "1.50",
            ".5",
            "5.",
            "-0",
            "-0.0",
            "1e-05",
            "1e+16",
            "1e16",
            "5e-324",
            "1.7976931348623157e308",
            "1.000000000000000056e-01",
            "inf",
            "-inf",
            "123456789012345678901234567890.5e-10",
            "0.000000000000000000000000000000000000001",
            "4.9406564584124654e-324",
        ] {
            let parsed = Float64Type::parse(text).unwrap();
            assert_eq!(parsed.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
        }
        assert!(Float64Type::parse("NaN").unwrap().is_nan());
        assert!(Float64Type::parse("nan").unwrap().is_nan());
        assert_eq!(Int64Type::parse("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(UInt64Type::parse("18446744073709551615"), Some(u64::MAX));
        assert_eq!(Date32Type::parse("0001-01-01"), Some(-719_162));
        for text in ["2024-02-29T10:00:00-0330", "2024-02-29T10:00:00-03", "2024-02-29 10:00:00Z"] {
            assert!(string_to_timestamp_nanos(text).is_ok(), "{text}");
        }
    }

    /// Two texts that are taken for fractions of one Float64 are the same number.
    #[test]
    fn neighbours_of_a_float_are_text() {
        let mut taken = 0;
        for value in 0..2_000_u64 {
            let base = 1_000_000_000_000_000_000 + value * 37;
            let text = format!("0.{base}");
            if type_of(&[&text]) == DataType::Float64 {
                taken += 1;
                let parsed: f64 = text.parse().unwrap();
                assert_eq!(format!("{parsed:.19}"), text);
            }
        }
        assert!(taken < 40, "{taken}");
    }
}
