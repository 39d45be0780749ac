//! Rows that the tiles of a distributed join send and join, and the bands of an out-of-core one:
//! counted on real and generated collections, without running a join.
//!
//! ```text
//! collection ──► rows: sets by (size, hash) ─┬► grid, by the product's tiling ──► load of each task ──► shuffle.csv
//!                                            └► bands ──────────────────────────► visits of each row ─► bands.csv
//! ```

mod bands;
mod check;
mod grid;
mod load;
mod rows;

use std::path::PathBuf;

use datafusion::common::Result;
use datafusion_simjoin::internals::set::{Bounds, Measure};

use crate::csv::CsvWriter;
use crate::data::{self, DataOptions, Encoded};
use crate::{engine, machine};
use bands::Bands;
pub use check::run as check;
use grid::{Counts, Grid};
use load::{Load, Summary};
use rows::{Input, ROW_BYTES, TOKEN_BYTES, mix};

/// Data sets on which the plans are compared: real ones, the published collections, and those that
/// are skewed on purpose.
const PLANNED: &[&str] = &[
    "retail",
    "kosarak_36k",
    "tags_askubuntu",
    "dblp_coauthors",
    "accidents_15k",
    "ego_twitter",
    "imdb_reviews",
    "abcnews_3g",
    "glottolog_2g",
    "soc_slashdot",
    "chess",
    "zipf10@1",
    "zipf55@1",
    "aol@200000",
    "bms-pos@200000",
    "dblp@64000",
    "enron@50000",
    "kosarak@200000",
    "livejournal@100000",
    "orkut@50000",
    "onesize@100000",
    "onetoken@100000",
];

/// More on which bands alone are counted.
const BANDED: &[&str] = &[
    "mushroom",
    "ml_1m",
    "enron1_emails",
    "bms_webview1",
    "amazon_beauty",
    "t10i4d100k",
    "dblp_titles_dirty_2g",
    "ml_papers_words",
    "english_words_3g",
];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    data: DataOptions,
    /// What to count: plans, bands
    #[arg(long, value_delimiter = ',', default_values_t = ["plans", "bands"].map(str::to_string))]
    parts: Vec<String>,
    /// Joins of a collection with itself (self), of its even with its odd rows (halves), or of
    /// its first rows with the others (a number)
    #[arg(long, value_delimiter = ',', default_values_t = ["self".to_string()])]
    joins: Vec<String>,
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95])]
    thresholds: Vec<f64>,
    /// Symmetric measures with bounds of size
    #[arg(long, value_delimiter = ',', value_parser = engine::measure,
        default_values_t = [Measure::Jaccard])]
    measures: Vec<Measure>,
    /// Tasks
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 16, 64, 256, 1024])]
    tasks: Vec<usize>,
    /// Bands
    #[arg(long, value_delimiter = ',', default_values_t = [5, 10, 20, 50])]
    bands: Vec<usize>,
    /// Folder of the figures
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// The columns of shuffle.csv. Of the plans, `tiles` are the product's, `tiles left once` those of a
/// join that lists rows of its left side.
///
/// `rows`, `sets` and `tokens` are those of the input, `sent_*` what moves, `copies` the rows sent
/// for each of the input. Of rows, tokens, admissible pairs and estimated seconds of one core (55 ns a
/// token and 0.3 ns a pair) the mean task and the greatest one, as a multiple of it.
const PLANS: &str = "data,join,rows,sets,tokens,measure,threshold,plan,tasks,sent_rows,sent_bytes,\
                     copies,rows_mean,rows_skew,tokens_mean,tokens_skew,pairs_mean,pairs_skew,\
                     bitmap_seconds_mean,bitmap_seconds_skew";

/// The columns of bands.csv: the mean number of bands that a row visits, and weighted by tokens.
/// `cuts` is `anywhere` (bands of equal tokens, a size may be cut into blocks) or `sizes` (bands
/// of whole sizes; `made` of them, the greatest `greatest` times an equal share).
const BANDS: &str =
    "data,join,rows,sizes,measure,threshold,bands,cuts,made,greatest,visits,visits_by_tokens";

/// Counts, and appends to shuffle.csv and bands.csv.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let asked = |part: &str| arguments.parts.iter().any(|p| p == part);
    let more = if asked("plans") { &[] } else { BANDED };
    for name in arguments.data.names(&[PLANNED, more].concat()) {
        let set = arguments.data.find(&name)?;
        let encoded = data::encode(&set.name, &set.read()?, 1)?;
        for join in &arguments.joins {
            let input = match (join.as_str(), join.parse()) {
                (_, Ok(first)) => Input::two_sided(&encoded.sets, |row: u32| row < first),
                ("halves", _) => {
                    Input::two_sided(&encoded.sets, |row| mix(row.into()).is_multiple_of(2))
                }
                ("self", _) => Input::self_join(&encoded.sets),
                _ => {
                    return datafusion::common::exec_err!(
                        "'{join}' is no join; there are self, halves, and a number of rows"
                    );
                }
            };
            for &measure in &arguments.measures {
                if asked("bands") {
                    count_bands(arguments, &encoded, join, &input, measure)?;
                }
                for &threshold in &arguments.thresholds {
                    if asked("plans") {
                        let bounds = Bounds::new(measure, threshold);
                        count_plans(arguments, &encoded, join, &input, bounds)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn count_plans(
    arguments: &Arguments,
    encoded: &Encoded,
    join: &str,
    input: &Input,
    bounds: Bounds,
) -> Result<()> {
    let mut csv = CsvWriter::append(&arguments.out.join("shuffle.csv"), PLANS)?;
    let counts = Counts::new(input);
    let (rows, tokens) = input.all();
    let mut write = |plan: &str, tasks: usize, loads: &[Load]| {
        let summary = Summary::new(loads, tasks);
        let sent = (summary.sum.rows, summary.sum.tokens);
        let figure = |value: f64| match value {
            value if value == 0.0 || value >= 1000.0 => format!("{value:.0}"),
            value => format!("{value:.3e}"),
        };
        let skew = |spread: load::Spread| format!("{:.3}", spread.skew());
        csv.row(&[
            &encoded.name,
            &join,
            &rows,
            &input.content.len(),
            &tokens,
            &bounds.measure.name(),
            &bounds.threshold,
            &plan,
            &tasks,
            &sent.0,
            &(sent.0 * ROW_BYTES + sent.1 * TOKEN_BYTES),
            &format!("{:.3}", sent.0 as f64 / rows.max(1) as f64),
            &figure(summary.rows.mean),
            &skew(summary.rows),
            &figure(summary.tokens.mean),
            &skew(summary.tokens),
            &figure(summary.pairs.mean),
            &skew(summary.pairs),
            &figure(summary.bitmap_seconds.mean),
            &skew(summary.bitmap_seconds),
        ])
    };
    for &tasks in &arguments.tasks {
        // Only two-sided joins preserve rows of one side.
        let grids = [("tiles", false), ("tiles left once", true)];
        for (plan, left_once) in grids.into_iter().take(if input.is_self_join() { 1 } else { 2 }) {
            let grid = Grid::plan(input, &counts, bounds, tasks, left_once)?;
            write(plan, tasks, &grid.loads())?;
        }
    }
    Ok(())
}

fn count_bands(
    arguments: &Arguments,
    encoded: &Encoded,
    join: &str,
    input: &Input,
    measure: Measure,
) -> Result<()> {
    let mut csv = CsvWriter::append(&arguments.out.join("bands.csv"), BANDS)?;
    let (build, probe) = (input.right().histogram(), input.left.histogram());
    for &threshold in &arguments.thresholds {
        let bounds = Bounds::new(measure, threshold);
        for &pieces in &arguments.bands {
            for (cuts, whole_sizes) in [("anywhere", false), ("sizes", true)] {
                let bands = Bands::new(&build, pieces, whole_sizes);
                let (visits, by_tokens) =
                    bands::replication(&bands, &probe, bounds, input.is_self_join());
                csv.row(&[
                    &encoded.name,
                    &join,
                    &input.all().0,
                    &build.len(),
                    &measure.name(),
                    &threshold,
                    &pieces,
                    &cuts,
                    &bands.bands,
                    &format!("{:.2}", bands.greatest),
                    &format!("{visits:.3}"),
                    &format!("{by_tokens:.3}"),
                ])?;
            }
        }
    }
    Ok(())
}
