use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{call, column, list_of, refusal};
use crate::functions::{TextFold, fold_udf};

fn text(value: Option<&str>) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::Utf8(value.map(str::to_string)))
}

/// The value of a call with constants.
fn one(fold: TextFold, arguments: &[Option<&str>]) -> Option<String> {
    let arguments = arguments.iter().map(|argument| text(*argument)).collect();
    match call(&fold_udf(fold), arguments, 1).unwrap() {
        ColumnarValue::Scalar(ScalarValue::Utf8(value)) => value,
        other => panic!("{other:?}"),
    }
}

fn texts(found: ColumnarValue, rows: usize) -> Vec<Option<String>> {
    let found = cast(&found.into_array(rows).unwrap(), &DataType::Utf8).unwrap();
    found.as_string::<i32>().iter().map(|text| text.map(str::to_string)).collect()
}

#[test]
fn spellings_of_one_text_become_alike() {
    for (fold, arguments, expected) in [
        (TextFold::Normalize, &[Some("cafe\u{301}"), Some("NFC")][..], Some("café")),
        (TextFold::Normalize, &[Some("cafe\u{301}")], Some("café")),
        (TextFold::Normalize, &[Some("é"), Some("nfd")], Some("e\u{301}")),
        (TextFold::Normalize, &[Some("ﬁ Ａ１"), Some("NFKC")], Some("fi A1")),
        (TextFold::Normalize, &[Some("é²"), Some("Nfkd")], Some("e\u{301}2")),
        (TextFold::Normalize, &[None, Some("NFC")], None),
        (TextFold::Normalize, &[Some("a"), None], None),
        (TextFold::Unaccent, &[Some("Łódź Müller Øre")], Some("Lodz Muller Ore")),
        (TextFold::Unaccent, &[None], None),
        (TextFold::Casefold, &[Some("Straße ΣΑΣ")], Some("strasse σασ")),
        (TextFold::Casefold, &[Some("")], Some("")),
    ] {
        assert_eq!(one(fold, arguments).as_deref(), expected, "{fold} {arguments:?}");
    }
}

#[test]
fn every_layout_of_text_has_the_same_values_in_its_own_type() {
    let mut rng = StdRng::seed_from_u64(48);
    let parts = [
        "Ab",
        "é",
        "e\u{301}",
        "ß",
        "ł",
        "日本",
        "सत्य",
        "İ",
        "Σ",
        "ﬁ",
        " ",
        "0",
        "longer than a view",
    ];
    for only_ascii in [false, true] {
        let parts: Vec<&str> =
            parts.into_iter().filter(|part| !only_ascii || part.is_ascii()).collect();
        let rows: Vec<Option<String>> = (0..9_000)
            .map(|_| {
                let len = rng.random_range(0..5);
                let text = (0..len).map(|_| *parts.choose(&mut rng).unwrap()).collect();
                rng.random_bool(0.9).then_some(text)
            })
            .collect();
        let array: ArrayRef = Arc::new(StringArray::from(rows.clone()));
        for fold in TextFold::ALL {
            let expected: Vec<Option<String>> =
                rows[3..].iter().map(|row| one(fold, &[row.as_deref()])).collect();
            let dictionary = |key: DataType, value: DataType| {
                DataType::Dictionary(Box::new(key), Box::new(value))
            };
            for (layout, result) in [
                (DataType::Utf8, DataType::Utf8),
                (DataType::LargeUtf8, DataType::LargeUtf8),
                (DataType::Utf8View, DataType::Utf8View),
                (dictionary(DataType::Int16, DataType::Utf8), DataType::Utf8),
                (dictionary(DataType::UInt64, DataType::LargeUtf8), DataType::LargeUtf8),
                (dictionary(DataType::Int32, DataType::Utf8View), DataType::Utf8View),
            ] {
                let array = cast(&array, &layout).unwrap().slice(3, rows.len() - 3);
                let found = call(&fold_udf(fold), vec![column(&array)], array.len()).unwrap();
                assert_eq!(found.data_type(), result, "{fold} {layout}");
                assert_eq!(texts(found, array.len()), expected, "{fold} {layout}");
            }
        }
    }
}

#[test]
fn a_form_may_differ_from_row_to_row() {
    let forms: ArrayRef =
        Arc::new(StringArray::from(vec![Some("NFC"), Some("NFD"), None, Some("nfkc")]));
    for layout in [DataType::Utf8, DataType::Utf8View] {
        let forms = cast(&forms, &layout).unwrap();
        let arguments = vec![text(Some("é²")), column(&forms)];
        let found = call(&fold_udf(TextFold::Normalize), arguments, 4).unwrap();
        let expected = [Some("é²"), Some("e\u{301}²"), None, Some("é2")];
        assert_eq!(texts(found, 4), expected.map(|text| text.map(str::to_string)));
    }
    // A dictionary of texts.
    let values: ArrayRef = Arc::new(StringArray::from(vec!["é", "é", "a", "é"]));
    let of = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let values = cast(&values, &of).unwrap();
    let found = call(&fold_udf(TextFold::Normalize), vec![column(&values), column(&forms)], 4);
    let expected = [Some("é"), Some("e\u{301}"), None, Some("é")];
    assert_eq!(texts(found.unwrap(), 4), expected.map(|text| text.map(str::to_string)));
}

#[test]
fn null_is_null() {
    let null = || ColumnarValue::Scalar(ScalarValue::Null);
    let nulls: ArrayRef = arrow::array::new_null_array(&DataType::Null, 3);
    for fold in TextFold::ALL {
        assert_eq!(texts(call(&fold_udf(fold), vec![null()], 1).unwrap(), 1), [None]);
        let found = call(&fold_udf(fold), vec![column(&nulls)], 3).unwrap();
        assert_eq!(texts(found, 3), [None, None, None]);
    }
    let found = call(&fold_udf(TextFold::Normalize), vec![text(Some("a")), null()], 1);
    assert_eq!(texts(found.unwrap(), 1), [None]);
}

#[test]
fn a_form_that_is_none_is_an_error() {
    let wrong = "normalize: the form must be 'NFC', 'NFD', 'NFKC' or 'NFKD', found 'NFX'";
    for value in ["é", "ascii"] {
        let arguments = vec![text(Some(value)), text(Some("NFX"))];
        let error = call(&fold_udf(TextFold::Normalize), arguments, 1).unwrap_err();
        assert_eq!(error.strip_backtrace(), format!("Execution error: {wrong}"));
        // Of a dictionary, and of texts that keep their form.
        let of = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        for layout in [DataType::Utf8, of] {
            let array: ArrayRef = Arc::new(StringArray::from(vec![value; 3]));
            let array = cast(&array, &layout).unwrap();
            let arguments = vec![column(&array), text(Some("NFX"))];
            let error = call(&fold_udf(TextFold::Normalize), arguments, 3).unwrap_err();
            assert!(error.strip_backtrace().ends_with(wrong), "{error}");
        }
    }
}

#[test]
fn wrong_types_are_refused_with_advice() {
    use DataType::*;
    let refused = |fold, types: &[DataType]| refusal(&fold_udf(fold), types);
    assert_eq!(
        refused(TextFold::Unaccent, &[Int64]),
        "Error during planning: unaccent expects text, found Int64; CAST(x AS VARCHAR) gives text"
    );
    assert!(refused(TextFold::Casefold, &[list_of(Utf8)]).contains("array_to_string"));
    assert!(refused(TextFold::Normalize, &[Binary, Utf8]).contains("arrow_cast(x, 'Utf8')"));
    let form = refused(TextFold::Normalize, &[Utf8, Int32]);
    assert!(form.contains("must be 'NFC', 'NFD', 'NFKC' or 'NFKD', found Int32"), "{form}");
    for (fold, types) in [
        (TextFold::Normalize, &[Utf8, Utf8, Utf8][..]),
        (TextFold::Unaccent, &[Utf8, Utf8]),
        (TextFold::Casefold, &[]),
    ] {
        assert!(refused(fold, types).contains("for example: "), "{fold}");
    }
}
