//! Joins of vectors.

use simjoin_core::{Join, Measure, SelfPairs};

use crate::oracle::{Values, assert_join, assert_self_join};
use crate::random::{rng, vectors};

pub const MEASURES: [(Measure, &[f64]); 3] = [
    (Measure::Euclidean, &[0.0, 1.0, 6.0, f64::INFINITY]),
    (Measure::CosineDistance, &[0.001, 0.05, 1.0]),
    (Measure::InnerProduct, &[0.0, 200.0, f64::INFINITY]),
];

#[test]
fn joins_equal_nested_loops() {
    let mut rng = rng(6);
    for dimensions in [3, 33] {
        let (left, right) =
            (vectors(&mut rng, 150, dimensions), vectors(&mut rng, 210, dimensions));
        for (measure, thresholds) in MEASURES {
            let values = Values::of_vectors(measure, &left, &right);
            for (nth, &threshold) in thresholds.iter().enumerate() {
                for strict in [false, true] {
                    let threads = [1, 5, 2][(nth + usize::from(strict)) % 3];
                    let join = Join::new(measure, threshold).threads(threads);
                    let join = if strict { join.strict() } else { join };
                    let expected = values.pairs(measure, threshold, strict, None);
                    let what = format!("{measure} {threshold} {strict} of {dimensions}");
                    assert_join(&join, [&left, &right], &expected, &what);
                }
            }
        }
    }
}

#[test]
fn self_joins_by_every_strategy_equal_nested_loops() {
    let rows = vectors(&mut rng(7), 200, 8);
    for (measure, thresholds) in MEASURES {
        let values = Values::of_vectors(measure, &rows, &rows);
        let threshold = thresholds[1];
        for wanted in [SelfPairs::Once, SelfPairs::BothOrders, SelfPairs::All] {
            let expected = values.pairs(measure, threshold, false, Some(wanted));
            for (nth, strategy) in
                Join::new(measure, threshold).strategies().into_iter().enumerate()
            {
                let join = Join::new(measure, threshold).strategy(strategy).self_pairs(wanted);
                let what = format!("{measure} {threshold} {wanted:?} by {strategy}");
                assert_self_join(&join.threads([5, 1, 2][nth % 3]), &rows, &expected, &what);
            }
        }
    }
}
