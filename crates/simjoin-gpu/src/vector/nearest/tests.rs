//! Searches below SQL against all pairs, whole, in bands of rows, and on several devices.

use std::collections::BTreeMap;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use simjoin_core::vector::bands::{Bands, NeighbourBand};
use simjoin_core::vector::metric::Metric;
use simjoin_core::vector::nearest::{Declined, NearestOnDevices, NearestVectors, SideNumbers};

use super::NearestSearch;
use crate::emulator::{self, Emulator, gpu};
use crate::engine::{DeviceChoice, GpuOptions, Neighbours, Ordinals};
use crate::memory::Budget;
use crate::runtime::Device;
use crate::tuning::Tuning;

/// Row-major numbers.
struct Given {
    numbers: Vec<f64>,
    dimensions: usize,
}

impl Given {
    fn draw(rng: &mut StdRng, count: usize, dimensions: usize, whole: bool) -> Self {
        let number = |_| match whole {
            true => f64::from(rng.random_range(-3..4)),
            false => rng.random::<f64>(),
        };
        Self { numbers: (0..count * dimensions).map(number).collect(), dimensions }
    }

    fn vector(&self, number: usize) -> &[f64] {
        &self.numbers[number * self.dimensions..(number + 1) * self.dimensions]
    }
}

impl SideNumbers for Given {
    fn count(&self) -> u32 {
        (self.numbers.len() / self.dimensions) as u32
    }

    fn write_narrow(&self, places: Range<usize>, to: &mut [f32]) -> bool {
        to.iter_mut().zip(&self.numbers[places.clone()]).for_each(|(to, from)| *to = *from as f32);
        to.iter().zip(&self.numbers[places]).all(|(to, from)| f64::from(*to) == *from)
    }

    fn write_wide(&self, places: Range<usize>, to: &mut [f64]) {
        to.copy_from_slice(&self.numbers[places]);
    }
}

/// Asserts that a band has the nearest columns of its rows, with their values. The rows that were served.
fn check(band: &NeighbourBand, vectors: &NearestVectors<'_>, [left, right]: [&Given; 2]) -> usize {
    let mut served = 0;
    for (place, row) in band.rows.clone().enumerate() {
        if band.counts[place] == Neighbours::NOT_SERVED {
            continue;
        }
        served += 1;
        let x = left.vector(row as usize);
        let value =
            |column: u32| vectors.metric.number(x.into(), right.vector(column as usize).into());
        let mut all: Vec<(f64, u32)> =
            (0..right.count()).filter_map(|column| Some((value(column)?, column))).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let start = band.starts[place] as usize;
        let range = start..start + band.counts[place] as usize;
        let found = band.values[range.clone()].iter().zip(&band.columns[range]);
        let mut found: Vec<(f64, u32)> = found.map(|(value, column)| (*value, *column)).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if value(0).is_none() {
            assert!(found.is_empty(), "a vector of zeros");
            continue;
        }
        let last = all[vectors.neighbours - 1].0;
        if vectors.with_ties {
            all.retain(|(value, _)| *value <= last);
            assert_eq!(found, all, "row {row}");
        } else {
            assert!(found.iter().all(|(of, column)| value(*column) == Some(*of)), "row {row}");
            let values =
                |of: &[(f64, u32)]| of.iter().map(|(v, _)| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(values(&found), values(&all[..vectors.neighbours]), "row {row}");
        }
    }
    served
}

/// A search as it is drawn.
struct Drawn {
    left: Given,
    right: Given,
    is_self: bool,
    metric: Metric,
    neighbours: usize,
    with_ties: bool,
}

impl Drawn {
    fn draw(rng: &mut StdRng, round: usize, [left, right]: [usize; 2]) -> Self {
        // Whole numbers are multiplied as integers from 27 dimensions on, for distances. Halves of vectors of more
        // than 138 dimensions lie in blocks.
        let (metric, whole, dimensions) = [
            (Metric::Euclidean, true, 37),
            (Metric::Euclidean, false, 5),
            (Metric::Cosine, true, 2),
            (Metric::Euclidean, false, 150),
            (Metric::Cosine, false, 17),
            (Metric::Euclidean, true, 2),
        ][round % 6];
        Self {
            left: Given::draw(rng, left, dimensions, whole),
            right: Given::draw(rng, right, dimensions, whole),
            is_self: (round + round / 6).is_multiple_of(2),
            metric,
            neighbours: [4, 8, 1, 2][round % 4],
            with_ties: round % 4 < 2,
        }
    }

    fn vectors(&self) -> NearestVectors<'_> {
        let dimensions = self.left.dimensions;
        let is_moved = self.metric == Metric::Euclidean;
        NearestVectors {
            metric: self.metric,
            neighbours: self.neighbours,
            with_ties: self.with_ties,
            dimensions: dimensions as u32,
            left: &self.left,
            right: (!self.is_self).then_some(&self.right as _),
            centre: if is_moved { vec![0.5; dimensions] } else { vec![] },
            tuning: Tuning::small(),
        }
    }

    /// Holds what is found against all pairs, and sees that bands have every row once.
    fn check(&self, found: &Bands, what: &str) {
        let sides = [&self.left, if self.is_self { &self.left } else { &self.right }];
        let vectors = self.vectors();
        let served: usize = found.bands.iter().map(|band| check(band, &vectors, sides)).sum();
        // Equal vectors have more ties than there is room for.
        let least = if self.with_ties { 1 } else { self.left.count().div_ceil(2) as usize };
        assert!(served >= least, "{served} {what}");
        let mut rows: Vec<u32> = found.bands.iter().flat_map(|band| band.rows.clone()).collect();
        rows.sort_unstable();
        assert!(rows.into_iter().eq(0..self.left.count()), "{what}");
    }
}

#[test]
fn searches_find_the_nearest_of_all_pairs() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(17);
    let pool = Budget::unlimited();
    let memory = pool.reservation();
    let mut in_bands = 0;
    for round in 0..12 {
        let drawn = Drawn::draw(&mut rng, round, [700, 530]);
        // The second limit leaves no room for all rows.
        for limit in [None, Some(1 << 20)] {
            let options = GpuOptions { memory_limit: limit, ..GpuOptions::default() };
            let choice = DeviceChoice::cuda(0);
            let found = match NearestSearch.find(&drawn.vectors(), choice, &options, &memory) {
                Ok(found) => found,
                // Bands of too few rows are none.
                Err(_) if limit.is_some() => continue,
                Err(error) => panic!("{error:?}"),
            };
            in_bands += usize::from(found.bands.len() > 1);
            drawn.check(&found, &format!("in round {round}"));
        }
    }
    assert!(in_bands > 0);
    drop(memory);
    assert_eq!(pool.taken(), 0);
}

/// The choice of devices, all of which there is work for.
fn choice_of(leases: &[emulator::Device]) -> (DeviceChoice, GpuOptions) {
    let ordinals: Vec<String> = leases.iter().map(|lease| lease.ordinal().to_string()).collect();
    let ordinals = Ordinals::listed(&ordinals.join(",")).expect("numbers of devices");
    (DeviceChoice::Cuda(Some(ordinals)), GpuOptions { work: 1, ..GpuOptions::default() })
}

/// The values of the neighbours of each row that was served, in rising order.
fn values_by_row(found: &Bands) -> BTreeMap<u32, Vec<u64>> {
    let mut all = BTreeMap::new();
    for band in &found.bands {
        for (place, row) in band.rows.clone().enumerate() {
            if band.counts[place] != Neighbours::NOT_SERVED {
                let start = band.starts[place] as usize;
                let values = &band.values[start..start + band.counts[place] as usize];
                let mut values: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
                values.sort_unstable();
                all.insert(row, values);
            }
        }
    }
    all
}

/// Several devices find what one finds and all pairs say; more devices than rows, too.
#[test]
fn devices_share_the_rows_of_a_search() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(18);
    let memory = Budget::unlimited().reservation();
    for round in 0..12 {
        let is_self = Drawn::draw(&mut rng, round, [1; 2]).is_self;
        let left = if round > 6 && !is_self { 1 + round / 3 } else { 560 + 10 * round };
        let drawn = Drawn::draw(&mut rng, round, [left, 530]);
        let leases: Vec<_> = (0..2 + round % 3).map(|_| emulator.device()).collect();
        let (choice, options) = choice_of(&leases);
        let found = NearestSearch.find(&drawn.vectors(), choice, &options, &memory).unwrap();
        let (_, one) = (drawn.check(&found, &found.device), choice_of(&leases[..1]).0);
        let alone = NearestSearch.find(&drawn.vectors(), one, &options, &memory).unwrap();
        assert_eq!(alone.bands.len(), 1);
        let width = left.div_ceil(leases.len());
        assert_eq!(found.bands.len(), left.div_ceil(width), "{}", found.device);
        let (found_by, alone_by) = (values_by_row(&found), values_by_row(&alone));
        // Where there is no room for all ties, rows are served that come first.
        let both = found_by.iter().filter_map(|(row, of)| Some((row, of, alone_by.get(row)?)));
        let compared = both.inspect(|(row, of, other)| assert_eq!(of, other, "row {row}")).count();
        assert!(compared > left / 2, "{compared} of {left}: {}", found.device);
        let listed = match choice {
            DeviceChoice::Cuda(Some(ordinals)) => format!("cuda:{ordinals} "),
            _ => String::new(),
        };
        assert!(found.device.starts_with(&listed), "{}", found.device);
        drop((found, alone));
        for lease in &leases {
            lease.expect_nothing_left(Device::close, &listed);
        }
    }
}

/// Whatever fails on one of two devices, the other one takes its rows; where both fail, the search says why.
#[test]
fn a_device_takes_up_the_rows_that_another_one_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(19);
    let memory = Budget::unlimited().reservation();
    let calls =
        [None, Some("cuMemcpyHtoDAsync"), Some("cuLaunchKernel"), Some("cuMemcpyDtoHAsync")];
    let (mut at_start, mut midway) = (0, 0);
    // Out of memory, invalid value, illegal address.
    let faults = calls.into_iter().flat_map(|call| [2, 1, 700].map(|error| (call, error)));
    for (round, ((call, error), nth)) in faults.zip([1, 3, 6].into_iter().cycle()).enumerate() {
        let both = round % 3 == 2;
        let drawn = Drawn::draw(&mut rng, round, [600, 530]);
        let leases = [emulator.device(), emulator.device()];
        let (choice, options) = choice_of(&leases);
        for lease in &leases[..1 + usize::from(both)] {
            match call {
                Some(call) => lease.fault(call, nth, error),
                None => lease.fault_async(nth, error),
            }
        }
        let what = format!("{call:?} {nth} {error} {both}");
        match NearestSearch.find(&drawn.vectors(), choice, &options, &memory) {
            Ok(found) => {
                assert!(!both || leases.iter().all(|lease| lease.stat("faults") == 0), "{what}");
                drawn.check(&found, &format!("{what} {}", found.device));
                midway += usize::from(found.device.contains(", then without cuda:"));
                at_start += usize::from(found.device.contains(", without cuda:"));
            }
            Err(Declined(why)) => assert!(both && why.contains("CUDA device"), "{what}: {why}"),
        }
        for lease in &leases {
            lease.expect_nothing_left(Device::close, &what);
        }
    }
    assert!(at_start > 0 && midway > 0, "{at_start} {midway}");
}
