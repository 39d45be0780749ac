//! Vectors of integers of 8 bits, and what lies just beyond them.

use rand::prelude::*;
use simjoin_core::vector::metric::{Metric, Threshold};

use crate::emulator::{Emulator, gpu};
use crate::engine::GpuOptions;
use crate::engine::{MatchNeed, Pairing};
use crate::vector::abi::{NumberRange, RANGE_OFFSET};
use crate::vector::shape::{NumberType, VectorKernel};
use crate::vector::tests::harness::{Drive, Row, Sides};
use crate::vector::tests::{bound, drive, need, rounds};

/// The least and the greatest number, and the step from one to the next.
type Grain = (f64, f64, f64);

/// The grains that distances of integers decide, and the grains that their products decide.
const DISTANCES: [Grain; 5] = [
    (-128.0, 127.0, 1.0),
    (0.0, 255.0, 1.0),
    (0.0, 1.0, 1.0),
    (-2.0, 2.0, 1.0),
    (1000.0, 1255.0, 1.0),
];
const PRODUCTS: [Grain; 3] = [(-128.0, 127.0, 1.0), (0.0, 1.0, 1.0), (-2.0, 2.0, 1.0)];
/// The grains that halves decide.
const OTHERS: [Grain; 4] =
    [(0.0, 256.0, 1.0), (-129.0, 127.0, 1.0), (-3.0, 3.0, 0.5), (-1e6, 1e6, 1000.0)];

/// Numbers at the ends of a grain come more often, and at least once.
fn rows(rng: &mut StdRng, (least, greatest, step): Grain, d: usize, count: usize) -> Vec<Row> {
    let steps = ((greatest - least) / step) as i64;
    let keys = *[1, 1, 1, 4].choose(rng).unwrap();
    let mut rows: Vec<Row> = vec![];
    for place in 0..count {
        let number = |rng: &mut StdRng| match rng.random_range(0..16) {
            0 => least,
            1 => greatest,
            _ => least + step * rng.random_range(0..=steps) as f64,
        };
        let vector: Vec<f64> = match (place, rows.choose(rng)) {
            (0, _) => (0..d).map(|i| if i % 2 == 0 { least } else { greatest }).collect(),
            (1, _) => (0..d).map(|i| if i % 2 == 1 { least } else { greatest }).collect(),
            // Near to another one, so that distances are small.
            (_, Some((_, Some(near), _))) if rng.random() => {
                let mut vector = near.clone();
                for _ in 0..rng.random_range(0..3) {
                    *vector.choose_mut(rng).unwrap() = number(rng);
                }
                vector
            }
            _ => (0..d).map(|_| number(rng)).collect(),
        };
        let absent = place > 1 && rng.random_ratio(1, 16);
        rows.push((rng.random_range(0..keys), (!absent).then_some(vector), d as u32));
    }
    rows
}

/// Puts numbers into some rows that no column has.
fn spoil(rng: &mut StdRng, rows: &mut [Row]) {
    let kinds: [&[f64]; 4] = [
        &[0.5, -0.25, 1e-300, 3.0000001],
        &[300.0, -700.0, 1e6],
        &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e200, -1e-300],
        &[-0.0, 128.0, -129.0, 256.0],
    ];
    let kind = *kinds.choose(rng).unwrap();
    for (_, vector, _) in rows {
        for number in vector.iter_mut().flatten() {
            if rng.random_ratio(1, 40) {
                *number = *kind.choose(rng).unwrap();
            }
        }
    }
}

/// Two inputs, or one with itself.
fn sides(rng: &mut StdRng, grain: Grain, d: usize) -> Sides {
    let count = rng.random_range(2..if d > 40 { 90 } else { 300 });
    let build = rows(rng, grain, d, count);
    match rng.random_range(0..5) {
        0 | 1 => Sides::itself(&build, Pairing::Unordered),
        2 => Sides::itself(&build, Pairing::All),
        _ => {
            let other = *[grain, grain, OTHERS[0], OTHERS[2]].choose(rng).unwrap();
            let mut probe = rows(rng, other, d, count / 2 + 2);
            if rng.random() {
                spoil(rng, &mut probe);
            }
            Sides::two(&build, &probe)
        }
    }
}

/// Random joins of vectors of a grain, which the kernels read as `numbers`.
fn check(seed: u64, metric: Metric, grains: &[Grain], numbers: NumberType) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..rounds(6) {
        let grain = *grains.choose(&mut rng).unwrap();
        let d = *[1, 2, 5, 31, 32, 33, 64, 128, 288, 300].choose(&mut rng).unwrap();
        let sides = sides(&mut rng, grain, d);
        let bound = match bound(&mut rng, &sides, metric) {
            bound if bound.is_nan() => 1.0,
            bound => bound,
        };
        let threshold = Threshold::new(metric, bound);
        let expected = sides.expected(threshold);
        let need = need(&mut rng, &sides);
        let kernels = [VectorKernel::Warpgroups, VectorKernel::Warps];
        let kernel = Emulator::get().map(|_| *kernels.choose(&mut rng).unwrap());
        let drive = Drive { kernel, ..drive(&mut rng) };
        let what = format!(
            "round {round}, {grain:?}, {d} dimensions, {threshold:?}, {need:?}, {:?}, {drive:?}",
            sides.pairing
        );
        if kernel.is_some() {
            let spec = sides.spec(need, GpuOptions::default());
            let (join, _) = sides.open(threshold, &spec, drive).unwrap();
            // Of others, halves are quicker, or the only ones.
            let is_usual = (27..=288).contains(&d) || kernel == Some(VectorKernel::Warps);
            let numbers = if is_usual { numbers } else { NumberType::Halves };
            assert_eq!(join.settings.form.shape.numbers, numbers, "{what}");
        }
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        sides.check(need, &given, &expected, &what);
    }
}

#[test]
fn distances_of_integers() {
    check(91, Metric::Euclidean, &DISTANCES, NumberType::Integers);
}

#[test]
fn products_of_integers() {
    check(92, Metric::InnerProduct, &PRODUCTS, NumberType::Integers);
}

#[test]
fn distances_of_numbers_just_beyond() {
    check(93, Metric::Euclidean, &OTHERS, NumberType::Halves);
}

#[test]
fn products_of_numbers_just_beyond() {
    check(
        94,
        Metric::InnerProduct,
        &[DISTANCES[1], DISTANCES[4], OTHERS[0], OTHERS[2]],
        NumberType::Halves,
    );
}

#[test]
fn cosines_of_integers() {
    check(95, Metric::Cosine, &DISTANCES, NumberType::Halves);
}

/// Pairs on the threshold are decided without `f64` where sums of integers tell them apart.
#[test]
fn products_of_integers_are_not_compared() {
    if Emulator::get().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(96);
    let sides =
        Sides::two(&rows(&mut rng, PRODUCTS[1], 40, 200), &rows(&mut rng, PRODUCTS[1], 40, 100));
    let threshold = Threshold::new(Metric::InnerProduct, 12.0);
    let drive = Drive { kernel: Some(VectorKernel::Warpgroups), ..Drive::on(0) };
    let (given, _) = sides.run(threshold, MatchNeed::Count, drive).unwrap();
    let expected = sides.expected(threshold);
    assert!(expected.len() > 100, "{}", expected.len());
    sides.check(MatchNeed::Count, &given, &expected, "products");
    assert_eq!(given.funnel.verified, 0, "{:?}", given.funnel);
}

#[test]
fn centres_of_integers() {
    let centre = |least: i32, greatest: i32, metric| {
        let (below, above) = ((RANGE_OFFSET - least) as u32, (RANGE_OFFSET + greatest) as u32);
        NumberRange { below, above, ..NumberRange::default() }.centre(metric)
    };
    assert_eq!(centre(-128, 127, Metric::Euclidean), Some(0));
    assert_eq!(centre(0, 255, Metric::Euclidean), Some(128));
    assert_eq!(centre(0, 255, Metric::InnerProduct), None);
    assert_eq!(centre(-129, 126, Metric::Euclidean), Some(-1));
    assert_eq!(centre(-129, 127, Metric::Euclidean), None);
    assert_eq!(centre(7, 7, Metric::InnerProduct), Some(0));
    assert_eq!(centre(1_000_000, 1_000_255, Metric::Euclidean), Some(1_000_128));
    let others = NumberRange { below: 1, above: 1, others: 1, reserved: 0 };
    assert_eq!(others.centre(Metric::Euclidean), None);
    assert_eq!(NumberRange::default().centre(Metric::Euclidean), None);
}
