//! The log of a cluster, and the size of its files.

use std::time::{Duration, Instant};

use crate::command_line::{REFERENCES, failed, succeeded};
use crate::processes::{Cluster, Process};
use crate::program::simjoin;
use crate::support::assert_contains;

/// The lines of a log in JSON, each of which has all fields.
fn lines(process: &Process) -> Vec<serde_json::Value> {
    let log = process.stderr();
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line: &str| {
        let value: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        for field in ["time", "level", "target", "job", "message"] {
            assert!(value.get(field).is_some(), "no {field}: {line}");
        }
        assert!(value["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
        value
    };
    whole.lines().map(line).collect()
}

#[test]
fn logs_in_json_name_the_statement() {
    let json = ["--log-format", "json", "--log-level", "info"];
    let mut cluster = Cluster::start_with(&json);
    cluster.add_executor(&json);
    succeeded(&cluster.run(&["-q", "-c", "SELECT count(*) FROM (VALUES (1), (2))"]));
    let executor = &cluster.executors[0];
    executor.wait_for(&["is done"]);
    let about = |process: &Process, text: &str| {
        let line = lines(process)
            .into_iter()
            .find(|line| line["message"].as_str().is_some_and(|message| message.contains(text)));
        let line = line.unwrap_or_else(|| panic!("nothing of {text}: {}", process.stderr()));
        line["job"].as_str().unwrap_or_else(|| panic!("no statement: {line}")).to_string()
    };
    let job = about(executor, "is done");
    assert_eq!(about(executor, "starts"), job);
    let of_scheduler = lines(&cluster.scheduler);
    assert!(of_scheduler.iter().any(|line| line["job"] == job.as_str()), "{of_scheduler:?}");

    // An error that ends a process is a line of its log.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = gone.to_string();
    let args = ["executor", "--scheduler", &gone, "--scheduler-connect-timeout-seconds", "0"];
    let error = failed(&simjoin().args(args).args(json).output().unwrap());
    let last: serde_json::Value = serde_json::from_str(error.lines().last().unwrap()).unwrap();
    assert_eq!(last["level"], "ERROR");
    assert_contains(last["message"].as_str().unwrap(), &["cannot reach the scheduler", &gone]);
}

#[test]
fn a_task_that_fails_is_told_in_the_log_of_its_executor() {
    let cluster = Cluster::start(1);
    let sql = format!("SELECT CAST(title AS INT) FROM '{REFERENCES}'");
    failed(&cluster.run(&["-q", "-c", &sql]));
    cluster.executors[0].wait_for(&["WARN", " job=0", "failed: ", "Cannot cast string"]);
    let log = cluster.executors[0].stderr();
    let line = log.lines().find(|line| line.contains("Cannot cast")).unwrap();
    // 2026-11-24T11:02:03.123Z
    assert_eq!(line.as_bytes()[10], b'T', "{line}");
    assert_eq!(line.as_bytes()[23], b'Z', "{line}");
}

/// Rows of long texts, which no compression makes small.
fn texts(folder: &tempfile::TempDir, rows: usize) -> String {
    let file = folder.path().join("texts.parquet").display().to_string();
    let sql = format!(
        "COPY (SELECT value AS id, concat(md5(value::varchar), md5((value + 1)::varchar), \
         md5((value + 2)::varchar), md5((value + 3)::varchar)) AS text \
         FROM range(0, {rows})) TO '{file}'"
    );
    succeeded(&simjoin().args(["-q", "-c", &sql]).output().unwrap());
    file
}

/// Waits until executors have no files of statements.
fn until_empty(cluster: &Cluster) {
    let started = Instant::now();
    while cluster.jobs() > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", cluster.files());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_statement_that_fills_the_work_folder_ends_with_the_name_of_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = texts(&folder, 100_000);
    let mut cluster = Cluster::start_with(&[]);
    cluster.add_executor(&["--work-dir-limit", "2m"]);
    let small = format!("SELECT count(*) AS n FROM '{file}'");
    let small = ["-q", "--format", "csv", "-c", &small];
    assert_eq!(succeeded(&cluster.run(&small)), "n\n100000\n");
    // Rows of a result are in the folder as well.
    let error = failed(&cluster.run(&["-q", "-c", &format!("SELECT * FROM '{file}'")]));
    assert_contains(&error, &["the cluster refuses", "--work-dir-limit", "2097152"]);
    cluster.executors[0].wait_for(&["WARN", "--work-dir-limit"]);
    // The next one runs, once the files of that one are gone.
    until_empty(&cluster);
    assert_eq!(succeeded(&cluster.run(&small)), "n\n100000\n");
}

#[test]
fn spilled_data_count_for_the_limit_of_the_work_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = texts(&folder, 400_000);
    let mut cluster = Cluster::start_with(&[]);
    cluster.add_executor(&["--cores", "1", "--memory-limit", "32m", "--work-dir-limit", "3m"]);
    let sql = format!(
        "SELECT sum(n) AS n FROM (SELECT row_number() OVER (ORDER BY text) AS n FROM '{file}')"
    );
    let error = failed(&cluster.run(&["-q", "-c", &sql]));
    assert_contains(&error, &["--work-dir-limit"]);
    assert!(!error.contains("max_temp_directory_size"), "{error}");
}
