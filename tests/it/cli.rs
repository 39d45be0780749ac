//! The `simjoin` binary as a process.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::program;

pub struct Ran {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// The binary in `folder`, with nothing of the caller's environment that would change it.
pub fn simjoin(folder: &Path) -> Command {
    let mut command = program::simjoin();
    command.current_dir(folder).stdin(Stdio::null());
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Ran {
    simjoin(folder).args(arguments).output().expect("the binary starts").into()
}

/// Runs with statements on standard input.
pub fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut command = simjoin(folder);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("input is read");
    drop(stdin);
    child.wait_with_output().expect("the binary ends").into()
}

/// `sets.parquet` and `names.csv` in a new folder.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let sql = "COPY (SELECT * FROM (VALUES \
        (1, ['a', 'b', 'c']), (2, ['a', 'b', 'c', 'd']), (3, ['x']), (4, NULL)) AS t(id, toks)) \
        TO 'sets.parquet'";
    let ran = run(folder.path(), &["-q", "-c", sql]);
    assert!(ran.ok, "{}", ran.err);
    fs::write(folder.path().join("names.csv"), "id,name\n1,night watch\n2,nightwatch\n3,other\n")
        .expect("a file");
    folder
}

const PAIRS: &str = "SELECT x.id AS a, y.id AS b, jaccard(x.toks, y.toks) AS score \
    FROM 'sets.parquet' x SIMJOIN 'sets.parquet' y \
    ON jaccard(x.toks, y.toks) >= 0.7 AND x.id < y.id";

#[test]
fn a_quiet_csv_command_prints_a_header_and_rows_only() {
    let folder = folder();
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", PAIRS]);
    assert!(ran.ok, "{}", ran.err);
    assert_eq!(ran.out, "a,b,score\n1,2,0.75\n");
    assert_eq!(ran.err, "");
}

#[test]
fn every_format_prints_the_same_row() {
    let folder = folder();
    for (format, expected) in [
        ("csv", "a,b,score\n1,2,0.75\n"),
        ("tsv", "a\tb\tscore\n1\t2\t0.75\n"),
        ("json", "[{\"a\":1,\"b\":2,\"score\":0.75}]\n"),
        ("nd-json", "{\"a\":1,\"b\":2,\"score\":0.75}\n"),
    ] {
        let ran = run(folder.path(), &["-q", "--format", format, "-c", PAIRS]);
        assert!(ran.ok, "{format}: {}", ran.err);
        assert_eq!(ran.out, expected, "{format}");
    }
    let ran = run(folder.path(), &["-q", "--format", "table", "-c", PAIRS]);
    let cells: Vec<&str> =
        ran.out.split(|c: char| "|+-\n ".contains(c)).filter(|c| !c.is_empty()).collect();
    assert_eq!(cells, ["a", "b", "score", "1", "2", "0.75"], "{}", ran.out);
}

#[test]
fn several_commands_run_in_order() {
    let folder = folder();
    let ran = run(
        folder.path(),
        &[
            "-q",
            "--format",
            "csv",
            "-c",
            "CREATE TABLE t AS VALUES (41)",
            "-c",
            "SELECT column1 + 1 AS n FROM t",
        ],
    );
    assert!(ran.ok, "{}", ran.err);
    assert_eq!(ran.out, "n\n42\n");
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", "SELECT 1 AS a; SELECT 2 AS b"]);
    assert_eq!(ran.out, "a\n1\nb\n2\n", "{}", ran.err);
}

#[test]
fn a_file_of_statements_runs() {
    let folder = folder();
    fs::write(
        folder.path().join("pairs.sql"),
        format!("-- a comment; with a semicolon\nSET simjoin.strategy = 'ppjoin';\n\n{PAIRS};\n"),
    )
    .expect("a file");
    let ran = run(folder.path(), &["-q", "--format", "csv", "-f", "pairs.sql"]);
    assert!(ran.ok, "{}", ran.err);
    assert_eq!(ran.out, "a,b,score\n1,2,0.75\n");
}

#[test]
fn statements_come_from_standard_input() {
    let folder = folder();
    let input = format!("CREATE TABLE t AS\n  SELECT 1 AS one;\nSELECT one FROM t;\n{PAIRS};\n");
    let ran = run_with_input(folder.path(), &["-q", "--format", "csv"], &input);
    assert!(ran.ok, "{}", ran.err);
    assert_eq!(ran.out, "one\n1\na,b,score\n1,2,0.75\n");
}

/// Without `-q` the row count and the elapsed time follow, and no progress line where standard
/// error is no terminal.
#[test]
fn a_statement_reports_its_rows_and_time() {
    let folder = folder();
    let ran = run(folder.path(), &["--format", "csv", "-c", PAIRS]);
    assert!(ran.ok, "{}", ran.err);
    assert!(ran.out.contains("1 row(s) fetched"), "{}", ran.out);
    assert!(ran.out.contains("seconds"), "{}", ran.out);
    assert!(!ran.err.contains('\r'), "{:?}", ran.err);
}

#[test]
fn tables_are_files_folders_and_globs() {
    let folder = folder();
    let parts = folder.path().join("parts");
    fs::create_dir(&parts).expect("a folder");
    for part in ["one", "two"] {
        fs::copy(folder.path().join("sets.parquet"), parts.join(format!("{part}.parquet")))
            .expect("a copy");
    }
    for (from, expected) in [
        ("'sets.parquet'", 4),
        ("'parts/'", 8),
        ("'parts/*.parquet'", 8),
        ("'parts/t*.parquet'", 4),
        ("'names.csv'", 3),
    ] {
        let sql = format!("SELECT count(*) AS n FROM {from}");
        let ran = run(folder.path(), &["-q", "--format", "csv", "-c", &sql]);
        assert_eq!(ran.out, format!("n\n{expected}\n"), "{from}: {}", ran.err);
    }
}

#[test]
fn text_of_a_csv_file_joins_by_q_grams() {
    let folder = folder();
    let sql = "SELECT x.id AS a, y.id AS b FROM 'names.csv' x SIMJOIN 'names.csv' y \
               ON jaccard(qgrams(x.name, 2), qgrams(y.name, 2)) >= 0.7 AND x.id < y.id";
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", sql]);
    assert_eq!(ran.out, "a,b\n1,2\n", "{}", ran.err);
}

#[test]
fn pairs_are_written_to_parquet_and_read_again() {
    let folder = folder();
    let copy = format!("COPY ({PAIRS}) TO 'pairs.parquet'");
    let ran = run(folder.path(), &["-q", "-c", &copy]);
    assert!(ran.ok, "{}", ran.err);
    let sql = "SELECT * FROM 'pairs.parquet'";
    let ran = run(folder.path(), &["-q", "--format", "csv", "-c", sql]);
    assert_eq!(ran.out, "a,b,score\n1,2,0.75\n", "{}", ran.err);
}

#[test]
fn maxrows_cuts_tables_and_says_so() {
    let folder = folder();
    let sql = "SELECT * FROM generate_series(1, 100)";
    let ran = run(folder.path(), &["--maxrows", "3", "-c", sql]);
    assert!(ran.ok, "{}", ran.err);
    let lines = ran.out.lines().filter(|l| l.starts_with('|')).count();
    assert!(lines < 10, "{}", ran.out);
    assert!(ran.out.contains("100 row(s) fetched"), "{}", ran.out);
    let ran = run(folder.path(), &["-q", "--format", "csv", "--maxrows", "inf", "-c", sql]);
    assert_eq!(ran.out.lines().count(), 101);
}

/// `| head`: the reader goes away in the middle of the output, and that is the end of it.
#[test]
fn a_closed_pipe_ends_it_quietly() {
    let folder = folder();
    let sql = "SELECT * FROM generate_series(1, 20000000)";
    let mut child = simjoin(folder.path())
        .args(["-q", "--format", "csv", "--maxrows", "inf", "-c", sql])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = [0; 64];
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut first).expect("some output");
    drop(stdout);
    let ended = child.wait_with_output().expect("the binary ends");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

#[test]
fn commands_of_the_prompt_work_on_standard_input() {
    let folder = folder();
    let input =
        "CREATE TABLE somewhere AS SELECT 1 AS one;\n\\d\n\\d somewhere\n\\q\nSELECT 99 AS n;\n";
    let ran = run_with_input(folder.path(), &["-q"], input);
    assert!(ran.out.contains("somewhere") && ran.out.contains("one"), "{}\n{}", ran.out, ran.err);
    assert!(!ran.out.contains("99"), "\\q did not end it: {}", ran.out);
    let ran = run_with_input(folder.path(), &["-q"], "\\?\n");
    assert!(ran.out.contains("\\d") && ran.out.contains("\\q"), "{}\n{}", ran.out, ran.err);
}

#[test]
fn help_and_version_are_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = run(folder.path(), &["--help"]);
    assert!(ran.ok);
    for flag in ["--command", "--file", "--format", "--quiet", "--maxrows", "--memory-limit"] {
        assert!(ran.out.contains(flag), "{flag} is missing in\n{}", ran.out);
    }
    let ran = run(folder.path(), &["--version"]);
    assert!(ran.ok && ran.out.contains(env!("CARGO_PKG_VERSION")), "{}", ran.out);
}
