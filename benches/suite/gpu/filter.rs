//! Tiles of signatures: every kernel, width and union over whole self-joins.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion_simjoin::config::GpuOptions;
use datafusion_simjoin::internals::engine::{MatchNeed, PrepareContext};
use datafusion_simjoin::internals::set::Measure;
use datafusion_simjoin::internals::util::cancel::CancelFlag;
use datafusion_simjoin::internals::util::parallel::Threads;
use simjoin_gpu::set::bitmap::{FixedTiles, Residence, TileKernel};

use crate::csv::CsvWriter;
use crate::data::{self, DataOptions};
use crate::memory::PeakPool;
use crate::{engine, machine};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    #[arg(long, value_delimiter = ',', default_values_t = [0.85, 0.7, 0.5])]
    thresholds: Vec<f64>,
    /// counts (population counts), products (matrix products of a warp) or warpgroups (of four)
    #[arg(long, value_delimiter = ',', value_parser = kernel,
        default_values = ["counts", "products", "warpgroups"])]
    kernels: Vec<TileKernel>,
    /// Bits of a signature
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024])]
    widths: Vec<u32>,
    /// Sets of a column
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    members: Vec<u32>,
    /// Send the sets with the works, in small pieces, as if the device had no room for them
    #[arg(long)]
    travel: bool,
    #[arg(long, default_value_t = 16)]
    threads: usize,
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// `tested`: pairs in the tiles that were looked at; `hits`: those that pass, of unions all members.
/// `kernel_seconds`: signing of rows that travel, tests and decisions; `rate`: pairs tested in a
/// second of these.
const HEADER: &str = "data,threshold,kernel,width,members,travel,run,tested,hits,compared,matches,\
                      kernel_seconds,copy_seconds,prepare_seconds,probe_seconds,rate";

/// Reads the name of a kernel.
fn kernel(name: &str) -> Result<TileKernel, String> {
    match name {
        "counts" => Ok(TileKernel::Counts),
        "products" => Ok(TileKernel::Products),
        "warpgroups" => Ok(TileKernel::Warpgroups),
        _ => Err("the kernels are counts, products and warpgroups".to_string()),
    }
}

/// Runs all points and appends them to filter.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("filter.csv"), HEADER)?;
    for name in arguments.data.names(data::BIBLIOGRAPHIC) {
        let set = arguments.data.find(&name)?;
        let encoded = data::encode(&set.name, &set.read()?, arguments.threads)?;
        for &threshold in &arguments.thresholds {
            let mut matches = None;
            for &kernel in &arguments.kernels {
                for &bits in &arguments.widths {
                    for &members in &arguments.members {
                        let residence = match arguments.travel {
                            true => Residence::Never,
                            false => Residence::IfRoom,
                        };
                        let width = bits / u32::BITS;
                        let tiles =
                            FixedTiles { kernel, width, members, capacity: None, residence };
                        for run in 0..arguments.runs {
                            let found =
                                run_point(arguments, &encoded, (threshold, run), &tiles, &mut csv)?;
                            if *matches.get_or_insert(found) != found {
                                return Err(exec_datafusion_err!(
                                    "{tiles:?} finds {found} matches in {name} at {threshold}, \
                                     another form {matches:?}"
                                ));
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Joins once; gives the number of matches.
fn run_point(
    arguments: &Arguments,
    encoded: &data::Encoded,
    (threshold, run): (f64, usize),
    tiles: &FixedTiles,
    csv: &mut CsvWriter,
) -> Result<u64> {
    let sets = &encoded.sets;
    let spec = super::spec(Measure::Jaccard, threshold, MatchNeed::Count, GpuOptions::default());
    let device = super::on_device(sets, &spec)?;
    let pool: Arc<dyn MemoryPool> = Arc::new(PeakPool::default());
    let reservation = MemoryConsumer::new("tiles").register(&pool);
    let cancel = CancelFlag::default();
    let threads = arguments.threads;
    let context = PrepareContext::new(&reservation, &cancel, Threads::usual(threads));
    let start = Instant::now();
    let prepared = tiles.prepare_on_device(sets, spec, &device, context)?;
    let prepare = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let funnel = engine::funnel_of(prepared.as_ref(), sets, threads, &pool)?;
    let probe = start.elapsed().as_secs_f64();
    let kernel_seconds = funnel.device.kernels.sum() as f64 / 1e9;
    csv.row(&[
        &encoded.name,
        &threshold,
        &format!("{:?}", tiles.kernel).to_lowercase(),
        &(tiles.width * u32::BITS),
        &tiles.members,
        &arguments.travel,
        &run,
        &funnel.postings,
        &funnel.prefix_pairs,
        &funnel.verified,
        &funnel.matches,
        &format!("{kernel_seconds:.6}"),
        &format!("{:.6}", funnel.device.copy_nanos as f64 / 1e9),
        &format!("{prepare:.6}"),
        &format!("{probe:.6}"),
        &format!("{:.4e}", funnel.postings as f64 / kernel_seconds),
    ])?;
    Ok(funnel.matches)
}
