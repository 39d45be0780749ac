//! `simjoin --scheduler` as its users see it.

use std::process::Output;

use crate::processes::{Cluster, shared};
use crate::program::simjoin;
use crate::support::assert_contains;

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a run that must succeed.
pub fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a run that must fail.
pub fn failed(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    let error = text(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
    error
}

pub const REFERENCES: &str = "sql-examples/data/references.parquet";

#[test]
fn a_statement_over_a_file_gives_the_local_answer() {
    let cluster = shared();
    let sql = format!(
        "SELECT count(*) AS pairs FROM '{REFERENCES}' a SIMJOIN '{REFERENCES}' b \
         ON jaccard(word_tokens(a.title), word_tokens(b.title)) >= 0.8"
    );
    let args = ["--format", "csv", "-q", "-c", &sql];
    let local = succeeded(&simjoin().args(args).output().unwrap());
    assert!(local.starts_with("pairs\n"), "{local}");
    assert_eq!(succeeded(&cluster.run(&args)), local);
}

#[test]
fn a_cluster_without_executors_and_a_scheduler_that_is_not_there_are_clear_errors() {
    let mut cluster = Cluster::start(0);
    let error = failed(&cluster.run(&["-c", "SELECT 1"]));
    assert_contains(&error, &["the cluster has no executors", "simjoin executor --scheduler"]);
    cluster.scheduler.kill();
    let error = failed(&cluster.run(&["-c", "SELECT 1"]));
    assert_contains(&error, &["cannot reach the scheduler at", &cluster.address, "refused"]);
}

#[test]
fn settings_travel_with_the_statement() {
    let cluster = shared();
    let join = "SELECT a.column1 FROM t a SIMJOIN t b ON jaccard(a.column2, b.column2) >= 0.5";
    let explained = |set: &str| {
        let sql =
            format!("CREATE TABLE t AS VALUES (1, [1, 2]), (2, [1, 2]); {set}; EXPLAIN {join}");
        succeeded(&cluster.run(&["-q", "--maxrows", "inf", "-c", &sql]))
    };
    let plan = explained("SET simjoin.strategy = 'groupjoin'");
    assert_contains(&plan, &["strategy=groupjoin", "mode=broadcast"]);
    let plan = explained("SET simjoin.distribution = 'repartition'");
    assert_contains(&plan, &["AxisGridExec", "mode=partitioned", "simjoin.distribution"]);
    // Four cores in all, unless a number is asked for.
    assert_contains(&plan, &["tasks=4"]);
    let plan =
        explained("SET simjoin.distribution = 'repartition'; SET simjoin.cluster_partitions = 3");
    assert_contains(&plan, &["tasks=3"]);
}

#[test]
fn explain_analyze_tells_what_each_stage_did() {
    let cluster = shared();
    let sql = format!(
        "SET simjoin.distribution = 'repartition'; EXPLAIN ANALYZE SELECT count(*) \
         FROM '{REFERENCES}' a SIMJOIN '{REFERENCES}' b \
         ON jaccard(word_tokens(a.title), word_tokens(b.title)) >= 0.8"
    );
    let plan = succeeded(&cluster.run(&["-q", "--maxrows", "inf", "-c", &sql]));
    assert_contains(&plan, &["Stage 1 (", "AxisHistogramExec", "Stage 5 ("]);
    // A summary in words comes first, and joins have a line for each counter.
    let (summary, stages) = plan.split_once("Stage 1 (").unwrap();
    assert_contains(summary, &["Summary", "of work in all tasks", "% in jaccard(word_tokens("]);
    assert!(stages.lines().any(|line| line.contains(" probe_rows  ")), "{stages}");
    let verbose = succeeded(&cluster.run(&[
        "-q",
        "--maxrows",
        "inf",
        "-c",
        &sql.replace("ANALYZE", "ANALYZE VERBOSE"),
    ]));
    assert_contains(&verbose, &["of work in all tasks", "probe_rows="]);
    assert!(!plan.contains("output_rows=0, elapsed_compute=1ns, output_bytes=0.0 B"), "{plan}");
}

#[test]
fn files_are_read_and_written_where_the_client_names_them() {
    let cluster = shared();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let source = std::path::Path::new(source).join(REFERENCES).canonicalize().unwrap();
    let sql = format!(
        "CREATE EXTERNAL TABLE refs STORED AS PARQUET LOCATION '{}'; \
         CREATE VIEW tokens AS SELECT id, word_tokens(title) AS toks FROM refs; \
         COPY (SELECT a.id AS x, b.id AS y FROM tokens a SIMJOIN tokens b \
         ON jaccard(a.toks, b.toks) >= 0.9 AND a.id < b.id) TO 'pairs.parquet'; \
         SELECT count(*) AS n FROM 'pairs.parquet'",
        source.display()
    );
    let args = ["-q", "--format", "csv", "-p", &path, "-c", &sql];
    let local = succeeded(&simjoin().args(args).output().unwrap());
    std::fs::remove_file(folder.path().join("pairs.parquet")).unwrap();
    assert_eq!(succeeded(&cluster.run(&args)), local);
    assert!(folder.path().join("pairs.parquet").exists());
}

#[test]
fn files_are_listed_anew_and_damaged_ones_are_named() {
    let cluster = shared();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let run = |sql: &str| cluster.run(&["-q", "--format", "csv", "-p", &path, "-c", sql]);
    // Executors run COPY, and name the folder for the whole cluster.
    let sql = "COPY (SELECT value AS x FROM t) TO 'l/a.parquet'; SELECT count(*) AS n FROM 'l'; \
               COPY (SELECT value AS x FROM t) TO 'l/b.parquet'; SELECT count(*) AS n FROM 'l'; \
               COPY (SELECT value AS x FROM t WHERE value < 3) TO 'l[1].csv'; \
               SELECT count(*) AS n FROM 'l[1].csv'";
    let table = "CREATE TABLE t AS VALUES (1), (2), (3)";
    let sql = format!("{table}; {}", sql.replace("value", "column1"));
    assert_eq!(succeeded(&run(&sql)), "count\n3\nn\n3\ncount\n3\nn\n6\ncount\n2\nn\n2\n");
    assert!(folder.path().join("l[1].csv").is_file());
    std::fs::write(folder.path().join("m.csv"), "id,code\n1,A\n2\n").unwrap();
    let declared = "CREATE EXTERNAL TABLE m (id BIGINT, code TEXT) STORED AS CSV LOCATION 'm.csv'";
    let error = failed(&run(&format!("{declared}; SELECT max(code) FROM m")));
    assert_contains(&error, &["the cluster failed: reading ", "m.csv: ", "has 1 field"]);
    std::fs::write(folder.path().join("l/c.parquet"), "PAR1").unwrap();
    assert_contains(&failed(&run("SELECT count(*) FROM 'l'")), &["reading l/c.parquet"]);
    let pipes = ["SELECT * FROM '/dev/stdin'", "COPY (SELECT 1) TO '/dev/stdout' STORED AS CSV"];
    for (sql, part) in pipes.into_iter().zip(["runs on other machines", "of their own"]) {
        assert_contains(&failed(&run(sql)), &[part]);
    }
}

#[test]
fn what_tells_of_the_session_stays_in_it() {
    let cluster = shared();
    let sql = format!(
        "CREATE TABLE t AS VALUES (1); SHOW TABLES; DESCRIBE '{REFERENCES}'; \
         SHOW simjoin.distribution; SELECT id FROM '{REFERENCES}' WHERE false"
    );
    let text = succeeded(&cluster.run(&["-q", "--format", "csv", "-c", &sql]));
    assert_contains(
        &text,
        &["datafusion,public,t,", "bibliography,Utf8", "simjoin.distribution,auto"],
    );
    assert!(text.ends_with("\nid\n"), "{text}");
}

#[test]
fn errors_of_tasks_are_told_without_the_layers_that_they_came_through() {
    let cluster = shared();
    let sql = format!("SELECT CAST(title AS INT) FROM '{REFERENCES}'");
    let error = failed(&cluster.run(&["-c", &sql]));
    assert_contains(&error, &["Error: the cluster failed: Cannot cast string"]);
    assert!(!error.contains("DataFusionError"), "{error}");
    let error = failed(&cluster.run(&["-c", "SELECT * FROM range(0, 3)"]));
    assert_contains(&error, &["cannot be sent to a cluster", "CREATE TABLE"]);
    assert!(!error.contains(".rs:"), "{error}");
    let error = failed(&cluster.run(&["--memory-limit", "1g", "-c", "SELECT 1"]));
    assert_contains(&error, &["--memory-limit", "--scheduler"]);
    let error = failed(&simjoin().args(["--scheduler", "x:y", "-c", "SELECT 1"]).output().unwrap());
    assert_contains(&error, &["x:y", "HOST:PORT"]);
}

/// A join that would take minutes, on every core of the cluster.
pub const LONG: &str = "SELECT count(*) FROM \
    (SELECT make_array(value % 7, value % 11, value % 13, value % 17) AS toks, value AS id FROM t) a \
    SIMJOIN (SELECT make_array(value % 7, value % 11, value % 13, value % 17) AS toks, \
    value AS id FROM t) b \
    ON jaccard(a.toks, b.toks) >= 0.1 AND (a.id * b.id) % 1000003 = 17";

#[cfg(unix)]
#[test]
fn ctrl_c_cancels_the_statement_on_the_cluster() {
    let cluster = Cluster::start(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    let sql = format!("COPY (SELECT * FROM range(0, 60000)) TO '{}'", file.display());
    succeeded(&simjoin().args(["-q", "-c", &sql]).output().unwrap());
    let sql = LONG.replace("FROM t)", &format!("FROM '{}')", file.display()));
    let mut client = simjoin()
        .args(["--scheduler", &cluster.address, "-q", "-c", &sql])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // It runs as soon as an executor has a folder for it.
    let started = std::time::Instant::now();
    while cluster.jobs() == 0 && started.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let id = client.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(client.wait().unwrap().code(), Some(130));
    // The cores are free again.
    let count = format!("SELECT count(*) AS n FROM '{}'", file.display());
    let answer = succeeded(&cluster.run(&["-q", "--format", "csv", "-c", &count]));
    assert_eq!(answer, "n\n60000\n");
}
