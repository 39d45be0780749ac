//! `simjoin --scheduler` as its users see it.

use std::process::Output;

use crate::processes::{Cluster, shared, simjoin};
use crate::support::assert_contains;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a run that must succeed.
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a run that must fail.
fn failed(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    let error = text(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
    error
}

const REFERENCES: &str = "sql-examples/data/references.parquet";

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
