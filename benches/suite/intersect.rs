//! How long the intersection of two lists of integers takes: the kernel, the kernel with the check that
//! the lists ascend, and `SELECT overlap(x, y)`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, ListArray, RecordBatch, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::prelude::SessionConfig;
use datafusion_simjoin::internals::set::intersection::{KeySlice, size, size_if_ascending};
use datafusion_simjoin::internals::simd::Simd;
use datafusion_simjoin::internals::util::parallel::Threads;

use crate::generate::random::Random;
use crate::{data, large};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Elements of the first list
    #[arg(long, default_value_t = 4096)]
    left: usize,
    /// Elements of the second list
    #[arg(long, default_value_t = 4096)]
    right: usize,
    /// Shares of the shorter list that are common, in percent
    #[arg(long, value_delimiter = ',', default_values_t = [1, 50, 95])]
    common: Vec<u32>,
    /// Elements lie below this
    #[arg(long, default_value_t = 1 << 32)]
    universe: u64,
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    threads: Vec<usize>,
    /// Rounds, of which the median and the least are printed
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    #[command(flatten)]
    large: large::Options,
}

/// Prints microseconds for each share and number of threads.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.large.is_asked() {
        return large::run(&arguments.large, arguments.rounds);
    }
    let simd = Simd::detect().without_masks();
    println!("common,threads,what,median_us,least_us,gb_per_s");
    for &share in &arguments.common {
        let (a, b) = lists(arguments, share);
        let expected = size(simd, &a, &b, Threads::ONE);
        for &threads in &arguments.threads {
            let bytes = size_of_val(&a[..]) + size_of_val(&b[..]);
            let print = |what: &str, times: (f64, f64)| {
                let rate = bytes as f64 / times.0 / 1e3;
                println!("{share},{threads},{what},{:.2},{:.2},{rate:.1}", times.0, times.1);
            };
            let kernel = || Ok(size(simd, black_box(&a), black_box(&b), Threads::usual(threads)));
            print("kernel", time(arguments, expected, kernel)?);
            let unknown = |keys| KeySlice { keys: black_box(keys), known: false };
            let checked =
                || match size_if_ascending(simd, unknown(&a), unknown(&b), Threads::usual(threads))
                {
                    Some(size) => Ok(size),
                    None => exec_err!("the lists do not ascend"),
                };
            print("checked", time(arguments, expected, checked)?);
            let query = Query::new(&a, &b, threads)?;
            print("sql", time(arguments, expected, || query.run())?);
        }
    }
    Ok(())
}

/// Median and least microseconds of some rounds.
fn time(
    arguments: &Arguments,
    expected: u64,
    mut work: impl FnMut() -> Result<u64>,
) -> Result<(f64, f64)> {
    // Short work is repeated for some milliseconds.
    let repeats = (4_000_000 / (arguments.left + arguments.right)).max(1);
    let mut times = vec![];
    for _ in 0..arguments.rounds.max(1) {
        let start = Instant::now();
        for _ in 0..repeats {
            let found = work()?;
            if found != expected {
                return exec_err!("{found} common elements, not {expected}");
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / repeats as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], times[0]))
}

/// Two ascending lists with a share of common elements.
fn lists(arguments: &Arguments, share: u32) -> (Vec<u32>, Vec<u32>) {
    let common = arguments.left.min(arguments.right) * share as usize / 100;
    let wanted = arguments.left + arguments.right - common;
    let mut random = Random::new(1);
    let mut all: Vec<u32> = vec![];
    while all.len() < wanted {
        let more = wanted - all.len();
        all.extend((0..more + more / 8).map(|_| random.below(arguments.universe as usize) as u32));
        all.sort_unstable();
        all.dedup();
    }
    // In any order, so that each list takes elements from everywhere.
    for place in (1..all.len()).rev() {
        all.swap(place, random.below(place + 1));
    }
    let mut a = all[..arguments.left].to_vec();
    let mut b = all[arguments.left - common..wanted].to_vec();
    a.sort_unstable();
    b.sort_unstable();
    (a, b)
}

/// `SELECT overlap(x, y)` over a table of one row.
struct Query {
    context: datafusion::prelude::SessionContext,
    runtime: tokio::runtime::Runtime,
}

impl Query {
    fn new(a: &[u32], b: &[u32], threads: usize) -> Result<Self> {
        let field = Arc::new(Field::new_list_field(DataType::UInt32, false));
        let list = |keys: &[u32]| -> Result<ArrayRef> {
            let offsets = OffsetBuffer::from_lengths([keys.len()]);
            let values = Arc::new(UInt32Array::from(keys.to_vec()));
            Ok(Arc::new(ListArray::try_new(Arc::clone(&field), offsets, values, None)?))
        };
        let batch = RecordBatch::try_from_iter([("x", list(a)?), ("y", list(b)?)])?;
        let context = data::session(SessionConfig::new().with_target_partitions(threads))?;
        context.register_batch("pair", batch)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { context, runtime })
    }

    fn run(&self) -> Result<u64> {
        let query = "SELECT overlap(x, y) FROM pair";
        let batches =
            self.runtime.block_on(async { self.context.sql(query).await?.collect().await })?;
        Ok(batches[0].column(0).as_primitive::<Int64Type>().value(0) as u64)
    }
}
