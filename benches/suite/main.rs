//! The benches of the engine: data generator, phases, joins, competitors, summaries and plots.
//!
//! `cargo bench --bench suite -- --help` lists the commands; benches/README.md says what each
//! measures and how the figures of the README were made. Without a command (as `cargo test
//! --benches` runs it) the suite checks itself in a few seconds.
//!
//! ```text
//! generate ──► Parquet ─┐
//! real data ────────────┴► data ──► engine (join, phases, scaling, growth) ──► CSV ─► report
//!                            └────► versus: the engine and competitors by turns ─► CSV ─┘  └► plot
//! ```

mod cliffs;
mod competitors;
mod csv;
mod data;
mod engine;
mod generate;
mod gpu;
mod growth;
mod intersect;
mod join;
mod large;
mod machine;
mod memory;
mod partners;
mod phases;
mod plot;
mod popcount;
mod report;
mod selfcheck;
mod shuffle;
mod sql;
mod vectors;
mod versus;
mod ways;

use clap::{Parser, Subcommand};
use datafusion::common::Result;

// The allocator of the command line, so that the figures carry over.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "suite", about = "Benches of the set-similarity join")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Given by `cargo bench`; means nothing.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a data set like one of the published collections to Parquet
    Generate(generate::Arguments),
    /// Write large sets, as they are drawn for published intersections, to Parquet
    GenerateLarge(generate::draws::Arguments),
    /// Print the statistics of a data set beside those of the collection it is like
    Stats(generate::StatsArguments),
    /// Join a collection with itself, without SQL: strategies, thresholds, threads, measures
    Join(join::Arguments),
    /// Join a collection of vectors with itself, without SQL: functions, thresholds, strategies, devices
    Vectors(vectors::Arguments),
    /// Time each phase: encode, index, filter, verify, output
    Phases(phases::Arguments),
    /// Run joins end to end through SQL
    Sql(sql::Arguments),
    /// Run competitors beside the engine
    Versus(versus::Arguments),
    /// Intersect two lists of integers
    Intersect(intersect::Arguments),
    /// Verification on a GPU
    Gpu(gpu::Arguments),
    /// Time and memory against size
    Growth(growth::Arguments),
    /// Statements that take ten times more at twice the rows, or at half or twice the memory limit
    Cliffs(cliffs::Arguments),
    /// Count what a cluster's tiles send and do, and how many bands rows visit out of core
    Shuffle(shuffle::Arguments),
    /// Turn the CSV files of a run into a summary and plots
    Report(report::Arguments),
}

fn main() -> Result<()> {
    // Cargo runs benches in the folder of their package; names of files mean the root of the repository.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    if std::path::Path::new(root).join("benches/suite").is_dir() {
        std::env::set_current_dir(root)?;
    }
    match Arguments::parse().command {
        None => selfcheck::run(),
        Some(Command::Generate(arguments)) => generate::run(&arguments),
        Some(Command::GenerateLarge(arguments)) => generate::draws::run(&arguments),
        Some(Command::Stats(arguments)) => generate::run_stats(&arguments),
        Some(Command::Join(arguments)) => join::run(&arguments),
        Some(Command::Vectors(arguments)) => vectors::run(&arguments),
        Some(Command::Phases(arguments)) => phases::run(&arguments),
        Some(Command::Sql(arguments)) => sql::run(&arguments),
        Some(Command::Intersect(arguments)) => intersect::run(&arguments),
        Some(Command::Versus(arguments)) => versus::run(&arguments),
        Some(Command::Gpu(arguments)) => gpu::run(&arguments),
        Some(Command::Growth(arguments)) => growth::run(&arguments),
        Some(Command::Cliffs(arguments)) => cliffs::run(&arguments),
        Some(Command::Shuffle(arguments)) => shuffle::run(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments),
    }
}
