//! Filters on the CPU, verification on a device: every layout, form and size of blocks, resident
//! and gathered sets, tiny chunks. Without a GPU the kernels run on the host.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::harness::{Drive, OnDevice, Sides, spec};
use super::shapes::{self, Shape};
use super::{Forced, NEEDS, thresholds};
use crate::config::GpuOptions;
use crate::cuda::Layout;
use crate::emulator::gpu;
use crate::measure::{Measure, Role};
use crate::strategy::{JoinSpec, JoinStrategy, MatchNeed, Pairing};

fn options(rng: &mut StdRng) -> GpuOptions {
    GpuOptions {
        candidate_memory: *[256, 1 << 10, 1 << 14, 1 << 20].choose(rng).unwrap(),
        // Nothing, next to nothing, and enough for the collection.
        memory_limit: *[Some(1), Some(1 << 16), None, None].choose(rng).unwrap(),
        layout: rng.random_bool(0.9).then(|| *Layout::ALL.choose(rng).unwrap()),
        block_size: rng.random_bool(0.9).then(|| *[32, 64, 128, 256].choose(rng).unwrap()),
    }
}

/// Holds a filter with verification on the device to the nested loop.
fn check(rng: &mut StdRng, sides: &Sides, mut spec: JoinSpec) -> usize {
    let expected = sides.expected(&spec);
    let strategy: &dyn JoinStrategy = &Forced::draw(rng);
    let needs = if spec.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
    spec.need = *needs.choose(rng).unwrap();
    spec.candidate_chunk = *[1, 5, 1000, 1000].choose(rng).unwrap();
    spec.gpu = options(rng);
    let drive = Drive {
        match_buffer: *[1, 7, 1000].choose(rng).unwrap(),
        range: *[3, 64, u32::MAX].choose(rng).unwrap(),
        retire: spec.need == MatchNeed::Exists && rng.random(),
        device: Some(OnDevice { ordinal: 0, demanded: rng.random() }),
    };
    sides.check(strategy, spec, drive, &expected);
    expected.len()
}

fn check_shapes(seed: u64, shapes: impl Fn(&mut StdRng) -> Vec<Shape>) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut matches = 0;
    for shape in shapes(&mut rng) {
        let two = Sides::two(&shape.name, &shape.build, &shape.probe);
        let itself = Sides::itself(&shape.name, &shape.build);
        for sides in [&two, &itself] {
            for measure in Measure::ALL {
                if sides.pairing == Pairing::Unordered && !measure.is_symmetric() {
                    continue;
                }
                let mut spec = spec(measure, 1.0, sides.pairing);
                spec.probe_role = *[Role::First, Role::Second].choose(&mut rng).unwrap();
                let values = sides.values(&spec);
                for threshold in thresholds(&mut rng, measure, &values) {
                    spec.bounds.threshold = threshold;
                    matches += check(&mut rng, sides, spec);
                }
            }
        }
    }
    assert!(matches > 1000, "only {matches} matches");
}

#[test]
fn repeated_sets_under_few_keys() {
    check_shapes(21, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
}

#[test]
fn sizes_around_words_and_warps() {
    check_shapes(22, |rng| vec![shapes::sizes(rng, 2500), shapes::sizes(rng, 100_000)]);
}

#[test]
fn zipfian_tokens() {
    check_shapes(23, |rng| vec![shapes::zipfian(rng, 6), shapes::zipfian(rng, 60)]);
}

#[test]
fn probe_sets_with_unknown_tokens() {
    check_shapes(24, |rng| vec![shapes::unknown(rng)]);
}

#[test]
fn dense_sets() {
    check_shapes(25, |rng| [2, 64, 300].map(|universe| shapes::dense(rng, universe)).into());
}
