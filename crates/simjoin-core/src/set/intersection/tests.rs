//! Every algorithm against a merge of two pointers, and sorted sets.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::path::cut;
use super::search::search;
use super::{Key, KeySlice, SignedKey, size, size_if_ascending, sort_distinct};
use crate::simd::Simd;
use crate::util::parallel::Threads;

/// The definition: common values of two runs.
fn oracle<K: Key>(a: &[K], b: &[K]) -> u64 {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    common
}

/// Values from a universe of `universe` ranks somewhere in the type's range, in any order.
fn values<K: Key>(rng: &mut StdRng, len: usize, base: u64, universe: u64) -> Vec<K> {
    let ranks = if K::BYTES == 4 { 1 << 32 } else { u128::from(u64::MAX) + 1 };
    let value = |offset: u64| K::of_rank(((u128::from(base) + u128::from(offset)) % ranks) as u64);
    (0..len).map(|_| value(rng.random_range(0..universe))).collect()
}

fn run<K: Key>(mut values: Vec<K>) -> Vec<K> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Two runs of any sizes, densities and shares of common values.
fn pair<K: Key>(rng: &mut StdRng, most: usize) -> (Vec<K>, Vec<K>) {
    let universe = *[1, 7, 40, 300, 5_000, 1 << 20, 1 << 32, u64::MAX].choose(rng).unwrap();
    // Ranges over the middle of a type, over its ends, and anywhere.
    let base = *[0, 1 << 31, (1 << 31) - 20, 1 << 63, (1 << 63) - 20, u64::MAX - 20, rng.random()]
        .choose(rng)
        .unwrap();
    let lens = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 70];
    let mut len = || match rng.random_range(0..4) {
        0 => rng.random_range(0..=most),
        _ => *lens.choose(rng).unwrap(),
    };
    let (a, b) = (len(), len());
    let a: Vec<K> = values(rng, a, base, universe);
    let mut b: Vec<K> = values(rng, b, base, universe);
    // Few values of a large universe are common by chance.
    let share = *[0.0, 0.0, 0.1, 0.5, 0.95, 1.0].choose(rng).unwrap();
    b.extend(a.iter().filter(|_| rng.random_bool(share)));
    let (a, b) = (run(a), run(b));
    if rng.random() { (a, b) } else { (b, a) }
}

/// A copy that ends where its memory ends, at any alignment.
fn placed<K: Key>(rng: &mut StdRng, run: &[K]) -> (Box<[K]>, usize) {
    let before = rng.random_range(0..9);
    let padding = std::iter::repeat_n(K::LEAST, before);
    (padding.chain(run.iter().copied()).collect(), before)
}

fn check_pairs<K: Key + std::fmt::Debug>(seed: u64, cases: usize, most: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..cases {
        let (a, b) = pair::<K>(&mut rng, most);
        let (a, skip_a) = placed(&mut rng, &a);
        let (b, skip_b) = placed(&mut rng, &b);
        let (a, b) = (&a[skip_a..], &b[skip_b..]);
        let expected = oracle(a, b);
        for &simd in Simd::available() {
            assert_eq!(K::merge(simd, a, b), expected, "{case} {simd} {a:?} {b:?}");
        }
        let simd = Simd::detect().without_masks();
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        assert_eq!(search(short, long), expected, "{case} {short:?} {long:?}");
        let threads = Threads::small(1 + case % 3);
        assert_eq!(size(simd, a, b, threads), expected, "{case} {a:?} {b:?}");
        let (known_a, known_b) = (rng.random(), rng.random());
        let runs = (KeySlice { keys: a, known: known_a }, KeySlice { keys: b, known: known_b });
        assert_eq!(size_if_ascending(simd, runs.0, runs.1, threads), Some(expected), "{case}");
    }
}

/// A hundred thousand pairs of every type together, in every form.
#[test]
fn intersections_of_runs_equal_a_merge() {
    check_pairs::<u32>(1, 26_000, 90);
    check_pairs::<i32>(2, 26_000, 90);
    check_pairs::<u64>(3, 26_000, 90);
    check_pairs::<i64>(4, 26_000, 90);
}

#[test]
fn intersections_of_long_runs_equal_a_merge() {
    check_pairs::<u32>(5, 150, 20_000);
    check_pairs::<i64>(6, 150, 20_000);
}

#[test]
fn one_value_among_a_million_is_found() {
    let long: Vec<u64> = (0..1_000_000).map(|i| i * 18_000_000_000_000).collect();
    let simd = Simd::detect().without_masks();
    for threads in [1, 2].map(Threads::small) {
        for place in [0, 1, 499_999, 999_998, 999_999] {
            for (value, expected) in [(long[place], 1), (long[place] + 1, 0)] {
                assert_eq!(size(simd, &[value], &long, threads), expected);
                let runs = (
                    KeySlice { keys: &long[..], known: false },
                    KeySlice { keys: &[value], known: false },
                );
                assert_eq!(size_if_ascending(simd, runs.0, runs.1, threads), Some(expected));
            }
        }
        assert_eq!(size(simd, &[], &long, threads), 0);
        assert_eq!(size(simd, &long, &long, threads), 1_000_000);
        assert_eq!(size(simd, &[u64::MAX], &long, threads), 0);
    }
    let interval: Vec<i32> = (-500_000..500_000).collect();
    assert_eq!(
        size(simd, &interval, &[-500_001, -500_000, 0, 499_999, 500_000], Threads::small(2)),
        3
    );
    let even: Vec<i32> = (-600_000..600_000).step_by(2).collect();
    assert_eq!(size(simd, &interval, &even, Threads::small(2)), 500_000);
}

/// Values in any order are refused, wherever the first fall or repeat lies.
#[test]
fn slices_that_are_no_runs_are_refused() {
    let mut rng = StdRng::seed_from_u64(7);
    let simd = Simd::detect().without_masks();
    for case in 0..3_000 {
        let len = rng.random_range(2..3_000);
        let universe = *[len as u64 * 2, u64::MAX].choose(&mut rng).unwrap();
        let good: Vec<i64> = run(values(&mut rng, len, 1 << 63, universe));
        if good.len() < 2 {
            continue;
        }
        let mut bad = good.clone();
        let (i, j) = (rng.random_range(0..good.len()), rng.random_range(0..good.len()));
        match rng.random() {
            true => bad[i] = bad[if i == j { (j + 1) % good.len() } else { j }],
            false if i != j => bad.swap(i, j),
            false => bad.reverse(),
        }
        let short: &[i64] = &good[..rng.random_range(0..3)];
        for other in [&good[..], short, &bad] {
            let (bad, other) =
                (KeySlice { keys: &bad[..], known: false }, KeySlice { keys: other, known: false });
            let threads = Threads::small(1 + case % 3);
            assert_eq!(size_if_ascending(simd, bad, other, threads), None, "{case}");
            assert_eq!(size_if_ascending(simd, other, bad, threads), None, "{case}");
        }
    }
}

/// Slices in any order, claimed to be runs, give some number.
#[test]
fn wrong_claims_read_nothing_beyond_the_slices() {
    let mut rng = StdRng::seed_from_u64(8);
    for _ in 0..2_000 {
        let mut any = |most| {
            let len = rng.random_range(0..most);
            let universe = *[5, 1_000, u64::MAX].choose(&mut rng).unwrap();
            values::<u64>(&mut rng, len, 0, universe)
        };
        let (a, b) = (any(3_000), any(800));
        for &simd in Simd::available() {
            size(simd, &a, &b, Threads::small(2));
        }
        for length in [0, 1, (a.len() + b.len()) / 2, a.len() + b.len()] {
            let (i, j) = cut(&a, &b, length);
            assert!(i <= a.len() && j <= b.len());
        }
    }
}

fn check_sorts<K: Key + std::fmt::Debug>(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut scratch = vec![];
    for case in 0..400 {
        let len = *[0, 1, 2, 50, 1_023, 1_024, 5_000].choose(&mut rng).unwrap();
        let universe = *[1, 100, 70_000, 1 << 33, u64::MAX].choose(&mut rng).unwrap();
        let base = *[0, (1 << 31) - 50, (1 << 63) - 50, u64::MAX - 50].choose(&mut rng).unwrap();
        let mut keys: Vec<K> = values(&mut rng, len, base, universe);
        if case % 4 == 0 {
            keys = run(keys);
        }
        let expected: Vec<K> = keys.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        sort_distinct(Simd::detect(), &mut keys, &mut scratch);
        assert_eq!(keys, expected, "{case}");
    }
}

#[test]
fn values_in_any_order_become_runs() {
    check_sorts::<u32>(9);
    check_sorts::<i32>(10);
    check_sorts::<u64>(11);
    check_sorts::<i64>(12);
}

#[test]
fn ranks_keep_the_order() {
    let signed = [i64::MIN, -1, 0, 1, i64::MAX];
    assert!(signed.is_sorted_by_key(|key| key.rank()));
    assert_eq!(signed.map(|key| i64::of_rank(key.rank())), signed);
    assert_eq!(
        [i32::MIN, 7, i32::MAX].map(|key| i32::of_rank(key.rank())),
        [i32::MIN, 7, i32::MAX]
    );
    assert_eq!(i32::not_negative(&[-4, -1, 0, 9]), [0, 9]);
    assert_eq!(i64::not_negative(&[i64::MIN, -1]), [0; 0]);
    assert_eq!(i64::not_negative(&[1, i64::MAX]), [1, u64::MAX >> 1]);
}
