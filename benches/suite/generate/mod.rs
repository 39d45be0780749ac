//! Data like the published collections: deterministic, of any size, straight to Parquet.
//!
//! A [`Collection`](collection::Collection) says how many rows, how large the sets, how many
//! tokens and how skewed; [`sizes`] and [`zipf`] draw from such distributions, [`text`] makes the
//! titles of the bibliography. A share of the rows are perturbed copies of earlier ones, because
//! independent draws are hardly ever similar. Memory is bounded by a row group and the ring of
//! rows that copies are taken from. [`points`] draws vectors, [`draws`] makes a few large sets.

pub mod collection;
pub mod draws;
pub mod points;
pub mod random;
mod rows;
mod sizes;
mod statistics;
mod text;
mod write;
mod zipf;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::prelude::SessionConfig;

use crate::data::{self, DataOptions};
use collection::{COLLECTIONS, Collection};
use points::{Points, VectorCollection};
use write::Source;

/// The share of copies and the seed of data sets that benches make for themselves.
const COPIES: f64 = 0.1;
const SEED: u64 = 1;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// aol, bms-pos, dblp, enron, kosarak, livejournal, orkut, zipf10 or zipf55; of vectors: uniform8,
    /// gauss8, correlated8, susy, wave, bigcross, msd, sift, tiny, cifar, gist, uniform:D or latent:D
    name: String,
    /// Where to write
    out: PathBuf,
    /// A part of the published rows (1/16, 0.25), or a number of rows
    #[arg(long, default_value = "1")]
    scale: String,
    /// The share of rows that are perturbed copies of earlier ones
    #[arg(long, default_value_t = COPIES)]
    copies: f64,
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Rows a row group
    #[arg(long, default_value_t = 65_536)]
    row_group: usize,
}

#[derive(Debug, clap::Args)]
pub struct StatsArguments {
    #[command(flatten)]
    data: DataOptions,
    /// A data set whose token frequencies the others are compared with
    #[arg(long, value_name = "NAME")]
    like: Option<String>,
}

/// Writes one data set.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(collection) = VectorCollection::find(&arguments.name)? {
        let rows = rows_of(collection.rows, &arguments.scale)?;
        let source = Points::new(&collection, arguments.seed);
        write::write(source, rows, arguments.row_group.max(1), &arguments.out)?;
        println!("{}: {rows} vectors like {}", arguments.out.display(), arguments.name);
        return Ok(());
    }
    let collection = find(&arguments.name)?;
    if !(0.0..=1.0).contains(&arguments.copies) {
        return exec_err!("--copies is a share between 0 and 1, not {}", arguments.copies);
    }
    let rows = rows_of(collection.rows, &arguments.scale)?;
    let source = rows::Rows::new(collection, arguments.copies, arguments.seed);
    write::write(source, rows, arguments.row_group.max(1), &arguments.out)?;
    println!("{}: {rows} rows like {}", arguments.out.display(), collection.name);
    Ok(())
}

/// Prints the statistics of data sets, beside those published where they are generated.
pub fn run_stats(arguments: &StatsArguments) -> Result<()> {
    let model = match &arguments.like {
        Some(name) => Some(statistics::of(&arguments.data.find(name)?)?),
        None => None,
    };
    for name in arguments.data.names(&[]) {
        let statistics = statistics::of(&arguments.data.find(&name)?)?;
        let collection = name.split_once('@').and_then(|(name, _)| Collection::find(name));
        statistics.print(collection);
        if let Some(model) = &model {
            statistics.compare(model);
        }
    }
    Ok(())
}

/// The file of a generated data set, made unless it is there, and its sets in SQL.
pub fn cached(name: &str, amount: &str, folder: &Path) -> Result<(PathBuf, &'static str)> {
    let collection = find(name)?;
    let rows = rows_of(collection.rows, amount)?;
    let file = folder.join(format!("{name}-{rows}-{COPIES}-{SEED}.parquet"));
    let source = || rows::Rows::new(collection, COPIES, SEED);
    Ok((made(file, rows, source)?, collection.sets()))
}

/// The file of a generated collection of vectors, made unless it is there.
pub fn cached_vectors(
    collection: &VectorCollection,
    amount: &str,
    folder: &Path,
) -> Result<PathBuf> {
    let rows = rows_of(collection.rows, amount)?;
    let VectorCollection { name, dimensions, .. } = collection;
    let file = folder.join(format!("{name}-{dimensions}-{rows}-{SEED}.parquet"));
    made(file, rows, || Points::new(collection, SEED))
}

/// `file`, made unless it is there.
fn made<S: Source>(file: PathBuf, rows: u64, source: impl Fn() -> S) -> Result<PathBuf> {
    if !file.is_file() {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let unfinished = file.with_extension("unfinished");
        write::write(source(), rows, 65_536, &unfinished)?;
        std::fs::rename(&unfinished, &file)?;
    }
    Ok(file)
}

/// The sets of some rows, in memory.
pub fn sample(collection: &Collection, rows: u64, seed: u64) -> Result<Vec<ArrayRef>> {
    let batch = rows::Rows::new(collection, COPIES, seed).batch(0, rows)?;
    let context = data::session(SessionConfig::new())?;
    context.register_batch("rows", batch)?;
    let query = format!("SELECT {} AS tokens FROM rows", collection.sets());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let batches = runtime.block_on(async { context.sql(&query).await?.collect().await })?;
    Ok(batches.iter().map(|batch| Arc::clone(batch.column(0))).collect())
}

fn find(name: &str) -> Result<&'static Collection> {
    Collection::find(name).ok_or_else(|| {
        let mut names: Vec<&str> = COLLECTIONS.iter().map(|c| c.name).collect();
        names.extend(points::COLLECTIONS.iter().map(|c| c.name));
        exec_datafusion_err!("there is no collection {name}; there are {}", names.join(", "))
    })
}

/// How many rows `amount` is: a fraction or share of the published number, or above 1 the number.
fn rows_of(published: u64, amount: &str) -> Result<u64> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|v| *v > 0.0);
    let value = match amount.split_once('/') {
        Some((part, whole)) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
        None => number(amount),
    };
    match value {
        Some(rows) if rows > 1.0 => Ok(rows as u64),
        Some(share) => Ok(((published as f64 * share) as u64).max(1)),
        None => exec_err!("'{amount}' is no size; use a part such as 1/16 or a number of rows"),
    }
}
