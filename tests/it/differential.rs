//! Seeded random joins against the oracle.
//!
//! Each test walks over every threshold of one measure, at the threshold and one unit in the
//! last place to either side, and draws everything else: join type, tables, token types, list
//! layouts, batches, partitions, residual and equality conjuncts, literal, output and options.

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::case::Case;
use crate::oracle::Measure;

/// Cases drawn for each threshold: 4, or as many as `SIMJOIN_TEST_CASES` says.
fn cases() -> u64 {
    let wanted = std::env::var("SIMJOIN_TEST_CASES");
    wanted.map_or(4, |n| n.parse().expect("SIMJOIN_TEST_CASES is a number"))
}

fn thresholds(measure: Measure) -> Vec<f64> {
    let mut thresholds = match measure {
        Measure::Overlap => vec![1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 100.0],
        _ => vec![1.0, 0.9, 0.875, 0.8, 0.75, 2.0 / 3.0, 0.6, 0.5, 1.0 / 3.0, 0.1, 1e-9, 1.5],
    };
    if measure == Measure::Cosine {
        thresholds.extend([2.0 / 6_f64.sqrt(), 3.0 / 12_f64.sqrt(), 1.0 / 2_f64.sqrt()]);
    }
    let shifted = thresholds.iter().flat_map(|t| [t.next_down(), *t, t.next_up()]);
    shifted.chain([f64::MIN_POSITIVE]).collect()
}

/// Every other threshold with its number: the first one, or the second.
fn every_other(measure: Measure, first: u64) -> impl Iterator<Item = (usize, f64)> {
    let all = thresholds(measure).into_iter().enumerate();
    all.skip(first as usize % 2).step_by(2)
}

async fn compare_with_the_oracle(measure: Measure, base: u64) {
    let mut total = 0;
    for (cell, threshold) in thresholds(measure).into_iter().enumerate() {
        let (mut matches, mut others) = (0, 0);
        for case in 0..cases() {
            let seed = base * 1_000_000 + cell as u64 * 1_000 + case;
            let mut rng = StdRng::seed_from_u64(seed);
            let (m, o) = Case::draw(&mut rng, measure, threshold).check(seed).await;
            matches += m;
            others += o;
        }
        assert!(others > 0, "{measure:?} {threshold:?} rejected no pair");
        total += matches;
    }
    assert!(total >= 500, "{measure:?} had only {total} matches");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jaccard_joins_equal_the_oracle() {
    compare_with_the_oracle(Measure::Jaccard, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dice_joins_equal_the_oracle() {
    compare_with_the_oracle(Measure::Dice, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cosine_joins_equal_the_oracle() {
    compare_with_the_oracle(Measure::Cosine, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlap_joins_equal_the_oracle() {
    compare_with_the_oracle(Measure::Overlap, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlap_coefficient_joins_equal_the_oracle() {
    compare_with_the_oracle(Measure::OverlapCoefficient, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containment_joins_equal_the_oracle() {
    compare_with_the_oracle(Measure::Containment, 6).await;
}

/// The same by tasks that share nothing: a case for every other threshold, a quarter of what
/// `SIMJOIN_TEST_CASES` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_by_tasks_equal_the_oracle() {
    for (measure, base) in Measure::ALL.into_iter().zip(21..) {
        let mut total = 0;
        for (cell, threshold) in every_other(measure, base) {
            for case in 0..cases().div_ceil(4) {
                let seed = base * 1_000_000 + cell as u64 * 1_000 + case;
                let mut rng = StdRng::seed_from_u64(seed);
                let case = Case::draw(&mut rng, measure, threshold).on_tasks(&mut rng);
                total += case.check(seed).await.0;
            }
        }
        assert!(total >= 50, "{measure:?} had only {total} matches");
    }
}

/// The same on a GPU, or its emulator: a case for every other threshold, a quarter of what
/// `SIMJOIN_TEST_CASES` says.
#[cfg(unix)]
async fn compare_on_a_device(measure: Measure, base: u64) {
    use crate::emulator::{Gpu, gpu};

    let Some(gpu) = gpu() else { return };
    let lease = match gpu {
        Gpu::Real => None,
        Gpu::Emulated(emulator) => Some(emulator.device()),
    };
    let ordinal = lease.as_ref().map_or(0, |device| device.ordinal());
    let mut total = 0;
    for (cell, threshold) in every_other(measure, base) {
        for case in 0..cases().div_ceil(4) {
            let seed = base * 1_000_000 + cell as u64 * 1_000 + case;
            let mut rng = StdRng::seed_from_u64(seed);
            let case = Case::draw(&mut rng, measure, threshold).on_device(&mut rng, ordinal);
            total += case.check(seed).await.0;
        }
    }
    assert!(total >= 25, "{measure:?} had only {total} matches");
    if let Some(device) = &lease {
        assert!(device.stat("launches") > 10, "{measure:?} was hardly on the device");
    }
    simjoin_gpu::runtime::Device::close(ordinal);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_on_a_gpu_equal_the_oracle() {
    for (measure, base) in Measure::ALL.into_iter().zip(11..) {
        compare_on_a_device(measure, base).await;
    }
}
