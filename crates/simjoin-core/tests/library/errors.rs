//! Wrong questions.

use simjoin_core::{Column, Error, Join, Measure, Nearest, Result};

#[track_caller]
fn assert_fails<T: std::fmt::Debug>(result: Result<T>, parts: &[&str]) {
    let error = result.unwrap_err();
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

fn joins<C: Column>(measure: Measure, threshold: f64, rows: &C) -> Result<u64> {
    Join::new(measure, threshold).self_count(rows)
}

#[test]
fn types_that_a_measure_does_not_take_are_named() {
    assert_fails(joins(Measure::Jaccard, 0.8, &["a b"]), &["jaccard", "Utf8", "word_tokens"]);
    assert_fails(joins(Measure::Jaccard, 0.8, &[vec![0.5_f64]]), &["jaccard", "Float64"]);
    assert_fails(joins(Measure::Levenshtein, 1.0, &[vec![1]]), &["levenshtein", "List"]);
    assert_fails(joins(Measure::Euclidean, 1.0, &[vec!["a"]]), &["array_distance", "List"]);
    assert_fails(joins(Measure::Euclidean, 1.0, &["a"]), &["array_distance", "Utf8"]);
    let mixed = Join::new(Measure::Jaccard, 0.8).join(&[vec![1]], &[vec!["a"]]);
    assert_fails(mixed, &["integer", "text"]);
}

#[test]
fn thresholds_by_which_all_pairs_match_are_refused() {
    let sets = [vec![1], vec![2]];
    for threshold in [0.0, -0.0, -1.0] {
        assert_fails(
            joins(Measure::Jaccard, threshold, &sets),
            &["jaccard", "all rows", "above 0"],
        );
    }
    assert_fails(joins(Measure::JaroWinkler, 0.0, &["a"]), &["jaro_winkler_similarity"]);
    assert_fails(joins(Measure::Levenshtein, 1e300, &["a"]), &["levenshtein"]);
    let strict = Join::new(Measure::Jaccard, 0.0).strict();
    assert_eq!(strict.self_count(&[vec![1, 2], vec![2]]).unwrap(), 1);
}

#[test]
fn thresholds_that_no_pair_reaches_match_nothing() {
    let (sets, texts, vectors) = ([vec![1], vec![1]], ["a", "a"], [[1.0], [1.0]]);
    assert_eq!(joins(Measure::Jaccard, 80.0, &sets).unwrap(), 0);
    assert_eq!(joins(Measure::Jaccard, f64::NAN, &sets).unwrap(), 0);
    assert_eq!(joins(Measure::Overlap, f64::INFINITY, &sets).unwrap(), 0);
    assert_eq!(joins(Measure::Levenshtein, -1.0, &texts).unwrap(), 0);
    assert_eq!(joins(Measure::Levenshtein, f64::NAN, &texts).unwrap(), 0);
    assert_eq!(joins(Measure::Jaro, 1.1, &texts).unwrap(), 0);
    assert_eq!(joins(Measure::Euclidean, f64::NAN, &vectors).unwrap(), 0);
    assert_eq!(joins(Measure::Euclidean, -0.5, &vectors).unwrap(), 0);
    assert_eq!(joins(Measure::Euclidean, -0.0, &vectors).unwrap(), 1);
}

#[test]
fn unknown_names_come_with_a_list() {
    let join = Join::new(Measure::Jaccard, 0.8).strategy("fastest");
    assert_fails(join.self_count(&[vec![1]]), &["fastest", "jaccard", "auto", "ppjoin"]);
    let nearest = Nearest::new(Measure::Levenshtein, 1).strategy("ppjoin");
    assert_fails(nearest.self_join(&["a"]), &["ppjoin", "levenshtein", "nested-loop"]);
    assert_fails("jacard".parse::<Measure>(), &["jacard", "jaccard"]);
    for measure in Measure::ALL {
        assert_eq!(measure.name().parse::<Measure>().unwrap(), measure);
        assert!(!Join::new(measure, 0.9).strategies().is_empty(), "{measure}");
    }
}

#[test]
fn numbers_of_zero_are_refused() {
    assert_fails(Join::new(Measure::Jaccard, 0.8).qgrams(0).self_count(&["a"]), &["q-grams"]);
    assert_fails(Nearest::new(Measure::Jaccard, 0).self_join(&[vec![1]]), &["at least 1"]);
}

#[test]
fn lengths_that_differ_are_an_error_where_they_meet() {
    let hamming = joins(Measure::Hamming, 1.0, &["abc", "abcd"]);
    assert!(matches!(hamming, Err(Error::Execution(_))), "{hamming:?}");
    assert_fails(hamming, &["hamming", "length"]);
    let euclidean = joins(Measure::Euclidean, 1.0, &[vec![1.0], vec![1.0, 2.0]]);
    assert!(matches!(euclidean, Err(Error::Execution(_))), "{euclidean:?}");
    assert_fails(euclidean, &["array_distance", "length"]);
}
