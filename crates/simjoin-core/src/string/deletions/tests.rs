//! The index against all pairs by the textbook.

use super::{DeletionProbes, Deletions, Own, OwnProbes, OwnSearcher, Searcher, Symbols, residuals};
use crate::engine::Match;
use crate::string::rules::tests::{ALPHABETS, Random, textbook};
use crate::tuning::Tuning;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// A flag that nobody raises.
fn never() -> CancelFlag {
    CancelFlag::default()
}

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
        let threads = Threads::small(1 + round % 5);
        let index = Deletions::build(strings, 20..180, k, |_| 5, threads, &never()).unwrap();
        let mut searcher = Searcher::new(Tuning::small());
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
        let probes = DeletionProbes { strings: of, range: 3..38, seed: |_| 5, items, k };
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
            let index =
                Deletions::build(strings, part, k, |_| 0, Threads::small(2), &never()).unwrap();
            let mut searcher = Searcher::new(Tuning::small());
            let items = |probe: u32| 0..probe;
            let probes = DeletionProbes { strings, range: 0..150, seed: |_| 0, items, k };
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

/// The pairs within `k` of strings of one key, each with itself; `starts` are the first items of keys.
fn own_pairs(strings: Symbols<'_, u32>, starts: &[u32], k: u32) -> Vec<Match> {
    let mut pairs = vec![];
    for key in starts.windows(2) {
        for probe in key[0]..key[1] {
            for build in key[0]..=probe {
                let (x, y) = (strings.string(probe as usize), strings.string(build as usize));
                let detail = textbook::levenshtein(x, y);
                if detail <= k {
                    pairs.push(Match { probe, build, detail });
                }
            }
        }
    }
    pairs
}

#[test]
fn strings_of_one_collection_find_each_other() {
    let mut random = Random(94);
    for round in 0..36 {
        let len = [0, 1, 4, 8, 12, 66][round % 6];
        let keys = 1 + round % 2;
        let (mut symbols, mut all_starts, mut key_starts) = (vec![], vec![0], vec![0]);
        for _ in 0..keys {
            let (more, starts) = joined(draw(&mut random, 80, len, ALPHABETS[round % 3]));
            all_starts.extend(starts[1..].iter().map(|start| start + symbols.len()));
            symbols.extend(more);
            key_starts.push(all_starts.len() as u32 - 1);
        }
        let strings = Symbols { symbols: &symbols, starts: &all_starts };
        let count = all_starts.len() as u32 - 1;
        let most = round as u32 / 6 % 3;
        let key = |item: u32| u64::from(item >= 80);
        let own = Own::build(strings, count, most, key, Threads::small(1 + round % 4), &never())
            .unwrap()
            .unwrap();
        let mut searcher = OwnSearcher::new(Tuning::small());
        let first = |item: u32| key_starts[key(item) as usize];
        let expected = own_pairs(strings, &key_starts, most);
        for k in 0..=most {
            let mut found = vec![];
            // Twice, for a searcher serves any ranges.
            for range in [0..count / 3, 0..count / 3, count / 3..count] {
                found.truncate(found.partition_point(|found: &Match| found.probe < range.start));
                let stop = &mut || false;
                let probes = OwnProbes { strings, range, first, k };
                own.probe(&mut searcher, &probes, &mut found, stop).unwrap();
            }
            assert!(found.is_sorted_by_key(|found| found.probe));
            found.sort_unstable();
            let expected = expected.iter().filter(|pair| pair.detail <= k);
            assert!(found.iter().eq(expected), "{round} {k}");
        }
    }
}

#[test]
fn any_number_of_threads_makes_the_same_groups() {
    let mut random = Random(95);
    for k in 0..=2 {
        let (symbols, starts) = joined(draw(&mut random, 2_500, 12, 3));
        let strings = Symbols { symbols: &symbols, starts: &starts };
        let groups = |threads| {
            let own = Own::build(strings, 2_500, k, |_| 0, threads, &never()).unwrap().unwrap();
            let mut found = vec![];
            let probes = OwnProbes { strings, range: 0..2_500, first: |_| 0, k };
            let (searcher, stop) = (&mut OwnSearcher::new(Tuning::small()), &mut || false);
            let candidates = own.probe(searcher, &probes, &mut found, stop).unwrap();
            (own, candidates, found)
        };
        let (one, candidates, found) = groups(Threads::small(1));
        for threads in [2, 3, 8].map(Threads::small) {
            let (several, more, same) = groups(threads);
            assert_eq!((several, more, same), (one.clone(), candidates, found.clone()));
        }
    }
}

#[test]
fn strings_without_neighbours_have_no_groups() {
    let symbols: Vec<u32> = (0..4_000).collect();
    let starts: Vec<usize> = (0..=500).map(|i| 8 * i).collect();
    let strings = Symbols { symbols: &symbols, starts: &starts };
    let own = Own::build(strings, 500, 2, |_| 0, Threads::small(3), &never()).unwrap().unwrap();
    let none = Symbols { symbols: &symbols, starts: &[0] };
    let empty = Own::build(none, 0, 2, |_| 0, Threads::small(3), &never()).unwrap().unwrap();
    assert!(own.bytes() < 500 * 4 + 100 && empty.bytes() < 100);
    let mut found = vec![];
    let (searcher, stop) = (&mut OwnSearcher::new(Tuning::small()), &mut || false);
    let probes = OwnProbes { strings, range: 0..500, first: |_| 0, k: 2 };
    let candidates = own.probe(searcher, &probes, &mut found, stop).unwrap();
    assert_eq!((candidates, found.len()), (0, 500));
    let probes = OwnProbes { strings: none, range: 0..0, first: |_| 0, k: 2 };
    empty.probe(searcher, &probes, &mut found, stop).unwrap();
    assert_eq!(found.len(), 500);
}

#[test]
fn strings_of_other_seeds_are_not_met() {
    let (symbols, starts) = joined(vec![vec![1, 2, 3]; 10]);
    let strings = Symbols { symbols: &symbols, starts: &starts };
    let seed = |item: u32| u64::from(item % 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let index = Deletions::build(strings, 0..10, 1, seed, Threads::small(1), &never()).unwrap();
    let mut out = vec![];
    let items = |_| 0..10;
    let probes = DeletionProbes { strings, range: 3..4, seed: |_| seed(1), items, k: 1 };
    let search = &mut Searcher::new(Tuning::small());
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
        let index =
            Deletions::build(strings, 0..500, k, |_| 0, Threads::small(2), &never()).unwrap();
        assert!(index.bytes() as u64 <= Deletions::bytes_for(total));
        let own = Own::build(strings, 500, k, |_| 0, Threads::small(2), &never()).unwrap().unwrap();
        assert!(own.bytes() as u64 <= Own::bytes_for(500, total));
    }
}

#[test]
fn building_is_cancelled() {
    let (symbols, starts) = joined(vec![(0..40).collect(); 200]);
    let strings = Symbols { symbols: &symbols, starts: &starts };
    let cancel = CancelFlag::default();
    drop(cancel.on_drop());
    for threads in [1, 3].map(Threads::small) {
        assert!(Deletions::build(strings, 0..200, 2, |_| 0, threads, &cancel).is_err());
        assert!(Own::build(strings, 200, 2, |_| 0, threads, &cancel).is_err());
    }
}
