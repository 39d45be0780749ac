//! Time and memory against size, on generated data like the published collections.

use std::path::PathBuf;

use datafusion::common::Result;
use datafusion_simjoin::config::StrategyName;

use crate::csv::CsvWriter;
use crate::data::{self, DataOptions};
use crate::engine::Point;
use crate::{engine, join, machine};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    /// Collections
    #[arg(long, value_delimiter = ',', default_values_t =
        ["dblp", "kosarak", "orkut"].map(str::to_string))]
    collections: Vec<String>,
    /// Parts of the published number of rows
    #[arg(long, value_delimiter = ',', default_values_t =
        ["1/16", "1/8", "1/4", "1/2"].map(str::to_string))]
    scales: Vec<String>,
    #[arg(long, value_delimiter = ',', default_values_t = [0.6, 0.8, 0.9])]
    thresholds: Vec<f64>,
    #[arg(long, value_parser = engine::strategy, default_value_t = StrategyName::AUTO)]
    strategy: StrategyName,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A join that takes longer than this runs once, in seconds
    #[arg(long, default_value_t = 10.0)]
    once_above: f64,
    /// Larger scales are left out once a join takes longer than this, in seconds
    #[arg(long, default_value_t = 120.0)]
    stop_above: f64,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// The columns of growth.csv. `collection_bytes` and `join_bytes` are what is reserved while the
/// join runs, `encode_peak_bytes` the most before that, `csr_bytes` tokens of 4 and offsets of 8
/// bytes.
const HEADER: &str = "collection,scale,rows,sets,tokens,threshold,strategy,chosen,threads,seconds,\
                      row_pairs,csr_bytes,collection_bytes,encode_peak_bytes,join_bytes,\
                      encode_seconds";

/// Runs the joins, small sizes first, and appends to growth.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("growth.csv"), HEADER)?;
    for collection in &arguments.collections {
        let mut thresholds = arguments.thresholds.clone();
        for scale in &arguments.scales {
            if thresholds.is_empty() {
                break;
            }
            let set = arguments.data.find(&format!("{collection}@{scale}"))?;
            let encoded = data::encode(&set.name, &set.read()?, 1)?;
            let sets = &encoded.sets;
            let mut too_slow = vec![];
            for &threshold in &thresholds {
                let (strategy, threads) = (arguments.strategy, arguments.threads);
                let point = Point { threads, ..Point::jaccard(threshold, strategy) };
                let (seconds, joined) =
                    join::median_of(&encoded, &point, arguments.runs, arguments.once_above)?;
                if seconds > arguments.stop_above {
                    too_slow.push(threshold);
                }
                csv.row(&[
                    collection,
                    scale,
                    &sets.row_count(),
                    &sets.len(),
                    &sets.token_count(),
                    &threshold,
                    &strategy,
                    &joined.strategy,
                    &threads,
                    &format!("{seconds:.6}"),
                    &joined.row_pairs,
                    &encoded.csr_bytes(),
                    &sets.size_in_bytes(),
                    &encoded.peak_bytes,
                    &joined.reserved_bytes,
                    &format!("{:.6}", encoded.seconds),
                ])?;
            }
            thresholds.retain(|t| !too_slow.contains(t));
        }
    }
    Ok(())
}
