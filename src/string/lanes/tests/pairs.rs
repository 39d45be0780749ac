use crate::simd::Simd;
use crate::string::lanes::pairs::{Pairs, Text};
use crate::string::rules::Cancelled;
use crate::string::rules::tests::{Random, textbook};

fn check(seed: u64, rounds: usize, count: usize, lens: &[usize]) {
    let mut random = Random(seed);
    let mut pairs = Pairs::new();
    for round in 0..rounds {
        let count = 1 + random.below(count);
        let strings: Vec<(Vec<u32>, Vec<u32>)> =
            (0..count).map(|_| random.pair(lens, [2, 20][round % 2])).collect();
        let expected: Vec<u32> = strings.iter().map(|(a, b)| textbook::levenshtein(a, b)).collect();
        // Strings one behind another, as in an array, then each for itself.
        let mut bytes = vec![];
        let mut place = |s: &[u32]| {
            bytes.extend(s.iter().map(|&x| x as u8));
            (bytes.len() - s.len(), s.len())
        };
        let places: Vec<_> = strings.iter().map(|(a, b)| [place(a), place(b)]).collect();
        for simd in super::forms() {
            let mut out = vec![u32::MAX; count];
            let joined = |i: usize| places[i].map(|(start, len)| Text::new(&bytes[start..], len));
            pairs.levenshtein(simd, joined, &mut out, &mut || false).unwrap();
            assert_eq!(out, expected, "{simd}");
            let apart =
                |i: usize| places[i].map(|(start, len)| Text::from(&bytes[start..start + len]));
            pairs.levenshtein(simd, apart, &mut out, &mut || false).unwrap();
            assert_eq!(out, expected, "{simd}");
        }
    }
}

#[test]
fn pairs_of_each_width_equal_the_textbook() {
    check(71, 60, 150, &[0, 1, 2, 3, 7, 8, 14, 15, 16]);
    check(72, 40, 80, &[15, 16, 17, 20, 30, 31, 32]);
    check(73, 30, 60, &[31, 32, 33, 40, 62, 63, 64]);
}

#[test]
fn pairs_of_mixed_widths_equal_the_textbook() {
    check(74, 40, 200, &[0, 1, 9, 16, 17, 32, 33, 64, 65, 100, 128, 300]);
}

#[test]
fn pairs_after_cancelled_ones_are_right() {
    let mut pairs = Pairs::new();
    let text = |s: &'static [u8]| Text::from(s);
    let mut out = vec![0; 10_001];
    let pair = |_: usize| [text(b"kitten"), text(b"sitting")];
    let simd = Simd::detect();
    assert_eq!(pairs.levenshtein(simd, pair, &mut out, &mut || true), Err(Cancelled));
    let mut out = [0];
    pairs.levenshtein(simd, |_| [text(b"abc"), text(b"")], &mut out, &mut || false).unwrap();
    assert_eq!(out, [3]);
}
