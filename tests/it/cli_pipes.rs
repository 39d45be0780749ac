//! Pipes: rows from standard input and FIFOs, and rows into them.

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;

use crate::cli::{Ran, run, run_with_input, simjoin};

/// The raw output of a run that must succeed, with bytes on standard input.
#[track_caller]
fn piped(folder: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = output_of(folder, arguments, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn output_of(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = simjoin(folder);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that refuses its input does not read it.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("the binary ends")
}

fn batches(bytes: &[u8]) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None).expect("a stream");
    reader.collect::<Result<_, _>>().expect("batches")
}

const QUIET: [&str; 3] = ["-q", "--format", "csv"];

fn text(folder: &Path, sql: &str, input: &[u8]) -> String {
    let arguments = [&QUIET[..], &["-c", sql]].concat();
    String::from_utf8(piped(folder, &arguments, input)).expect("text")
}

#[test]
fn standard_input_is_a_table_of_any_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let all = "SELECT * FROM '/dev/stdin'";
    assert_eq!(text(path, all, b"id,t\n1,a\n"), "id,t\n1,a\n");
    assert_eq!(text(path, all, b"id;t\n1;a\n"), "id,t\n1,a\n");
    assert_eq!(text(path, all, b"{\"id\":1}\n{\"id\":2}\n"), "id\n1\n2\n");
    let arrow = piped(path, &["-q", "--format", "arrow", "-c", "SELECT 7 AS id, 'x' AS t"], b"");
    assert_eq!(text(path, all, &arrow), "id,t\n7,x\n");
    for file in ["a.parquet", "a.arrow"] {
        assert!(run(path, &["-q", "-c", &format!("COPY (SELECT 8 AS id) TO '{file}'")]).ok);
        assert_eq!(text(path, all, &fs::read(path.join(file)).unwrap()), "id\n8\n", "{file}");
    }
    for (stored_as, input) in [("CSV", "id\n1\n"), ("TSV", "id\n1\n"), ("JSON", "{\"id\":1}\n")] {
        let sql = format!(
            "CREATE EXTERNAL TABLE s STORED AS {stored_as} LOCATION '/dev/stdin'; SELECT * FROM s"
        );
        assert_eq!(text(path, &sql, input.as_bytes()), "id\n1\n", "{stored_as}");
    }
    let sql = "CREATE EXTERNAL TABLE s (id TEXT, t TEXT) STORED AS CSV LOCATION '/dev/stdin'; \
               SELECT * FROM s";
    assert_eq!(text(path, sql, b"id,t\n01,a\n"), "id,t\n01,a\n");
}

/// A pipe gives its bytes once; a self-join, and a second statement, read them again.
#[test]
fn the_rows_of_a_pipe_stay_for_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..5000).map(|i| format!("{i},{}\n", i / 2)).collect();
    let sql = "SELECT count(*) AS n FROM '/dev/stdin' a SIMJOIN '/dev/stdin' b \
               ON jaccard([a.t], [b.t]) >= 1 AND a.id < b.id; SELECT count(*) AS n FROM '/dev/stdin'";
    let input = format!("id,t\n{rows}");
    assert_eq!(text(folder.path(), sql, input.as_bytes()), "n\n2500\nn\n5000\n");
}

#[test]
fn standard_input_that_is_a_file_is_that_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.csv"), "id\n3\n").unwrap();
    let mut command = simjoin(folder.path());
    command.args(QUIET).args(["-c", "SELECT * FROM '/dev/stdin'"]);
    command.stdin(fs::File::open(folder.path().join("in.csv")).unwrap());
    let ran: Ran = command.output().unwrap().into();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("id\n3\n", ""));
}

#[test]
fn a_pipe_without_rows_and_one_with_the_statements_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let all = "SELECT * FROM '/dev/stdin'";
    let empty = output_of(folder.path(), &["-q", "-c", all], b"");
    let error = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert!(!empty.status.success() && error.contains("/dev/stdin is empty"), "{error}");
    let ran = run_with_input(folder.path(), &["-q"], &format!("{all};\n"));
    assert!(!ran.ok && ran.err.contains("it has the statements"), "{}", ran.err);
}

#[test]
fn a_pipe_is_kept_within_the_disk_limit() {
    let folder = tempfile::tempdir().unwrap();
    let input = "1,2\n".repeat(600_000);
    let arguments = ["-q", "-d", "1m", "-c", "SELECT count(*) FROM '/dev/stdin'"];
    let output = output_of(folder.path(), &arguments, input.as_bytes());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("/dev/stdin is kept"), "{error}");
    assert!(error.contains("--disk-limit") && !error.contains("memory"), "{error}");
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
fn a_fifo_is_read_and_written_and_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("p.csv");
    fifo(&pipe);
    let source = pipe.clone();
    let writer = std::thread::spawn(move || fs::write(source, "x\n9\n").unwrap());
    let sql = "SELECT a.x, b.x AS y FROM 'p.csv' a, 'p.csv' b";
    assert_eq!(text(folder.path(), sql, b""), "x,y\n9,9\n");
    writer.join().unwrap();
    for (copy, check) in [
        ("COPY (SELECT 5 AS x) TO 'p.csv'", (|bytes| assert_eq!(bytes, b"x\n5\n")) as fn(&[u8])),
        ("COPY (SELECT 5 AS x) TO 'p.csv' STORED AS ARROW", |bytes| {
            assert_eq!(batches(bytes)[0].num_rows(), 1);
        }),
    ] {
        let source = pipe.clone();
        let reader = std::thread::spawn(move || fs::read(source).unwrap());
        assert_eq!(text(folder.path(), copy, b""), "count\n1\n", "{copy}");
        check(&reader.join().unwrap());
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo(), "{copy}");
    }
}

#[test]
fn copies_to_standard_output_are_nothing_but_rows() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |format: &str| {
        let sql = format!("COPY (SELECT 5 AS x, 'ä' AS y) TO '/dev/stdout' STORED AS {format}");
        piped(folder.path(), &["-c", &sql], b"")
    };
    assert_eq!(copy("CSV"), "x,y\n5,ä\n".as_bytes());
    assert_eq!(copy("TSV"), "x\ty\n5\tä\n".as_bytes());
    assert_eq!(copy("JSON"), "{\"x\":5,\"y\":\"ä\"}\n".as_bytes());
    assert_eq!(batches(&copy("ARROW"))[0].num_columns(), 2);
    assert!(copy("PARQUET").starts_with(b"PAR1"));
}

/// Each statement with a result is a stream of its own; no times stand between.
#[test]
fn arrow_streams_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "SET simjoin.strategy = 'ppjoin'; SELECT value AS a FROM generate_series(1, 20000); \
               RESET simjoin.strategy; SELECT 'x' AS b WHERE false; SELECT [1, 2] AS c";
    let bytes = piped(folder.path(), &["--format", "arrow", "-c", sql], b"");
    let mut rest = Cursor::new(bytes);
    let mut sums = vec![];
    for (name, rows) in [("a", 20000), ("b", 0), ("c", 1)] {
        let reader = StreamReader::try_new(&mut rest, None).expect("a stream");
        assert_eq!(reader.schema().field(0).name(), name);
        let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().expect("batches");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{name}");
        if name == "a" {
            let values = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>());
            sums.push(values.flatten().sum::<i64>());
        }
    }
    assert_eq!(sums, [200_010_000]);
    assert_eq!(rest.position() as usize, rest.get_ref().len());
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_standard_output_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let program = simjoin(folder.path()).get_program().to_owned();
    for (redirect, ok) in [(">&-", false), (">/dev/null", true)] {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("\"$0\" -q -c 'SELECT 1' {redirect}")).arg(&program);
        let output = shell.stdin(Stdio::null()).output().expect("a shell");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), ok, "{redirect}: {error}");
        assert_eq!(error.contains("standard output is closed"), !ok, "{redirect}: {error}");
    }
}
