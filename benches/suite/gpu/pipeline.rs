//! Filter, copies and kernels: each alone, and together.

use std::path::PathBuf;
use std::time::Instant;

use datafusion::common::Result;
use datafusion_simjoin::config::{DeviceChoice, GpuOptions, StrategyName};
use datafusion_simjoin::internals::engine::MatchNeed;
use datafusion_simjoin::internals::set::Measure;

use super::stream::{self, Filter};
use crate::csv::{CsvWriter, median};
use crate::data::{self, DataOptions};
use crate::engine::{self, Point};
use crate::machine;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    #[arg(long, value_delimiter = ',', default_values_t = [0.8])]
    thresholds: Vec<f64>,
    #[arg(long, value_delimiter = ',', default_values_t = [16])]
    threads: Vec<usize>,
    /// Bytes of candidates in a chunk (M_c)
    #[arg(long, value_delimiter = ',', default_values_t = [2 << 20])]
    candidate_memory: Vec<u64>,
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// Seconds. `filter`: AllPairs alone on all threads, index included; `filter_threads`,
/// `pack_threads`: of a thread on average, for filtering, packing and taking matches together, and 0;
/// `kernel`, `copy`: the device's; `wait`: the
/// filter's threads for the device, their sum; `idle`: the device for candidates; `join`: all
/// together; `cpu_join`: the same filter with verification on the CPU.
const HEADER: &str = "data,threshold,threads,candidate_memory,candidates,matches,chunks,filter,\
                      filter_threads,pack_threads,kernel,copy,wait,idle,join,cpu_join,bytes_to,bytes_from,over_longest";

/// Runs all points and appends them to pipeline.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("pipeline.csv"), HEADER)?;
    for name in arguments.data.names(data::STATED) {
        let set = arguments.data.find(&name)?;
        let threads = arguments.threads.iter().copied().max().unwrap_or(1);
        let encoded = data::encode(&set.name, &set.read()?, threads)?;
        for &threshold in &arguments.thresholds {
            for &threads in &arguments.threads {
                let sets = &encoded.sets;
                let spec = super::spec(
                    Measure::Jaccard,
                    threshold,
                    MatchNeed::Pairs,
                    GpuOptions::default(),
                );
                let filter = (0..arguments.runs).map(|_| {
                    let start = Instant::now();
                    stream::filter(sets, &spec, Filter::Allpairs, threads, u64::MAX, |_| None)?;
                    Ok(start.elapsed().as_secs_f64())
                });
                let filter = median(&filter.collect::<Result<Vec<f64>>>()?).unwrap_or_default();
                let point = Point {
                    threads,
                    device: DeviceChoice::Cpu,
                    ..Point::jaccard(threshold, StrategyName::new("allpairs"))
                };
                let cpu_join = engine::self_join(sets, &point)?.seconds();
                for &memory in &arguments.candidate_memory {
                    let gpu = GpuOptions { candidate_memory: memory, ..GpuOptions::default() };
                    let point = Point { device: DeviceChoice::cuda(0), gpu, ..point };
                    let joins = (0..arguments.runs).map(|_| engine::self_join(sets, &point));
                    let mut joins = joins.collect::<Result<Vec<_>>>()?;
                    joins.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
                    let join = &joins[joins.len() / 2];
                    let f = &join.funnel;
                    let seconds = |nanos: u64| nanos as f64 / 1e9;
                    let kernel = seconds(f.device.kernels.sum());
                    let copy = seconds(f.device.copy_nanos);
                    let longest = filter.max(kernel).max(copy);
                    csv.row(&[
                        &encoded.name,
                        &threshold,
                        &threads,
                        &memory,
                        &f.candidates,
                        &f.matches,
                        &f.device.chunks,
                        &format!("{filter:.6}"),
                        &format!("{:.6}", seconds(f.filter_nanos) / threads as f64),
                        &format!("{:.6}", seconds(f.verify_nanos) / threads as f64),
                        &format!("{kernel:.6}"),
                        &format!("{copy:.6}"),
                        &format!("{:.6}", seconds(f.device.wait_nanos)),
                        &format!("{:.6}", seconds(f.device.idle_nanos)),
                        &format!("{:.6}", join.seconds()),
                        &format!("{cpu_join:.6}"),
                        &f.device.bytes_to,
                        &f.device.bytes_from,
                        &format!("{:.3}", join.seconds() / longest),
                    ])?;
                }
            }
        }
    }
    Ok(())
}
