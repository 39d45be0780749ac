//! Programs that are run beside the engine, each given by a path; none is built or kept here.
//!
//! All of them get the same prepared input: sets by size, tokens as ascending frequency ranks.
//! What each one times of itself leaves reading and preparation out, except where stated.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int32Builder, Int64Array, ListBuilder, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::datasource::MemTable;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_simjoin::internals::set::SetCollection;

use crate::data;

/// A competitor.
#[derive(Debug, Clone)]
pub enum Competitor {
    /// Willi Mann's framework: <https://ssjoin.dbresearch.uni-salzburg.at>, and one of its
    /// algorithms. Its times are processor time of index and join, in whole milliseconds.
    Mann { program: PathBuf, algorithm: &'static str },
    /// DuckDB's command line with the join of [`prefix_filter_sql`] on one thread.
    DuckDb { program: PathBuf },
    /// Plain DataFusion with the same join on one partition.
    DataFusion,
    /// The Python package SetSimilaritySearch; its time has its own ordering of tokens in it.
    SetSimilaritySearch { python: PathBuf },
}

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    Done {
        seconds: f64,
        pairs: u64,
    },
    /// Cut off after the time limit.
    TimedOut,
}

/// The same sets in the formats that competitors read.
pub struct Inputs {
    folder: tempfile::TempDir,
    batch: RecordBatch,
}

impl Inputs {
    pub fn write(sets: &SetCollection) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        data::export_text(sets, &folder.path().join("sets.txt"))?;
        let batch = as_table(sets)?;
        Ok(Self { folder, batch })
    }

    fn text(&self) -> PathBuf {
        self.folder.path().join("sets.txt")
    }

    /// The Parquet form, written when first asked for.
    fn parquet(&self) -> Result<PathBuf> {
        let path = self.folder.path().join("sets.parquet");
        if !path.is_file() {
            let mut writer = ArrowWriter::try_new(File::create(&path)?, self.batch.schema(), None)?;
            writer.write(&self.batch)?;
            writer.close()?;
        }
        Ok(path)
    }
}

/// A row for each row of the input: `id` in the order of sizes, the size `n` and the tokens.
fn as_table(sets: &SetCollection) -> Result<RecordBatch> {
    let item = Arc::new(Field::new("item", DataType::Int32, false));
    let mut lists = ListBuilder::new(Int32Builder::new()).with_field(Arc::clone(&item));
    let mut sizes = vec![];
    for set in 0..sets.len() {
        for _ in sets.groups().slots(set..set + 1) {
            sets.tokens(set).iter().for_each(|&token| lists.values().append_value(token as i32));
            lists.append(true);
            sizes.push(i64::from(sets.size(set)));
        }
    }
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int64, false),
        Field::new("tokens", DataType::List(item), false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..sizes.len() as i64)),
        Arc::new(Int64Array::from(sizes)),
        Arc::new(lists.finish()),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// The prefix filter as one would write it by hand in SQL: candidates share a token of their
/// prefixes, then the whole lists are intersected. Rounded so that no pair is lost.
fn prefix_filter_sql(threshold: f64) -> String {
    format!(
        "WITH prefix AS (
           SELECT id, n, unnest(array_slice(tokens, 1,
             n - CAST(ceil({threshold} * n - 0.000001) AS BIGINT) + 1)) AS token FROM sets),
         candidate AS (
           SELECT DISTINCT a.id AS a, b.id AS b FROM prefix a JOIN prefix b ON a.token = b.token
           WHERE a.id < b.id AND a.n >= {threshold} * b.n - 0.000001),
         pair AS (
           SELECT x.n + y.n AS n, array_length(array_intersect(x.tokens, y.tokens)) AS o
           FROM candidate JOIN sets x ON x.id = candidate.a JOIN sets y ON y.id = candidate.b)
         SELECT count(*) FROM pair WHERE CAST(o AS DOUBLE) / (n - o) >= {threshold};"
    )
}

impl Competitor {
    /// The name in figures.
    pub fn name(&self) -> String {
        match self {
            Self::Mann { algorithm, .. } => format!("mann-{algorithm}"),
            Self::DuckDb { .. } => "duckdb-sql".to_string(),
            Self::DataFusion => "datafusion-sql".to_string(),
            Self::SetSimilaritySearch { .. } => "setsimilaritysearch".to_string(),
        }
    }

    /// Joins the sets with themselves at a Jaccard threshold, counting unordered pairs of rows.
    ///
    /// # Errors
    ///
    /// When the program cannot be run, fails, or does not print what it is expected to.
    pub fn run(&self, inputs: &Inputs, threshold: f64, limit: Duration) -> Result<Outcome> {
        match self {
            Self::Mann { program, algorithm } => {
                let mut command = Command::new(program);
                command.arg("--timings").arg("--input").arg(inputs.text());
                command.args(["--algorithm", algorithm, "--threshold", &threshold.to_string()]);
                read(command, limit, |text| {
                    let pairs = number_behind(text, "Result pair count:")?;
                    let millis =
                        number_behind(text, "algoindex")? + number_behind(text, "algojoin")?;
                    Some((millis / 1e3, pairs as u64))
                })
            }
            Self::DuckDb { program } => {
                let mut command = Command::new(program);
                let load = format!(
                    "SET threads = 1; CREATE TABLE sets AS SELECT * FROM '{}';",
                    inputs.parquet()?.display()
                );
                command.args(["-csv", "-noheader", "-c", &load, "-c", ".timer on", "-c"]);
                command.arg(prefix_filter_sql(threshold));
                read(command, limit, |text| {
                    let pairs = text.lines().find_map(|line| line.trim().parse().ok())?;
                    Some((number_behind(text, "Run Time (s): real")?, pairs))
                })
            }
            Self::SetSimilaritySearch { python } => {
                const SCRIPT: &str = "\
import sys, time
from SetSimilaritySearch import all_pairs
sets = [[int(t) for t in line.split()] for line in open(sys.argv[1])]
start = time.perf_counter()
pairs = sum(1 for _ in all_pairs(sets, 'jaccard', float(sys.argv[2])))
print('pairs:', pairs)
print('seconds:', time.perf_counter() - start)
";
                let mut command = Command::new(python);
                command.args(["-c", SCRIPT]).arg(inputs.text()).arg(threshold.to_string());
                read(command, limit, |text| {
                    let pairs = number_behind(text, "pairs:")?;
                    Some((number_behind(text, "seconds:")?, pairs as u64))
                })
            }
            Self::DataFusion => plain_datafusion(inputs, threshold, limit),
        }
    }
}

/// Runs a program and reads its output, or stops it at the time limit.
fn read(
    mut command: Command,
    limit: Duration,
    parse: impl Fn(&str) -> Option<(f64, u64)>,
) -> Result<Outcome> {
    let program = PathBuf::from(command.get_program());
    let failed = |what: &str| exec_datafusion_err!("{}: {what}", program.display());
    // Into a file: a pipe could fill up.
    let output = tempfile::NamedTempFile::new()?;
    command.stdin(Stdio::null()).stdout(output.reopen()?).stderr(output.reopen()?);
    let mut child = command.spawn().map_err(|e| failed(&e.to_string()))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(Outcome::TimedOut);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = std::fs::read_to_string(output.path())?;
    match parse(&text) {
        Some((seconds, pairs)) if status.success() => Ok(Outcome::Done { seconds, pairs }),
        _ => Err(failed(&format!("{status}, with the output {text}"))),
    }
}

/// The number that follows `label`.
fn number_behind(text: &str, label: &str) -> Option<f64> {
    let rest = &text[text.find(label)? + label.len()..];
    rest.split_whitespace().next()?.parse().ok()
}

fn plain_datafusion(inputs: &Inputs, threshold: f64, limit: Duration) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    // In batches of the usual size, as a file would give them.
    let rows = inputs.batch.num_rows();
    let batches = (0..rows).step_by(8192).map(|at| inputs.batch.slice(at, 8192.min(rows - at)));
    let table = MemTable::try_new(inputs.batch.schema(), vec![batches.collect()])?;
    context.register_table("sets", Arc::new(table))?;
    let start = Instant::now();
    let sql = prefix_filter_sql(threshold);
    let query = async { context.sql(sql.trim_end_matches(';')).await?.collect().await };
    match runtime.block_on(async { tokio::time::timeout(limit, query).await }) {
        Err(_) => Ok(Outcome::TimedOut),
        Ok(batches) => {
            let seconds = start.elapsed().as_secs_f64();
            let batches = batches?;
            let Some(count) = batches.first().map(|b| b.column(0).as_primitive::<Int64Type>())
            else {
                return exec_err!("plain DataFusion gave no count");
            };
            Ok(Outcome::Done { seconds, pairs: count.value(0) as u64 })
        }
    }
}

/// The competitors that were given.
pub fn chosen(
    mann: Option<&Path>,
    duckdb: Option<&Path>,
    python: Option<&Path>,
    datafusion: bool,
) -> Vec<Competitor> {
    let mut all = vec![];
    if let Some(program) = mann {
        for algorithm in ["allpairs", "ppjoin", "groupjoin"] {
            all.push(Competitor::Mann { program: program.into(), algorithm });
        }
    }
    all.extend(duckdb.map(|program| Competitor::DuckDb { program: program.into() }));
    all.extend(python.map(|python| Competitor::SetSimilaritySearch { python: python.into() }));
    all.extend(datafusion.then_some(Competitor::DataFusion));
    all
}
