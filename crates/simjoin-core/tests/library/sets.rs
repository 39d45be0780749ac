//! Joins of sets.

use simjoin_core::{Join, Measure, SelfPairs};

use crate::oracle::{Values, assert_join, assert_self_join};
use crate::random::{rng, sets};

pub const MEASURES: [(Measure, &[f64]); 6] = [
    (Measure::Jaccard, &[0.2, 0.5, 2.0 / 3.0, 1.0]),
    (Measure::Dice, &[0.5, 0.8]),
    (Measure::SetCosine, &[0.5, 0.9]),
    (Measure::Overlap, &[1.0, 3.0, 4.5]),
    (Measure::OverlapCoefficient, &[0.4, 1.0]),
    (Measure::Containment, &[0.3, 0.75, 1.0]),
];

const SELF_PAIRS: [SelfPairs; 3] = [SelfPairs::Once, SelfPairs::BothOrders, SelfPairs::All];

#[test]
fn joins_equal_nested_loops() {
    let mut rng = rng(1);
    let (left, right) = (sets(&mut rng, 320), sets(&mut rng, 190));
    for (measure, thresholds) in MEASURES {
        let values = Values::of_sets(measure, &left, &right);
        let exchanged = Values::of_sets(measure, &right, &left);
        for (nth, &threshold) in thresholds.iter().enumerate() {
            for strict in [false, true] {
                let threads = [1, 2, 5][(nth + usize::from(strict)) % 3];
                let join = Join::new(measure, threshold).threads(threads);
                let join = if strict { join.strict() } else { join };
                let what = format!("{measure} {threshold} {strict} on {threads} threads");
                let expected = values.pairs(measure, threshold, strict, None);
                assert_join(&join, [&left, &right], &expected, &what);
                let expected = exchanged.pairs(measure, threshold, strict, None);
                assert_join(&join, [&right, &left], &expected, &what);
            }
        }
    }
}

#[test]
fn self_joins_equal_nested_loops() {
    let rows = sets(&mut rng(2), 300);
    for (measure, thresholds) in MEASURES {
        let values = Values::of_sets(measure, &rows, &rows);
        for (&threshold, threads) in thresholds.iter().zip([5, 1, 2, 5]) {
            for wanted in SELF_PAIRS {
                let join = Join::new(measure, threshold).threads(threads).self_pairs(wanted);
                let expected = values.pairs(measure, threshold, false, Some(wanted));
                let what = format!("{measure} {threshold} {wanted:?} on {threads} threads");
                assert_self_join(&join, &rows, &expected, &what);
            }
        }
    }
}

#[test]
fn strategies_by_name_give_the_same_pairs() {
    let mut rng = rng(3);
    let (left, right) = (sets(&mut rng, 150), sets(&mut rng, 260));
    for (measure, thresholds) in MEASURES {
        let threshold = thresholds[1];
        let values = Values::of_sets(measure, &left, &right);
        let of_itself = Values::of_sets(measure, &right, &right);
        let strategies = Join::new(measure, threshold).strategies();
        assert!(strategies.contains(&"ppjoin") && strategies.contains(&"scancount"));
        for (nth, strategy) in strategies.into_iter().enumerate() {
            let join = Join::new(measure, threshold).threads([2, 1, 5][nth % 3]).strategy(strategy);
            let what = format!("{measure} by {strategy}");
            let expected = values.pairs(measure, threshold, false, None);
            assert_join(&join, [&left, &right], &expected, &what);
            let expected = of_itself.pairs(measure, threshold, false, Some(SelfPairs::Once));
            assert_self_join(&join, &right, &expected, &what);
        }
    }
}

/// Row `i` shares three elements of five with its neighbour, and nothing with any other row.
fn couples(rows: i64) -> Vec<Vec<i64>> {
    let row = |i: i64| {
        let couple = i / 2 * 3;
        vec![couple, couple + 1, 1_000_000 + i, couple + 2]
    };
    (0..rows).map(row).collect()
}

/// There are more items than a part of a self-join has, and more rows than a batch.
#[test]
fn columns_are_larger_than_a_unit() {
    let rows = couples(40_000);
    for threads in [1, 2] {
        let join = Join::new(Measure::Jaccard, 0.6).threads(threads);
        let pairs = join.self_join(&rows).unwrap();
        assert_eq!(pairs.len(), 20_000);
        for (nth, pair) in (0..).zip(&pairs) {
            assert_eq!((pair.left, pair.right, pair.score), (2 * nth, 2 * nth + 1, 0.6));
        }
        let pairs = join.join(&rows, &rows[..30_000].to_vec()).unwrap();
        assert_eq!(pairs.len(), 60_000);
        let right = |left: u32| [left / 2 * 2, left / 2 * 2 + 1];
        let rights: Vec<u32> = (0..30_000).flat_map(right).collect();
        assert!(pairs.iter().map(|pair| pair.right).eq(rights));
    }
}

/// Pairs of equal rows are far more than the rows.
#[test]
fn duplicates_make_all_their_pairs() {
    let rows = vec![vec![7_u8, 8]; 700];
    let join = Join::new(Measure::Jaccard, 1.0).threads(3);
    assert_eq!(join.self_count(&rows).unwrap(), 700 * 699 / 2);
    assert_eq!(join.self_join(&rows).unwrap().len(), 700 * 699 / 2);
    assert_eq!(join.count(&rows, &rows).unwrap(), 700 * 700);
}

#[test]
fn texts_are_sets_of_words_and_of_grams() {
    let texts = [Some("The Raven"), Some("raven, THE"), None, Some(""), Some("ravens")];
    let by_words = Join::new(Measure::Jaccard, 0.9).words().self_join(&texts).unwrap();
    assert_eq!(by_words.iter().map(|pair| (pair.left, pair.right)).collect::<Vec<_>>(), [(0, 1)]);
    // "The", "he ", "e R", " Ra", "Rav", "ave", "ven" and "rav", "ave", "ven", "ens".
    let grams = Join::new(Measure::Overlap, 2.0).qgrams(3).join(&["The Raven"], &texts).unwrap();
    let found: Vec<_> = grams.iter().map(|pair| (pair.right, pair.score)).collect();
    assert_eq!(found, [(0, 7.0), (1, 2.0), (4, 2.0)]);
}
