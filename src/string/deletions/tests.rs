//! The index against all pairs by the textbook.

use super::{Deletions, Lens, Probes, Searcher, Symbols, residuals};
use crate::engine::Match;
use crate::string::rules::tests::{ALPHABETS, Random, textbook};

/// Strings one behind another, in the order of their lengths.
fn joined(mut strings: Vec<Vec<u32>>) -> (Vec<u32>, Vec<usize>) {
    strings.sort_by_key(Vec::len);
    let mut starts = vec![0];
    let mut symbols = vec![];
    for string in strings {
        symbols.extend(string);
        starts.push(symbols.len());
    }
    (symbols, starts)
}

fn draw(random: &mut Random, count: usize, len: usize, alphabet: usize) -> Vec<Vec<u32>> {
    let base = random.string(len, alphabet);
    (0..count)
        .map(|_| {
            let edits = random.below(6);
            match random.below(2) {
                0 => random.edited(&base, edits, alphabet),
                _ => {
                    let len = random.below(len + 1);
                    random.string(len, alphabet)
                }
            }
        })
        .collect()
}

#[test]
fn probes_find_all_strings_within_the_bound_and_no_other() {
    let mut random = Random(91);
    for round in 0..60 {
        let len = [2, 5, 9, 70][round % 4];
        let alphabet = ALPHABETS[round % 3];
        let (symbols, starts) = joined(draw(&mut random, 200, len, alphabet));
        let strings = Symbols { symbols: &symbols, starts: &starts };
        let k = 1 + round as u32 % 2;
        let index = Deletions::build(strings, 20..180, k, |_| 5, &mut || false).unwrap();
        let mut searcher = Searcher::new();
        let probes = (0..40)
            .map(|_| {
                let base = strings.string(random.below(200));
                let edits = random.below(4);
                random.edited(base, edits, alphabet)
            })
            .collect();
        let (probe_symbols, probe_starts) = joined(probes);
        let of = Symbols { symbols: &probe_symbols, starts: &probe_starts };
        let k = random.below(k as usize + 1) as u32;
        let start = random.below(100) as u32;
        let items = |probe: u32| start + probe..160 + probe;
        let probes = Probes { strings: of, range: 3..38, seed: |_| 5, items, lens: Lens::All, k };
        let mut out = vec![];
        index.probe(&mut searcher, strings, &probes, &mut out, &mut || false).unwrap();
        out.sort_unstable();
        let mut expected = vec![];
        for probe in 3..38 {
            for item in items(probe).filter(|item| (20..180).contains(item)) {
                let x = of.string(probe as usize);
                let distance = textbook::levenshtein(x, strings.string(item as usize));
                if distance <= k {
                    expected.push(Match { probe, build: item, detail: distance });
                }
            }
        }
        assert_eq!(out, expected);
    }
}

#[test]
fn a_self_join_by_ranges_finds_each_pair_once() {
    let mut random = Random(92);
    for round in 0..40 {
        let len = [1, 4, 8, 12][round % 4];
        let (symbols, starts) = joined(draw(&mut random, 150, len, ALPHABETS[round % 3]));
        let strings = Symbols { symbols: &symbols, starts: &starts };
        let k = 1 + round as u32 % 2;
        let mut found = vec![];
        for part in [0..40, 40..41, 41..150] {
            let index = Deletions::build(strings, part, k, |_| 0, &mut || false).unwrap();
            let mut searcher = Searcher::new();
            let items = |probe: u32| 0..probe;
            let lens = Lens::UpToOwn;
            let probes = Probes { strings, range: 0..150, seed: |_| 0, items, lens, k };
            index.probe(&mut searcher, strings, &probes, &mut found, &mut || false).unwrap();
        }
        found.sort_unstable();
        let mut expected = vec![];
        for a in 0..150 {
            for b in 0..a {
                let (x, y) = (strings.string(a as usize), strings.string(b as usize));
                let distance = textbook::levenshtein(x, y);
                if distance <= k {
                    expected.push(Match { probe: a, build: b, detail: distance });
                }
            }
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn strings_of_other_seeds_are_not_met() {
    let (symbols, starts) = joined(vec![vec![1, 2, 3]; 10]);
    let strings = Symbols { symbols: &symbols, starts: &starts };
    let seed = |item: u32| u64::from(item % 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let index = Deletions::build(strings, 0..10, 1, seed, &mut || false).unwrap();
    let mut out = vec![];
    let items = |_| 0..10;
    let probes = Probes { strings, range: 3..4, seed: |_| seed(1), items, lens: Lens::All, k: 1 };
    let search = &mut Searcher::new();
    let candidates = index.probe(search, strings, &probes, &mut out, &mut || false).unwrap();
    assert_eq!(candidates, 5);
    assert!(out.iter().all(|found| found.build % 2 == 1 && found.detail == 0));
}

#[test]
fn memory_is_known_beforehand() {
    let mut random = Random(93);
    let (symbols, starts) = joined(draw(&mut random, 500, 12, 26));
    let strings = Symbols { symbols: &symbols, starts: &starts };
    for k in [1, 2] {
        let total = (0..500).map(|i| residuals(strings.string(i).len() as u64, k)).sum();
        let index = Deletions::build(strings, 0..500, k, |_| 0, &mut || false).unwrap();
        assert!(index.bytes() as u64 <= Deletions::bytes_for(total));
    }
}

#[test]
fn building_is_cancelled() {
    let (symbols, starts) = joined(vec![(0..40).collect(); 200]);
    let strings = Symbols { symbols: &symbols, starts: &starts };
    assert!(Deletions::build(strings, 0..200, 2, |_| 0, &mut || true).is_err());
}
