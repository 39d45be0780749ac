//! Large sets, as Bellas and Gounaris draw them ("A methodology for large set intersection on GPUs",
//! DOLAP 2021): so many draws from a universe, of which each value is kept once.
//!
//! The published names give the number of draws, not of different values: of 10⁷ draws from a normal
//! distribution 3.7 million remain. The command prints what remains.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{available_parallelism, scope};

use arrow::array::{Int32Array, Int64Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, exec_err};
use datafusion::parquet::arrow::ArrowWriter;

use super::random::Random;
use super::zipf::Zipf;

/// The exponent of the published Zipfian data.
const EXPONENT: f64 = 0.9;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(value_enum)]
    distribution: Distribution,
    /// Values lie between 1 and this
    #[arg(long, default_value_t = 100_000_000)]
    universe: u64,
    /// Draws for each set
    #[arg(long, default_value_t = 1_000_000)]
    draws: u64,
    #[arg(long, default_value_t = 2)]
    sets: u64,
    #[arg(long, default_value_t = super::SEED)]
    seed: u64,
    /// Where to write
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Distribution {
    /// Each value alike
    Uniform,
    /// Around half the universe, with a tenth of the draws as deviation
    Normal,
    /// By rank, with exponent 0.9
    Zipf,
}

/// Writes sets with the columns `id` (Int64, from 0) and `tokens` (ascending List of Int32), one at
/// a time, and prints their sizes.
pub fn run(arguments: &Arguments) -> Result<()> {
    if !(1..=i32::MAX as u64).contains(&arguments.universe) {
        return exec_err!("--universe lies between 1 and {}", i32::MAX);
    }
    let item = Arc::new(Field::new("item", DataType::Int32, false));
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("tokens", DataType::List(Arc::clone(&item)), false),
    ]));
    let mut writer =
        ArrowWriter::try_new(File::create(&arguments.out)?, Arc::clone(&schema), None)?;
    let (mut least, mut greatest, mut sum) = (usize::MAX, 0, 0);
    for (id, values) in (0..).zip(drawn(arguments)) {
        least = least.min(values.len());
        greatest = greatest.max(values.len());
        sum += values.len();
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let lists = ListArray::try_new(
            Arc::clone(&item),
            offsets,
            Arc::new(Int32Array::from(values)),
            None,
        )?;
        let ids = Int64Array::from(vec![id]);
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids), Arc::new(lists)])?;
        writer.write(&batch)?;
        // One set a row group: memory holds no more.
        writer.flush()?;
    }
    writer.close()?;
    let average = sum as f64 / arguments.sets.max(1) as f64;
    println!(
        "{}: {} sets of {} draws; distinct values: {} to {greatest}, {average:.0} on average",
        arguments.out.display(),
        arguments.sets,
        arguments.draws,
        least.min(greatest),
    );
    Ok(())
}

/// Some sets of so many draws each.
pub fn sets(distribution: Distribution, universe: u64, draws: u64, count: u64) -> Vec<Vec<u32>> {
    let out = PathBuf::new();
    let seed = super::SEED;
    let arguments = Arguments { distribution, universe, draws, sets: count, seed, out };
    let unsigned = |values: Vec<i32>| values.into_iter().map(|value| value as u32).collect();
    drawn(&arguments).map(unsigned).collect()
}

/// The sets in turn. Each has a seed of its own, so that all cores draw, one set each at a time.
fn drawn(arguments: &Arguments) -> impl Iterator<Item = Vec<i32>> {
    let cores = available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut seeds = Random::new(arguments.seed);
    let at_once = move |first: u64| {
        let ids = first..arguments.sets.min(first + cores);
        let randoms: Vec<_> = ids.map(|_| Random::new(seeds.next())).collect();
        scope(|scope| {
            let draw = |mut random| scope.spawn(move || set(arguments, &mut random));
            let draws: Vec<_> = randoms.into_iter().map(draw).collect();
            let drawn = draws.into_iter().map(|draw| draw.join().expect("drawing does not panic"));
            drawn.collect::<Vec<_>>()
        })
    };
    (0..arguments.sets).step_by(cores as usize).flat_map(at_once)
}

/// The different values of so many draws, ascending.
fn set(arguments: &Arguments, random: &mut Random) -> Vec<i32> {
    let universe = arguments.universe;
    let zipf = Zipf::new(universe, EXPONENT, 0.0);
    let mut values: Vec<i32> = (0..arguments.draws)
        .map(|_| match arguments.distribution {
            Distribution::Uniform => random.below(universe as usize) as i32 + 1,
            Distribution::Normal => normal(universe, arguments.draws, random),
            Distribution::Zipf => zipf.draw(random) as i32 + 1,
        })
        .collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// A normal draw that lies in the universe (Box, Muller: "A note on the generation of random normal
/// deviates", 1958).
fn normal(universe: u64, draws: u64, random: &mut Random) -> i32 {
    loop {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        let deviate = radius * (std::f64::consts::TAU * random.unit()).cos();
        let value = universe as f64 / 2.0 + deviate * draws as f64 / 10.0;
        if (1.0..=universe as f64).contains(&value.round()) {
            return value.round() as i32;
        }
    }
}

/// Holds the sizes of sets of a million draws to what is known of the published ones.
///
/// # Errors
///
/// When one differs.
pub fn check() -> Result<()> {
    use Distribution::{Normal, Uniform, Zipf};
    for (distribution, published) in [(Uniform, 995_000), (Normal, 376_000), (Zipf, 640_000)] {
        let arguments = Arguments {
            distribution,
            universe: 100_000_000,
            draws: 1_000_000,
            sets: 1,
            seed: 1,
            out: PathBuf::new(),
        };
        let found = set(&arguments, &mut Random::new(1)).len();
        if found.abs_diff(published) > published / 50 {
            return exec_err!("{distribution:?}: {found} distinct values, not {published}");
        }
    }
    Ok(())
}
