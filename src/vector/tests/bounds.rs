//! What products prove is true, for adversarial vectors and thresholds.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::vector::bounds::Frame;
use crate::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use crate::vector::metric::{Metric, Threshold};
use crate::vector::tile::{PANEL, Panels, ROW_UNIT, Rows, place_in_rows, products};

/// The vectors as the items of a collection, and the item of each.
fn collection(vectors: &[Vec<f64>]) -> Vectors {
    let mut read = ReadRows::default();
    for (row, vector) in (0..).zip(vectors) {
        let (start, len) = (read.numbers.len(), vector.len() as u32);
        read.rows.push(ReadRow { row, key: 0, content: Content::Vector, len, start });
        read.numbers.extend_from_slice(vector);
    }
    Vectors::of(&[&read], &CancelFlag::default()).unwrap()
}

fn number(rng: &mut StdRng, shape: usize) -> f64 {
    let unit = rng.random_range(-1.0..1.0);
    match shape {
        0 => unit,
        1 => f64::from(rng.random_range(-3_i8..=3)),
        // Far from the origin, near each other.
        2 => 1e6 + unit * 1e-3,
        3 => unit * 10_f64.powi(rng.random_range(-30..=30)),
        4 => unit * f64::MIN_POSITIVE * rng.random_range(0.0..4.0),
        5 => f64::from(unit as f32) * 1e-42,
        6 => unit * 1e153,
        _ => *[0.0, -0.0, 1.0, f64::INFINITY, f64::NAN, 5e-324, 1e300, -1e160].choose(rng).unwrap(),
    }
}

/// Build and probe vectors, some of them near each other.
fn sides(rng: &mut StdRng, shape: usize, d: usize) -> [Vec<Vec<f64>>; 2] {
    let vector = |rng: &mut StdRng| (0..d).map(|_| number(rng, shape)).collect::<Vec<_>>();
    let build: Vec<_> = (0..40).map(|_| vector(rng)).collect();
    let probe = (0..24).map(|i| match i % 3 {
        0 => vector(rng),
        _ => {
            let mut near = build.choose(rng).unwrap().clone();
            let place = rng.random_range(0..d);
            near[place] += number(rng, shape) * 2_f64.powi(rng.random_range(-60..=0));
            near
        }
    });
    let probe = probe.collect();
    [build, probe]
}

/// No product rejects a pair that matches or accepts one that does not, for every form of the kernel,
/// where thresholds are values of pairs or lie beside them.
#[test]
fn products_prove_only_what_is_true() {
    let mut rng = StdRng::seed_from_u64(15);
    let mut proven = [[0_u64; 3]; 8];
    for round in 0..960 {
        let (shape, metric) = (round % 8, Metric::ALL[round / 8 % 3]);
        let d = *[1, 2, 3, 8, 31, 130].choose(&mut rng).unwrap();
        let [build, probe] = sides(&mut rng, shape, d);
        let (x, y) = (probe.choose(&mut rng).unwrap(), build.choose(&mut rng).unwrap());
        let value = metric.value(x, y).unwrap().filter(|v| v.is_finite()).unwrap_or(0.5);
        let bound = match round % 5 {
            0 => value,
            1 => value.next_up(),
            2 => value.next_down(),
            3 => value * (1.0 + 1e-7),
            _ => value * 1.5,
        };
        let threshold = Threshold { metric, bound };
        let (build, probe) = (collection(&build), collection(&probe));
        let frame = Frame::of(&build, threshold, &CancelFlag::default()).unwrap();
        let panels = (build.len() as usize).div_ceil(PANEL);
        let (stride, items) = (d * PANEL, panels * PANEL);
        let mut numbers = vec![0.0; panels * stride];
        let (mut reject, mut accept) = (vec![f32::INFINITY; items], vec![f32::INFINITY; items]);
        for item in 0..build.len() {
            let i = item as usize;
            let to = numbers[i / PANEL * stride..][..stride].iter_mut();
            let bounds = frame.build(&build, item, to.skip(i % PANEL).step_by(PANEL));
            (reject[i], accept[i]) = (bounds.reject, bounds.accept);
        }
        let rows = (probe.len() as usize).next_multiple_of(ROW_UNIT);
        let mut own = vec![0.0; rows * d];
        let (mut row_reject, mut row_accept) = (vec![f32::INFINITY; rows], vec![0.0; rows]);
        let scale = frame.probe_scale((0..probe.len()).map(|item| probe.vector(item)));
        for item in 0..probe.len() {
            let i = item as usize;
            let to = own[place_in_rows(i, d)..].iter_mut().step_by(ROW_UNIT);
            let bounds = frame.probe(&probe, item, scale, to);
            (row_reject[i], row_accept[i]) = (bounds.reject, bounds.accept);
        }
        for &simd in Simd::available() {
            let mut found = vec![None; rows * items];
            let of_rows = Rows { dimensions: d, numbers: &own, reject: &row_reject };
            let of_panels = Panels { numbers: &numbers, stride, step: 1, reject: &reject };
            products(simd, of_rows, of_panels, panels, |row, vector, product| {
                assert!(found[row * items + vector].replace(product).is_none());
            });
            for p in 0..probe.len() {
                for b in 0..build.len() {
                    let matches = threshold.matches(probe.vector(p), build.vector(b)).unwrap();
                    let (row, vector) = (p as usize, b as usize);
                    let accepted = found[row * items + vector].map(|product| {
                        f64::from(product) > f64::from(row_accept[row]) + f64::from(accept[vector])
                    });
                    let what = || {
                        let (x, y) = (probe.vector(p), build.vector(b));
                        format!("round {round} {simd} {metric:?} {bound:e}\n{x:?}\n{y:?}")
                    };
                    match accepted {
                        None => assert!(!matches, "rejected: {}", what()),
                        Some(true) => assert!(matches, "accepted: {}", what()),
                        Some(false) => {}
                    }
                    proven[shape][accepted.map_or(0, |accepted| 1 + usize::from(accepted))] += 1;
                }
            }
        }
    }
    // On numbers of usual range the products decide nearly all pairs.
    for [rejected, open, accepted] in &proven[..2] {
        assert!(rejected + accepted > 20 * open, "{proven:?}");
    }
}
