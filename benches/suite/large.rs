//! Intersections of large sets on a device: one pair, or all pairs of a collection, by the project's own
//! kernels and by the published techniques, in turn and on the same sets.
//!
//! Resident times are those of kernels; the rounds of a pair read copies of it that are larger than the
//! caches together. Copies from pinned memory of the host are printed apart. All counts are held to the
//! CPU's.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion_simjoin::config::{DeviceChoice, StrategyName};
use datafusion_simjoin::internals::set::Measure;
use datafusion_simjoin::internals::set::intersection::size;
use datafusion_simjoin::internals::simd::Simd;
use datafusion_simjoin::internals::util::parallel::Threads;
use simjoin_core::Error;
use simjoin_gpu::runtime::Device;
use simjoin_published::intersection::{PinnedSets, Technique, TechniqueSettings, overlaps};

use crate::csv::median;
use crate::data;
use crate::engine::{self, Point};
use crate::generate::draws::{self, Distribution};

/// The copies of a pair take as many bytes together at least.
const ROTATED: u64 = 200 << 20;
/// Pairs of a collection that are held to the CPU's counts at most.
const CHECKED: usize = 2000;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Intersect large sets on this device
    #[arg(long, value_name = "DEVICE", value_parser = engine::device)]
    devices: Option<DeviceChoice>,
    /// Techniques on a device; all when left out
    #[arg(long, value_delimiter = ',')]
    techniques: Vec<String>,
    #[arg(long, value_delimiter = ',', default_values = ["uniform", "normal", "zipf"])]
    distributions: Vec<Distribution>,
    #[arg(long, value_delimiter = ',', default_values_t = [100_000_000, 1_000_000_000])]
    universes: Vec<u64>,
    /// Draws of each set
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000])]
    draws: Vec<u64>,
    /// Sets of a collection, all pairs of which are intersected
    #[arg(long, default_value_t = 2)]
    sets: u64,
}

impl Options {
    pub fn is_asked(&self) -> bool {
        self.devices.is_some()
    }

    fn techniques(&self) -> Result<Vec<Technique>> {
        let named = |name: &String| {
            let found = Technique::ALL.into_iter().find(|technique| technique.name() == name);
            found.ok_or_else(|| {
                let names = Technique::ALL.map(Technique::name).join(", ");
                exec_datafusion_err!("there is no technique {name}; there are {names}")
            })
        };
        match self.techniques.is_empty() {
            true => Ok(Technique::ALL.to_vec()),
            false => self.techniques.iter().map(named).collect(),
        }
    }
}

/// Prints a line for each technique and point.
pub fn run(options: &Options, rounds: usize) -> Result<()> {
    let ordinal = match options.devices {
        Some(DeviceChoice::Cuda(Some(ordinals))) => ordinals.iter().next().unwrap_or(0),
        _ => 0,
    };
    let device = Device::open(ordinal).map_err(Error::from)?;
    println!(
        "distribution,universe,draws,sets,least_size,greatest_size,common,technique,resident_ms,\
         least_ms,copy_ms,pinned_ms"
    );
    for &draws in &options.draws {
        for &universe in &options.universes {
            for &distribution in &options.distributions {
                let sets = draws::sets(distribution, universe, draws, options.sets);
                let sizes = sets.iter().map(Vec::len);
                let (least, greatest) =
                    (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
                let of = format!("{distribution:?},{universe},{draws}").to_lowercase();
                let point = format!("{of},{},{least},{greatest}", options.sets);
                run_point(options, rounds, &device, &sets, &point)?;
            }
        }
    }
    Ok(())
}

fn run_point(
    options: &Options,
    rounds: usize,
    device: &Device,
    sets: &[Vec<u32>],
    point: &str,
) -> Result<()> {
    let pinned = PinnedSets::new(device, sets).map_err(Error::from)?;
    let bytes: u64 = sets.iter().map(|set| 4 * set.len() as u64).sum();
    let copies = if sets.len() > 2 { 1 } else { ROTATED.div_ceil(bytes.max(1)) as u32 };
    let tuning = TechniqueSettings { rounds: copies, ..TechniqueSettings::default() };
    let expected = expected(sets);
    for technique in options.techniques()? {
        if technique == Technique::Ours && sets.len() > 2 {
            join(options, sets, point)?;
            continue;
        }
        let (mut kernels, mut moved, mut common) = (vec![], vec![], 0);
        for _ in 0..rounds.clamp(1, 5) {
            let found = overlaps(device, &pinned, technique, tuning).map_err(Error::from)?;
            for &(pair, overlap) in &expected {
                if found.overlaps[pair] != overlap {
                    let name = technique.name();
                    return exec_err!(
                        "{name}: {} common values, not {overlap}",
                        found.overlaps[pair]
                    );
                }
            }
            common = found.overlaps.iter().map(|&overlap| u64::from(overlap)).sum::<u64>();
            kernels.push(found.kernel_nanos as f64 / 1e6);
            moved.push(found.copy_nanos as f64 / 1e6);
        }
        let resident = median(&kernels).unwrap_or_default();
        let least = kernels.into_iter().fold(f64::INFINITY, f64::min);
        let copy = median(&moved).unwrap_or_default();
        println!(
            "{point},{common},{},{resident:.4},{least:.4},{copy:.4},{:.4}",
            technique.name(),
            resident + copy
        );
    }
    Ok(())
}

/// Pairs by number with their overlaps, counted by the CPU.
fn expected(sets: &[Vec<u32>]) -> Vec<(usize, u32)> {
    let pairs = sets.len() * (sets.len() - 1) / 2;
    let step = pairs.div_ceil(CHECKED).max(1);
    let mut expected = vec![];
    let mut number = 0;
    for second in 1..sets.len() {
        for first in 0..second {
            if number % step == 0 {
                let common = size(Simd::detect(), &sets[first], &sets[second], Threads::ONE);
                expected.push((number, common as u32));
            }
            number += 1;
        }
    }
    expected
}

/// All pairs of a collection as the operator counts them on the device.
fn join(options: &Options, sets: &[Vec<u32>], point: &str) -> Result<()> {
    let field = Arc::new(Field::new_list_field(DataType::UInt32, false));
    let list = |set: &Vec<u32>| -> Result<ArrayRef> {
        let offsets = OffsetBuffer::from_lengths([set.len()]);
        let values = Arc::new(UInt32Array::from(set.clone()));
        Ok(Arc::new(ListArray::try_new(Arc::clone(&field), offsets, values, None)?))
    };
    let lists = sets.iter().map(list).collect::<Result<Vec<_>>>()?;
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let encoded = data::encode("large", &lists, threads)?;
    let Some(device) = options.devices else { return Ok(()) };
    let on = |device| Point {
        measure: Measure::Overlap,
        threads,
        device,
        ..Point::jaccard(1.0, StrategyName::new("scancount"))
    };
    let on_cpu = engine::self_join(&encoded.sets, &on(DeviceChoice::Cpu))?;
    for _ in 0..2 {
        let found = engine::self_join(&encoded.sets, &on(device))?;
        if found.row_pairs != on_cpu.row_pairs {
            return exec_err!("{} pairs, not {}", found.row_pairs, on_cpu.row_pairs);
        }
        let kernels = found.funnel.device.kernels.sum() as f64 / 1e6;
        let copy = found.funnel.device.copy_nanos as f64 / 1e6;
        println!(
            "{point},{},ours,{kernels:.4},{kernels:.4},{copy:.4},{:.4}",
            found.row_pairs,
            1e3 * found.seconds()
        );
    }
    Ok(())
}
