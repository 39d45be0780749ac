//! Memory limits, cancellation, and callbacks that stop.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use simjoin_core::{CancelFlag, Column, Error, Join, Measure, Nearest, Pairs};

use crate::random::{rng, sets, texts, vectors};

/// Asserts that a search within any limit gives the same pairs or says that the limit is too low.
#[track_caller]
fn check_limits(
    what: &str,
    expected: &Pairs,
    search: impl Fn(usize) -> simjoin_core::Result<Pairs>,
) {
    let (mut refused, mut granted) = (0, 0);
    for limit in (0..24).map(|step| 1_usize << step).chain([(1 << 19) + 7, 3 << 18]) {
        match search(limit) {
            Ok(pairs) => {
                assert_eq!(&pairs, expected, "{what} within {limit}");
                granted += 1;
            }
            Err(error) => {
                assert!(error.is_out_of_memory(), "{what} within {limit}: {error}");
                let message = error.to_string();
                assert!(message.contains(&format!("limit of {limit} bytes")), "{message}");
                assert!(message.contains("memory_limit"), "{message}");
                refused += 1;
            }
        }
    }
    assert!(refused > 3 && granted > 1, "{what}: {refused} refused, {granted} granted");
}

fn check_join<C: Column>(measure: Measure, threshold: f64, rows: &C) {
    for threads in [1, 3] {
        let join = Join::new(measure, threshold).threads(threads);
        let expected = join.self_join(rows).unwrap();
        assert!(!expected.is_empty());
        let what = format!("{measure} on {threads} threads");
        check_limits(&what, &expected, |limit| join.clone().memory_limit(limit).self_join(rows));
        let expected = join.join(rows, rows).unwrap();
        check_limits(&what, &expected, |limit| join.clone().memory_limit(limit).join(rows, rows));
    }
}

#[test]
fn memory_limits_change_no_answer() {
    let mut rng = rng(11);
    check_join(Measure::Jaccard, 0.7, &sets(&mut rng, 500));
    check_join(Measure::Levenshtein, 1.0, &texts(&mut rng, 400, None));
    check_join(Measure::Euclidean, 0.9, &vectors(&mut rng, 400, 6));
}

#[test]
fn memory_limits_change_no_nearest_rows() {
    let mut rng = rng(12);
    let (sets, texts) = (sets(&mut rng, 200), texts(&mut rng, 150, None));
    let nearest = Nearest::new(Measure::Jaccard, 2).with_ties().threads(2);
    let expected = nearest.self_join(&sets).unwrap();
    check_limits("sets", &expected, |limit| nearest.clone().memory_limit(limit).self_join(&sets));
    let nearest = Nearest::new(Measure::JaroWinkler, 2).with_ties().threads(2);
    let expected = nearest.self_join(&texts).unwrap();
    check_limits("texts", &expected, |limit| nearest.clone().memory_limit(limit).self_join(&texts));
}

/// Pairs that are given away take no memory.
#[test]
fn a_callback_gets_more_pairs_than_fit_into_memory() {
    let rows = vec![vec![1, 2, 3]; 1_500];
    let join = Join::new(Measure::Jaccard, 1.0).memory_limit(2 << 20).threads(2);
    assert!(join.self_join(&rows).unwrap_err().is_out_of_memory());
    let mut pairs = 0;
    let ended = join.self_for_each(&rows, |batch| {
        pairs += batch.len();
        ControlFlow::<()>::Continue(())
    });
    assert!(ended.unwrap().is_continue());
    assert_eq!(pairs, 1_500 * 1_499 / 2);
}

#[test]
fn a_cancelled_search_ends_with_an_error() {
    let flag = CancelFlag::default();
    let sets = sets(&mut rng(13), 300);
    let join = Join::new(Measure::Jaccard, 0.3).cancel(&flag);
    assert!(join.self_count(&sets).is_ok() && !flag.is_cancelled());
    flag.cancel();
    for result in [join.self_count(&sets), join.count(&sets, &sets)] {
        let error = result.unwrap_err();
        assert!(matches!(error.root(), Error::Execution(m) if m.contains("cancelled")), "{error}");
    }
    let nearest = Nearest::new(Measure::Jaccard, 2).cancel(&flag).self_join(&sets);
    assert!(nearest.unwrap_err().to_string().contains("cancelled"));
}

/// The work would take minutes.
#[test]
fn cancelling_takes_effect_soon() {
    let texts: Vec<String> = (0..20_000).map(|i| format!("{:09}", i * 7_654_321_u64)).collect();
    for threads in [1, 2] {
        let flag = CancelFlag::default();
        let join = Join::new(Measure::Jaro, 0.1).threads(threads).cancel(&flag);
        let started = std::thread::scope(|scope| {
            let joining = scope.spawn(|| join.self_count(&texts));
            std::thread::sleep(Duration::from_millis(150));
            let started = Instant::now();
            flag.cancel();
            assert!(joining.join().unwrap().unwrap_err().to_string().contains("cancelled"));
            started
        });
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}

#[test]
fn a_callback_that_breaks_ends_the_join_with_its_value() {
    let rows = vec![vec![1]; 2_000];
    for threads in [1, 5] {
        let mut calls = 0;
        let join = Join::new(Measure::Jaccard, 1.0).threads(threads).batch_pairs(10);
        let ended = join.for_each(&rows, &rows, |pairs| {
            calls += 1;
            if calls == 3 { ControlFlow::Break(pairs.len()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(ended.unwrap(), ControlFlow::Break(10));
        assert_eq!(calls, 3);
    }
}

#[test]
fn batches_of_any_size_may_be_asked_for() {
    let rows = vec![vec![1_u32, 2]; 50];
    for pairs in [0, 1, 1 << 40, usize::MAX] {
        let join = Join::new(Measure::Jaccard, 1.0).batch_pairs(pairs).memory_limit(1 << 30);
        assert_eq!(join.self_join(&rows).unwrap().len(), 50 * 49 / 2, "{pairs}");
    }
}

#[test]
fn a_callback_that_panics_is_not_called_again() {
    let rows = vec![vec![1_u32, 2]; 2_000];
    let calls = AtomicUsize::new(0);
    let join = Join::new(Measure::Jaccard, 1.0).threads(7).batch_pairs(10);
    let joined = std::panic::catch_unwind(AssertUnwindSafe(|| {
        join.self_for_each(&rows, |_| -> ControlFlow<()> {
            calls.fetch_add(1, Ordering::Relaxed);
            panic!("a mistake of the caller")
        })
    }));
    assert!(joined.is_err());
    assert_eq!(calls.into_inner(), 1);
}
