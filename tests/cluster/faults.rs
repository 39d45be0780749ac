//! Faults of a cluster: the answer is right, or there is none and a reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_simjoin::SimJoinContextExt;
use futures::StreamExt;
use simjoin_ballista::client::ClusterQueryExec;

use crate::processes::Cluster;
use crate::program::simjoin;
use crate::support::{assert_contains, lines, rows};

/// Sets that match often enough, and take some seconds to join on this many rows.
fn sets(rows: usize) -> String {
    format!(
        "SELECT value AS id, make_array(value * 7919 % 331, value * 104729 % 337, \
         value * 1299709 % 347, value / 5 % 353, value / 5 % 100, value / 5 % 51) AS toks \
         FROM range(0, {rows})"
    )
}

/// Writes the sets into a folder of four files.
pub fn write(folder: &std::path::Path, rows: usize) -> String {
    for part in 0..4 {
        let file = folder.join(format!("{part}.parquet"));
        let sql = format!(
            "COPY (SELECT * FROM ({}) WHERE id % 4 = {part}) TO '{}'",
            sets(rows),
            file.display()
        );
        let output = simjoin().args(["-q", "-c", &sql]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    format!("{}/", folder.display())
}

/// Every row of a FULL join of the sets with themselves, and what it gives here.
pub fn statement(folder: &str) -> String {
    format!(
        "SELECT a.id, b.id FROM '{folder}' a FULL SIMJOIN '{folder}' b \
         ON jaccard(a.toks, b.toks) >= 0.4 AND a.id < b.id"
    )
}

pub async fn local(sql: &str) -> Vec<String> {
    let builder = datafusion::execution::SessionStateBuilder::new_with_default_features();
    let state = datafusion_simjoin::install(builder).unwrap().build();
    let ctx = SessionContext::new_with_state(state).enable_url_table();
    sorted(rows(&ctx, sql).await)
}

pub fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

/// Waits until the cluster has done something that can be lost.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn planned(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.simjoin_sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

pub async fn set(ctx: &SessionContext, option: &str, value: &str) {
    ctx.sql(&format!("SET {option} = '{value}'")).await.unwrap();
}

/// When the executor is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Tasks run, none has ended.
    FirstTasks,
    /// There are rows between stages.
    SomeRows,
    /// There are rows of several stages.
    MoreRows,
}

async fn survives(distribution: &str, moment: Moment, folder: &str, expected: &[String]) {
    let mut cluster = Cluster::start(0);
    cluster.add_executor(&["--cores", "1"]);
    cluster.add_executor(&["--cores", "1"]);
    let ctx = cluster.context();
    set(&ctx, "simjoin.distribution", distribution).await;
    set(&ctx, "simjoin.cluster_partitions", "4").await;
    let plan = planned(&ctx, &statement(folder)).await;
    let job = plan.downcast_ref::<ClusterQueryExec>().unwrap().job().clone();
    let query = tokio::spawn(collect(plan, ctx.task_ctx()));
    until("the statement", || job.id().is_some()).await;
    let files = match moment {
        Moment::FirstTasks => 0,
        Moment::SomeRows => 2,
        Moment::MoreRows => 6,
    };
    let rows = || cluster.files().iter().filter(|f| f.ends_with(".arrow")).count();
    until("rows of a stage", || rows() >= files || query.is_finished()).await;
    cluster.executors[0].kill();
    let what = format!("{distribution}, {moment:?}");
    match query.await.unwrap() {
        Ok(batches) => assert_eq!(sorted(lines(&batches)), expected, "{what}"),
        // Rows that were on their way to the client cannot be asked for again.
        Err(e) => assert_contains(&e.to_string(), &["executor"]),
    }
    // The cluster goes on with those that are left.
    let answer = rows_of(&ctx, &statement(folder)).await;
    assert_eq!(answer, expected, "after {what}");
}

async fn rows_of(ctx: &SessionContext, sql: &str) -> Vec<String> {
    sorted(rows(ctx, sql).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_executor_neither_loses_nor_doubles_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = write(folder.path(), 6_000);
    let expected = local(&statement(&folder)).await;
    assert!(expected.len() > 6_000, "{}", expected.len());
    for distribution in ["broadcast", "repartition"] {
        for moment in [Moment::FirstTasks, Moment::SomeRows, Moment::MoreRows] {
            survives(distribution, moment, &folder, &expected).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_go_with_their_executor_are_an_error_and_no_shorter_answer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = write(folder.path(), 3_000);
    let mut cluster = Cluster::start(2);
    let ctx = cluster.context();
    set(&ctx, "datafusion.execution.batch_size", "100").await;
    set(&ctx, "simjoin.distribution", "repartition").await;
    set(&ctx, "simjoin.cluster_partitions", "4").await;
    let sql = statement(&folder).replace("FULL", "LEFT");
    let plan = planned(&ctx, &sql).await;
    let mut batches = execute_stream(plan, ctx.task_ctx()).unwrap();
    batches.next().await.unwrap().unwrap();
    for executor in &mut cluster.executors {
        executor.kill();
    }
    let mut error = None;
    while let Some(batch) = batches.next().await {
        if let Err(e) = batch {
            error = Some(e.to_string());
        }
    }
    // Buffers may hold what is left of one part; the others are gone.
    let error = error.expect("half of the rows were lost");
    assert_contains(&error, &["part of the result", "executor"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_without_the_join_is_a_clear_error() {
    // Ballista's own executor has no secret to give.
    let cluster = Cluster::start_with(&["--no-secret"]);
    let (host, port) = cluster.address.split_once(':').unwrap();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stock = ExecutorProcessConfig {
        scheduler_host: host.to_string(),
        scheduler_port: port.parse().unwrap(),
        port: free(),
        grpc_port: free(),
        work_dir: Some(cluster.work_dir.path().display().to_string()),
        vcores: 2,
        executor_heartbeat_interval_seconds: 1,
        ..ExecutorProcessConfig::default()
    };
    let stock = tokio::spawn(start_executor_process(Arc::new(stock)));
    let ctx = cluster.context();
    let started = Instant::now();
    // It runs what is DataFusion's.
    while crate::support::try_rows(&ctx, "SELECT 1").await.is_err() {
        assert!(started.elapsed() < Duration::from_secs(60), "no executor came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ctx.sql("CREATE TABLE t AS VALUES (1, [1, 2]), (2, [1, 2])").await.unwrap();
    let error = crate::support::error(
        &ctx,
        "SELECT count(*) FROM t a SIMJOIN t b ON jaccard(a.column2, b.column2) >= 0.5",
    )
    .await;
    assert_contains(&error, &["an executor does not know", "simjoin executor"]);
    stock.abort();
}

#[test]
fn an_executor_that_is_told_to_stop_removes_its_files() {
    let mut cluster = Cluster::start(1);
    let output = cluster.run(&["-q", "-c", "SELECT count(*) FROM (VALUES (1), (2))"]);
    assert!(output.status.success());
    assert!(!cluster.files().is_empty());
    assert!(cluster.executors[0].terminate());
    assert_eq!(cluster.files(), Vec::<String>::new());
    // A killed one leaves them to the next.
    cluster.add_executor(&[]);
    cluster.executors[1].kill();
    assert!(!cluster.files().is_empty());
    cluster.add_executor(&[]);
    let locks = cluster.files().iter().filter(|file| file.ends_with(".lock")).count();
    assert_eq!(locks, 1, "{:?}", cluster.files());
}

#[test]
fn an_executor_that_cannot_start_says_why() {
    let run = |args: &[&str]| {
        let output = simjoin().arg("executor").args(args).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let error = run(&["--bind-port", &port]);
    assert_contains(&error, &["cannot listen on", &port, "--bind-port"]);
    let error = run(&["--work-dir", "/dev/null/x"]);
    assert_contains(&error, &["work folder", "--work-dir"]);
    let gone = format!("127.0.0.1:{port}");
    drop(taken);
    let error = run(&["--scheduler", &gone, "--scheduler-connect-timeout-seconds", "0"]);
    assert_contains(&error, &["cannot reach the scheduler", &gone]);
}
