//! Competitors and the engine by turns, in one run, on the same prepared sets, one thread each.

use std::path::PathBuf;
use std::time::Duration;

use datafusion::common::{Result, exec_err};
use datafusion_simjoin::config::StrategyName;
use datafusion_simjoin::internals::simd::Simd;

use crate::competitors::{self, Competitor, Inputs, Outcome};
use crate::csv::CsvWriter;
use crate::data::{self, DataOptions, Encoded};
use crate::engine::{self, Point};
use crate::join::THRESHOLDS;
use crate::machine;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    /// Binary of Willi Mann's framework, run with allpairs, ppjoin and groupjoin
    #[arg(long, value_name = "PATH")]
    mann: Option<PathBuf>,
    /// DuckDB's command line
    #[arg(long, value_name = "PATH")]
    duckdb: Option<PathBuf>,
    /// A Python that has the package SetSimilaritySearch
    #[arg(long, value_name = "PATH")]
    setsimilaritysearch: Option<PathBuf>,
    /// Plain DataFusion with a prefix filter in SQL
    #[arg(long)]
    datafusion: bool,
    /// Strategies of the engine
    #[arg(long, value_delimiter = ',', value_parser = engine::strategy,
        default_values_t = [StrategyName::AUTO])]
    strategies: Vec<StrategyName>,
    /// Forms of the engine's vector kernels; the fastest one when left out
    #[arg(long, value_delimiter = ',', value_parser = engine::simd,
        default_values_t = [engine::default_simd()])]
    simd: Vec<Simd>,
    #[arg(long, value_delimiter = ',', default_values_t = THRESHOLDS.to_vec())]
    thresholds: Vec<f64>,
    /// Runs of each
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A join that takes longer than this runs once, in seconds
    #[arg(long, default_value_t = 10.0)]
    once_above: f64,
    /// A competitor is stopped after this time, in seconds, and not asked for lower thresholds
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// The columns of versus.csv. `seconds` of the engine are processor time, because those of Mann's
/// framework are; `pairs` of a run that was stopped is empty.
const HEADER: &str = "data,rows,sets,tokens,threshold,system,chosen,run,seconds,wall_seconds,pairs";

/// A program to be timed.
enum System {
    Engine(StrategyName, Simd),
    Competitor(Competitor),
}

struct Contender {
    system: System,
    /// Whether another run of the current point is wanted.
    again: bool,
    /// Stopped by the time limit: lower thresholds take longer still.
    out: bool,
}

/// Runs all systems on all points and appends to versus.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    let rivals = competitors::chosen(
        arguments.mann.as_deref(),
        arguments.duckdb.as_deref(),
        arguments.setsimilaritysearch.as_deref(),
        arguments.datafusion,
    );
    if rivals.is_empty() {
        return exec_err!(
            "name a competitor: --mann PATH, --duckdb PATH, --setsimilaritysearch PYTHON or \
             --datafusion"
        );
    }
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("versus.csv"), HEADER)?;
    let mut thresholds = arguments.thresholds.clone();
    thresholds.sort_by(|a, b| b.total_cmp(a));
    let default = [data::STATED, data::BIBLIOGRAPHIC].concat();
    for name in arguments.data.names(&default) {
        let set = arguments.data.find(&name)?;
        let encoded = data::encode(&set.name, &set.read()?, 1)?;
        let inputs = Inputs::write(&encoded.sets)?;
        let forms =
            |strategy| arguments.simd.iter().map(move |form| System::Engine(strategy, *form));
        let own = arguments.strategies.iter().copied().flat_map(forms);
        let systems = own.chain(rivals.iter().cloned().map(System::Competitor));
        let mut contenders: Vec<Contender> =
            systems.map(|system| Contender { system, again: true, out: false }).collect();
        for &threshold in &thresholds {
            contenders.iter_mut().for_each(|c| c.again = !c.out);
            for run in 0..arguments.runs.max(1) {
                for contender in contenders.iter_mut().filter(|c| c.again) {
                    one_run(arguments, &encoded, &inputs, threshold, run, contender, &mut csv)?;
                }
            }
        }
    }
    Ok(())
}

fn one_run(
    arguments: &Arguments,
    encoded: &Encoded,
    inputs: &Inputs,
    threshold: f64,
    run: usize,
    contender: &mut Contender,
    csv: &mut CsvWriter,
) -> Result<()> {
    let sets = &encoded.sets;
    let mut wall = String::new();
    let (name, chosen, outcome) = match &contender.system {
        &System::Engine(strategy, simd) => {
            let point = Point { simd, ..Point::jaccard(threshold, strategy) };
            let joined = engine::self_join(sets, &point)?;
            wall = format!("{:.6}", joined.seconds());
            let seconds = joined.processor_seconds;
            let outcome = Outcome::Done { seconds, pairs: joined.row_pairs };
            // The plain name stands for what runs unless one asks for less.
            let name = match simd == Simd::detect() {
                true => format!("simjoin-{strategy}"),
                false => format!("simjoin-{strategy}-{simd}"),
            };
            (name, joined.strategy, outcome)
        }
        System::Competitor(rival) => {
            let limit = Duration::from_secs(arguments.limit);
            (rival.name(), "", rival.run(inputs, threshold, limit)?)
        }
    };
    let (seconds, pairs) = match outcome {
        Outcome::Done { seconds, pairs } => {
            contender.again = seconds <= arguments.once_above;
            (seconds, pairs.to_string())
        }
        Outcome::TimedOut => {
            (contender.again, contender.out) = (false, true);
            (arguments.limit as f64, String::new())
        }
    };
    csv.row(&[
        &encoded.name,
        &sets.row_count(),
        &sets.len(),
        &sets.token_count(),
        &threshold,
        &name,
        &chosen,
        &run,
        &format!("{seconds:.6}"),
        &wall,
        &pairs,
    ])
}
