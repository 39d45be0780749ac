//! The lanes against the textbook, in every form that the processor runs.

mod characters;
mod jaro;
mod pairs;

use super::{Band, LaneStrings, Pattern, interleave};
use crate::simd::Simd;
use crate::string::rules::tests::{Random, textbook};

/// Every form that the processor runs, with VBMI and without.
fn forms() -> impl Iterator<Item = Simd> {
    [false, true].into_iter().flat_map(|without| {
        Simd::available().iter().map(move |&simd| {
            crate::simd::texts::WITHOUT_VBMI.set(without);
            simd
        })
    })
}

/// Distances of a probe and strings of one length by lanes: `k + 1` where they are beyond `k`.
fn distances(simd: Simd, probe: &[u8], strings: &[Vec<u8>], k: u32) -> Vec<u32> {
    let len = strings[0].len();
    let mut columns = vec![];
    interleave(&mut columns, strings.len(), len, |i| &strings[i]);
    let mut pattern = Pattern::new();
    pattern.set(simd, probe, k);
    let mut result = vec![k + 1; strings.len()];
    if let Some(band) = Band::new(&pattern, len, k) {
        let mut groups: Vec<u32> = (0..strings.len().div_ceil(8) as u32).collect();
        let mut out = vec![];
        let items = 100..100 + strings.len() as u32;
        let strings = LaneStrings { columns: &columns, first: 100, items };
        band.search(simd, &pattern, strings, &mut groups, &mut out);
        for (item, distance) in out {
            assert_eq!(result[item as usize - 100], k + 1, "found once");
            result[item as usize - 100] = distance;
        }
    }
    result
}

fn numbers(string: &[u8]) -> Vec<u32> {
    string.iter().map(|&code| u32::from(code)).collect()
}

/// A string of this length, near the probe for most draws.
fn near(random: &mut Random, probe: &[u8], len: usize, alphabet: usize, edits: usize) -> Vec<u8> {
    let mut string = probe.to_vec();
    for _ in 0..random.below(edits + 1) {
        let at = random.below(string.len() + 1);
        let code = random.below(alphabet) as u8;
        match random.below(3) {
            0 if at < string.len() => string[at] = code,
            1 if at < string.len() => drop(string.remove(at)),
            _ => string.insert(at, code),
        }
    }
    while string.len() > len {
        string.remove(random.below(string.len()));
    }
    while string.len() < len {
        string.insert(random.below(string.len() + 1), random.below(alphabet) as u8);
    }
    string
}

fn check(seed: u64, probes: usize, lens: &[usize], count: usize) {
    let mut random = Random(seed);
    for probe in 0..probes {
        let alphabet = [2, 26, 64][probe % 3];
        let k = random.below(16) as u32;
        let len = lens[random.below(lens.len())];
        let probe: Vec<u8> = (0..len).map(|_| random.below(alphabet) as u8).collect();
        let other = (len + random.below(2 * k as usize + 3)).saturating_sub(k as usize + 1);
        let count = 1 + random.below(count);
        let strings: Vec<Vec<u8>> = (0..count)
            .map(|_| near(&mut random, &probe, other, alphabet, k as usize + 2))
            .collect();
        let expected: Vec<u32> = strings
            .iter()
            .map(|string| textbook::levenshtein(&numbers(&probe), &numbers(string)).min(k + 1))
            .collect();
        for simd in forms() {
            assert_eq!(distances(simd, &probe, &strings, k), expected, "{simd} {k} {probe:?}");
        }
    }
}

#[test]
fn lanes_equal_the_textbook() {
    check(51, 1_200, &[0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 40], 80);
}

#[test]
fn lanes_of_long_strings_equal_the_textbook() {
    check(52, 60, &[63, 64, 65, 127, 128, 300], 64);
}

#[test]
fn lanes_that_are_given_up_do_not_come_back_while_a_neighbour_lives() {
    let mut random = Random(53);
    let probe: Vec<u8> = (0..1_500).map(|_| random.below(26) as u8).collect();
    // One string lives to the end; the others die at once and go on counting beyond 255.
    let mut strings = vec![probe.iter().map(|code| code + 30).collect::<Vec<u8>>(); 63];
    strings.push(probe.clone());
    for simd in forms() {
        for k in [1, 4, 7, 8, 15] {
            let found = distances(simd, &probe, &strings, k);
            assert!(found[..63].iter().all(|&d| d == k + 1), "{simd} {k}");
            assert_eq!(found[63], 0, "{simd} {k}");
        }
    }
}

#[test]
fn distances_over_shared_codes_are_lower_bounds() {
    let mut random = Random(54);
    for _ in 0..2_000 {
        let (a, b) = random.pair(&[3, 6, 9, 14], 200);
        let codes = |s: &[u32]| s.iter().map(|&x| (x % 64) as u8).collect::<Vec<u8>>();
        let exact = textbook::levenshtein(&a, &b);
        let found = distances(Simd::detect(), &codes(&a), &[codes(&b)], 15)[0];
        assert!(found <= exact.min(16), "{a:?} {b:?}");
    }
}

#[test]
fn items_that_are_not_wanted_are_left_out() {
    let probe = [1, 2, 3, 4];
    let strings = vec![probe.to_vec(); 50];
    let mut columns = vec![];
    interleave(&mut columns, 50, 4, |i| &strings[i]);
    for simd in forms() {
        let mut pattern = Pattern::new();
        pattern.set(simd, &probe, 2);
        let band = Band::new(&pattern, 4, 2).expect("lengths within the bound");
        let mut out = vec![];
        let strings = LaneStrings { columns: &columns, first: 10, items: 17..40 };
        band.search(simd, &pattern, strings, &mut vec![0, 2, 3], &mut out);
        let items: Vec<(u32, u32)> = [17].into_iter().chain(26..40).map(|i| (i, 0)).collect();
        assert_eq!(out, items, "{simd}");
    }
}
