//! Joins and nearest rows of the library of `simjoin-core` on devices: against the CPU.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use simjoin_core::{DeviceChoice, Join, Measure, Nearest};

use crate::DEVICES;
use crate::device_harness::Lent;

/// The launches of kernels on an emulated device so far.
fn launches(lent: &Lent) -> Option<u64> {
    lent.device.as_ref().map(|device| device.stat("launches"))
}

/// Holds a search on a device to the same on the CPU, and asserts that the device has worked.
fn check<T: PartialEq + std::fmt::Debug>(
    lent: &Lent,
    search: impl Fn(DeviceChoice) -> simjoin_core::Result<T>,
) {
    let before = launches(lent);
    let found = search(DeviceChoice::cuda(lent.ordinal)).unwrap();
    assert!(before.is_none() || launches(lent) > before, "the device has not worked");
    assert_eq!(found, search(DeviceChoice::Cpu).unwrap());
}

#[test]
fn pairs_of_all_families_are_those_of_the_cpu() {
    let Some(lent) = Lent::new() else { return };
    let mut rng = StdRng::seed_from_u64(7);
    let sets: Vec<Vec<i32>> = (0..300)
        .map(|_| (0..rng.random_range(1..9)).map(|_| rng.random_range(0..12)).collect())
        .collect();
    check(&lent, |choice| {
        let join = Join::new(Measure::Jaccard, 0.5).on(DEVICES, choice);
        let pairs = join.self_join(&sets)?;
        assert!(pairs.len() > 100, "{}", pairs.len());
        Ok(pairs.to_vec())
    });
    let texts: Vec<String> = (0..300)
        .map(|_| (0..rng.random_range(3..8)).map(|_| rng.random_range('a'..'d')).collect())
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    check(&lent, |choice| {
        let join = Join::new(Measure::Levenshtein, 1.0).on(DEVICES, choice);
        let pairs = join.join(&texts[..150], &texts[150..])?;
        assert!(pairs.len() > 100, "{}", pairs.len());
        Ok(pairs.to_vec())
    });
    let vectors: Vec<Vec<f32>> =
        (0..300).map(|_| (0..4).map(|_| rng.random_range(-2.0..2.0)).collect()).collect();
    check(&lent, |choice| {
        let join = Join::new(Measure::Euclidean, 0.8).on(DEVICES, choice);
        let pairs = join.self_join(&vectors)?;
        assert!(pairs.len() > 100, "{}", pairs.len());
        Ok(pairs.to_vec())
    });
    check(&lent, |choice| {
        let nearest = Nearest::new(Measure::Euclidean, 3).on(DEVICES, choice);
        Ok(nearest.self_join(&vectors)?.to_vec())
    });
}

/// A choice of devices is an error where no strategy on devices has been handed over.
#[test]
fn a_device_without_strategies_is_an_error() {
    let join = Join::new(Measure::Jaccard, 0.5);
    let join = join.on(simjoin_core::Devices::default(), DeviceChoice::cuda(0));
    let error = join.self_join(&[vec![1, 2], vec![1, 2]]).unwrap_err().to_string();
    assert!(error.contains("simjoin.device = 'cuda:0'") && error.contains("none"), "{error}");
}
