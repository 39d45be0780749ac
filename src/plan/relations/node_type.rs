//! The type of nodes that two columns have in common.
//!
//! Nodes of both columns are numbered together, so they have to be of one type. A column is cast only where
//! two different values stay different: text is never read as a number, and a double never holds an integer
//! that it would round.

use std::sync::Arc;

use arrow::compute::can_cast_types;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit,
};

/// The type without dictionaries and runs, which rows do not keep.
pub(super) fn flat(data_type: &DataType) -> DataType {
    let of = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(flat(field.data_type())))
    };
    match data_type {
        DataType::Dictionary(_, values) => flat(values),
        DataType::RunEndEncoded(_, values) => flat(values.data_type()),
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::ListView(field) => DataType::ListView(of(field)),
        DataType::LargeListView(field) => DataType::LargeListView(of(field)),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(of(field), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        other => other.clone(),
    }
}

/// The type that holds every value of two flat types, each as a value of its own; `None` where no type does.
pub(super) fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    if left.equals_datatype(right) {
        return Some(left.clone());
    }
    let common = match (left, right) {
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        _ => numbers(left, right)
            .or_else(|| texts(left, right))
            .or_else(|| bytes(left, right))
            .or_else(|| times(left, right))
            .or_else(|| times(right, left))
            .or_else(|| nested(left, right)),
    };
    common.filter(|to| [left, right].iter().all(|from| can_cast_types(from, to)))
}

/// Digits before and behind the decimal point.
type Digits = (u8, u8);

/// The digits that an integer or a decimal has at most.
fn digits(data_type: &DataType) -> Option<Digits> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => match u8::try_from(*scale) {
            Ok(behind) => (precision.saturating_sub(behind), behind),
            Err(_) => (precision.saturating_add(scale.unsigned_abs()), 0),
        },
        _ => return None,
    })
}

/// The bits of a value and whether there is a sign, of integers.
fn integer_bits(data_type: &DataType) -> Option<(u8, bool)> {
    Some(match data_type {
        DataType::Int8 => (7, true),
        DataType::Int16 => (15, true),
        DataType::Int32 => (31, true),
        DataType::Int64 => (63, true),
        DataType::UInt8 => (8, false),
        DataType::UInt16 => (16, false),
        DataType::UInt32 => (32, false),
        DataType::UInt64 => (64, false),
        _ => return None,
    })
}

/// The bits of integers that a type of floats holds exactly.
fn exact_bits(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Float16 => 11,
        DataType::Float32 => 24,
        DataType::Float64 => 53,
        _ => return None,
    })
}

fn numbers(left: &DataType, right: &DataType) -> Option<DataType> {
    match (exact_bits(left), exact_bits(right)) {
        (Some(a), Some(b)) => return Some(if a > b { left } else { right }.clone()),
        (Some(bits), None) => {
            return integer_bits(right).filter(|(of, _)| *of <= bits).map(|_| left.clone());
        }
        (None, Some(_)) => return numbers(right, left),
        (None, None) => {}
    }
    if let (Some(a), Some(b)) = (integer_bits(left), integer_bits(right))
        && let Some(integer) = integers(a, b)
    {
        return Some(integer);
    }
    let (a, b) = (digits(left)?, digits(right)?);
    let (before, behind) = (a.0.max(b.0), a.1.max(b.1));
    let precision = before.checked_add(behind)?;
    let scale = i8::try_from(behind).ok()?;
    if precision <= DECIMAL128_MAX_PRECISION {
        Some(DataType::Decimal128(precision, scale))
    } else {
        (precision <= DECIMAL256_MAX_PRECISION).then_some(DataType::Decimal256(precision, scale))
    }
}

/// The type of integers with the bits of both.
fn integers(a: (u8, bool), b: (u8, bool)) -> Option<DataType> {
    let bits = a.0.max(b.0);
    Some(match (a.1 || b.1, bits) {
        (true, ..=7) => DataType::Int8,
        (true, ..=15) => DataType::Int16,
        (true, ..=31) => DataType::Int32,
        (true, ..=63) => DataType::Int64,
        (true, _) => return None,
        (false, ..=8) => DataType::UInt8,
        (false, ..=16) => DataType::UInt16,
        (false, ..=32) => DataType::UInt32,
        (false, _) => DataType::UInt64,
    })
}

fn texts(left: &DataType, right: &DataType) -> Option<DataType> {
    let kinds = [DataType::Utf8View, DataType::LargeUtf8, DataType::Utf8];
    widest(&kinds, left, right)
}

fn bytes(left: &DataType, right: &DataType) -> Option<DataType> {
    // Bytes of a fixed number of two numbers are bytes of any number.
    let any = |data_type: &DataType| match data_type {
        DataType::FixedSizeBinary(_) => DataType::Binary,
        other => other.clone(),
    };
    let kinds = [DataType::BinaryView, DataType::LargeBinary, DataType::Binary];
    widest(&kinds, &any(left), &any(right))
}

/// The first of the kinds, from the widest on, that one of two types is, where both are of them.
fn widest(kinds: &[DataType], left: &DataType, right: &DataType) -> Option<DataType> {
    let all = kinds.contains(left) && kinds.contains(right);
    kinds.iter().find(|kind| all && (*kind == left || *kind == right)).cloned()
}

/// The common type of dates and times. A cast that leaves the range of a finer unit is an error of the cast.
fn times(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    use TimeUnit::{Millisecond, Nanosecond, Second};
    Some(match (left, right) {
        (Date32, Date64) => Date64,
        // Midnight of a day, in no zone.
        (Date32, Timestamp(_, None)) => right.clone(),
        (Date64, Timestamp(Second | Millisecond, None)) => Timestamp(Millisecond, None),
        // A time of a zone is an instant, one without a zone is none.
        (Timestamp(a, zone), Timestamp(b, other)) if zone.is_some() == other.is_some() => {
            Timestamp(*a.max(b), zone.clone())
        }
        (Time32(_), Time32(_)) => Time32(Millisecond),
        (Time32(_), Time64(_)) => right.clone(),
        (Time64(_), Time64(_)) => Time64(Nanosecond),
        _ => return None,
    })
}

fn nested(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Struct};
    let element = |data_type: &DataType| match data_type {
        List(field) | ListView(field) | FixedSizeList(field, _) => Some((field.clone(), false)),
        LargeList(field) | LargeListView(field) => Some((field.clone(), true)),
        _ => None,
    };
    if let (Struct(a), Struct(b)) = (left, right) {
        let is_same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name() == b.name());
        let fields = a.iter().zip(b).map(|(a, b)| common_field(a, b));
        return fields.collect::<Option<Fields>>().filter(|_| is_same).map(Struct);
    }
    let ((a, is_large), (b, is_larger)) = (element(left)?, element(right)?);
    let field = common_field(&a, &b)?;
    Some(match (left, right) {
        (FixedSizeList(_, a), FixedSizeList(_, b)) if a == b => FixedSizeList(field, *a),
        _ if is_large || is_larger => LargeList(field),
        _ => List(field),
    })
}

fn common_field(a: &Field, b: &Field) -> Option<FieldRef> {
    let data_type = common(a.data_type(), b.data_type())?;
    Some(Arc::new(Field::new(a.name(), data_type, a.is_nullable() || b.is_nullable())))
}

/// The SQL name of the type that a column of one type may be cast to, so that it has the other type.
pub(super) fn cast_to(other: &DataType) -> Option<&'static str> {
    Some(match other {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Int64 => "BIGINT",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Int32 => "INT",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::Int16 => "SMALLINT",
        DataType::Int8 => "TINYINT",
        DataType::Boolean => "BOOLEAN",
        DataType::Date32 => "DATE",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flat types, one of each kind.
    fn types() -> Vec<DataType> {
        use DataType::*;
        let list = |of: DataType| List(Arc::new(Field::new("item", of, true)));
        let row = |name: &str, of: DataType| Struct(vec![Field::new(name, of, true)].into());
        let zone = |zone: &str| Some(Arc::from(zone));
        vec![
            Boolean,
            Int8,
            Int16,
            Int32,
            Int64,
            UInt8,
            UInt16,
            UInt32,
            UInt64,
            Float16,
            Float32,
            Float64,
            Decimal32(5, 1),
            Decimal128(38, 0),
            Decimal128(10, 2),
            Decimal256(76, 3),
            Utf8,
            LargeUtf8,
            Utf8View,
            Binary,
            LargeBinary,
            BinaryView,
            FixedSizeBinary(4),
            FixedSizeBinary(8),
            Date32,
            Date64,
            Time32(TimeUnit::Second),
            Time64(TimeUnit::Nanosecond),
            Timestamp(TimeUnit::Second, None),
            Timestamp(TimeUnit::Nanosecond, None),
            Timestamp(TimeUnit::Second, zone("UTC")),
            Timestamp(TimeUnit::Millisecond, zone("+02:00")),
            Duration(TimeUnit::Second),
            list(Int32),
            list(Int64),
            list(Utf8),
            row("x", Int32),
            row("x", Int64),
            row("y", Int64),
        ]
    }

    fn kind(data_type: &DataType) -> &'static str {
        match data_type {
            t if t.is_integer() || t.is_decimal() => "exact number",
            t if t.is_floating() => "float",
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
            DataType::Date32 | DataType::Date64 => "time",
            DataType::Timestamp(_, None) => "time",
            DataType::Timestamp(_, Some(_)) => "instant",
            DataType::Time32(_) | DataType::Time64(_) => "time of day",
            DataType::List(_) => "list",
            DataType::Struct(_) => "row",
            DataType::Boolean => "truth",
            DataType::Duration(_) => "duration",
            _ => "bytes",
        }
    }

    /// Each pair of types has a common one by both orders, and only kinds that hold each other have one.
    #[test]
    fn only_types_that_hold_each_other_have_a_common_one() {
        let types = types();
        for left in &types {
            for right in &types {
                let [found, other] = [common(left, right), common(right, left)];
                assert_eq!(found.is_some(), other.is_some(), "{left} {right}");
                let (a, b) = (kind(left), kind(right));
                let of_numbers = |t: &DataType| t.is_numeric() || t.is_floating();
                if a != b && !(of_numbers(left) && of_numbers(right)) {
                    assert_eq!(found, None, "{left} {right}");
                }
                if let Some(common) = found {
                    assert!([left, right].iter().all(|from| can_cast_types(from, &common)));
                    if left != right && a == b && !["bytes", "list", "row"].contains(&a) {
                        assert_eq!(kind(&common), a, "{left} {right}");
                    }
                }
            }
        }
    }

    #[test]
    fn common_types_lose_nothing() {
        use DataType::*;
        let list = |of: DataType| List(Arc::new(Field::new("item", of, true)));
        let utc = || Some(Arc::from("UTC"));
        for (left, right, expected) in [
            (Int8, UInt8, Some(Int16)),
            (Int32, UInt32, Some(Int64)),
            (UInt32, UInt64, Some(UInt64)),
            (Int64, UInt64, Some(Decimal128(20, 0))),
            (Int64, Decimal128(10, 2), Some(Decimal128(21, 2))),
            (Decimal128(38, 0), Decimal128(10, 2), Some(Decimal256(40, 2))),
            (Decimal256(76, 3), Decimal256(76, 0), None),
            (Int64, Float64, None),
            (UInt64, Float32, None),
            (Int32, Float32, None),
            (Int32, Float64, Some(Float64)),
            (UInt16, Float32, Some(Float32)),
            (Float32, Float64, Some(Float64)),
            (Decimal128(10, 2), Float64, None),
            (Int64, Utf8, None),
            (Boolean, Int64, None),
            (Utf8, Utf8View, Some(Utf8View)),
            (LargeUtf8, Utf8, Some(LargeUtf8)),
            (Utf8, Binary, None),
            (FixedSizeBinary(4), FixedSizeBinary(8), Some(Binary)),
            (FixedSizeBinary(4), BinaryView, Some(BinaryView)),
            (Date32, Utf8, None),
            (Date32, Timestamp(TimeUnit::Second, None), Some(Timestamp(TimeUnit::Second, None))),
            (Date32, Timestamp(TimeUnit::Second, utc()), None),
            (Date64, Timestamp(TimeUnit::Nanosecond, None), None),
            (
                Timestamp(TimeUnit::Second, None),
                Timestamp(TimeUnit::Millisecond, None),
                Some(Timestamp(TimeUnit::Millisecond, None)),
            ),
            (Timestamp(TimeUnit::Second, None), Timestamp(TimeUnit::Second, utc()), None),
            (
                Timestamp(TimeUnit::Microsecond, utc()),
                Timestamp(TimeUnit::Second, Some(Arc::from("+02:00"))),
                Some(Timestamp(TimeUnit::Microsecond, utc())),
            ),
            (Duration(TimeUnit::Second), Duration(TimeUnit::Nanosecond), None),
            (Null, Utf8, Some(Utf8)),
            (list(Int32), list(Int64), Some(list(Int64))),
            (list(Int64), list(Utf8), None),
            (list(Int64), Int64, None),
        ] {
            assert_eq!(common(&left, &right), expected, "{left} {right}");
        }
    }

    #[test]
    fn dictionaries_and_runs_are_their_values() {
        let of = |values| DataType::Dictionary(Box::new(DataType::Int32), Box::new(values));
        assert_eq!(flat(&of(DataType::Utf8)), DataType::Utf8);
        let field = |data_type| Arc::new(Field::new("item", data_type, true));
        let list = DataType::List(field(of(of(DataType::Int8))));
        assert_eq!(flat(&list), DataType::List(field(DataType::Int8)));
    }
}
