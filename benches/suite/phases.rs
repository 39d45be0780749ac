//! One phase at a time: encode, index, filter, verify, output; and their shares by threads.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion_simjoin::config::StrategyName;

use crate::csv::{CsvWriter, median};
use crate::data::{self, DataOptions, DataSet, Encoded};
use crate::engine::{self, Point};
use crate::machine;
use crate::sql::Session;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    /// Phases
    #[arg(long, value_delimiter = ',', default_values_t =
        ["encode", "index", "filter", "output", "shares"].map(str::to_string))]
    phases: Vec<String>,
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 0.8])]
    thresholds: Vec<f64>,
    /// Threads of the shares
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The output phase leaves out joins of more pairs
    #[arg(long, default_value_t = 400_000_000)]
    max_pairs: u64,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// The columns of phases.csv: how many units a phase handles in the median time of its runs, which
/// is the time that cores were busy, summed.
const HEADER: &str = "phase,data,variant,threshold,cores,unit,amount,seconds,million_per_second";

/// The columns of shares.csv: the wall time of each phase of a self-join by `auto`, in the median
/// of the runs, and the part of the whole that is over before the first item is probed.
const SHARES: &str =
    "data,threshold,chosen,threads,choose_seconds,index_seconds,probe_seconds,share_before_probing";

/// Times the phases and appends to phases.csv and shares.csv. `filter` gives `verify` as well.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("phases.csv"), HEADER)?;
    let asked = |phase: &str| arguments.phases.iter().any(|p| p == phase);
    for name in arguments.data.names(data::STATED) {
        let set = arguments.data.find(&name)?;
        let lists = set.read()?;
        let encoded = data::encode(&set.name, &lists, 1)?;
        if asked("encode") {
            encode(arguments, &set, &lists, &mut csv)?;
        }
        for &threshold in &arguments.thresholds {
            if asked("index") || asked("filter") {
                join(arguments, &encoded, threshold, &mut csv)?;
            }
            if asked("shares") {
                shares(arguments, &encoded, threshold)?;
            }
            if asked("output") {
                output(arguments, &set, &encoded, threshold, &mut csv)?;
            }
        }
    }
    Ok(())
}

struct Row<'a> {
    phase: &'a str,
    data: &'a str,
    variant: &'a str,
    threshold: &'a str,
    cores: usize,
    unit: &'a str,
    amount: u64,
    seconds: f64,
}

impl Row<'_> {
    fn write(&self, csv: &mut CsvWriter) -> Result<()> {
        csv.row(&[
            &self.phase,
            &self.data,
            &self.variant,
            &self.threshold,
            &self.cores,
            &self.unit,
            &self.amount,
            &format!("{:.6}", self.seconds),
            &format!("{:.3}", self.amount as f64 / 1e6 / self.seconds.max(1e-9)),
        ])
    }
}

/// Rows to an ordered collection, as they are and, where tokens are integers, as text.
fn encode(
    arguments: &Arguments,
    set: &DataSet,
    lists: &[ArrayRef],
    csv: &mut CsvWriter,
) -> Result<()> {
    let integers = lists.first().is_some_and(|l| match l.data_type() {
        DataType::List(item) => item.data_type().is_integer(),
        _ => false,
    });
    let text = || -> Result<Vec<ArrayRef>> {
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        lists.iter().map(|l| Ok(cast(l, &DataType::List(Arc::clone(&item)))?)).collect()
    };
    let mut variants = vec![(if integers { "integers" } else { "text" }, lists.to_vec())];
    if integers {
        variants.push(("text", text()?));
    }
    for (variant, lists) in variants {
        for cores in [1, 2] {
            let runs = (0..arguments.runs)
                .map(|_| data::encode(&set.name, &lists, cores))
                .collect::<Result<Vec<Encoded>>>()?;
            let seconds: Vec<f64> = runs.iter().map(|run| run.processor_seconds).collect();
            let amount = runs.first().map_or(0, |run| run.tokens as u64);
            let seconds = median(&seconds).unwrap_or_default();
            let (data, threshold, unit) = (set.name.as_str(), "", "tokens");
            Row { phase: "encode", data, variant, threshold, cores, unit, amount, seconds }
                .write(csv)?;
        }
    }
    Ok(())
}

/// Index, filter and verification of each strategy on one core.
fn join(
    arguments: &Arguments,
    encoded: &Encoded,
    threshold: f64,
    csv: &mut CsvWriter,
) -> Result<()> {
    for strategy in engine::fixed_strategies() {
        let point = Point::jaccard(threshold, strategy);
        let runs = (0..arguments.runs)
            .map(|_| engine::self_join(&encoded.sets, &point))
            .collect::<Result<Vec<_>>>()?;
        let Some(funnel) = runs.first().map(|run| run.funnel) else { continue };
        let of = |seconds: fn(&engine::Joined) -> f64| {
            median(&runs.iter().map(seconds).collect::<Vec<_>>()).unwrap_or_default()
        };
        let tokens = encoded.sets.token_count() as u64;
        let shown = threshold.to_string();
        let phases = [
            ("index", "tokens", tokens, of(|run| run.prepare_seconds)),
            ("filter", "postings", funnel.postings, of(|run| run.funnel.filter_nanos as f64 / 1e9)),
            (
                "verify",
                "candidates",
                funnel.verified,
                of(|run| run.funnel.verify_nanos as f64 / 1e9),
            ),
        ];
        for (phase, unit, amount, seconds) in phases {
            let (data, threshold) = (encoded.name.as_str(), shown.as_str());
            Row {
                phase,
                data,
                variant: &strategy.to_string(),
                threshold,
                cores: 1,
                unit,
                amount,
                seconds,
            }
            .write(csv)?;
        }
    }
    Ok(())
}

/// The shares of choosing, indexing and probing, by threads.
fn shares(arguments: &Arguments, encoded: &Encoded, threshold: f64) -> Result<()> {
    let mut csv = CsvWriter::append(&arguments.out.join("shares.csv"), SHARES)?;
    for &threads in &arguments.threads {
        let threads = threads.max(1);
        let point = Point { threads, ..Point::jaccard(threshold, StrategyName::AUTO) };
        let runs = (0..arguments.runs)
            .map(|_| engine::self_join(&encoded.sets, &point))
            .collect::<Result<Vec<_>>>()?;
        let Some(chosen) = runs.last().map(|run| run.strategy) else { continue };
        let of = |seconds: fn(&engine::Joined) -> f64| {
            median(&runs.iter().map(seconds).collect::<Vec<_>>()).unwrap_or_default()
        };
        let choose = of(|run| run.choose_seconds);
        let index = of(|run| run.prepare_seconds - run.choose_seconds);
        let share = of(|run| run.prepare_seconds / run.seconds().max(1e-9));
        csv.row(&[
            &encoded.name,
            &threshold,
            &chosen,
            &threads,
            &format!("{choose:.6}"),
            &format!("{index:.6}"),
            &format!("{:.6}", of(|run| run.probe_seconds)),
            &format!("{share:.3}"),
        ])?;
    }
    Ok(())
}

/// Pairs of two Int64 columns out of the SQL operator, the input in memory: the time of output
/// alone, and of the whole query.
fn output(
    arguments: &Arguments,
    set: &DataSet,
    encoded: &Encoded,
    threshold: f64,
    csv: &mut CsvWriter,
) -> Result<()> {
    let point = Point::jaccard(threshold, StrategyName::AUTO);
    if engine::self_join(&encoded.sets, &point)?.row_pairs > arguments.max_pairs {
        return Ok(());
    }
    let sql = format!(
        "SELECT a.id, b.id FROM sets a SIMJOIN sets b ON jaccard(a.tokens, b.tokens) >= {threshold}"
    );
    for cores in [1, 2] {
        let session = Session::new(&set.table, StrategyName::AUTO, cores)?;
        session.keep_in_memory()?;
        let runs = (0..arguments.runs).map(|_| session.run(&sql)).collect::<Result<Vec<_>>>()?;
        let amount = runs.first().map_or(0, |run| run.rows);
        let output: Vec<f64> = runs.iter().map(|run| run.metric("output_time")).collect();
        let whole = runs.iter().map(|run| run.processor_seconds).collect();
        for (variant, seconds) in [("output", output), ("whole query", whole)] {
            let seconds = median(&seconds).unwrap_or_default();
            let (data, threshold) = (set.name.as_str(), threshold.to_string());
            let threshold = threshold.as_str();
            Row {
                phase: "output",
                data,
                variant,
                threshold,
                cores,
                unit: "pairs",
                amount,
                seconds,
            }
            .write(csv)?;
        }
    }
    Ok(())
}
