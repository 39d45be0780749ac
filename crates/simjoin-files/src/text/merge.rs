//! One schema of files whose columns have different types, where one type holds the values of all.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};

/// The schema that holds the rows of all files without a loss; `None` where there is none.
pub(crate) fn common_schema(schemas: &[Schema]) -> Option<Schema> {
    let (first, others) = schemas.split_first()?;
    let mut fields = first.fields().clone();
    for other in others {
        fields = common_fields(&fields, other.fields())?;
    }
    Some(Schema::new_with_metadata(fields, first.metadata().clone()))
}

/// The fields of either, those of the first in front.
fn common_fields(a: &Fields, b: &Fields) -> Option<Fields> {
    let of_a = a.iter().map(|field| match b.find(field.name()) {
        Some((_, other)) => common_field(field, other),
        None => Some(Arc::new(field.as_ref().clone().with_nullable(true))),
    });
    let only_b = b.iter().filter(|field| a.find(field.name()).is_none());
    let only_b = only_b.map(|field| Some(Arc::new(field.as_ref().clone().with_nullable(true))));
    of_a.chain(only_b).collect()
}

fn common_field(a: &FieldRef, b: &FieldRef) -> Option<FieldRef> {
    let data_type = common_type(a.data_type(), b.data_type())?;
    let nullable = a.is_nullable() || b.is_nullable();
    let field = Field::new(a.name(), data_type, nullable);
    Some(Arc::new(field.with_metadata(a.metadata().clone())))
}

fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    if a == b {
        return Some(a.clone());
    }
    Some(match (a, b) {
        (Null, other) | (other, Null) => other.clone(),
        (List(a), List(b)) => List(element(a, b)?),
        (List(a) | LargeList(a), List(b) | LargeList(b)) => LargeList(element(a, b)?),
        (FixedSizeList(a, m), FixedSizeList(b, n)) if m == n => FixedSizeList(element(a, b)?, *m),
        (FixedSizeList(a, _) | List(a), FixedSizeList(b, _) | List(b)) => List(element(a, b)?),
        (Struct(a), Struct(b)) => Struct(common_fields(a, b)?),
        (Utf8 | Utf8View | LargeUtf8, Utf8 | Utf8View | LargeUtf8) => match [a, b] {
            texts if texts.contains(&&LargeUtf8) => LargeUtf8,
            _ => Utf8View,
        },
        (Float32 | Float64, Float32 | Float64) => Float64,
        (Float32 | Float64, whole) | (whole, Float32 | Float64) if bits(whole)?.1 <= 32 => Float64,
        _ => integer(bits(a)?, bits(b)?)?,
    })
}

/// The element of either list, by the name of the first.
fn element(a: &FieldRef, b: &FieldRef) -> Option<FieldRef> {
    common_field(a, b)
}

/// Whether an integer type has a sign, and its bits.
fn bits(data_type: &DataType) -> Option<(bool, u32)> {
    use DataType::*;
    Some(match data_type {
        Int8 => (true, 8),
        Int16 => (true, 16),
        Int32 => (true, 32),
        Int64 => (true, 64),
        UInt8 => (false, 8),
        UInt16 => (false, 16),
        UInt32 => (false, 32),
        UInt64 => (false, 64),
        _ => return None,
    })
}

/// The integer type that holds two of them.
fn integer(a: (bool, u32), b: (bool, u32)) -> Option<DataType> {
    use DataType::*;
    let signed = a.0 || b.0;
    let needed = |(has_sign, bits): (bool, u32)| if signed && !has_sign { 2 * bits } else { bits };
    Some(match (signed, needed(a).max(needed(b))) {
        (true, 16) => Int16,
        (true, 32) => Int32,
        (true, 64) => Int64,
        (false, 16) => UInt16,
        (false, 32) => UInt32,
        (false, 64) => UInt64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_hold_both() {
        use DataType::*;
        for (a, b, expected) in [
            (Int32, Int64, Some(Int64)),
            (UInt32, Int8, Some(Int64)),
            (UInt64, Int64, None),
            (UInt8, UInt16, Some(UInt16)),
            (Float32, Float64, Some(Float64)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, None),
            (Utf8, LargeUtf8, Some(LargeUtf8)),
            (Utf8, Int64, None),
            (Null, Date32, Some(Date32)),
        ] {
            assert_eq!(common_type(&a, &b), expected, "{a} {b}");
            assert_eq!(common_type(&b, &a), expected, "{b} {a}");
        }
        let list = |of| List(Arc::new(Field::new_list_field(of, true)));
        assert_eq!(common_type(&list(Float32), &list(Float64)), Some(list(Float64)));
        let schema = |fields: Vec<Field>| Schema::new(fields);
        let common = common_schema(&[
            schema(vec![Field::new("a", Int32, false), Field::new("b", Utf8, false)]),
            schema(vec![Field::new("c", Utf8, true), Field::new("a", Int64, false)]),
        ]);
        let shown: Vec<String> = common
            .unwrap()
            .fields()
            .iter()
            .map(|f| format!("{} {} {}", f.name(), f.data_type(), f.is_nullable()))
            .collect();
        assert_eq!(shown, ["a Int64 false", "b Utf8 true", "c Utf8 true"]);
    }
}
