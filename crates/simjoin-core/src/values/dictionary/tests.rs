//! Ids of tokens of every kind, found, adopted and merged.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, StringArray, UInt64Array};

use super::*;
use crate::util::cancel::CancelFlag;

fn tokens(array: impl Array + 'static) -> Tokens {
    Tokens::try_new(&(Arc::new(array) as ArrayRef)).unwrap()
}

fn encode(dictionary: &mut Dictionary, tokens: &Tokens, len: usize) -> Vec<u32> {
    let mut ids = vec![];
    dictionary.encode(tokens, 0..len, &mut ids).unwrap();
    ids
}

#[test]
fn integers_compare_by_value_across_signs() {
    let mut dictionary = Dictionary::default();
    let signed = tokens(Int64Array::from(vec![-1, 5, i64::MIN, 5, i64::MAX, 1 << 40]));
    assert_eq!(encode(&mut dictionary, &signed, 6), [0, 1, 2, 1, 3, 4]);
    let unsigned = tokens(UInt64Array::from(vec![u64::MAX, 5, 1 << 63, i64::MAX as u64]));
    // -1 and u64::MAX, i64::MIN and 2^63 share their bits and are different tokens.
    assert_eq!(encode(&mut dictionary, &unsigned, 4), [5, 1, 6, 3]);
    assert_eq!(dictionary.len(), 7);
}

#[test]
fn byte_strings_of_every_length_are_told_apart() {
    let mut dictionary = Dictionary::default();
    let texts = ["", "\0", "\0\0", "a", "abcdefg", "abcdefgh", "abcdefgi", "a\0", "abcdefg\0"];
    let array = tokens(StringArray::from_iter_values(texts.iter().chain(&texts)));
    let ids = encode(&mut dictionary, &array, 2 * texts.len());
    let expected: Vec<u32> = (0..texts.len() as u32).collect();
    assert_eq!(ids[..texts.len()], expected);
    assert_eq!(ids[texts.len()..], expected);
}

#[test]
fn finding_changes_nothing() {
    let mut known = Dictionary::default();
    encode(&mut known, &tokens(Int64Array::from(vec![7, 8, -7, 1 << 60])), 4);
    let probe = vec![Some(9), Some(8), None, Some(1 << 60), Some(-7), Some(-8), Some(1 << 61)];
    let mut ids = vec![];
    known.find_all(&tokens(Int64Array::from(probe)), 0..7, &mut ids);
    assert_eq!(ids, [NO_ID, 1, 3, 2, NO_ID, NO_ID]);
    known.map_ids(&[3, 2, 1, 0], Threads::small(2)).unwrap();
    ids.clear();
    known.find_all(&tokens(Int64Array::from(vec![7, 8, -7, 1 << 60])), 1..4, &mut ids);
    assert_eq!(ids, [2, 1, 0]);
}

/// The array takes in values as they become dense; each keeps its id.
#[test]
fn integers_keep_their_ids_as_the_array_grows() {
    let mut dictionary = Dictionary::default();
    let values: Vec<i64> = (0..40_000).map(|i| (i * 7_919) % 300_007).collect();
    let array = tokens(Int64Array::from(values));
    let mut sizes = vec![];
    for from in (0..40_000).step_by(1000) {
        let before = dictionary.size();
        let (negative, greatest) = array.bounds(from..from + 1000);
        let growth = dictionary.growth(Added::Integers { count: 1000, negative, greatest });
        let mut ids = vec![];
        dictionary.encode(&array, from..from + 1000, &mut ids).unwrap();
        assert_eq!(ids, (from as u32..from as u32 + 1000).collect::<Vec<_>>());
        assert!(dictionary.size() <= before + growth);
        sizes.push(dictionary.direct.len());
    }
    assert!(sizes[0] < sizes[39] && sizes[39] >= 300_007, "{sizes:?}");
    assert_eq!(encode(&mut dictionary, &array, 40_000), (0..40_000).collect::<Vec<_>>());
    assert_eq!(dictionary.len(), 40_000);
}

/// Three dictionaries of overlapping tokens, read by turns, against one that reads them all.
#[test]
fn the_union_has_the_ids_of_one_reader() {
    let integers = |n: i64| match n % 7 {
        0 => -n,
        1 => n << 40,
        2 => n * 500,
        _ => n,
    };
    let text = |n: i64| if n % 3 == 0 { format!("a long token {n}") } else { n.to_string() };
    let value = |i: i64| (i * i * 31) % 2_003;
    let arrays = [
        tokens(Int64Array::from_iter_values((0..6_000).map(|i| integers(value(i))))),
        tokens(Int64Array::from_iter_values((0..6_000).map(value))),
        tokens(Int64Array::from_iter_values((0..6_000).map(|i| 60 * value(i)))),
        tokens(StringArray::from_iter_values((0..6_000).map(|i| text(value(i))))),
    ];
    for (kind, array) in arrays.iter().enumerate() {
        let mut one = Dictionary::default();
        encode(&mut one, array, 6_000);
        let mut parts: Vec<Dictionary> = (0..3).map(|_| Dictionary::default()).collect();
        let mut news = vec![];
        for (turn, from) in (0..6_000).step_by(250).enumerate() {
            let part = (turn * turn + turn / 5) % 3;
            let known = parts[part].len();
            parts[part].encode(array, from..from + 250, &mut vec![]).unwrap();
            news.push((part, known..parts[part].len()));
        }
        for threads in [1, 2, 7].map(Threads::small) {
            let cancel = CancelFlag::default();
            let (all, maps) = Dictionary::union(&parts, &news, true, threads, &cancel).unwrap();
            let (counted, same) =
                Dictionary::union(&parts, &news, false, threads, &cancel).unwrap();
            assert_eq!((counted.len(), counted.size(), same), (all.len(), 0, maps.clone()));
            assert_eq!(all.len(), one.len());
            assert!(all.size() <= Dictionary::union_bytes(parts.iter(), threads));
            for dictionary in [&one, &all] {
                let mut ids = vec![];
                dictionary.find_all(array, 0..6_000, &mut ids);
                let mut expected = vec![];
                one.find_all(array, 0..6_000, &mut expected);
                assert_eq!(ids, expected, "kind {kind}, {threads:?}");
            }
            for (part, map) in parts.iter().zip(&maps) {
                let ids = part.keys().into_iter().map(|key| one.adopt(key).unwrap());
                assert_eq!(*map, ids.collect::<Vec<_>>(), "kind {kind}, {threads:?}");
            }
        }
    }
}

#[test]
fn dictionaries_adopt_tokens_of_every_kind() {
    let texts = ["a", "", "a long token", "abcdefg", "another long token"];
    let integers = [0, -1, 5, 1 << 40, i64::MIN, 70_000];
    let arrays = [
        tokens(StringArray::from_iter_values(texts)),
        tokens(Int64Array::from_iter_values(integers)),
    ];
    for array in arrays {
        let len = if let Tokens::Utf8(_) = array { texts.len() } else { integers.len() };
        let (mut one, mut other) = (Dictionary::default(), Dictionary::default());
        encode(&mut one, &array, len);
        other.encode(&array, 2..3, &mut vec![]).unwrap();
        let growth = other.adoption([&one].into_iter());
        let before = other.size();
        let map: Vec<u32> = one.keys().into_iter().map(|k| other.adopt(k).unwrap()).collect();
        assert!(other.size() <= before + growth);
        assert_eq!(encode(&mut other, &array, len), map);
        assert_eq!((map[2], other.len()), (0, len as u32));
    }
}

/// The bytes reserved for a merge depend on the tokens that there are, not on all that there may be.
#[test]
fn adoption_counts_only_the_tables_that_the_tokens_need() {
    let of = |values: Vec<i64>| {
        let (mut dictionary, len) = (Dictionary::default(), values.len());
        encode(&mut dictionary, &tokens(Int64Array::from(values)), len);
        dictionary
    };
    let bytes = |dictionary: &Dictionary| Dictionary::default().adoption([dictionary].into_iter());
    let keys = 10_000 * size_of::<DictionaryKey<'_>>();
    let (dense, sparse) = (of((0..10_000).collect()), of((0..10_000).map(|i| i << 30).collect()));
    let (negative, both) = (
        of((1..=10_000).map(|i| -i).collect()),
        of((0..10_000).map(|i| (i - 5_000) << 30).collect()),
    );
    // A place of four bytes for each of 2^14 numbers.
    assert_eq!(bytes(&dense), keys + (1 << 16));
    let tables = Table::<WordSlot>::default().growth(10_000);
    assert!(bytes(&sparse) >= keys + tables && bytes(&sparse) < keys + tables + (1 << 20));
    assert!(bytes(&negative) <= keys + tables + 4 * LEAST_PLACES);
    assert!(bytes(&both) <= bytes(&sparse));
    for dictionary in [dense, sparse, negative, both] {
        let mut merged = Dictionary::default();
        let bound = bytes(&dictionary);
        for key in dictionary.keys() {
            merged.adopt(key).unwrap();
        }
        assert!(merged.size() + keys <= bound, "{} {bound}", merged.size());
    }
}
