//! Searches below SQL against all pairs, whole and in bands of rows.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use simjoin_core::vector::bands::NeighbourBand;
use simjoin_core::vector::metric::Metric;
use simjoin_core::vector::nearest::{NearestOnDevices, NearestVectors, SideNumbers};

use super::NearestSearch;
use crate::emulator::gpu;
use crate::engine::{DeviceChoice, GpuOptions, Neighbours};
use crate::memory::Budget;
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
        let whole = round % 2 == 0;
        let metric = [Metric::Euclidean, Metric::Cosine][round / 2 % 2];
        let dimensions = [2, 17, 5][round % 3];
        let left = Given::draw(&mut rng, 700 + 40 * round, dimensions, whole);
        let right = Given::draw(&mut rng, 530, dimensions, whole);
        let is_self = round % 3 == 0;
        let vectors = NearestVectors {
            metric,
            neighbours: [1, 4, 8][round % 3],
            with_ties: round % 4 < 2,
            dimensions: dimensions as u32,
            left: &left,
            right: (!is_self).then_some(&right as _),
            centre: if metric == Metric::Euclidean { vec![0.5; dimensions] } else { vec![] },
            tuning: Tuning::small(),
        };
        // The second limit leaves no room for all rows.
        for limit in [None, Some(560 << 10)] {
            let options = GpuOptions { memory_limit: limit, ..GpuOptions::default() };
            let found = match NearestSearch.find(&vectors, DeviceChoice::cuda(0), &options, &memory)
            {
                Ok(found) => found,
                // Bands of too few rows are none.
                Err(_) if limit.is_some() => continue,
                Err(error) => panic!("{error:?}"),
            };
            in_bands += usize::from(found.bands.len() > 1);
            let sides = [&left, if is_self { &left } else { &right }];
            let served: usize = found.bands.iter().map(|band| check(band, &vectors, sides)).sum();
            // Equal vectors have more ties than there is room for.
            let least = if vectors.with_ties { 1 } else { left.count() as usize / 2 };
            assert!(served >= least, "{served} in round {round}");
            let rows: u32 = found.bands.iter().map(|band| band.rows.end - band.rows.start).sum();
            assert_eq!(rows, left.count());
        }
    }
    assert!(in_bands > 0);
    drop(memory);
    assert_eq!(pool.taken(), 0);
}
