use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray,
    Int32Array, LargeListArray, LargeListViewArray, ListArray, ListViewArray, NullArray,
    StringArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{call, column, list_of, refusal, scalar};
use crate::functions::similarity_udf;
use crate::set::Measure;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Token {
    Integer(i128),
    Bytes(Vec<u8>),
}

pub(super) type Row = Option<Vec<Option<Token>>>;

/// The definition of the measures, on sets of tokens.
fn oracle(measure: Measure, a: &Row, b: &Row) -> Option<f64> {
    let (Some(a), Some(b)) = (a, b) else {
        return None;
    };
    let a: BTreeSet<&Token> = a.iter().flatten().collect();
    let b: BTreeSet<&Token> = b.iter().flatten().collect();
    if a.is_empty() || b.is_empty() {
        return Some(0.0);
    }
    let o = a.intersection(&b).count() as f64;
    let (x, y) = (a.len() as f64, b.len() as f64);
    Some(match measure {
        Measure::Jaccard => o / a.union(&b).count() as f64,
        Measure::Dice => (o + o) / (x + y),
        Measure::Cosine => o / (x * y).sqrt(),
        Measure::Overlap => o,
        Measure::OverlapCoefficient => o / if x < y { x } else { y },
        Measure::Containment => o / x,
    })
}

/// Element types of tokens that may be compared with one another.
pub(super) fn families() -> [Vec<DataType>; 3] {
    use DataType::*;
    let dictionary = |key, values| Dictionary(Box::new(key), Box::new(values));
    [
        vec![
            Int8,
            Int16,
            Int32,
            Int64,
            UInt8,
            UInt16,
            UInt32,
            UInt64,
            dictionary(Int8, Int32),
            dictionary(UInt16, UInt64),
            Null,
        ],
        vec![
            Utf8,
            LargeUtf8,
            Utf8View,
            dictionary(Int32, Utf8),
            dictionary(Int16, LargeUtf8),
            dictionary(Int8, Utf8View),
            Null,
        ],
        vec![
            Binary,
            LargeBinary,
            BinaryView,
            FixedSizeBinary(9),
            dictionary(Int32, Binary),
            dictionary(Int32, FixedSizeBinary(9)),
            Null,
        ],
    ]
}

/// Tokens that an element type can hold, those at the edges of types among them.
fn pool(element: &DataType) -> Vec<Token> {
    let integers = |least: i128, most: i128| {
        let edges = [i64::MIN as i128, i64::MAX as i128, u64::MAX as i128, 1 << 63, -128, 255];
        let wrapped = [i64::MIN as i128 + 1, (1 << 63) + 1, u64::MAX as i128 - 1, 65_535, -32_768];
        let all = (-3..6).chain(edges).chain(wrapped);
        all.filter(|v| (least..=most).contains(v)).map(Token::Integer).collect()
    };
    let bytes =
        |all: &[&str]| all.iter().map(|t| Token::Bytes(t.as_bytes().to_vec())).collect::<Vec<_>>();
    match element {
        DataType::Int8 => integers(i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => integers(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => integers(i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => integers(i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => integers(0, u8::MAX.into()),
        DataType::UInt16 => integers(0, u16::MAX.into()),
        DataType::UInt32 => integers(0, u32::MAX.into()),
        DataType::UInt64 => integers(0, u64::MAX.into()),
        DataType::FixedSizeBinary(_) => bytes(&["abcdefghi", "abcdefgh\0", "a\0\0\0\0\0\0\0\0"]),
        DataType::Dictionary(_, values) => pool(values),
        DataType::Null => vec![],
        _ => bytes(&[
            "",
            "\0",
            "a",
            "a\0",
            "a\0\0\0\0\0\0\0\0",
            "ab",
            "abcdefgh",
            "abcdefgh\0",
            "abcdefghi",
            "abcdefghij, long enough for no inlined view",
            "ä",
            "a\u{308}",
            "日本語",
        ]),
    }
}

fn elements(tokens: &[Option<Token>], element: &DataType) -> ArrayRef {
    let bytes = || {
        tokens.iter().map(|t| match t {
            Some(Token::Bytes(bytes)) => Some(bytes.as_slice()),
            _ => None,
        })
    };
    macro_rules! integers {
        ($array:ident) => {
            Arc::new(
                tokens
                    .iter()
                    .map(|t| match t {
                        Some(Token::Integer(v)) => Some((*v).try_into().unwrap()),
                        _ => None,
                    })
                    .collect::<arrow::array::$array>(),
            )
        };
    }
    match element {
        DataType::Int8 => integers!(Int8Array),
        DataType::Int16 => integers!(Int16Array),
        DataType::Int32 => integers!(Int32Array),
        DataType::Int64 => integers!(Int64Array),
        DataType::UInt8 => integers!(UInt8Array),
        DataType::UInt16 => integers!(UInt16Array),
        DataType::UInt32 => integers!(UInt32Array),
        DataType::UInt64 => integers!(UInt64Array),
        DataType::Null => Arc::new(NullArray::new(tokens.len())),
        DataType::Binary => Arc::new(bytes().collect::<BinaryArray>()),
        DataType::FixedSizeBinary(width) => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes(), *width).unwrap())
        }
        DataType::Utf8 => Arc::new(
            bytes().map(|t| t.map(|b| std::str::from_utf8(b).unwrap())).collect::<StringArray>(),
        ),
        DataType::LargeUtf8 | DataType::Utf8View => {
            cast(&elements(tokens, &DataType::Utf8), element).unwrap()
        }
        DataType::LargeBinary | DataType::BinaryView => {
            cast(&elements(tokens, &DataType::Binary), element).unwrap()
        }
        DataType::Dictionary(_, values) => cast(&elements(tokens, values), element).unwrap(),
        other => panic!("no test tokens of {other}"),
    }
}

pub(super) const LAYOUTS: usize = 6;

/// `rows` as an array of one of the layouts, with NULL lists that have tokens behind them, sliced
/// out of a longer array.
pub(super) fn lists(rows: &[Row], element: &DataType, layout: usize, rng: &mut StdRng) -> ArrayRef {
    let tokens = pool(element);
    let garbage = |rng: &mut StdRng| -> Vec<Option<Token>> {
        (0..rng.random_range(0..4)).map(|_| tokens.choose(rng).cloned()).collect()
    };
    let mut all: Vec<Row> = vec![Some(garbage(rng)), None];
    all.extend_from_slice(rows);
    all.push(Some(garbage(rng)));
    let nulls = NullBuffer::from_iter(all.iter().map(Option::is_some));
    let nulls = Some(nulls);
    let mut filled: Vec<Vec<Option<Token>>> =
        all.into_iter().map(|row| row.unwrap_or_else(|| garbage(rng))).collect();
    let field = Arc::new(Field::new_list_field(element.clone(), true));
    let flat = |rows: &[Vec<Option<Token>>]| elements(&rows.concat(), element);
    let lengths = |rows: &[Vec<Option<Token>>]| rows.iter().map(Vec::len).collect::<Vec<_>>();
    // Views may point anywhere: from the last row to the first.
    let backwards = |rows: &mut Vec<Vec<Option<Token>>>| {
        let lengths = lengths(rows);
        rows.reverse();
        let offsets = (0..lengths.len()).map(|r| lengths[r + 1..].iter().sum::<usize>());
        (offsets.collect::<Vec<_>>(), lengths)
    };
    let list: ArrayRef = match layout {
        0 => {
            let offsets = OffsetBuffer::from_lengths(lengths(&filled));
            Arc::new(ListArray::new(field, offsets, flat(&filled), nulls))
        }
        1 => {
            let offsets = OffsetBuffer::from_lengths(lengths(&filled));
            Arc::new(LargeListArray::new(field, offsets, flat(&filled), nulls))
        }
        2 => {
            let (offsets, sizes) = backwards(&mut filled);
            let offsets: Vec<i32> = offsets.into_iter().map(|o| o as i32).collect();
            let sizes: Vec<i32> = sizes.into_iter().map(|s| s as i32).collect();
            let elements = flat(&filled);
            Arc::new(ListViewArray::new(field, offsets.into(), sizes.into(), elements, nulls))
        }
        3 => {
            let (offsets, sizes) = backwards(&mut filled);
            let offsets: Vec<i64> = offsets.into_iter().map(|o| o as i64).collect();
            let sizes: Vec<i64> = sizes.into_iter().map(|s| s as i64).collect();
            let elements = flat(&filled);
            Arc::new(LargeListViewArray::new(field, offsets.into(), sizes.into(), elements, nulls))
        }
        4 => {
            let width = lengths(&filled).into_iter().max().unwrap().max(1);
            filled.iter_mut().for_each(|row| row.resize(width, None));
            let elements = flat(&filled);
            Arc::new(FixedSizeListArray::new(field, width as i32, elements, nulls))
        }
        _ => {
            let values = lists(rows, element, 0, rng);
            let keys = Int32Array::from_iter_values(0..rows.len() as i32);
            return Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
        }
    };
    list.slice(2, rows.len())
}

pub(super) fn random_rows(element: &DataType, rows: usize, rng: &mut StdRng) -> Vec<Row> {
    let tokens = pool(element);
    let mut made: Vec<Row> = Vec::with_capacity(rows);
    for _ in 0..rows {
        let row = match rng.random_range(0..8) {
            0 => None,
            1 => Some(vec![]),
            2 if !made.is_empty() => made[made.len() - 1].clone(),
            _ => {
                let len = rng.random_range(0..9);
                let mut row: Vec<Option<Token>> = (0..len)
                    .map(|_| tokens.choose(rng).filter(|_| rng.random_bool(0.9)).cloned())
                    .collect();
                if rng.random_bool(0.3) {
                    row.sort();
                }
                Some(row)
            }
        };
        made.push(row);
    }
    made
}

fn value(array: &ColumnarValue, row: usize) -> Option<f64> {
    let value = match array {
        ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row).unwrap(),
        ColumnarValue::Scalar(scalar) => scalar.clone(),
    };
    match value {
        ScalarValue::Float64(v) => v,
        ScalarValue::Int64(v) => v.map(|v| v as f64),
        other => panic!("unexpected {other:?}"),
    }
}

fn assert_bits(found: Option<f64>, expected: Option<f64>, context: &str) {
    assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{context}");
}

#[test]
fn every_layout_and_token_type_gives_the_values_of_the_definition() {
    const ROWS: usize = 13;
    let mut rng = StdRng::seed_from_u64(20_261_120);
    let mut positive = 0;
    for family in families() {
        for element_a in &family {
            for element_b in &family {
                for layout_a in 0..LAYOUTS {
                    let layout_b = rng.random_range(0..LAYOUTS);
                    let rows_a = random_rows(element_a, ROWS, &mut rng);
                    let rows_b = random_rows(element_b, ROWS, &mut rng);
                    let a = lists(&rows_a, element_a, layout_a, &mut rng);
                    let b = lists(&rows_b, element_b, layout_b, &mut rng);
                    let measure = *Measure::ALL.choose(&mut rng).unwrap();
                    let udf = similarity_udf(measure);
                    let context = format!("{measure}({}, {})", a.data_type(), b.data_type());
                    let found = call(&udf, vec![column(&a), column(&b)], ROWS).unwrap();
                    for (row, (a, b)) in rows_a.iter().zip(&rows_b).enumerate() {
                        let expected = oracle(measure, a, b);
                        assert_bits(value(&found, row), expected, &context);
                        positive += usize::from(expected.is_some_and(|v| v > 0.0));
                    }
                    let at = rng.random_range(0..ROWS);
                    let found = call(&udf, vec![scalar(&a, at), column(&b)], ROWS).unwrap();
                    for (row, b) in rows_b.iter().enumerate() {
                        let expected = oracle(measure, &rows_a[at], b);
                        assert_bits(value(&found, row), expected, &context);
                    }
                    let found = call(&udf, vec![column(&a), scalar(&b, at)], ROWS).unwrap();
                    for (row, a) in rows_a.iter().enumerate() {
                        let expected = oracle(measure, a, &rows_b[at]);
                        assert_bits(value(&found, row), expected, &context);
                    }
                    let found = call(&udf, vec![scalar(&a, at), scalar(&b, at)], ROWS).unwrap();
                    let expected = oracle(measure, &rows_a[at], &rows_b[at]);
                    assert_bits(value(&found, 0), expected, &context);
                }
            }
        }
    }
    assert!(positive >= 1_000, "only {positive} pairs have something in common");
}

/// The integers of a type.
fn integer_range(element: &DataType) -> std::ops::RangeInclusive<i128> {
    match element {
        DataType::Int8 => i8::MIN.into()..=i8::MAX.into(),
        DataType::Int16 => i16::MIN.into()..=i16::MAX.into(),
        DataType::Int32 => i32::MIN.into()..=i32::MAX.into(),
        DataType::Int64 => i64::MIN.into()..=i64::MAX.into(),
        DataType::UInt8 => 0..=u8::MAX.into(),
        DataType::UInt16 => 0..=u16::MAX.into(),
        DataType::UInt32 => 0..=u32::MAX.into(),
        DataType::UInt64 => 0..=u64::MAX.into(),
        DataType::Dictionary(_, values) => integer_range(values),
        other => panic!("{other} is no integer type"),
    }
}

/// A list of integers, most often strictly ascending, at most `most` of them.
fn integer_row(element: &DataType, most: usize, rng: &mut StdRng) -> Row {
    let range = integer_range(element);
    let len = match rng.random_range(0..4) {
        0 => rng.random_range(0..most),
        _ => *[0, 1, 7, 8, 9, 60, most].choose(rng).unwrap(),
    };
    let base = *[0, -50, 200, i32::MAX as i128 - 50, i64::MAX as i128 - 50, u64::MAX as i128 - 50]
        .choose(rng)
        .unwrap();
    let base = base.clamp(*range.start(), *range.end());
    let universe = *[len as i128, 2 * len as i128 + 3, 5_000, 1 << 33].choose(rng).unwrap();
    let values = (0..len).map(|_| base + rng.random_range(0..universe.max(1)));
    let mut values: Vec<i128> = values.filter(|value| range.contains(value)).collect();
    if rng.random_bool(0.7) {
        values.sort_unstable();
        values.dedup();
    }
    let mut row: Vec<_> = values.into_iter().map(|v| Some(Token::Integer(v))).collect();
    if rng.random_bool(0.2) {
        row.insert(rng.random_range(0..=row.len()), None);
    }
    Some(row)
}

/// Lists that ascend are read where they lie, others are sorted, for every pair of types. 7,200 pairs of
/// lists, times `SIMJOIN_TEST_CASES`.
#[test]
fn lists_of_integers_in_any_order_give_the_values_of_the_definition() {
    let mut rng = StdRng::seed_from_u64(16);
    let [mut types, ..] = families();
    types.retain(|element| *element != DataType::Null);
    let rounds = std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for element_a in &types {
        for element_b in &types {
            for most in [300, 300, 3_000].repeat(rounds) {
                let rows = 12;
                let mut rows_of = |element| -> Vec<Row> {
                    (0..rows).map(|_| integer_row(element, most, &mut rng)).collect()
                };
                let (rows_a, mut rows_b) = (rows_of(element_a), rows_of(element_b));
                // Some rows repeat the one before.
                rows_b[4] = rows_b[3].clone();
                rows_b[5] = rows_b[3].clone();
                let (layout_a, layout_b) = (rng.random_range(0..5), rng.random_range(0..5));
                let measure = *Measure::ALL.choose(&mut rng).unwrap();
                let a = listed(&rows_a, element_a, layout_a, &mut rng);
                let b = listed(&rows_b, element_b, layout_b, &mut rng);
                let context = format!("{measure}({}, {})", a.data_type(), b.data_type());
                let udf = similarity_udf(measure);
                let found = call(&udf, vec![column(&a), column(&b)], rows).unwrap();
                for (row, (a, b)) in rows_a.iter().zip(&rows_b).enumerate() {
                    assert_bits(value(&found, row), oracle(measure, a, b), &context);
                }
                let found = call(&udf, vec![column(&a), scalar(&b, 3)], rows).unwrap();
                for (row, a) in rows_a.iter().enumerate() {
                    assert_bits(value(&found, row), oracle(measure, a, &rows_b[3]), &context);
                }
            }
        }
    }
}

/// As [`lists`], where dictionary keys of elements have room for every value.
fn listed(rows: &[Row], element: &DataType, layout: usize, rng: &mut StdRng) -> ArrayRef {
    match element {
        DataType::Dictionary(_, values) => {
            let wider = DataType::Dictionary(Box::new(DataType::Int32), values.clone());
            lists(rows, &wider, layout, rng)
        }
        _ => lists(rows, element, layout, rng),
    }
}

#[test]
fn large_and_lopsided_sets_agree_with_the_definition() {
    let mut rng = StdRng::seed_from_u64(7);
    for element in [DataType::Int32, DataType::UInt64, DataType::Utf8] {
        let mut row = |len: usize| -> Row {
            let token = |v: u32| match element {
                DataType::Utf8 => Token::Bytes(format!("token number {v}").into_bytes()),
                _ => Token::Integer(v.into()),
            };
            Some((0..len).map(|_| Some(token(rng.random_range(0..5_000)))).collect())
        };
        let sizes = [(3_000, 40), (40, 3_000), (3_000, 3_000), (1, 3_000), (70, 70)];
        let (rows_a, rows_b): (Vec<_>, Vec<_>) =
            sizes.into_iter().map(|(a, b)| (row(a), row(b))).unzip();
        let mut rng = StdRng::seed_from_u64(8);
        let a = lists_of(&rows_a, &element, &mut rng);
        let b = lists_of(&rows_b, &element, &mut rng);
        for measure in Measure::ALL {
            let args = vec![column(&a), column(&b)];
            let found = call(&similarity_udf(measure), args, sizes.len()).unwrap();
            for (row, (a, b)) in rows_a.iter().zip(&rows_b).enumerate() {
                assert_bits(value(&found, row), oracle(measure, a, b), measure.name());
            }
        }
    }
}

fn lists_of(rows: &[Row], element: &DataType, rng: &mut StdRng) -> ArrayRef {
    lists(rows, element, 0, rng)
}

#[test]
fn null_arguments_and_no_rows() {
    for measure in Measure::ALL {
        let udf = similarity_udf(measure);
        let null = ColumnarValue::Scalar(ScalarValue::Null);
        let list = new_null_array(&list_of(DataType::Int64), 3);
        let found = call(&udf, vec![null.clone(), null.clone()], 3).unwrap();
        assert_eq!(value(&found, 0), None);
        for args in [vec![null.clone(), column(&list)], vec![column(&list), null]] {
            let found = call(&udf, args, 3).unwrap();
            assert!((0..3).all(|row| value(&found, row).is_none()));
        }
        let none = list.slice(0, 0);
        call(&udf, vec![column(&none), column(&none)], 0).unwrap();
    }
}

#[test]
fn wrong_types_are_refused_with_advice() {
    use DataType::*;
    let jaccard = similarity_udf(Measure::Jaccard);
    let refused = |a: DataType, b: DataType| refusal(&jaccard, &[a, b]);
    let integers = list_of(Int64);
    assert_eq!(
        refused(Utf8, Utf8),
        "Error during planning: jaccard expects lists of tokens, found Utf8; turn text into a \
         list with qgrams(text, 3) or word_tokens(text)"
    );
    assert_eq!(
        refused(integers.clone(), Int64),
        "Error during planning: jaccard expects lists of tokens, found Int64; make_array(...) \
         builds a list, qgrams(text, 3) and word_tokens(text) turn text into one"
    );
    for element in [
        Float32,
        Float64,
        Boolean,
        Date32,
        Timestamp(TimeUnit::Nanosecond, None),
        Decimal128(10, 2),
        Struct(vec![Field::new("x", Int64, true)].into()),
        integers.clone(),
        Dictionary(Box::new(Int32), Box::new(Float64)),
    ] {
        let list = list_of(element);
        let message = refused(integers.clone(), list.clone());
        let start = "Error during planning: jaccard expects lists of integers, text or binary, \
                     found ";
        assert!(message.starts_with(&format!("{start}{list}; ")), "{message}");
    }
    assert!(refused(list_of(integers.clone()), Null).contains("flatten(list)"));
    assert!(refused(list_of(Float32), list_of(Float32)).contains("array_distance"));
    for (a, b) in [(Int64, Utf8), (Utf8View, Binary), (UInt8, BinaryView)] {
        let message = refused(list_of(a), list_of(b));
        assert!(message.contains("jaccard expects lists whose elements can be equal"), "{message}");
        assert!(message.contains("cast the elements of one list"), "{message}");
    }
    assert!(refusal(&similarity_udf(Measure::Dice), &[Utf8, Null]).contains("dice expects lists"));
}
