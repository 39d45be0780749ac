//! A search for cliffs: statements that take ten times more processor time than at half the rows, or than under
//! half or twice the memory limit.
//!
//! Statements of many forms run in the command line, over data in which rows repeat in different ways: at growing
//! sizes without a limit, then at the greatest size that was in time under limits that double. Each run is a row of
//! cliffs.csv; neighbours that lie far apart are printed, as are answers that differ.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::common::{Result, exec_datafusion_err, exec_err};

use crate::csv::CsvWriter;
use crate::machine;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The command line that runs the statements
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_simjoin"))]
    program: PathBuf,
    /// Rows of a table
    #[arg(long, value_delimiter = ',', default_values_t = [4_000, 8_000, 16_000, 32_000, 64_000])]
    rows: Vec<u64>,
    /// Memory limits, in MB
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8, 16, 32, 64])]
    limits: Vec<u64>,
    /// Values of a row: sets, texts, vectors
    #[arg(long, value_delimiter = ',', default_values_t = names(VALUES))]
    values: Vec<String>,
    /// How values repeat: equal, few, zipf, distinct
    #[arg(long, value_delimiter = ',', default_values_t = names(REPEATS))]
    repeats: Vec<String>,
    /// Forms of statements; all where none is named
    #[arg(long, value_delimiter = ',', default_values_t = names(FORMS))]
    forms: Vec<String>,
    /// Processor seconds after which a statement is stopped
    #[arg(long, default_value_t = 30)]
    stop_above: u64,
    /// Folder of the figures and the tables
    #[arg(long, value_name = "DIR", default_value = "target/bench-runs")]
    out: PathBuf,
}

/// A name with what it stands for.
type Named = (&'static str, &'static str);

fn names(all: &[Named]) -> Vec<String> {
    all.iter().map(|(name, _)| (*name).to_string()).collect()
}

fn meaning(all: &[Named], name: &str) -> Result<&'static str> {
    match all.iter().find(|(known, _)| *known == name) {
        Some((_, meaning)) => Ok(meaning),
        None => exec_err!("{name} is none of {}", names(all).join(", ")),
    }
}

/// The value of a row by its item `i`.
const VALUES: &[Named] = &[
    ("sets", "[i, i + 1, i + 2, i + 3, i + 4]"),
    ("texts", "'John ' || lpad(CAST(i AS VARCHAR), 6, '0')"),
    ("vectors", "[sin(i), cos(i * 1.7), sin(i * 0.3), cos(i * 0.9)]"),
];

/// The item of a row by its number, of `{n}` rows.
const REPEATS: &[Named] = &[
    ("equal", "0"),
    ("few", "value % 16"),
    ("zipf", "CAST(exp(ln({n}) * (value * 7919 % 10007 / 10007.0)) AS BIGINT)"),
    ("distinct", "value"),
];

/// The score of a pair, its threshold, and what ranks before.
fn score(values: &str) -> [&'static str; 4] {
    match values {
        "sets" => ["jaccard(a.t, b.t)", ">= 0.6", "DESC", "SIMILARITY"],
        "texts" => ["levenshtein(a.t, b.t)", "<= 1", "", "DISTANCE"],
        _ => ["array_distance(a.t, b.t)", "<= 0.1", "", "DISTANCE"],
    }
}

/// Statements over the tables `{t}` and `{u}`, the predicate `{p}`, the score `{s}` in the order `{d}` or `{o}`.
const FORMS: &[Named] = &[
    ("count_lt", "SELECT count(*) FROM {t} a SIMJOIN {t} b ON {p} AND a.id < b.id"),
    ("count_ne", "SELECT count(*) FROM {t} a SIMJOIN {t} b ON {p} AND a.id <> b.id"),
    ("count_two", "SELECT count(*) FROM {t} a SIMJOIN {u} b ON {p} AND a.id < b.id"),
    (
        "count_left",
        "SELECT count(*), count(b.id) FROM {t} a LEFT SIMJOIN {u} b ON {p} AND a.id > b.id",
    ),
    (
        "group",
        "SELECT a.g, count(*) FROM {t} a SIMJOIN {t} b ON {p} AND a.id < b.id GROUP BY 1 ORDER BY 1",
    ),
    ("anti", "SELECT count(*) FROM {t} a LEFT ANTI SIMJOIN {t} b ON {p} AND a.id <> b.id"),
    (
        "best_of_each",
        "SELECT count(*), sum(o) FROM (SELECT a.id, b.id AS o FROM {t} a SIMJOIN {t} b ON {p} AND a.id <> b.id \
         QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY {s} {d}, b.id) <= 1)",
    ),
    (
        "any_best_of_each",
        "SELECT count(*) FROM (SELECT a.id, b.id AS o FROM {t} a SIMJOIN {u} b ON {p} \
         QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY {s} {d}) <= 3)",
    ),
    ("nearest", "SELECT count(*) FROM {t} a SIMJOIN {u} b NEAREST 1 BY {o} {s}"),
    ("nearest_ne", "SELECT count(*) FROM {t} a SIMJOIN {t} b NEAREST 3 BY {o} {s} ON a.id <> b.id"),
    ("nearest_lt", "SELECT count(*) FROM {t} a SIMJOIN {t} b NEAREST 2 BY {o} {s} ON a.id < b.id"),
    (
        "one_to_one",
        "SELECT count(*) FROM one_to_one((SELECT a.id, b.id, {s} FROM {t} a SIMJOIN {u} b ON {p}){by})",
    ),
    (
        "one_to_one_ne",
        "SELECT count(*) FROM one_to_one((SELECT a.id, b.id, {s} FROM {t} a SIMJOIN {t} b \
         ON {p} AND a.id <> b.id){by})",
    ),
    (
        "one_to_one_lt",
        "SELECT count(*) FROM one_to_one((SELECT a.id, b.id, {s} FROM {t} a SIMJOIN {t} b \
         ON {p} AND a.id < b.id){by})",
    ),
    (
        "components",
        "SELECT count(*) FROM connected_components((SELECT a.id, b.id FROM {t} a SIMJOIN {t} b \
         ON {p} AND a.id < b.id))",
    ),
    (
        "representatives",
        "SELECT count(*) FROM representatives((SELECT a.id, b.id FROM {t} a SIMJOIN {t} b \
         ON {p} AND a.id < b.id))",
    ),
    (
        "top",
        "SELECT count(*) FROM (SELECT a.id, b.id FROM {t} a SIMJOIN {t} b ON {p} AND a.id < b.id \
         ORDER BY {s} {d} LIMIT 10)",
    ),
];

/// The columns of cliffs.csv. `limit` is in MB, 0 without one; `outcome` is `done`, `stopped` or `refused`.
const HEADER: &str = "form,values,repeats,rows,limit,seconds,outcome";

/// Neighbours that take so many times more, and at least so many seconds, are a cliff.
const TIMES: f64 = 10.0;
const LEAST_SECONDS: f64 = 0.2;

/// Runs the statements and appends to cliffs.csv.
///
/// # Errors
///
/// When the program does not run, or statements give different answers.
pub fn run(arguments: &Arguments) -> Result<()> {
    machine::describe(&arguments.out)?;
    let mut csv = CsvWriter::append(&arguments.out.join("cliffs.csv"), HEADER)?;
    let tables = arguments.out.join("cliffs-tables");
    std::fs::create_dir_all(&tables)?;
    // What the program takes in any case.
    let start = arguments.run("SELECT 1", None)?.seconds;
    let mut found = vec![];
    for values in &arguments.values {
        for form in &arguments.forms {
            for repeats in &arguments.repeats {
                let case = Case { form, values, repeats, start };
                found.extend(case.run(arguments, &tables, &mut csv)?);
            }
        }
    }
    for cliff in &found {
        println!("{cliff}");
    }
    println!("{} cliffs or other findings", found.len());
    Ok(())
}

/// A statement over data of one kind.
struct Case<'a> {
    form: &'a str,
    values: &'a str,
    repeats: &'a str,
    start: f64,
}

/// A run of a statement.
struct Ran {
    seconds: f64,
    outcome: &'static str,
    answer: String,
}

impl Case<'_> {
    /// Runs the statement at all sizes and limits. Returns what is to be looked at.
    fn run(
        &self,
        arguments: &Arguments,
        tables: &Path,
        csv: &mut CsvWriter,
    ) -> Result<Vec<String>> {
        let Self { form, values, repeats, start } = self;
        let mut found = vec![];
        let mut run = |rows: u64, limit: Option<u64>, sql: &str| -> Result<Ran> {
            let ran = arguments.run(sql, limit)?;
            let seconds = (ran.seconds - start).max(0.0);
            csv.row(&[
                form,
                values,
                repeats,
                &rows,
                &limit.unwrap_or(0),
                &format!("{seconds:.3}"),
                &ran.outcome,
            ])?;
            Ok(Ran { seconds, ..ran })
        };
        let mut compare = |last: Option<f64>, seconds: f64, what: String| {
            if let Some(last) = last {
                let (less, more) =
                    (last.min(seconds).max(LEAST_SECONDS / TIMES), last.max(seconds));
                if more > LEAST_SECONDS && more > TIMES * less {
                    found.push(format!(
                        "{form} {values} {repeats} {what}: {last:.2} s, {seconds:.2} s"
                    ));
                }
            }
        };
        let (mut last, mut greatest) = (None, None);
        for rows in &arguments.rows {
            let sql = self.statement(arguments, tables, *rows)?;
            let ran = run(*rows, None, &sql)?;
            compare(last, ran.seconds, format!("up to {rows} rows"));
            if ran.outcome == "stopped" {
                break;
            }
            last = Some(ran.seconds);
            greatest = Some((*rows, sql, ran.answer));
        }
        let Some((rows, sql, answer)) = greatest else { return Ok(found) };
        let (mut last, mut differ) = (None, vec![]);
        for limit in &arguments.limits {
            let ran = run(rows, Some(*limit), &sql)?;
            if ran.outcome == "refused" {
                differ.push(format!(
                    "{form} {values} {repeats} {rows} rows, {limit} MB: {}",
                    ran.answer
                ));
                continue;
            }
            compare(last, ran.seconds, format!("{rows} rows, up to {limit} MB"));
            if ran.outcome == "done" && ran.answer != answer {
                differ.push(format!("{sql}\nin memory {answer}\nunder {limit} MB {}", ran.answer));
            }
            last = Some(ran.seconds);
        }
        found.extend(differ);
        Ok(found)
    }

    /// The statement over tables of so many rows, which are made where they are not there.
    fn statement(&self, arguments: &Arguments, tables: &Path, rows: u64) -> Result<String> {
        let [score, bound, descending, order] = score(self.values);
        let mut sql = meaning(FORMS, self.form)?.to_string();
        for table in ["t", "u"] {
            let name = format!("{}-{}-{rows}-{table}.parquet", self.values, self.repeats);
            let path = tables.join(name);
            if !path.is_file() {
                let value = meaning(VALUES, self.values)?;
                let item = meaning(REPEATS, self.repeats)?.replace("{n}", &rows.to_string());
                let copy = format!(
                    "COPY (SELECT id, id % 7 AS g, {value} AS t FROM (SELECT value AS id, {item} AS i \
                     FROM generate_series(1, {rows}))) TO '{}'",
                    path.display()
                );
                arguments.run(&copy, None)?;
            }
            sql = sql.replace(&format!("{{{table}}}"), &format!("'{}'", path.display()));
        }
        let by = if order == "DISTANCE" { ", 'distance'" } else { "" };
        for (name, text) in [
            ("{p}", format!("{score} {bound}")),
            ("{s}", score.to_string()),
            ("{d}", descending.to_string()),
            ("{o}", order.to_string()),
            ("{by}", by.to_string()),
        ] {
            sql = sql.replace(name, &text);
        }
        Ok(sql)
    }
}

impl Arguments {
    /// Runs a statement, within a limit in MB.
    fn run(&self, sql: &str, limit: Option<u64>) -> Result<Ran> {
        let mut command = Command::new(&self.program);
        command.args(["-q", "--format", "csv"]);
        if let Some(limit) = limit {
            command.args(["-m", &format!("{limit}m")]);
        }
        command.args(["-c", sql]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (before, started) = (seconds_of_children()?, Instant::now());
        let mut child = command.spawn()?;
        let mut is_stopped = false;
        // Answers are shorter than a pipe is wide.
        while child.try_wait()?.is_none() {
            // Processor time of a child is known at its end; all cores together take no more than this.
            let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
            if started.elapsed() > Duration::from_secs(self.stop_above.div_ceil(cores).max(1)) {
                child.kill()?;
                is_stopped = true;
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = child.wait_with_output()?;
        let seconds = seconds_of_children()? - before;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().replace('\n', " ");
        Ok(match (is_stopped, output.status.success()) {
            (true, _) => Ran { seconds, outcome: "stopped", answer: String::new() },
            (false, true) => Ran { seconds, outcome: "done", answer: text(&output.stdout) },
            (false, false) => Ran { seconds, outcome: "refused", answer: text(&output.stderr) },
        })
    }
}

/// The processor time of all programs that have been run and have ended.
#[cfg(unix)]
fn seconds_of_children() -> Result<f64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes the struct that it is given.
    let status = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    if status != 0 {
        return Err(exec_datafusion_err!("getrusage: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: all bytes were zero before, which is a value of it.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

#[cfg(not(unix))]
fn seconds_of_children() -> Result<f64> {
    Err(exec_datafusion_err!("the processor time of other programs is known on Unix alone"))
}
