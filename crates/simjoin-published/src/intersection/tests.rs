//! Every technique against merges on the host: equal, empty and tiny sets, skew, dense and spread
//! values up to the greatest one. Without a GPU the kernels run on the host.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use simjoin_gpu::runtime::Device;

use super::{PinnedSets, Technique, TechniqueSettings, overlaps};
use crate::emulator::gpu;
use crate::harness::sets::rounds;
use crate::set::intersection::size;
use crate::simd::Simd;
use crate::util::parallel::Threads;

/// Cases of each technique in a round.
const CASES: usize = 60;

/// Ascending different values, of which `near` are common with another set.
fn values(rng: &mut StdRng, first: u32, last: u32, count: usize, near: &[u32]) -> Vec<u32> {
    let mut values: Vec<u32> = (0..count).map(|_| rng.random_range(first..=last)).collect();
    let shared = rng.random_range(0..=near.len());
    values.extend(near.choose_multiple(rng, shared));
    // The ends of the universe now and then.
    if rng.random_bool(0.2) {
        values.extend([first, last]);
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// A few sets.
fn sets(rng: &mut StdRng, technique: Technique) -> Vec<Vec<u32>> {
    let spread = *[30, 3000, 20_000].choose(rng).unwrap();
    // Techniques whose memory grows with the universe begin at 0.
    let compact = matches!(technique, Technique::Bitmap | Technique::Bitmaps | Technique::Postings);
    let first = match rng.random_range(0..3) {
        0 if !compact => u32::MAX - spread,
        1 if !compact => rng.random_range(0..u32::MAX - spread),
        _ => 0,
    };
    let last = first + spread;
    let most = if rng.random_bool(0.5) { 2 } else { 8 };
    let count = rng.random_range(2..=most);
    let mut sets: Vec<Vec<u32>> = vec![];
    for _ in 0..count {
        let most = *[0, 1, 3, 500, 5000].choose(rng).unwrap();
        let wanted = rng.random_range(0..=most);
        let near = sets.last().cloned().unwrap_or_default();
        let set = match rng.random_range(0..8) {
            // Equal sets, and every value that there is.
            0 if !sets.is_empty() => near,
            1 => (first..=last).collect(),
            _ => values(rng, first, last, wanted, &near),
        };
        sets.push(set);
    }
    sets
}

fn tuning(rng: &mut StdRng) -> TechniqueSettings {
    if rng.random_bool(0.3) {
        return TechniqueSettings::default();
    }
    TechniqueSettings {
        parts: rng.random_range(0..7),
        threads: *[32, 64, 256].choose(rng).unwrap(),
        blocks: rng.random_range(0..3),
        buckets: *[2, 16, 64].choose(rng).unwrap(),
        capacity: rng.random_range(0..4),
        slice_words: *[0, 7, 200].choose(rng).unwrap(),
        rounds: rng.random_range(0..3),
    }
}

/// Holds a technique to the merges of the CPU.
fn check(technique: Technique, seed: u64) {
    if gpu().is_none() {
        return;
    }
    let device = Device::open(0).unwrap();
    for case in 0..CASES * rounds() {
        let mut rng = StdRng::seed_from_u64(seed << 32 | case as u64);
        let drawn = sets(&mut rng, technique);
        let tuning = tuning(&mut rng);
        let pinned = PinnedSets::new(&device, &drawn).unwrap();
        let found = overlaps(&device, &pinned, technique, tuning).unwrap();
        let mut expected = vec![];
        for second in 1..drawn.len() {
            let with = |first: usize| {
                size(Simd::detect(), &drawn[first], &drawn[second], Threads::small(1)) as u32
            };
            expected.extend((0..second).map(with));
        }
        assert_eq!(found.overlaps, expected, "{technique:?}, case {case}, {tuning:?}");
    }
}

#[test]
fn merge_path_tiles_are_exact() {
    check(Technique::Ours, 1);
}

#[test]
fn intersect_paths_are_exact() {
    check(Technique::IntersectPath, 2);
    check(Technique::PathAndSearches, 3);
    check(Technique::PathAndHashes, 4);
}

#[test]
fn searches_and_hashes_are_exact() {
    check(Technique::Searches, 5);
    check(Technique::Hashes, 6);
}

#[test]
fn bitmaps_are_exact() {
    check(Technique::Bitmaps, 7);
    check(Technique::Bitmap, 8);
}

#[test]
fn postings_are_exact() {
    check(Technique::Postings, 9);
}
