//! Orders and boxes, against all pairs.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::OrderRequest;
use crate::engine::{Collection, MatchNeed, MatchSpec, Orders};
use crate::simd::Simd;
use crate::tuning::Tuning;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::boxes::{BOX_ITEMS, Boxes};
use crate::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use crate::vector::gather::VectorGathering;
use crate::vector::index::tests::{expected, matches};
use crate::vector::metric::{Metric, Threshold};
use crate::vector::strategies::NestedLoop;
use crate::vector::width::round;

/// Rows of vectors of `d` dimensions near a few centres, or anywhere; some are repeated, some are
/// unusual, some have another key.
fn rows(rng: &mut StdRng, count: usize, d: usize, shape: usize, keys: u32) -> Vec<ReadRows> {
    let mut parts = vec![ReadRows::default(), ReadRows::default(), ReadRows::default()];
    let latent = 3;
    let map: Vec<f64> = (0..latent * d).map(|_| rng.random_range(-1.0..1.0)).collect();
    let centres: Vec<[f64; 3]> =
        (0..12).map(|_| [0; 3].map(|_| rng.random_range(-10.0..10.0))).collect();
    let mut last: Vec<f64> = vec![0.5; d];
    let is_narrow = rng.random_bool(0.5);
    for row in 0..count as u32 {
        let centre = centres.choose(rng).unwrap().map(|c| c + rng.random_range(-0.4..0.4));
        let mut vector: Vec<f64> = (0..d)
            .map(|k| match shape {
                // Clusters, in numbers that are no `f32`.
                0 => (0..latent).map(|l| centre[l] * map[l * d + k]).sum(),
                // Whole numbers: many at the boundary, and equal vectors.
                1 => centre[k % latent].round(),
                // Far from the origin.
                2 => 1e6 + centre[k % latent] * 1e-3,
                3 => f64::from((centre[k % latent] * map[k]) as f32),
                _ => rng.random_range(-1.0..1.0),
            })
            .collect();
        match rng.random_range(0..400) {
            0 => vector[0] = f64::NAN,
            1 => vector[d - 1] = f64::INFINITY,
            2 => vector[0] = 1e200,
            3 => vector.fill(0.0),
            4 => vector.fill(-1e-320),
            5..40 => vector.clone_from(&last),
            _ => {}
        }
        if is_narrow {
            round(&mut vector);
        }
        last.clone_from(&vector);
        let key = if keys > 1 && row % 3 == 0 { 1 + row / 3 % (keys - 1) } else { 0 };
        let content = match rng.random_range(0..100) {
            0 => Content::WithNull,
            1 => Content::None,
            _ => Content::Vector,
        };
        let part = &mut parts[row as usize / 40 % 3];
        let (start, len) = (part.numbers.len(), d as u32);
        part.rows.push(ReadRow { row, key, content, len, start });
        if content == Content::Vector {
            part.numbers.extend(vector);
        }
    }
    parts
}

fn gathered(parts: &[ReadRows], order: Option<OrderRequest>, threads: Threads) -> Vectors {
    let cancel = CancelFlag::default();
    let how = VectorGathering { order, threads, cancel: &cancel, reserve: &|_| true };
    // Narrow parts, where they can be, among others.
    let narrow_some = |(number, part): (usize, ReadRows)| match number % 3 {
        1 => part,
        _ => part.narrowed(),
    };
    let parts = parts.iter().cloned().enumerate().map(narrow_some);
    Vectors::gather(parts.collect(), how).unwrap()
}

/// The rows of each key's vectors, by the bits of these.
fn content(vectors: &Vectors) -> Vec<(u32, Vec<u64>, Vec<u32>)> {
    let mut content: Vec<_> = (0..vectors.len())
        .map(|item| {
            let key = vectors.run_of(item).unwrap().key;
            let bits = vectors.vector(item).iter().map(|v| v.to_bits()).collect();
            (key, bits, vectors.groups().rows(item).to_vec())
        })
        .collect();
    content.sort_unstable();
    content
}

fn threshold(rng: &mut StdRng, vectors: &Vectors, metric: Metric) -> Threshold {
    let values = (0..40).filter_map(|_| {
        let [x, y] = [0; 2].map(|_| vectors.vector(rng.random_range(0..vectors.len())));
        if x.len() != y.len() {
            return None;
        }
        metric.value(x, y).unwrap().filter(|value| value.is_finite())
    });
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    // That of a pair, mostly a near one.
    let bound = values.get(values.len() / 10).copied().unwrap_or(0.1);
    Threshold::new(metric, [bound, bound * 0.5, bound.next_down()][rng.random_range(0..3)])
}

/// Groups that are apart hold no pair that matches.
fn check_boxes(vectors: &Vectors, boxes: &Boxes, threshold: Threshold) -> usize {
    let groups = vectors.len().div_ceil(BOX_ITEMS);
    assert_eq!(boxes.ends.len(), (groups * 2 * boxes.dims) as usize);
    let of_group = |group: u32| {
        let items = group * BOX_ITEMS..vectors.len().min((group + 1) * BOX_ITEMS);
        items.filter(|&item| vectors.is_vector(item)).map(|item| vectors.vector(item))
    };
    let mut apart = 0;
    for a in 0..groups {
        for b in (0..=a).filter(|&b| boxes.are_apart(a as usize, b as usize)) {
            apart += 1;
            for x in of_group(a) {
                for y in of_group(b).filter(|y| y.len() == x.len()) {
                    assert!(!threshold.matches(x, y).unwrap(), "{threshold:?}\n{x:?}\n{y:?}");
                }
            }
        }
    }
    apart
}

#[test]
fn boxes_part_only_what_does_not_match() {
    let mut rng = StdRng::seed_from_u64(151);
    let (mut apart, mut ordered) = (0, 0);
    for round in 0..40_usize {
        let (shape, d) = (round % 5, [2, 3, 8, 16, 17, 40][round % 6]);
        let metric = if round % 3 == 2 { Metric::Cosine } else { Metric::Euclidean };
        let count = [300, 1500, 2500][round % 3];
        let parts = rows(&mut rng, count, d, shape, [1, 3][round % 2]);
        let plain = gathered(&parts, None, Threads::small(1));
        assert!(plain.boxes().is_none());
        let threshold = threshold(&mut rng, &plain, metric);
        let request = OrderRequest { threshold, most_share: 1.0 };
        let vectors = gathered(&parts, Some(request), Threads::small(1));
        assert_eq!(content(&vectors), content(&plain), "round {round}");
        let others = gathered(&parts, Some(request), Threads::small(3));
        for (a, b) in [(&plain, &gathered(&parts, None, Threads::small(3))), (&vectors, &others)] {
            assert_eq!(a.len(), b.len());
            for item in 0..a.len() {
                let bits = |v: &Vectors| v.vector(item).iter().map(|v| v.to_bits()).collect();
                let [x, y]: [Vec<u64>; 2] = [bits(a), bits(b)];
                assert_eq!(x, y);
                assert_eq!(a.groups().rows(item), b.groups().rows(item));
            }
            let ends = |v: &Vectors| v.boxes().map(|boxes| (boxes.ends.clone(), boxes.limit));
            assert_eq!(ends(a), ends(b));
        }
        let Some(boxes) = vectors.boxes() else { continue };
        ordered += 1;
        apart += check_boxes(&vectors, boxes, threshold);
    }
    assert!(ordered > 20 && apart > 1000, "{ordered} {apart}");
}

/// A self-join that passes over panels by their boxes finds the pairs of the definition.
#[test]
fn panels_in_reach_hold_all_pairs() {
    let mut rng = StdRng::seed_from_u64(154);
    let (mut some, mut ordered) = (0, 0);
    for round in 0..24_usize {
        let (shape, d) = (round % 4, [2, 8, 17, 40][round % 5 % 4]);
        let metric = if round % 3 == 2 { Metric::Cosine } else { Metric::Euclidean };
        let parts = rows(&mut rng, [500, 1400][round % 2], d, shape, [1, 3][round / 2 % 2]);
        let threshold = threshold(&mut rng, &gathered(&parts, None, Threads::small(1)), metric);
        let request = OrderRequest { threshold, most_share: 1.0 };
        let vectors = Arc::new(gathered(&parts, Some(request), Threads::small(1)));
        ordered += usize::from(vectors.boxes().is_some());
        let mut pairs = expected(&vectors, &vectors, threshold);
        pairs.retain(|pair| pair[0] >= pair[1]);
        some += pairs.len();
        for simd in Simd::tested() {
            let spec = MatchSpec {
                orders: Orders::Unordered,
                candidate_chunk: 64,
                match_buffer: 100,
                simd,
                tuning: Tuning::small(),
                ..MatchSpec::default()
            };
            let (found, _) =
                matches(&NestedLoop, &vectors, &vectors, threshold, &spec, Threads::small(1));
            assert_eq!(found, pairs, "{round} {simd} {threshold:?} {d}");
        }
    }
    assert!(some > 1000 && ordered > 12, "{some} {ordered}");
}

/// Clusters of a few dimensions in many, and noise.
fn latent(rng: &mut StdRng, count: usize, d: usize) -> ReadRows {
    let latent = 8;
    let map: Vec<f64> = (0..latent * d).map(|_| rng.random_range(-1.0..1.0)).collect();
    let centres: Vec<Vec<f64>> =
        (0..20).map(|_| (0..latent).map(|_| rng.random_range(-3.0..3.0)).collect()).collect();
    let mut read = ReadRows::default();
    for row in 0..count as u32 {
        let centre = centres.choose(rng).unwrap();
        let place: Vec<f64> = centre.iter().map(|c| c + rng.random_range(-0.6..0.6)).collect();
        let (start, len) = (read.numbers.len(), d as u32);
        read.rows.push(ReadRow { row, key: 0, content: Content::Vector, len, start });
        read.numbers.extend((0..d).map(|k| {
            let mapped: f64 = (0..latent).map(|l| place[l] * map[l * d + k]).sum();
            mapped + rng.random_range(-0.02..0.02)
        }));
    }
    read
}

/// How many pairs are compared is a count, which needs no quiet machine.
#[test]
fn few_pairs_of_clusters_are_compared() {
    let mut rng = StdRng::seed_from_u64(155);
    let (count, d) = (8000, 32);
    let read = latent(&mut rng, count, d);
    let threshold = Threshold::new(Metric::Euclidean, 1.0);
    let vectors = Arc::new(gathered(&[read], Some(OrderRequest::of(threshold)), Threads::small(2)));
    let share = vectors.boxes().expect("an order").share;
    let spec = MatchSpec {
        orders: Orders::Unordered,
        need: MatchNeed::Count,
        candidate_chunk: 64,
        match_buffer: 1000,
        tuning: Tuning::small(),
        ..MatchSpec::default()
    };
    let (_, funnel) = matches(&NestedLoop, &vectors, &vectors, threshold, &spec, Threads::small(1));
    let all = (count * count) as f64 / 2.0;
    let compared = funnel.prefix_pairs as f64 / all;
    assert!(compared < 0.1 && f64::from(share) < 0.2, "{compared} {share}");
}

/// Vectors on the faces of their boxes, exactly as far from each other as the threshold allows, or a
/// little farther.
#[test]
fn partners_on_the_faces_of_boxes_are_in_reach() {
    let mut rng = StdRng::seed_from_u64(152);
    let mut apart = 0;
    for round in 0..8_usize {
        let d = [2, 5, 16, 24, 33][round % 5];
        // Two clouds, one of them moved by an exact distance along one axis.
        let side = if round % 2 == 0 { 1.0 } else { 0.3 };
        let far = [4.0, 4.3, 1e-3, 1e6][round % 4];
        let mut read = ReadRows::default();
        let mut cloud: Vec<Vec<f64>> = vec![];
        for _ in 0..128 {
            cloud.push((0..d).map(|_| side * far * rng.random_range(0.0..0.1)).collect());
        }
        let mut row = 0;
        for step in 0..8 {
            for vector in &cloud {
                let mut vector = vector.clone();
                vector[round % d] += far * f64::from(step);
                let (start, len) = (read.numbers.len(), d as u32);
                read.rows.push(ReadRow { row, key: 0, content: Content::Vector, len, start });
                read.numbers.extend(vector);
                row += 1;
            }
        }
        let moved = |x: &[f64]| {
            let mut y = x.to_vec();
            y[round % d] += far;
            y
        };
        let first = &cloud[0];
        let bound = Metric::Euclidean.value(first, &moved(first)).unwrap().unwrap();
        for bound in [bound, bound.next_down(), bound * (1.0 - 1e-6)] {
            let threshold = Threshold::new(Metric::Euclidean, bound);
            let request = OrderRequest { threshold, most_share: 1.0 };
            let vectors = gathered(std::slice::from_ref(&read), Some(request), Threads::small(2));
            let boxes = vectors.boxes().expect("boxes");
            apart += check_boxes(&vectors, boxes, threshold);
        }
    }
    assert!(apart > 1000, "{apart}");
}

#[test]
fn what_cannot_be_parted_keeps_its_order() {
    let mut rng = StdRng::seed_from_u64(153);
    let parts = rows(&mut rng, 2000, 24, 4, 1);
    let uniform = |metric, bound| {
        gathered(&parts, Some(OrderRequest::of(Threshold::new(metric, bound))), Threads::small(2))
    };
    assert!(uniform(Metric::InnerProduct, 0.5).boxes().is_none());
    assert!(uniform(Metric::Euclidean, f64::NAN).boxes().is_none());
    assert!(uniform(Metric::Euclidean, f64::INFINITY).boxes().is_none());
    assert!(uniform(Metric::Euclidean, 3.0).boxes().is_none());
    let clusters = rows(&mut rng, 2000, 24, 0, 1);
    let threshold = Threshold::new(Metric::Euclidean, 0.5);
    let vectors = gathered(&clusters, Some(OrderRequest::of(threshold)), Threads::small(2));
    assert!(vectors.boxes().is_some_and(|boxes| boxes.share < 0.5));
    let refused = VectorGathering {
        order: Some(OrderRequest::of(threshold)),
        threads: Threads::small(2),
        cancel: &CancelFlag::default(),
        reserve: &|_| false,
    };
    let vectors = Vectors::gather(clusters.to_vec(), refused).unwrap();
    assert!(vectors.boxes().is_none());
}

/// Vectors of one magnitude of norms are neighbours, in the order of their rows.
#[test]
fn inner_products_are_ordered_by_magnitudes() {
    let mut rng = StdRng::seed_from_u64(156);
    let mut ordered = 0;
    for round in 0..12_usize {
        let mut parts = rows(&mut rng, [300, 1500][round % 2], 5, 4, [1, 3, 300][round % 3]);
        for part in &mut parts {
            let scale = |number: &mut f64| *number *= 2_f64.powi(rng.random_range(-9..9));
            part.numbers.iter_mut().for_each(scale);
        }
        let plain = gathered(&parts, None, Threads::small(1));
        let request = OrderRequest::of(Threshold::new(Metric::InnerProduct, 1.0));
        for threads in [1, 3].map(Threads::small) {
            let vectors = gathered(&parts, Some(request), threads);
            assert_eq!(content(&vectors), content(&plain), "round {round}");
            let first_row = |vectors: &Vectors, item: u32| vectors.groups().rows(item)[0];
            let magnitude = |vectors: &Vectors, item: u32| {
                let square: f64 = vectors.vector(item).iter().map(|v| v * v).sum();
                match square {
                    0.0 => i32::MIN,
                    square if square < 1e300 => (square.log2().floor() as i32).div_euclid(2),
                    _ => i32::MAX,
                }
            };
            for run in &plain.runs {
                let mut expected: Vec<u32> = run.items.clone().collect();
                expected.sort_by_key(|&item| magnitude(&plain, item));
                ordered += usize::from(!expected.is_sorted());
                let expected = expected.iter().map(|&item| first_row(&plain, item));
                let found = run.items.clone().map(|item| first_row(&vectors, item));
                assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            }
        }
    }
    assert!(ordered > 12, "{ordered}");
}
