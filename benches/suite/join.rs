//! Joins of a collection with itself, below SQL: strategies, thresholds, threads, measures.

use std::collections::BTreeMap;

use datafusion::common::Result;
use datafusion_simjoin::internals::set::Measure;

use crate::csv::{CsvWriter, median, seconds};
use crate::data::{self, DataOptions, Encoded};
use crate::engine::{self, Joined, Point};
use crate::ways::Ways;
use crate::{machine, popcount};

/// The thresholds of the stated figures.
pub const THRESHOLDS: &[f64] = &[0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    #[arg(long, value_delimiter = ',', default_values_t = THRESHOLDS.to_vec())]
    thresholds: Vec<f64>,
    /// Measures
    #[arg(long, value_delimiter = ',', value_parser = engine::measure,
        default_values_t = [Measure::Jaccard])]
    measures: Vec<Measure>,
    #[command(flatten)]
    ways: Ways,
}

/// The columns of joins.csv.
const HEADER: &str = "data,strategy,chosen,measure,threshold,simd,threads,run,prepare_seconds,\
                      probe_seconds,join_seconds,processor_seconds,row_pairs,set_pairs,postings,prefix_pairs,\
                      candidates,verified,filter_seconds,verify_seconds,estimate,reserved_bytes,\
                      csr_bytes,popcount_gain,device,device_candidates,kernel_seconds,\
                      copy_seconds,wait_seconds,choose_seconds,choice";

/// Runs the points and appends them to joins.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    let ways = &arguments.ways;
    machine::describe(&ways.out)?;
    let mut csv = CsvWriter::append(&ways.out.join("joins.csv"), HEADER)?;
    let requests = ways.requests(&engine::strategies_on_cpu().collect::<Vec<_>>())?;
    for name in arguments.data.names(data::STATED) {
        let set = arguments.data.find(&name)?;
        // Encoding is not timed, and its result is the same whatever the number of threads.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let encoded = data::encode(&set.name, &set.read()?, cores)?;
        for &measure in &arguments.measures {
            for &threshold in &arguments.thresholds {
                // Close to the joins that they are compared with.
                let gains: BTreeMap<usize, f64> = ways
                    .threads
                    .iter()
                    .map(|&threads| (threads, popcount::gain(threads)))
                    .collect();
                for request in &requests {
                    let point = Point::of(measure, threshold, request);
                    let gain = gains.get(&point.threads).copied().unwrap_or_default();
                    ways.time(
                        || engine::self_join(&encoded.sets, &point),
                        |run, joined| write(&mut csv, &encoded, &point, run, joined, gain),
                    )?;
                }
            }
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
        &point.device.to_string().replace(',', "+"),
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
