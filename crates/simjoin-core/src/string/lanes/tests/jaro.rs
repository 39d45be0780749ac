//! Jaro's functions in lanes against the textbook.

use super::{forms, numbers};
use crate::string::lanes::{CodeRows, LaneStrings, interleave};
use crate::string::rules::tests::{Random, textbook};
use crate::string::rules::{Alike, ORDERED, Threshold};

/// Strings of one length, near the probe or not.
fn draw(random: &mut Random, probe: &[u8], len: usize, alphabet: usize) -> Vec<u8> {
    let prefix = [0, 1, 2, 3, 4, 5, len][random.below(7)].min(len).min(probe.len());
    let edits = random.below(len + 1);
    let mut string: Vec<u8> = probe.iter().copied().take(len).collect();
    string.resize_with(len, || random.below(alphabet) as u8);
    for _ in 0..edits {
        let (at, other) = (random.below(len), random.below(len));
        match random.below(2) {
            0 => string[at] = random.below(alphabet) as u8,
            _ => string.swap(at, other),
        }
    }
    string[..prefix].copy_from_slice(&probe[..prefix]);
    string
}

fn similarity(threshold: Threshold, a: &[u8], b: &[u8]) -> f64 {
    let (a, b) = (numbers(a), numbers(b));
    match threshold {
        Threshold::JaroWinkler(_) => textbook::jaro_winkler(&a, &b),
        _ => textbook::jaro(&a, &b),
    }
}

/// The strings that lanes find, by all forms alike.
fn found(rows: &mut CodeRows, probe: &[u8], alike: &Alike, strings: &[Vec<u8>]) -> Vec<u32> {
    let len = strings[0].len();
    let mut columns = vec![];
    interleave(&mut columns, strings.len(), len, |i| &strings[i]);
    let mut results = forms().map(|simd| {
        let mut groups: Vec<u32> = (0..strings.len().div_ceil(8) as u32).collect();
        let mut out = vec![];
        let items = 100..100 + strings.len() as u32;
        let strings = LaneStrings { columns: &columns, first: 100, items };
        rows.set(probe);
        rows.search(simd, len, alike, strings, &mut groups, &mut out);
        out.into_iter().map(|(item, _)| item - 100).collect::<Vec<u32>>()
    });
    let first = results.next().unwrap();
    assert!(results.all(|result| result == first), "{probe:?}");
    first
}

#[test]
fn lanes_match_as_the_textbook() {
    let mut random = Random(55);
    let mut rows = CodeRows::default();
    let lens = [0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 20, 31, ORDERED];
    for round in 0..3_000 {
        let alphabet = [2, 5, 26, 64][round % 4];
        let len = lens[random.below(lens.len())];
        let probe: Vec<u8> = (0..len).map(|_| random.below(alphabet) as u8).collect();
        let other = match random.below(2) {
            0 => lens[random.below(lens.len())],
            _ => (len + random.below(5)).saturating_sub(2).min(ORDERED),
        };
        let count = 1 + random.below(80);
        let strings: Vec<Vec<u8>> =
            (0..count).map(|_| draw(&mut random, &probe, other, alphabet)).collect();
        let kind = [Threshold::Jaro, Threshold::JaroWinkler][random.below(2)];
        // The similarity of one of them, the number above it, or any.
        let of_one = similarity(kind(0.0), &probe, &strings[random.below(count)]);
        let bound = [of_one, of_one.next_up(), random.below(101) as f64 / 100.0][random.below(3)];
        let threshold = kind(bound);
        let lens = (len as u32, other as u32);
        let matches = |string: &Vec<u8>| similarity(threshold, &probe, string) >= bound;
        let Some(alike) = threshold.alike(lens.0, lens.1) else {
            assert!(!strings.iter().any(matches), "{threshold:?} {probe:?}");
            continue;
        };
        if threshold.always(lens.0, lens.1) {
            continue;
        }
        let expected: Vec<u32> =
            (0..count as u32).filter(|&i| matches(&strings[i as usize])).collect();
        assert_eq!(found(&mut rows, &probe, &alike, &strings), expected, "{threshold:?} {probe:?}");
    }
}

#[test]
fn strings_that_are_not_wanted_are_left_out() {
    let strings = vec![vec![1, 2, 3, 4]; 20];
    let alike = Threshold::JaroWinkler(0.9).alike(4, 4).unwrap();
    let mut columns = vec![];
    interleave(&mut columns, 20, 4, |i| &strings[i]);
    let mut rows = CodeRows::default();
    rows.set(&strings[0]);
    for simd in forms() {
        let mut out = vec![];
        let strings = LaneStrings { columns: &columns, first: 100, items: 103..117 };
        rows.search(simd, 4, &alike, strings, &mut vec![0, 2], &mut out);
        let items: Vec<u32> = out.into_iter().map(|(item, _)| item).collect();
        assert_eq!(items, [103, 104, 105, 106, 107, 116]);
    }
}
