//! Nested loops by products in `f32` and of bytes against the definition.

use std::sync::Arc;

use crate::engine::{MatchSpec, Orders, Pairing};
use crate::simd::Simd;
use crate::tuning::Tuning;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use crate::vector::index::tests::{expected, matches};
use crate::vector::metric::{Metric, Threshold};
use crate::vector::strategies::NestedLoop;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Vectors of keys, each key with a length of its own.
pub(super) fn collection(rows: impl Iterator<Item = (u32, Vec<f64>)>) -> Arc<Vectors> {
    let mut read = ReadRows::default();
    for (row, (key, vector)) in (0..).zip(rows) {
        let (start, len) = (read.numbers.len(), vector.len() as u32);
        let content = if row % 83 == 82 { Content::WithNull } else { Content::Vector };
        read.rows.push(ReadRow { row, key, content, len, start });
        if content == Content::Vector {
            read.numbers.extend(vector);
        }
    }
    Arc::new(Vectors::of(vec![read], &CancelFlag::default()).unwrap())
}

pub(super) fn spec(simd: Simd, pairing: Pairing) -> MatchSpec {
    MatchSpec {
        orders: Orders::of(pairing),
        candidate_chunk: 64,
        match_buffer: 100,
        simd,
        tuning: Tuning::small(),
        ..MatchSpec::default()
    }
}

/// A vector of `d` numbers, some of them not usual.
fn vector(rng: &mut StdRng, shape: usize, d: usize) -> Vec<f64> {
    let factor = if shape == 3 { 10_f64.powi(rng.random_range(-6..6)) } else { 1.0 };
    let mut vector: Vec<f64> = (0..d)
        .map(|_| match shape {
            0 => rng.random_range(0.0..1.0),
            1 => f64::from(rng.random_range(0_u8..200)),
            2 => 1e3 + f64::from(rng.random_range(0_u8..3)) + rng.random_range(0.0..0.1),
            _ => factor * rng.random_range(-1.0..1.0),
        })
        .collect();
    match rng.random_range(0..200) {
        0 => vector[0] = f64::NAN,
        1 => vector[d - 1] = f64::NEG_INFINITY,
        2 => vector[0] = 1e200,
        3 => vector.fill(0.0),
        // Far outside.
        4..8 => vector[d / 2] *= 1e4,
        _ => {}
    }
    vector
}

#[test]
fn every_filter_leaves_the_pairs_of_the_definition() {
    let mut rng = StdRng::seed_from_u64(161);
    let mut some = 0;
    for round in 0..48_usize {
        let (shape, metric) = (round % 4, Metric::ALL[round / 4 % 3]);
        // Vectors of three keys, whose panels touch; even numbers of them are bytes.
        let lens = [[3, 17, 5], [40, 9, 64], [4, 4, 131], [8, 1, 2]][round / 2 % 4];
        let count = 260 + rng.random_range(0..40);
        let draw = |rng: &mut StdRng, count: usize| {
            let keys = (0..count).map(|i| if i % 7 == 0 { 1 + i as u32 / 7 % 2 } else { 0 });
            let keys: Vec<u32> = keys.collect();
            keys.into_iter().map(|k| (k, vector(rng, shape, lens[k as usize]))).collect::<Vec<_>>()
        };
        let build = collection(draw(&mut rng, count).into_iter());
        let is_unordered = round % 5 == 0;
        let probe = match is_unordered {
            true => Arc::clone(&build),
            false => collection(draw(&mut rng, 130).into_iter()),
        };
        let values: Vec<f64> = (0..200)
            .filter_map(|_| {
                let (p, b) = (rng.random_range(0..probe.len()), rng.random_range(0..build.len()));
                let (x, y) = (probe.vector(p), build.vector(b));
                if x.len() != y.len() || x.len() == 0 {
                    return None;
                }
                metric.value(x, y).unwrap().filter(|value| value.is_finite())
            })
            .collect();
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let place = if metric == Metric::InnerProduct { 0.95 } else { 0.05 };
        let bound = sorted.get((sorted.len() as f64 * place) as usize).copied().unwrap_or(1.0);
        let threshold = Threshold::of_round(metric, bound, round);
        let mut pairs = expected(&probe, &build, threshold);
        let pairing = if is_unordered { Pairing::Unordered } else { Pairing::All };
        if is_unordered {
            pairs.retain(|pair| pair[0] >= pair[1]);
        }
        some += pairs.len();
        for simd in Simd::tested() {
            let spec = spec(simd, pairing);
            let (found, _) = matches(
                &NestedLoop,
                &probe,
                &build,
                threshold,
                &spec,
                Threads::small(1 + round % 3),
            );
            assert_eq!(found, pairs, "{round} {simd} {threshold:?} {}", build.len());
        }
    }
    assert!(some > 10_000, "{some}");
}

/// Where bytes tell nothing of the vectors of another input, which lie far away, products in `f32` do.
#[test]
fn vectors_far_from_the_sample_are_multiplied_in_floats() {
    let mut rng = StdRng::seed_from_u64(162);
    let d = 24;
    let mut cloud = |count: usize, at: f64| -> Vec<(u32, Vec<f64>)> {
        let point = |rng: &mut StdRng| {
            let mut point: Vec<f64> = (0..d).map(|_| rng.random_range(-1.0..1.0)).collect();
            point[3] += at;
            point
        };
        (0..count).map(|_| (0, point(&mut rng))).collect()
    };
    let build = collection(cloud(997, 0.0).into_iter());
    let probe = collection(cloud(300, 1000.0).into_iter());
    assert!(build.len().is_multiple_of(2));
    let middle = [build.vector(0), probe.vector(0)];
    let bound = Metric::Euclidean.value(middle[0], middle[1]).unwrap().unwrap();
    let threshold = Threshold::new(Metric::Euclidean, bound);
    let pairs = expected(&probe, &build, threshold);
    for simd in Simd::tested() {
        let spec = spec(simd, Pairing::All);
        let (found, funnel) =
            matches(&NestedLoop, &probe, &build, threshold, &spec, Threads::small(1));
        assert_eq!(found, pairs, "{simd}");
        // The first panels of a block.
        assert!(funnel.verified < funnel.prefix_pairs / 10, "{funnel:?}");
    }
    assert!(pairs.len() > 10_000, "{}", pairs.len());
}
