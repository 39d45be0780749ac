//! Joins of texts.

use simjoin_core::{Join, Measure, SelfPairs};

use crate::oracle::{Values, assert_join, assert_self_join};
use crate::random::{rng, texts};

pub const MEASURES: [(Measure, &[f64]); 7] = [
    (Measure::Levenshtein, &[0.0, 1.0, 2.5, 4.0]),
    (Measure::LevenshteinSimilarity, &[0.4, 0.8, 1.0]),
    (Measure::DamerauLevenshtein, &[1.0, 3.0]),
    (Measure::IndelSimilarity, &[0.5, 0.8]),
    (Measure::Hamming, &[1.0, 3.0]),
    (Measure::Jaro, &[0.6, 0.85]),
    (Measure::JaroWinkler, &[0.7, 0.9]),
];

/// Texts of one length for `hamming`, for which others are an error.
pub fn length(measure: Measure) -> Option<usize> {
    (measure == Measure::Hamming).then_some(6)
}

#[test]
fn joins_equal_nested_loops() {
    let mut rng = rng(4);
    for (measure, thresholds) in MEASURES {
        let left = texts(&mut rng, 170, length(measure));
        let right = texts(&mut rng, 120, length(measure));
        let values = Values::of_texts(measure, &left, &right);
        for (nth, &threshold) in thresholds.iter().enumerate() {
            for strict in [false, true] {
                let threads = [2, 5, 1][(nth + usize::from(strict)) % 3];
                let join = Join::new(measure, threshold).threads(threads);
                let join = if strict { join.strict() } else { join };
                let expected = values.pairs(measure, threshold, strict, None);
                let what = format!("{measure} {threshold} {strict} on {threads} threads");
                assert_join(&join, [&left, &right], &expected, &what);
            }
        }
    }
}

#[test]
fn self_joins_by_every_strategy_equal_nested_loops() {
    let mut rng = rng(5);
    for (measure, thresholds) in MEASURES {
        let rows = texts(&mut rng, 160, length(measure));
        let values = Values::of_texts(measure, &rows, &rows);
        let threshold = thresholds[1];
        for wanted in [SelfPairs::Once, SelfPairs::All] {
            let expected = values.pairs(measure, threshold, false, Some(wanted));
            for (nth, strategy) in
                Join::new(measure, threshold).strategies().into_iter().enumerate()
            {
                let join = Join::new(measure, threshold).strategy(strategy).self_pairs(wanted);
                let what = format!("{measure} {threshold} {wanted:?} by {strategy}");
                assert_self_join(&join.threads([1, 2, 5][nth % 3]), &rows, &expected, &what);
            }
        }
    }
}
