use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, LargeListArray, ListArray, ListViewArray, StringArray,
    UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{call, column, list_of, refusal, scalar};
use crate::functions::{Tokenizer, tokenizer_udf};

type Tokens = Option<Vec<String>>;

/// The lists of an answer.
fn tokens(found: &ColumnarValue) -> Vec<Tokens> {
    let array = found.to_array(1).unwrap();
    let list = array.as_list::<i32>();
    (0..list.len())
        .map(|row| {
            list.is_valid(row).then(|| {
                let row = list.value(row);
                row.as_string::<i32>().iter().map(|t| t.unwrap().to_string()).collect()
            })
        })
        .collect()
}

fn qgrams_oracle(text: &str, q: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let runs: Vec<String> = if chars.is_empty() {
        vec![]
    } else if chars.len() < q {
        vec![text.to_string()]
    } else {
        chars.windows(q).map(|w| w.iter().collect()).collect()
    };
    let mut seen = BTreeSet::new();
    runs.into_iter().filter(|run| seen.insert(run.clone())).collect()
}

/// The words of texts of [`LETTERS`], whose marks are those of accents and the dot of a lower-case İ.
fn words_oracle(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let is_mark = |c: char| ('\u{300}'..'\u{370}').contains(&c);
    let words = text.split(|c: char| !c.is_alphanumeric() && !is_mark(c));
    let words = words.map(|word| word.trim_start_matches(is_mark)).filter(|word| !word.is_empty());
    words.map(str::to_string).collect()
}

fn shingles_oracle(list: &[Option<String>], k: usize) -> Vec<String> {
    let list: Vec<String> = list.iter().flatten().cloned().collect();
    if list.is_empty() {
        return vec![];
    }
    list.windows(k.min(list.len())).map(|w| w.join(" ")).collect()
}

const LETTERS: [&str; 24] = [
    "a",
    "b",
    "A",
    "Z",
    "0",
    "9",
    " ",
    ",",
    "-",
    "\0",
    "ä",
    "Σ",
    "ΟΣ",
    "İ",
    "ß",
    "ǅ",
    "e\u{301}",
    "👩‍👩‍👧",
    "😀",
    "日",
    "本",
    "٣",
    "\u{a0}",
    "ﬁ",
];

fn random_text(rng: &mut StdRng) -> String {
    let letters = if rng.random_bool(0.5) { &LETTERS[..10] } else { &LETTERS[..] };
    let most = if rng.random_bool(0.05) { 5_000 } else { 24 };
    (0..rng.random_range(0..=most)).map(|_| *letters.choose(rng).unwrap()).collect()
}

fn text_types() -> Vec<DataType> {
    use DataType::*;
    let dictionary = |key, values| Dictionary(Box::new(key), Box::new(values));
    vec![
        Utf8,
        LargeUtf8,
        Utf8View,
        dictionary(Int32, Utf8),
        dictionary(UInt16, LargeUtf8),
        dictionary(Int32, Utf8View),
    ]
}

#[test]
fn qgrams_and_words_of_every_text_type_equal_the_oracle() {
    let mut rng = StdRng::seed_from_u64(99);
    for text_type in text_types() {
        let texts: Vec<Option<String>> =
            (0..300).map(|_| rng.random_bool(0.9).then(|| random_text(&mut rng))).collect();
        let array: ArrayRef = Arc::new(texts.iter().collect::<StringArray>());
        let (array, texts) = (cast(&array, &text_type).unwrap().slice(5, 290), &texts[5..295]);
        let udf = tokenizer_udf(Tokenizer::WordTokens);
        let expected: Vec<Tokens> =
            texts.iter().map(|t| t.as_ref().map(|t| words_oracle(t))).collect();
        assert_eq!(tokens(&call(&udf, vec![column(&array)], 290).unwrap()), expected);
        let found = call(&udf, vec![scalar(&array, 3)], 290).unwrap();
        assert_eq!(tokens(&found), expected[3..4]);

        let udf = tokenizer_udf(Tokenizer::QGrams);
        for q in [1, 2, 3, 7, 8, 9, 40] {
            let expected: Vec<Tokens> =
                texts.iter().map(|t| t.as_ref().map(|t| qgrams_oracle(t, q))).collect();
            let length = ColumnarValue::Scalar(ScalarValue::Int32(Some(q as i32)));
            let found = call(&udf, vec![column(&array), length], 290).unwrap();
            assert_eq!(tokens(&found), expected, "q = {q}, {text_type}");
        }
        let lengths: Vec<Option<u64>> =
            (0..290).map(|_| rng.random_bool(0.9).then(|| rng.random_range(1..12))).collect();
        let column_of_lengths: ArrayRef = Arc::new(lengths.iter().collect::<UInt64Array>());
        let found = call(&udf, vec![column(&array), column(&column_of_lengths)], 290).unwrap();
        let expected: Vec<Tokens> = texts
            .iter()
            .zip(&lengths)
            .map(|(t, q)| Some(qgrams_oracle(t.as_ref()?, (*q)? as usize)))
            .collect();
        assert_eq!(tokens(&found), expected);
        let found = call(&udf, vec![scalar(&array, 7), column(&column_of_lengths)], 290).unwrap();
        let expected: Vec<Tokens> = lengths
            .iter()
            .map(|q| Some(qgrams_oracle(texts[7].as_ref()?, (*q)? as usize)))
            .collect();
        assert_eq!(tokens(&found), expected);
    }
}

#[test]
fn qgrams_of_a_long_text_are_distinct_and_in_order() {
    let mut rng = StdRng::seed_from_u64(3);
    for letters in ["abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyzäöü"] {
        let letters: Vec<char> = letters.chars().collect();
        let long: String = (0..60_000).map(|_| *letters.choose(&mut rng).unwrap()).collect();
        let array: ArrayRef = Arc::new(StringArray::from(vec!["aba", &long, "bab", &long]));
        for q in [3_u64, 12] {
            let length = ColumnarValue::Scalar(ScalarValue::UInt64(Some(q)));
            let udf = tokenizer_udf(Tokenizer::QGrams);
            let found = tokens(&call(&udf, vec![column(&array), length], 4).unwrap());
            assert_eq!(found[1].as_ref().unwrap(), &qgrams_oracle(&long, q as usize));
            assert_eq!(found[3], found[1]);
            assert_eq!(found[2], Some(qgrams_oracle("bab", q as usize)));
        }
    }
}

#[test]
fn words_are_lower_cased_runs_of_letters_and_digits() {
    let udf = tokenizer_udf(Tokenizer::WordTokens);
    for (text, expected) in [
        ("", &[][..]),
        (" ,;-", &[]),
        ("To be, or NOT to be", &["to", "be", "or", "not", "to", "be"]),
        ("x86-64 v2.0", &["x86", "64", "v2", "0"]),
        // The combining dot stays with its letter, being a part of its lower case.
        ("İstanbul", &["i\u{307}stanbul"]),
        ("cafe\u{301} au lait", &["cafe\u{301}", "au", "lait"]),
        ("सत्य ป้ารัตน์ co\u{ad}op", &["सत्य", "ป้ารัตน์", "co\u{ad}op"]),
        // The lower case of a sigma follows the letters behind it, also beyond the word.
        ("ΑΣ'Α", &["ασ", "α"]),
        ("Café", &["café"]),
        ("ΟΔΟΣ", &["οδος"]),
        ("😀ab😀", &["ab"]),
        ("日本語 テキスト", &["日本語", "テキスト"]),
        ("STRASSE Straße", &["strasse", "straße"]),
    ] {
        let text = ColumnarValue::Scalar(ScalarValue::Utf8(Some(text.to_string())));
        let expected = expected.iter().map(ToString::to_string).collect();
        assert_eq!(tokens(&call(&udf, vec![text], 1).unwrap()), [Some(expected)]);
    }
}

#[test]
fn shingles_of_every_list_layout_equal_the_oracle() {
    let mut rng = StdRng::seed_from_u64(5);
    let udf = tokenizer_udf(Tokenizer::Shingles);
    for text_type in text_types() {
        let rows: Vec<Vec<Option<String>>> = (0..40)
            .map(|_| {
                let element = |rng: &mut StdRng| rng.random_bool(0.9).then(|| random_text(rng));
                (0..rng.random_range(0..6)).map(|_| element(&mut rng)).collect()
            })
            .collect();
        let flat: ArrayRef = Arc::new(rows.iter().flatten().collect::<StringArray>());
        let flat = cast(&flat, &text_type).unwrap();
        let lengths = rows.iter().map(Vec::len);
        let field = Arc::new(Field::new_list_field(text_type.clone(), true));
        let list: ArrayRef = Arc::new(ListArray::new(
            Arc::clone(&field),
            OffsetBuffer::from_lengths(lengths.clone()),
            Arc::clone(&flat),
            None,
        ));
        let large: ArrayRef =
            Arc::new(LargeListArray::new(field, OffsetBuffer::from_lengths(lengths), flat, None));
        let view: ArrayRef = Arc::new(ListViewArray::from(list.as_list::<i32>().clone()));
        for k in [1, 2, 3, 9] {
            let expected: Vec<Tokens> =
                rows[4..].iter().map(|row| Some(shingles_oracle(row, k))).collect();
            for array in [&list, &large, &view] {
                let length = ColumnarValue::Scalar(ScalarValue::Int64(Some(k as i64)));
                let args = vec![column(&array.slice(4, 36)), length];
                assert_eq!(tokens(&call(&udf, args, 36).unwrap()), expected, "k = {k}");
            }
        }
    }
}

#[test]
fn shingles_of_integers_are_their_decimal_texts() {
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(-20), Some(3)]),
        None,
        Some(vec![]),
    ]));
    let k = ColumnarValue::Scalar(ScalarValue::UInt64(Some(2)));
    let found = call(&tokenizer_udf(Tokenizer::Shingles), vec![column(&list), k], 3).unwrap();
    let first = vec!["1 -20".to_string(), "-20 3".to_string()];
    assert_eq!(tokens(&found), [Some(first), None, Some(vec![])]);
}

#[test]
fn null_arguments_give_null() {
    let null = || ColumnarValue::Scalar(ScalarValue::Null);
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("abc"), None]));
    let zero: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(3)]));
    for (tokenizer, args) in [
        (Tokenizer::QGrams, vec![null(), null()]),
        (Tokenizer::QGrams, vec![column(&text), null()]),
        (Tokenizer::QGrams, vec![null(), column(&zero)]),
        (Tokenizer::QGrams, vec![column(&text), column(&zero)]),
        (Tokenizer::WordTokens, vec![null()]),
        (Tokenizer::Shingles, vec![null(), null()]),
        (Tokenizer::Shingles, vec![null(), column(&zero)]),
    ] {
        let found = call(&tokenizer_udf(tokenizer), args, 2).unwrap();
        assert!(tokens(&found).iter().all(Option::is_none), "{tokenizer}");
    }
}

#[test]
fn lengths_below_one_are_execution_errors() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["abc"]));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let list: ArrayRef = Arc::new(list);
    let message = |tokenizer, source: &ArrayRef, length| {
        let length = ColumnarValue::Scalar(ScalarValue::Int64(Some(length)));
        let found = call(&tokenizer_udf(tokenizer), vec![column(source), length], 1);
        found.unwrap_err().strip_backtrace()
    };
    assert_eq!(
        message(Tokenizer::QGrams, &text, 0),
        "Execution error: qgrams: q must be at least 1, found 0"
    );
    assert_eq!(
        message(Tokenizer::Shingles, &list, i64::MIN),
        "Execution error: shingles: k must be at least 1, found -9223372036854775808"
    );
    let whole = ColumnarValue::Scalar(ScalarValue::UInt64(Some(u64::MAX)));
    let found = call(&tokenizer_udf(Tokenizer::QGrams), vec![column(&text), whole], 1).unwrap();
    assert_eq!(tokens(&found), [Some(vec!["abc".to_string()])]);
}

#[test]
fn wrong_types_are_refused_with_advice() {
    use DataType::*;
    let refused = |tokenizer, types: &[DataType]| refusal(&tokenizer_udf(tokenizer), types);
    assert_eq!(
        refused(Tokenizer::QGrams, &[Int64, Int64]),
        "Error during planning: qgrams expects text, found Int64; CAST(... AS VARCHAR) gives text"
    );
    assert_eq!(
        refused(Tokenizer::QGrams, &[Utf8, Float64]),
        "Error during planning: qgrams: q must be an integer of at least 1, found Float64; write \
         for example 3, or CAST(q AS BIGINT)"
    );
    assert!(refused(Tokenizer::WordTokens, &[list_of(Utf8)]).contains("array_to_string"));
    assert!(refused(Tokenizer::WordTokens, &[Binary]).contains("expects text, found Binary"));
    let text = refused(Tokenizer::Shingles, &[Utf8View, Int64]);
    assert!(text.contains("shingles(word_tokens(text), 3)"), "{text}");
    let floats = refused(Tokenizer::Shingles, &[list_of(Float64), Int64]);
    assert!(floats.contains("arrow_cast(list, 'List(Utf8)')"), "{floats}");
}
