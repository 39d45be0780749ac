//! The line of norms against the functions' own values.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::engine::{ANYWHERE, Axis};
use crate::predicate::Side;
use crate::vector::axis::NormAxis;
use crate::vector::metric::{Metric, Threshold};

/// Vectors of every norm: multiples of a few, so that norms differ by a distance exactly; rounded and
/// underflowing ones, and what is not finite.
fn vectors(rng: &mut StdRng, count: usize, d: usize) -> Vec<Vec<f64>> {
    let magnitude = *[1.0, 1e-3, 1e30, 1e-30, 5e-324, 1e-160, 1e-162, 1e149, 1e150, 3e-155]
        .choose(rng)
        .unwrap();
    let mut vectors: Vec<Vec<f64>> = vec![];
    for _ in 0..count {
        let direction: Vec<f64> = match rng.random_range(0..3) {
            // Along an axis.
            0 => (0..d).map(|i| f64::from(u8::from(i == 0))).collect(),
            1 => vec![1.0; d],
            _ => (0..d).map(|_| rng.random_range(-1.0..1.0)).collect(),
        };
        let factor = match rng.random_range(0..4) {
            0 => f64::from(rng.random_range(0..20_u32)),
            1 => rng.random_range(0.0..4.0),
            2 => rng.random_range(0.0..4000.0),
            _ => 10_f64.powi(rng.random_range(-9..9)),
        };
        let mut vector: Vec<f64> = direction.iter().map(|v| v * factor * magnitude).collect();
        match rng.random_range(0..60) {
            0 => vector[0] = f64::NAN,
            1 => vector[d - 1] = -f64::NAN,
            2 => vector[0] = f64::INFINITY,
            3 => vector[d - 1] = f64::NEG_INFINITY,
            4 => vector[0] = 1e200,
            5 => vector.iter_mut().for_each(|v| *v = v.next_up()),
            _ => {}
        }
        vectors.push(vector);
    }
    vectors
}

/// Whether rows at these positions meet.
fn meet(axis: &NormAxis, [a, b]: [u32; 2]) -> bool {
    if axis.has_anywhere() && (a == ANYWHERE || b == ANYWHERE) {
        return true;
    }
    let reach = axis.reach(Side::Left, a..a + 1);
    reach.is_some_and(|reach| reach.contains(&u64::from(b)))
}

#[test]
fn partners_lie_within_reach() {
    let mut rng = StdRng::seed_from_u64(41);
    let (mut matches, mut apart) = (0, 0);
    for round in 0..600_usize {
        let d = [1, 2, 3, 16, 130][round % 5];
        let all = vectors(&mut rng, 40, d);
        let metric = Metric::ALL[round % 3];
        let (x, y) = (all.choose(&mut rng).unwrap(), all.choose(&mut rng).unwrap());
        let value = metric.value(x, y).unwrap().unwrap_or(0.5);
        let bound = match rng.random_range(0..5) {
            0 => value.abs(),
            1 => value.next_down(),
            // What the norms differ by, which is the distance of vectors of one direction.
            2 => (metric.value(x, &vec![0.0; d]).unwrap().unwrap_or(0.1)
                - metric.value(y, &vec![0.0; d]).unwrap().unwrap_or(0.1))
            .abs(),
            3 => 0.0,
            _ => value,
        };
        let threshold = Threshold::new(metric, bound);
        let axis = NormAxis::new(threshold, d as u64);
        let positions: Vec<u32> = all.iter().map(|vector| axis.position(vector)).collect();
        for (x, &a) in all.iter().zip(&positions) {
            assert!(a > 0);
            for (y, &b) in all.iter().zip(&positions) {
                let is_match = threshold.matches(x, y).unwrap() || threshold.matches(y, x).unwrap();
                let may_meet = meet(&axis, [a, b]);
                assert!(may_meet || !is_match, "{threshold:?} {a} {b}\n{x:?}\n{y:?}");
                matches += usize::from(is_match);
                apart += usize::from(!may_meet);
            }
        }
        // The reach of some holds that of each, and those of classes end anywhere.
        for _ in 0..40 {
            let start = *positions.choose(&mut rng).unwrap();
            let end = start.saturating_add(1 << rng.random_range(0..31));
            let reach = axis.reach(Side::Left, start..end);
            for &position in positions.iter().filter(|p| (start..end).contains(p)) {
                if axis.has_anywhere() && position == ANYWHERE {
                    continue;
                }
                let own = axis.reach(Side::Right, position..position + 1).unwrap();
                let reach = reach.clone().unwrap();
                assert!(reach.start <= own.start && own.end <= reach.end, "{reach:?} {own:?}");
            }
        }
    }
    assert!(matches > 20_000 && apart > 50_000, "{matches} {apart}");
}

/// A position never falls while the norm rises, and there are few of them.
#[test]
fn positions_rise_with_the_norm() {
    for (metric, bound) in [
        (Metric::Euclidean, 0.5),
        (Metric::Euclidean, 0.0),
        (Metric::Euclidean, 1e140),
        (Metric::Euclidean, 5e-324),
        (Metric::InnerProduct, 2.0),
        (Metric::InnerProduct, 1e-200),
    ] {
        let axis = NormAxis::new(Threshold::new(metric, bound), 1);
        assert!(axis.has_anywhere());
        let mut last = 1;
        for exponent in -3230..1495 {
            let position = axis.position(&[10_f64.powf(f64::from(exponent) / 10.0)]);
            assert!((last..1 << 20).contains(&position), "{metric:?} {bound} {exponent}");
            last = position;
        }
        assert_eq!(axis.position(&[0.0]), 1);
        assert_eq!(axis.position(&[0.0; 0]), 1);
        for vector in [[f64::NAN, 0.0], [1e151, 0.0], [0.0, f64::NEG_INFINITY]] {
            assert_eq!(axis.position(&vector), ANYWHERE);
        }
    }
    for (metric, bound) in [
        (Metric::Cosine, 0.1),
        (Metric::Euclidean, f64::INFINITY),
        (Metric::Euclidean, f64::NAN),
        (Metric::InnerProduct, 0.0),
        (Metric::InnerProduct, -1.0),
        (Metric::InnerProduct, f64::NAN),
    ] {
        let axis = NormAxis::new(Threshold::new(metric, bound), 1);
        assert!(!axis.has_anywhere());
        assert_eq!([1.0, 1e9, f64::NAN].map(|v| axis.position(&[v])), [1; 3]);
        assert_eq!(axis.reach(Side::Left, 1..2), Some(1..2));
    }
}
