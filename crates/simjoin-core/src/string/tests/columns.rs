//! Functions of columns, held against textbook programmes row by row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow::datatypes::Int32Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::rules::expected;
use super::{Kind, edited, text};
use crate::string::columns::{ColumnValues, TextColumn, Unequal};
use crate::string::function::StringFunction;
use crate::values::Texts;

type Pair = [Option<String>; 2];

/// A random pair of texts; of the same length if `is_even`.
fn pair(rng: &mut StdRng, kinds: &[Kind], is_even: bool) -> Pair {
    let kind = kinds[rng.random_range(0..kinds.len())];
    let a = text(rng, kind);
    let edits = rng.random_range(0..6);
    let mut b = match rng.random_range(0..3) {
        0 => text(rng, kind),
        _ => edited(rng, kind, &a, edits),
    };
    if is_even {
        let len = a.chars().count();
        b = b.chars().chain(std::iter::repeat('z')).take(len).collect();
    }
    [a, b].map(|text| (rng.random_range(0..12) > 0).then_some(text))
}

/// The texts in one of the layouts, behind rows that are sliced off.
fn column(rng: &mut StdRng, texts: &[Option<&str>]) -> Texts {
    let all: Vec<Option<&str>> = [Some("é"), None].iter().chain(texts).copied().collect();
    let array: ArrayRef = match rng.random_range(0..4) {
        0 => Arc::new(StringArray::from(all)),
        1 => Arc::new(LargeStringArray::from(all)),
        // Becomes views in the order of the dictionary.
        2 => Arc::new(all.into_iter().collect::<DictionaryArray<Int32Type>>()),
        _ => Arc::new(StringViewArray::from(all)),
    };
    Texts::try_new(array.slice(2, texts.len()).as_ref()).unwrap()
}

fn check(rng: &mut StdRng, function: StringFunction, pairs: &[Pair], scalar: Option<usize>) {
    let columns = [0, 1].map(|side| {
        let texts: Vec<Option<&str>> = pairs.iter().map(|pair| pair[side].as_deref()).collect();
        match scalar == Some(side) {
            true => column(rng, &texts[..1]),
            false => column(rng, &texts),
        }
    });
    let texts =
        [0, 1].map(|side| TextColumn { texts: &columns[side], is_scalar: scalar == Some(side) });
    let mut found = vec![];
    let mut values = ColumnValues::new(function, texts);
    values.each(pairs.len(), |value| found.push(value.number())).unwrap();
    assert_eq!(found.len(), pairs.len());
    for (row, pair) in pairs.iter().enumerate() {
        let of = |side: usize| match scalar == Some(side) {
            true => pairs[0][side].as_deref(),
            false => pair[side].as_deref(),
        };
        if let Some((a, b)) = of(0).zip(of(1)) {
            assert_eq!(Some(found[row]), expected(function, a, b), "{function:?} {a:?} {b:?}");
        }
    }
}

#[test]
fn columns_of_any_layout_have_the_values_of_the_textbook() {
    let mut rng = StdRng::seed_from_u64(41);
    let mixed = &Kind::ALL[..];
    for round in 0..210 {
        let function = StringFunction::ALL[round % 7];
        // ASCII alone, some rows beyond it, and texts of other scripts.
        let kinds = [&[Kind::Few, Kind::Words], mixed, &[Kind::Unicode]][round / 7 % 3];
        let rows = [0, 1, 33, 200, 1_100][rng.random_range(0..5)];
        let is_even = function == StringFunction::Hamming;
        let pairs: Vec<Pair> = (0..rows).map(|_| pair(&mut rng, kinds, is_even)).collect();
        check(&mut rng, function, &pairs, None);
        if !is_even && rows > 0 {
            let side = rng.random_range(0..2);
            check(&mut rng, function, &pairs, Some(side));
        }
    }
}

/// Texts with more characters beyond ASCII than there are bytes for.
#[test]
fn characters_without_a_byte_are_told_apart() {
    let mut rng = StdRng::seed_from_u64(42);
    let mut many = || -> Option<String> {
        let character = |_| char::from_u32(0x4e00 + 126 * rng.random_range(0..200) as u32).unwrap();
        Some((0..64).map(character).collect())
    };
    let pairs: Vec<Pair> = (0..40).map(|_| [many(), many()]).collect();
    let mut rng = StdRng::seed_from_u64(43);
    for function in [StringFunction::Levenshtein, StringFunction::JaroWinkler] {
        check(&mut rng, function, &pairs, None);
    }
}

#[test]
fn the_first_pair_without_a_value_is_named() {
    let long = "a".repeat(70);
    let rows = [
        [Some("a"), Some("b")],
        [None, Some("cd")],
        [Some("é"), Some("a")],
        [Some(&long), None],
        [Some(&long), Some(&long)],
        [Some("cd"), Some("c")],
        [Some("é"), Some("ab")],
        [Some(&long), Some("b")],
    ];
    for first in [5, 6, 7] {
        let rows = [&rows[..5], &rows[first..]].concat();
        let texts = [0, 1].map(|side| {
            let texts: Vec<Option<&str>> = rows.iter().map(|row| row[side]).collect();
            Texts::try_new(&StringArray::from(texts)).unwrap()
        });
        let columns = texts.each_ref().map(|texts| TextColumn { texts, is_scalar: false });
        let mut values = ColumnValues::new(StringFunction::Hamming, columns);
        let found = values.each(rows.len(), |_| ());
        assert!(matches!(found, Err(Unequal(5))), "{found:?}");
        assert!(values.each(5, |_| ()).is_ok());
    }
}
