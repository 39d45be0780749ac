//! Vectors far from most, of all norms, and with NaN: answers, and how few pairs products leave open.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::filters::{collection, spec};
use crate::engine::{Collection, MatchNeed, MatchSpec, Pairing, RowPairCounts, Strategy};
use crate::simd::Simd;
use crate::util::parallel::Threads;
use crate::vector::collection::Vectors;
use crate::vector::index::tests::{Found, expected, found, matches};
use crate::vector::join::VectorJoin;
use crate::vector::metric::{ArgumentOrder, Decision, Metric, Threshold};
use crate::vector::nan::NumberKind;
use crate::vector::strategies::{Directory, NestedLoop};
use crate::vector::tile::PANEL;
use crate::vector::width::Vector;

/// Which vectors are not as the others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Odd {
    None,
    /// The one at a place, times 1e9.
    One(usize),
    /// Every hundredth, times some 1e9.
    Hundredths,
    /// Norms from 1 to 1e6.
    Norms,
    /// A fifth has a NaN of this sign.
    Nan(f64),
    /// Ten clusters at distances of some 1e8, in turn.
    Clusters,
}

fn vectors(rng: &mut StdRng, count: usize, d: usize, odd: Odd) -> Vec<Vec<f64>> {
    let centres: Vec<f64> = (0..10 * d).map(|_| rng.random_range(-1e8..1e8)).collect();
    let mut vector = |i: usize| {
        // About normal.
        let unit = |rng: &mut StdRng| (0..6).map(|_| rng.random_range(-0.7..0.7)).sum::<f64>();
        let mut vector: Vec<f64> = (0..d).map(|_| unit(rng)).collect();
        let factor = match odd {
            Odd::One(place) if place == i => 1e9,
            Odd::Hundredths if i.is_multiple_of(100) => 1e9 * (1 + i) as f64,
            Odd::Norms => 10_f64.powf(rng.random_range(0.0..6.0)),
            _ => 1.0,
        };
        vector.iter_mut().for_each(|v| *v *= factor);
        match odd {
            Odd::Nan(sign) if i % 5 == 2 => vector[i % d] = f64::NAN.copysign(sign),
            Odd::Clusters => {
                // Rows of one cluster follow each other, as in an order.
                let centre = &centres[i * 10 / count * d..][..d];
                vector.iter_mut().zip(centre).for_each(|(v, c)| *v += c);
            }
            _ => {}
        }
        vector
    };
    (0..count).map(&mut vector).collect()
}

fn of(vectors: &[Vec<f64>]) -> Arc<Vectors> {
    collection(vectors.iter().map(|vector| (0, vector.clone())))
}

/// The value that some thousandths of the pairs reach.
fn threshold(vectors: &Vectors, metric: Metric) -> Threshold {
    let mut values = vec![];
    for x in (0..vectors.len()).step_by(3) {
        for y in (x + 1..vectors.len()).step_by(5) {
            if vectors.is_vector(x) && vectors.is_vector(y) {
                let value = metric.number(vectors.vector(x), vectors.vector(y));
                values.extend(value.filter(|value| value.is_finite()));
            }
        }
    }
    values.sort_by(f64::total_cmp);
    let place = values.len() / 500;
    let is_product = metric == Metric::InnerProduct;
    let bound = values[if is_product { values.len() - 1 - place } else { place }];
    Threshold::new(metric, bound)
}

/// Products decide nearly all pairs, wherever in the sample the odd vectors are: of floats and, of even
/// numbers of vectors, of bytes.
#[test]
fn odd_vectors_cost_their_own_pairs_alone() {
    let mut rng = StdRng::seed_from_u64(251);
    let odd = [
        Odd::None,
        Odd::One(0),
        Odd::One(7),
        Odd::One(303),
        Odd::Hundredths,
        Odd::Norms,
        Odd::Nan(1.0),
        Odd::Nan(-1.0),
        Odd::Clusters,
    ];
    for (place, odd) in odd.into_iter().enumerate() {
        for metric in Metric::ALL {
            // Vectors of an even number are joined by bytes.
            let count = 605 + (place + metric as usize) % 2;
            let given = vectors(&mut rng, count, 32, odd);
            let build = of(&given);
            let threshold = threshold(&build, metric);
            let pairs = expected(&build, &build, threshold);
            let halves: Vec<[u32; 2]> =
                pairs.iter().copied().filter(|pair| pair[0] >= pair[1]).collect();
            let of_all = matches(
                &NestedLoop,
                &build,
                &build,
                threshold,
                &spec(Simd::detect(), Pairing::All),
                Threads::small(2),
            );
            assert_eq!(of_all.0, pairs, "{odd:?} {metric:?}");
            for simd in Simd::tested() {
                let spec = spec(simd, Pairing::Unordered);
                let (found, funnel) =
                    matches(&NestedLoop, &build, &build, threshold, &spec, Threads::small(2));
                assert_eq!(found, halves, "{odd:?} {metric:?} {simd}");
                // Of clusters, and of panels with a vector far from most, pairs stay open.
                let all = (count * count / 2 + 2 * PANEL * count) as u64;
                let most = match (odd, metric) {
                    (Odd::Clusters, Metric::Euclidean) => all / 10,
                    (Odd::Clusters, _) => all,
                    (Odd::Hundredths, _) => all / 10,
                    _ => all / 20,
                };
                assert!(funnel.verified <= most, "{odd:?} {metric:?} {simd} {count} {funnel:?}");
            }
        }
    }
}

/// A vector far from all others is no reason to visit more of an index.
#[test]
fn far_points_do_not_widen_the_reach_of_others() {
    let mut rng = StdRng::seed_from_u64(252);
    let mut met = vec![];
    for odd in [Odd::None, Odd::One(17), Odd::Hundredths] {
        let build = of(&vectors(&mut rng, 2400, 3, odd));
        let threshold = Threshold::new(Metric::Euclidean, 0.1);
        let spec = spec(Simd::detect(), Pairing::All);
        let (found, funnel) = matches(
            &Directory as &dyn Strategy<VectorJoin>,
            &build,
            &build,
            threshold,
            &spec,
            Threads::small(1),
        );
        assert_eq!(found, expected(&build, &build, threshold));
        met.push(funnel.prefix_pairs);
    }
    assert!(met.iter().all(|met_of| *met_of < 2 * met[0]), "{met:?}");
}

/// The kind of both vectors says of the sign of NaN what the function computes, in both orders.
#[test]
fn the_sign_of_nan_is_that_of_the_function() {
    let mut rng = StdRng::seed_from_u64(253);
    let odd = [0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e200, -1e160, 5e-324];
    let (mut known, mut unknown, mut tame) = (0, 0, 0);
    for round in 0..6000 {
        let metric = Metric::ALL[round % 3];
        let d = *[1, 2, 3, 4, 7, 16, 33].choose(&mut rng).unwrap();
        let choices = rng.random_range(2..=odd.len());
        let mut vector = || {
            let mut vector: Vec<f64> = (0..d).map(|_| rng.random_range(-2.0..2.0)).collect();
            for _ in 0..rng.random_range(0..3) {
                vector[rng.random_range(0..d)] = odd[rng.random_range(0..choices)];
            }
            vector
        };
        let (x, y) = (vector(), vector());
        let bound = [0.5, f64::NEG_INFINITY, f64::INFINITY][round / 3 % 3];
        let threshold = Threshold::new(metric, bound);
        let wanted = [threshold.matches(&x, &y).unwrap(), threshold.matches(&y, &x).unwrap()];
        let what = || format!("{threshold:?} {x:?} {y:?} {wanted:?}");
        let both = ArgumentOrder::Both { exchanged: false };
        let decided = threshold.decide((&x).into(), (&y).into(), both).unwrap();
        let of_both = match wanted {
            [true, true] => Decision::Match,
            [true, false] => Decision::AsGiven,
            [false, true] => Decision::Exchanged,
            [false, false] => Decision::Neither,
        };
        assert_eq!(decided, of_both, "{}", what());
        for orders in [ArgumentOrder::Given, ArgumentOrder::Exchanged, both] {
            let [a, b] = [&x, &y].map(Vector::from);
            let asked = threshold.ask(&[[b, a], [a, b], [a, a]], orders).unwrap()[1];
            let wanted = match orders {
                ArgumentOrder::Given => [wanted[0]; 2],
                ArgumentOrder::Exchanged => [wanted[1]; 2],
                ArgumentOrder::Both { .. } => wanted,
            };
            assert_eq!(asked != Decision::Neither, wanted.contains(&true), "{}", what());
        }
        if metric.number((&x).into(), (&y).into()).is_some_and(f64::is_nan) {
            match threshold.decide_alone((&x).into(), (&y).into()) {
                Some(_) => known += 1,
                None => unknown += 1,
            }
        }
        // A vector with NaN of one sign, and a tame one with none or of the same.
        let kinds = [NumberKind::of((&x).into()), NumberKind::of((&y).into())];
        let has_value = metric.number((&x).into(), (&y).into()).is_some();
        if let Some(sign) = kinds[0].tame_sign()
            && (kinds[1].tame_sign() == Some(sign) || y.iter().all(|v| v.abs() < 1e100))
            && has_value
            && let Some(matches) = threshold.admits_nan(sign)
        {
            assert_eq!(wanted, [matches; 2], "{}", what());
            tame += 1;
        }
    }
    assert!(tame > 300, "{tame}");
    assert!(known > 1000 && unknown > 30, "{known} {unknown}");
}

/// Vectors of which all pairs match are counted by rows, and no pair is given.
#[test]
fn pairs_that_products_accept_are_counted_by_rows() {
    let mut rng = StdRng::seed_from_u64(254);
    for round in 0..24 {
        let (count, d) = (rng.random_range(40..400), [2, 17][round % 2]);
        let mut given = vectors(&mut rng, count, d, Odd::None);
        // Rows that repeat others.
        if round % 3 > 0 {
            for _ in 0..count / 2 {
                let row = given.choose(&mut rng).unwrap().clone();
                given.push(row);
            }
        }
        let metric = Metric::ALL[round % 3];
        let few = vec![given[0].clone(); 3];
        let build = of(&given);
        let probe = of(&[vectors(&mut rng, 60, d, Odd::None), few].concat());
        let bound = if metric == Metric::InnerProduct { -1e3 } else { [1e3, 1.5][round / 3 % 2] };
        let threshold = Threshold::new(metric, bound);
        for simd in Simd::tested() {
            for strategy in [&NestedLoop as &dyn Strategy<VectorJoin>, &Directory] {
                if strategy.name() != NestedLoop.name() && metric == Metric::InnerProduct {
                    continue;
                }
                for pairing in [Pairing::All, Pairing::Unordered] {
                    let probe = if pairing == Pairing::All { &probe } else { &build };
                    let spec = MatchSpec { need: MatchNeed::Count, ..spec(simd, pairing) };
                    let Found { pairs, counts, funnel } =
                        found(strategy, probe, &build, threshold, &spec, Threads::small(1));
                    let mut wanted = RowPairCounts::default();
                    let mut all = 0;
                    for [p, b] in expected(probe, &build, threshold) {
                        if pairing == Pairing::All || p >= b {
                            all += 1;
                            let groups = [probe.groups(), build.groups()];
                            wanted += RowPairCounts::of(pairing, groups, [p, b]);
                        }
                    }
                    assert_eq!((counts, pairs.len()), (wanted, 0), "{round} {simd} {pairing:?}");
                    assert_eq!(funnel.matches, all, "{round} {simd} {pairing:?}");
                }
            }
        }
    }
}

/// Where some pairs match in one order alone and are given, and the others are counted, a full buffer takes
/// no count away.
#[test]
fn counts_outlast_a_full_buffer() {
    let mut rng = StdRng::seed_from_u64(255);
    let mut given = vectors(&mut rng, 150, 5, Odd::None);
    for (row, vector) in given.iter_mut().enumerate() {
        match row % 10 {
            0 => vector[1] = f64::NAN,
            1 => vector[1] = -f64::NAN,
            _ => {}
        }
    }
    let build = of(&given);
    let threshold = Threshold::new(Metric::Euclidean, 2.0);
    let (mut wanted, mut one_order) = (RowPairCounts::default(), 0);
    for probe in 0..build.len() {
        for other in (0..=probe).filter(|&other| build.is_vector(other) && build.is_vector(probe)) {
            let (x, y) = (build.vector(probe), build.vector(other));
            let orders = [threshold.matches(x, y).unwrap(), threshold.matches(y, x).unwrap()];
            match orders {
                [true, true] => {
                    let (groups, pair) = ([build.groups(); 2], [probe, other]);
                    wanted += RowPairCounts::of(Pairing::Unordered, groups, pair);
                }
                [false, false] => {}
                _ => one_order += 1,
            }
        }
    }
    assert!(one_order > 50 && wanted.cross > 1000, "{one_order} {wanted:?}");
    for match_buffer in [1, 3, 1000] {
        let spec = MatchSpec {
            need: MatchNeed::Count,
            match_buffer,
            ..spec(Simd::detect(), Pairing::Unordered)
        };
        let Found { pairs, counts, .. } =
            found(&NestedLoop, &build, &build, threshold, &spec, Threads::small(1));
        assert_eq!((pairs.len(), counts), (one_order, wanted), "{match_buffer}");
    }
}
