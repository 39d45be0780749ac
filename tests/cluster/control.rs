//! Listing what a cluster does, and cancelling a statement of it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use simjoin_ballista::Access;
use simjoin_ballista::client::{self, SchedulerAddress};
use simjoin_ballista::control::{self, ClusterStatus};

use crate::command_line::{LONG, failed, succeeded, text};
use crate::processes::Cluster;
use crate::program::simjoin;
use crate::support::assert_contains;

/// A statement that takes minutes, as a client that waits for it.
fn long_statement(cluster: &Cluster, folder: &tempfile::TempDir) -> Child {
    let file = folder.path().join("t.parquet");
    let sql = format!("COPY (SELECT * FROM range(0, 60000)) TO '{}'", file.display());
    succeeded(&simjoin().args(["-q", "-c", &sql]).output().unwrap());
    let sql = LONG.replace("FROM t)", &format!("FROM '{}')", file.display()));
    let mut command = simjoin();
    command.args(["--scheduler", &cluster.address, "-q", "-c", &sql]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn status(cluster: &Cluster) -> ClusterStatus {
    let scheduler = SchedulerAddress::parse(&cluster.address).unwrap();
    let session = client::session(&scheduler, &Access::Account);
    control::status(&scheduler, &session).await.unwrap()
}

#[tokio::test]
async fn statements_are_listed_and_cancelled() {
    let mut cluster = Cluster::start(0);
    cluster.add_executor(&["--cores", "1"]);
    let run = |args: &[&str]| {
        simjoin()
            .arg("cluster")
            .args(args)
            .args(["--scheduler", &cluster.address])
            .output()
            .unwrap()
    };
    let empty = succeeded(&run(&["status"]));
    assert_contains(&empty, &["executor", "127.0.0.1:", " s ago", "job", "statement"]);
    assert!(status(&cluster).await.statements.is_empty());

    let folder = tempfile::tempdir().unwrap();
    let client = long_statement(&cluster, &folder);
    let started = Instant::now();
    let running = loop {
        let status = status(&cluster).await;
        let statement = status.statements.into_iter().find(|s| s.state == "running" && s.tasks > 0);
        if let Some(statement) = statement {
            assert_eq!(status.executors[0].cores, 1);
            break statement;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no task runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(running.text.starts_with("SELECT count(*) FROM"), "{}", running.text);
    let listed = succeeded(&run(&["status"]));
    assert_contains(&listed, &[&running.job, "running", "SELECT count(*) FROM"]);
    let listed = succeeded(&run(&["status", "--format", "json"]));
    for part in ["\"cores\":1", "\"state\":\"running\"", &format!("\"job\":\"{}\"", running.job)] {
        assert_contains(&listed, &[part]);
    }
    let cancelled = succeeded(&run(&["cancel", &running.job]));
    assert_contains(&cancelled, &["Cancelled statement", &running.job]);
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert_contains(&text(&output.stderr), &["the statement was cancelled on the cluster"]);
    // The cores are free again.
    succeeded(&cluster.run(&["-q", "-c", "SELECT count(*) FROM (VALUES (1))"]));

    let error = failed(&run(&["cancel", &running.job]));
    assert_contains(&error, &[&running.job, "has ended: it is cancelled"]);
    let error = failed(&run(&["cancel", "038FTPTXP8000"]));
    assert_contains(&error, &["there is no statement 038FTPTXP8000"]);
    assert_contains(&failed(&run(&["cancel"])), &["<JOB>..."]);
    let all = succeeded(&run(&["status", "--all"]));
    assert_contains(&all, &["VALUES (1)"]);
    assert!(!succeeded(&run(&["status"])).contains("VALUES (1)"));
}

#[test]
fn a_scheduler_that_is_not_there_is_an_error() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = gone.to_string();
    for command in [&["status"][..], &["cancel", "x"]] {
        let mut program = simjoin();
        let error = program.arg("cluster").args(command).args(["--scheduler", &gone]).output();
        assert_contains(&failed(&error.unwrap()), &["cannot reach the scheduler", &gone]);
    }
}
