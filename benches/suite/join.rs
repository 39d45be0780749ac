//! Joins of a collection with itself, below SQL: strategies, thresholds, threads, measures.

use std::path::PathBuf;

use datafusion::common::Result;
use datafusion_simjoin::SimJoinOptions;
use datafusion_simjoin::config::{DeviceChoice, StrategyChoice};
use datafusion_simjoin::internals::set::Measure;
use datafusion_simjoin::internals::simd::Simd;

use crate::csv::{CsvWriter, median};
use crate::data::{self, DataOptions, Encoded};
use crate::engine::{self, Joined, Point};
use crate::{machine, popcount};

/// The thresholds of the stated figures.
pub const THRESHOLDS: &[f64] = &[0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    /// Strategies
    #[arg(long, value_delimiter = ',', value_parser = engine::strategy,
        default_values_t = StrategyChoice::ON_CPU)]
    strategies: Vec<StrategyChoice>,
    #[arg(long, value_delimiter = ',', default_values_t = THRESHOLDS.to_vec())]
    thresholds: Vec<f64>,
    /// Threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Measures
    #[arg(long, value_delimiter = ',', value_parser = engine::measure,
        default_values_t = [Measure::Jaccard])]
    measures: Vec<Measure>,
    /// Forms of the vector kernels; the fastest one when left out
    #[arg(long, value_delimiter = ',', value_parser = engine::simd,
        default_values_t = [engine::default_simd()])]
    simd: Vec<Simd>,
    /// Devices
    #[arg(long, value_delimiter = ',', value_parser = engine::device,
        default_values_t = [DeviceChoice::Cpu])]
    devices: Vec<DeviceChoice>,
    /// Runs of each point
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A point that takes longer than this is run once, in seconds
    #[arg(long, default_value_t = 10.0)]
    once_above: f64,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// The columns of joins.csv.
const HEADER: &str = "data,strategy,chosen,measure,threshold,simd,threads,run,prepare_seconds,\
                      probe_seconds,join_seconds,processor_seconds,row_pairs,set_pairs,postings,prefix_pairs,\
                      candidates,verified,filter_seconds,verify_seconds,estimate,reserved_bytes,\
                      csr_bytes,popcount_gain,device,device_candidates,kernel_seconds,\
                      copy_seconds,wait_seconds,choose_seconds,choice";

/// Runs the points and appends them to joins.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("joins.csv"), HEADER)?;
    // Parts, buffers and blocks of a GPU are those of the environment.
    let gpu = SimJoinOptions::from_env()?.gpu();
    for name in arguments.data.names(data::STATED) {
        let set = arguments.data.find(&name)?;
        // Encoding is not timed, and its result is the same whatever the number of threads.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let encoded = data::encode(&set.name, &set.read()?, cores)?;
        for &measure in &arguments.measures {
            for &threshold in &arguments.thresholds {
                // Close to the joins that they are compared with.
                let gains: Vec<f64> =
                    arguments.threads.iter().map(|&threads| popcount::gain(threads)).collect();
                for &strategy in &arguments.strategies {
                    for &simd in &arguments.simd {
                        for (&threads, &gain) in arguments.threads.iter().zip(&gains) {
                            for &device in &arguments.devices {
                                let point = Point {
                                    measure,
                                    threshold,
                                    strategy,
                                    simd,
                                    threads,
                                    device,
                                    gpu,
                                };
                                run_point(arguments, &encoded, &point, gain, &mut csv)?;
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn run_point(
    arguments: &Arguments,
    encoded: &Encoded,
    point: &Point,
    gain: f64,
    csv: &mut CsvWriter,
) -> Result<()> {
    for run in 0..arguments.runs.max(1) {
        let joined = engine::self_join(&encoded.sets, point)?;
        write(csv, encoded, point, run, &joined, gain)?;
        if joined.seconds() > arguments.once_above {
            break;
        }
    }
    Ok(())
}

fn write(
    csv: &mut CsvWriter,
    encoded: &Encoded,
    point: &Point,
    run: usize,
    joined: &Joined,
    gain: f64,
) -> Result<()> {
    let f = &joined.funnel;
    let seconds = |s: f64| format!("{s:.6}");
    csv.row(&[
        &encoded.name,
        &point.strategy,
        &joined.strategy,
        &point.measure.name(),
        &point.threshold,
        &point.simd,
        &point.threads,
        &run,
        &seconds(joined.prepare_seconds),
        &seconds(joined.probe_seconds),
        &seconds(joined.seconds()),
        &seconds(joined.processor_seconds),
        &joined.row_pairs,
        &f.matches,
        &f.postings,
        &f.prefix_pairs,
        &f.candidates,
        &f.verified,
        &seconds(f.filter_nanos as f64 / 1e9),
        &seconds(f.verify_nanos as f64 / 1e9),
        &format!("{:.0}", joined.estimate),
        &joined.reserved_bytes,
        &encoded.csr_bytes(),
        &format!("{gain:.3}"),
        &point.device,
        &f.device.candidates,
        &seconds(f.device.kernels.sum() as f64 / 1e9),
        &seconds(f.device.copy_nanos as f64 / 1e9),
        &seconds(f.device.wait_nanos as f64 / 1e9),
        &seconds(joined.choose_seconds),
        &joined.choice.replace(',', ";"),
    ])
}

/// The median time of `runs` joins, and the last of them; one run where the first takes longer
/// than `once_above` seconds.
pub fn median_of(
    encoded: &Encoded,
    point: &Point,
    runs: usize,
    once_above: f64,
) -> Result<(f64, Joined)> {
    let mut last = engine::self_join(&encoded.sets, point)?;
    let mut seconds = vec![last.seconds()];
    while seconds.len() < runs && seconds[0] <= once_above {
        last = engine::self_join(&encoded.sets, point)?;
        seconds.push(last.seconds());
    }
    Ok((median(&seconds).unwrap_or_default(), last))
}
