//! Searches for nearest rows.

use simjoin_core::tuning::Tuning;
use simjoin_core::{Column, Measure, Nearest, SelfPairs};

use crate::oracle::{Values, assert_nearest, assert_pairs};
use crate::random::{rng, sets, texts, vectors};
use crate::{sets, texts, vectors};

/// Asserts that searches of every kind equal the oracle, also where searches and rounds begin at few rows.
fn check<C: Column>(measure: Measure, sides: [&C; 2], values: &Values, itself: bool) {
    for tuning in [Tuning::default(), Tuning::small()] {
        check_by(tuning, measure, sides, values, itself);
    }
}

fn check_by<C: Column>(
    tuning: Tuning,
    measure: Measure,
    [left, right]: [&C; 2],
    values: &Values,
    itself: bool,
) {
    for (nth, k) in [1, 3, 1000].into_iter().enumerate() {
        let threads = [1, 2, 5][nth];
        let nearest = Nearest::new(measure, k).threads(threads).tuning(tuning);
        let find = |nearest: &Nearest| match itself {
            true => nearest.self_join(left).unwrap(),
            false => nearest.join(left, right).unwrap(),
        };
        let what = format!("{k} nearest by {measure}, of itself: {itself}, {tuning:?}");
        let expected = values.nearest(measure, k, true, itself);
        assert_pairs(&find(&nearest.clone().with_ties()), &expected, &what);
        let expected = values.nearest(measure, k, false, itself);
        assert_nearest(&find(&nearest), values, &expected, &what);
        if k == 3 {
            let is_set = sets::MEASURES.iter().any(|(set, _)| *set == measure);
            let strategy = if is_set { "allpairs" } else { "nested-loop" };
            let named = nearest.clone().strategy(strategy);
            assert_nearest(&find(&named), values, &expected, &format!("{what}, named"));
            // The middle one of all scores.
            let mut scores: Vec<f64> = expected.iter().map(|pair| pair.score).collect();
            scores.sort_by(f64::total_cmp);
            let Some(&within) = scores.get(scores.len() / 2) else { continue };
            let wanted = if itself { SelfPairs::BothOrders } else { SelfPairs::All };
            let pairs = values.pairs(measure, within, false, Some(wanted));
            let mut expected = expected;
            expected
                .retain(|pair| pairs.iter().any(|p| (p.left, p.right) == (pair.left, pair.right)));
            let found = find(&nearest.within(within));
            assert_nearest(&found, values, &expected, &format!("{what}, within {within}"));
        }
    }
}

#[test]
fn nearest_sets_equal_the_oracle() {
    let mut rng = rng(8);
    for (round, (measure, _)) in sets::MEASURES.into_iter().enumerate() {
        let (left, right) = (sets(&mut rng, 90), sets(&mut rng, 100 + round));
        check(measure, [&left, &right], &Values::of_sets(measure, &left, &right), false);
        check(measure, [&right, &right], &Values::of_sets(measure, &right, &right), true);
    }
}

#[test]
fn nearest_texts_equal_the_oracle() {
    let mut rng = rng(9);
    for (measure, _) in texts::MEASURES {
        let length = texts::length(measure);
        let (left, right) = (texts(&mut rng, 60, length), texts(&mut rng, 80, length));
        check(measure, [&left, &right], &Values::of_texts(measure, &left, &right), false);
        check(measure, [&right, &right], &Values::of_texts(measure, &right, &right), true);
    }
}

#[test]
fn nearest_vectors_equal_the_oracle() {
    let mut rng = rng(10);
    for (measure, _) in vectors::MEASURES {
        let (left, right) = (vectors(&mut rng, 80, 5), vectors(&mut rng, 110, 5));
        check(measure, [&left, &right], &Values::of_vectors(measure, &left, &right), false);
        check(measure, [&right, &right], &Values::of_vectors(measure, &right, &right), true);
    }
}

#[test]
fn columns_without_a_neighbour_give_none() {
    let nearest = Nearest::new(Measure::Jaccard, 2);
    let none: [Option<Vec<u32>>; 2] = [None, Some(vec![])];
    assert!(nearest.join(&none, &[vec![1_u32]]).unwrap().is_empty());
    assert!(nearest.join(&[vec![1_u32]], &none).unwrap().is_empty());
    let empty: [Vec<u32>; 0] = [];
    assert!(nearest.self_join(&empty).unwrap().is_empty());
    assert!(Nearest::new(Measure::Levenshtein, 1).self_join(&["alone"]).unwrap().is_empty());
}

/// The least bound of similarities leaves out the rows that fill lists without a bound.
#[test]
fn rows_without_similarity_are_not_within_the_least_bound() {
    for measure in [Measure::Jaro, Measure::JaroWinkler, Measure::IndelSimilarity] {
        let nearest = Nearest::new(measure, 2);
        let found = nearest.clone().within(f64::from_bits(1)).join(&["a"], &["b", "ab"]).unwrap();
        assert_eq!(found.iter().map(|pair| pair.right).collect::<Vec<_>>(), [1], "{measure}");
        for least in [0.0, -0.0, -1.0] {
            let found = nearest.clone().within(least).join(&["a"], &["b", "ab"]).unwrap();
            assert_eq!(found.len(), 2, "{measure} within {least}");
        }
    }
}
