//! The index against all pairs by the textbook.

use std::ops::Range;

use super::{Codes, Elements, ProbeSpace, StringBoxes, UNKNOWN, Wanted, order};
use crate::simd::Simd;
use crate::string::page::Page;
use crate::string::rules::Threshold;
use crate::string::rules::tests::{ALPHABETS, Random, textbook};

/// Distinct strings of symbols in runs of one length, in the order of their boxes.
struct Items {
    symbols: Vec<Vec<u32>>,
    codes: Vec<u8>,
    starts: Vec<usize>,
    runs: Vec<u32>,
    pages: Vec<Page>,
}

impl Items {
    /// Sorts strings by length; codes are symbols by their rank of first use, modulo 64.
    fn new(mut symbols: Vec<Vec<u32>>, keys: usize, by_prefix: bool) -> (Self, Elements) {
        let mut ranks = std::collections::HashMap::new();
        for symbol in symbols.iter().flatten() {
            let rank = ranks.len();
            ranks.entry(*symbol).or_insert(rank);
        }
        let code = |symbol: &u32| (ranks[symbol] % 64) as u8;
        // A blocking key that depends on the string alone.
        let key = |s: &Vec<u32>| s.first().map_or(0, |&x| x as usize % keys);
        symbols.sort_by_key(|s| (key(s), s.len()));
        symbols.dedup();
        let mut items =
            Self { symbols, codes: vec![], starts: vec![], runs: vec![0], pages: vec![] };
        for i in 1..=items.symbols.len() {
            let run = |s: &Vec<u32>| (key(s), s.len());
            if i == items.symbols.len() || run(&items.symbols[i]) != run(&items.symbols[i - 1]) {
                items.runs.push(i as u32);
            }
        }
        items.encode(code);
        let elements =
            Elements::choose(items.as_codes(), &items.runs, by_prefix, &mut || false).unwrap();
        let of_run = |(run, bounds): (usize, &[u32])| {
            order(items.as_codes(), run, bounds[0]..bounds[1], &elements, &mut || false).unwrap()
        };
        let order: Vec<u32> = items.runs.windows(2).enumerate().flat_map(of_run).collect();
        let mut seen = vec![false; order.len()];
        order.iter().for_each(|&i| assert!(!std::mem::replace(&mut seen[i as usize], true)));
        items.symbols = order.iter().map(|&i| items.symbols[i as usize].clone()).collect();
        items.encode(code);
        let is_shared = |s: &Vec<u32>| s.iter().any(|symbol| ranks[symbol] >= 64);
        let page = |s| if is_shared(s) { Page::NONE } else { Page::ANY };
        items.pages = items.symbols.iter().map(page).collect();
        (items, elements)
    }

    fn encode(&mut self, code: impl Fn(&u32) -> u8) {
        self.codes.clear();
        self.starts = vec![0];
        for symbols in &self.symbols {
            self.codes.extend(symbols.iter().map(&code));
            self.starts.push(self.codes.len());
        }
    }

    fn as_codes(&self) -> Codes<'_> {
        Codes { codes: &self.codes, starts: &self.starts }
    }
}

/// Near-duplicates of a few strings.
fn strings(random: &mut Random, count: usize, len: usize, alphabet: usize) -> Vec<Vec<u32>> {
    let bases: Vec<Vec<u32>> = (0..count.div_ceil(20))
        .map(|_| {
            let len = random.below(len + 1);
            random.string(len, alphabet)
        })
        .collect();
    (0..count)
        .map(|_| {
            let base = random.below(bases.len());
            let edits = random.below(6);
            random.edited(&bases[base], edits, alphabet)
        })
        .collect()
}

fn found(
    boxes: &StringBoxes,
    scratch: &mut ProbeSpace,
    simd: Simd,
    (probe, run, items): (&[u8], usize, Range<u32>),
    surplus: [u32; 2],
    k: Option<u32>,
) -> Vec<(u32, u32)> {
    let mut out = vec![];
    let wanted = Wanted { run, items, surplus, k, alike: None, page: Page::ANY };
    boxes.probe(scratch, simd, probe, wanted, &mut out);
    out.sort_unstable();
    assert!(out.windows(2).all(|pair| pair[0].0 < pair[1].0), "found once");
    out
}

fn numbers(codes: &[u8]) -> Vec<u32> {
    codes.iter().map(|&code| code.into()).collect()
}

#[test]
fn probes_find_all_strings_within_the_bound_and_no_other() {
    let mut random = Random(61);
    for round in 0..24 {
        let len = [4, 9, 12, 40][round % 4];
        let (items, elements) = Items::new(
            strings(&mut random, 1_500, len, ALPHABETS[round % 3]),
            1 + round % 2,
            false,
        );
        let codes = items.as_codes();
        let boxes =
            StringBoxes::build(codes, &items.pages, &items.runs, elements, &mut || false).unwrap();
        let mut scratch = ProbeSpace::new();
        for _ in 0..40 {
            let probe = codes.string(random.below(codes.len()));
            let k = random.below(17) as u32;
            let run = random.below(boxes.runs());
            let all = boxes.items(run);
            let start = all.start + random.below(all.len() + 1) as u32;
            let wanted = [all.clone(), start..all.end, all.start..start][random.below(3)].clone();
            let lens = (probe.len() as u32, boxes.string_len(run) as u32);
            let Some(surplus) = Threshold::Levenshtein(k).surplus(lens.0, lens.1) else { continue };
            let expected: Vec<(u32, u32)> = wanted
                .clone()
                .map(|i| {
                    (i, textbook::levenshtein(&numbers(probe), &numbers(codes.string(i as usize))))
                })
                .filter(|&(_, d)| d <= k)
                .collect();
            for &simd in Simd::available() {
                let search = (probe, run, wanted.clone());
                let found = found(&boxes, &mut scratch, simd, search, surplus, Some(k));
                if k <= 15 {
                    assert_eq!(found, expected, "{simd} {k}");
                } else {
                    let items: Vec<u32> = found.iter().map(|&(i, _)| i).collect();
                    assert!(expected.iter().all(|(i, _)| items.contains(i)), "{simd} {k}");
                }
            }
        }
    }
}

#[test]
fn candidates_hold_all_matches_over_symbols_of_every_function() {
    let mut random = Random(62);
    for round in 0..12 {
        let alphabet = [2, 26, 200, 0x11_0000][round % 4];
        let (items, elements) =
            Items::new(strings(&mut random, 900, 10, alphabet), 1, round % 3 == 0);
        let codes = items.as_codes();
        let boxes =
            StringBoxes::build(codes, &items.pages, &items.runs, elements, &mut || false).unwrap();
        let mut scratch = ProbeSpace::new();
        for _ in 0..60 {
            let probe = random.below(codes.len());
            let x = &items.symbols[probe];
            let t = random.below(100) as f64 / 99.0;
            let k = random.below(6) as u32;
            let run = random.below(boxes.runs());
            for threshold in [Threshold::Jaro(t), Threshold::JaroWinkler(t), Threshold::Damerau(k)]
            {
                let lens = (x.len() as u32, boxes.string_len(run) as u32);
                let found = match threshold.surplus(lens.0, lens.1) {
                    Some(surplus) => {
                        let search = (codes.string(probe), run, boxes.items(run));
                        found(&boxes, &mut scratch, Simd::detect(), search, surplus, None)
                    }
                    None => vec![],
                };
                for item in boxes.items(run) {
                    let y = &items.symbols[item as usize];
                    let matches = match threshold {
                        Threshold::Jaro(t) => textbook::jaro(x, y) >= t,
                        Threshold::JaroWinkler(t) => textbook::jaro_winkler(x, y) >= t,
                        _ => textbook::damerau(x, y) <= k,
                    };
                    let at = found.binary_search_by_key(&item, |&(item, _)| item);
                    assert!(at.is_ok() || !matches, "{threshold:?} {x:?} {y:?}");
                }
            }
        }
    }
}

#[test]
fn matches_by_jaros_functions_are_found_and_what_codes_do_not_tell() {
    let mut random = Random(64);
    for round in 0..16 {
        let alphabet = [2, 26, 70, 0x11_0000][round % 4];
        let len = [6, 12, 20, 40][round / 4];
        let by_prefix = round % 3 > 0;
        let (items, elements) =
            Items::new(strings(&mut random, 1_200, len, alphabet), 1, by_prefix);
        let codes = items.as_codes();
        let boxes =
            StringBoxes::build(codes, &items.pages, &items.runs, elements, &mut || false).unwrap();
        let mut scratch = ProbeSpace::new();
        for _ in 0..60 {
            let probe = random.below(codes.len());
            let x = &items.symbols[probe];
            let t = (1 + random.below(100)) as f64 / 100.0;
            let threshold = [Threshold::Jaro, Threshold::JaroWinkler][random.below(2)](t);
            let run = random.below(boxes.runs());
            let lens = [x.len() as u32, boxes.string_len(run) as u32];
            if threshold.always(lens[0], lens[1]) {
                continue;
            }
            let alike = threshold.alike(lens[0], lens[1]);
            let page = match random.below(4) {
                0 => Page::NONE,
                _ => items.pages[probe],
            };
            for &simd in Simd::available() {
                let mut out = vec![];
                if let Some(alike) = &alike {
                    let (surplus, alike) = (alike.surplus(), Some(alike));
                    let (items, k) = (boxes.items(run), None);
                    let wanted = Wanted { run, items, surplus, k, alike, page };
                    boxes.probe(&mut scratch, simd, codes.string(probe), wanted, &mut out);
                }
                out.sort_unstable();
                for item in boxes.items(run) {
                    let y = &items.symbols[item as usize];
                    let matches = match threshold {
                        Threshold::Jaro(t) => textbook::jaro(x, y) >= t,
                        _ => textbook::jaro_winkler(x, y) >= t,
                    };
                    let found = out.binary_search_by_key(&item, |&(item, _)| item);
                    let found = found.ok().map(|at| out[at].1);
                    // Only what codes tell may be decided.
                    let may_decide = page.tells(items.pages[item as usize]);
                    match found {
                        None => assert!(!matches, "{simd} {threshold:?} {x:?} {y:?}"),
                        Some(0) => assert!(matches && may_decide, "{threshold:?} {x:?} {y:?}"),
                        Some(distance) => assert_eq!(distance, UNKNOWN),
                    }
                }
            }
        }
    }
}

#[test]
fn survivors_are_at_most_what_is_there() {
    let mut random = Random(63);
    let (items, elements) = Items::new(strings(&mut random, 4_000, 6, 26), 1, false);
    let codes = items.as_codes();
    let boxes =
        StringBoxes::build(codes, &items.pages, &items.runs, elements, &mut || false).unwrap();
    let mut scratch = ProbeSpace::new();
    for run in 0..boxes.runs() {
        let items = boxes.items(run);
        let all = [u32::MAX; 2];
        let probe = codes.string(items.start as usize);
        let simd = Simd::detect();
        let wanted =
            |items, surplus| Wanted { run, items, surplus, k: None, alike: None, page: Page::ANY };
        let met = boxes.survivors(&mut scratch, simd, probe, wanted(items.clone(), all));
        assert_eq!(met.tested, items.len().div_ceil(64) as u64);
        assert_eq!((met.blocks, met.groups), (met.tested, items.len().div_ceil(8) as u64));
        let few = boxes.survivors(&mut scratch, simd, probe, wanted(items, [0, 0]));
        assert!(few.groups >= 1 && few.groups <= met.groups);
    }
}

#[test]
fn an_index_without_strings_is_searched_in_vain() {
    let codes = Codes { codes: &[], starts: &[0] };
    let elements = Elements::choose(codes, &[0, 0], true, &mut || false).unwrap();
    let boxes = StringBoxes::build(codes, &[], &[0, 0], elements, &mut || false).unwrap();
    let search: (&[u8], usize, Range<u32>) = (&[1, 2], 0, 0..9);
    assert!(
        found(&boxes, &mut ProbeSpace::new(), Simd::detect(), search, [2, 2], Some(2)).is_empty()
    );
}

#[test]
fn building_is_cancelled() {
    let strings: Vec<u8> = vec![1; 3 * 20_000];
    let starts: Vec<usize> = (0..=20_000).map(|i| 3 * i).collect();
    let codes = Codes { codes: &strings, starts: &starts };
    let runs = [0, 20_000];
    assert!(Elements::choose(codes, &runs, false, &mut || true).is_err());
    let elements = Elements::choose(codes, &runs, false, &mut || false).unwrap();
    assert!(order(codes, 0, 0..runs[1], &elements, &mut || true).is_err());
    assert!(
        StringBoxes::build(codes, &[Page::ANY; 20_000], &runs, elements, &mut || true).is_err()
    );
}
