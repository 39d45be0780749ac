//! Statements on a cluster touch the files of its folders alone.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ballista_core::execution_plans::ShuffleWriterExec;
use ballista_core::serde::protobuf::executor_grpc_client::ExecutorGrpcClient;
use ballista_core::serde::protobuf::{LaunchMultiTaskParams, MultiTaskDefinition, TaskId};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;
use simjoin_ballista::{Secret, physical_codec};
use tonic::transport::Endpoint;

use crate::command_line::{failed, succeeded};
use crate::processes::Cluster;
use crate::program::simjoin;
use crate::support::assert_contains;

const REFUSED: &str = "is not in a folder that statements may touch (--data-dir ";

/// A folder for statements (`in`), and one beside it (`out`), each with a file of one row.
struct Folders {
    all: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        for name in ["in", "out"] {
            fs::create_dir(all.path().join(name)).unwrap();
            fs::write(all.path().join(name).join("t.csv"), "x\n1\n").unwrap();
        }
        let folders = Self { all };
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink(folders.at("out/t.csv"), folders.at("in/link.csv")).unwrap();
            symlink(folders.at("out"), folders.at("in/folder")).unwrap();
        }
        folders
    }

    fn at(&self, name: &str) -> String {
        self.all.path().canonicalize().unwrap().join(name).display().to_string()
    }
}

/// Checks that the folder beside the one for statements is as it was.
fn is_untouched(folders: &Folders) {
    let names: Vec<_> = fs::read_dir(folders.at("out")).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(fs::read_to_string(folders.at("out/t.csv")).unwrap(), "x\n1\n");
}

/// Statements that read or write outside, all of which must be refused.
fn hostile(folders: &Folders) -> Vec<String> {
    let (inside, out) = (folders.at("in"), folders.at("out"));
    let table = |location: &str| {
        format!(
            "CREATE EXTERNAL TABLE u (x INT) STORED AS CSV LOCATION '{location}' OPTIONS ('format.has_header' 'true')"
        )
    };
    vec![
        format!("{}; SELECT x FROM u", table(&format!("{out}/t.csv"))),
        format!("{}; SELECT x FROM u", table(&format!("{out}/"))),
        format!("{}; SELECT x FROM u", table(&format!("{inside}/../out/t.csv"))),
        format!("{}; SELECT x FROM u", table(&format!("{inside}/link.csv"))),
        format!("{}; SELECT x FROM u", table(&format!("{inside}/folder/"))),
        format!("{}; INSERT INTO u VALUES (2)", table(&format!("{out}/"))),
        format!("{}; INSERT INTO u VALUES (2)", table(&format!("{inside}/folder/"))),
        format!("COPY (VALUES (1), (2)) TO '{out}/new.csv'"),
        format!("COPY (VALUES (1), (2)) TO '{out}/new/' STORED AS CSV"),
        format!("COPY (VALUES (1), (2)) TO '{inside}/../out/new.parquet'"),
        format!("COPY (VALUES (1), (2)) TO '{inside}/folder/new.parquet'"),
    ]
}

/// Statements within the folder.
fn harmless(folders: &Folders) -> String {
    let inside = folders.at("in");
    format!(
        "COPY (SELECT x + 1 AS y FROM '{inside}/t.csv') TO '{inside}/new/y.parquet'; \
         CREATE EXTERNAL TABLE w (x BIGINT) STORED AS PARQUET LOCATION '{inside}/w/'; \
         INSERT INTO w SELECT y FROM '{inside}/new/*.parquet'; SELECT sum(x) AS s FROM w"
    )
}

#[test]
fn local_statements_keep_to_their_folders() {
    let folders = Folders::new();
    let run = |sql: &str| {
        let inside = folders.at("in");
        let args = ["--data-dir", &inside, "-q", "--format", "csv", "-c", sql];
        simjoin().args(args).output().unwrap()
    };
    assert!(succeeded(&run(&harmless(&folders))).ends_with("s\n2\n"));
    for sql in hostile(&folders) {
        assert_contains(&failed(&run(&sql)), &[REFUSED, &folders.at("in")]);
        is_untouched(&folders);
    }
    let error = failed(&run(&format!("SELECT * FROM '{}'", folders.at("out/t.csv"))));
    assert_contains(&error, &[REFUSED, &folders.at("out/t.csv")]);
    let elsewhere = folders.at("out");
    let error = failed(&run(&format!("SET datafusion.runtime.temp_directory = '{elsewhere}'")));
    assert_contains(&error, &["temp_directory", "--data-dir"]);
    // A name that is no file is no matter of folders.
    assert_contains(&failed(&run("SELECT * FROM nothing")), &["nothing", "not found"]);
    let error = simjoin().args(["--data-dir", "/no/such", "-c", "SELECT 1"]).output().unwrap();
    assert_contains(&failed(&error), &["--data-dir /no/such"]);
}

#[test]
fn statements_on_a_cluster_keep_to_its_folders() {
    let folders = Folders::new();
    let inside = folders.at("in");
    let folder = ["--data-dir", inside.as_str()];
    // Both know the folder, or the executors alone, which then have to refuse by themselves.
    for scheduler in [&folder[..], &[]] {
        let mut cluster = Cluster::start_with(scheduler);
        cluster.add_executor(&folder);
        let run = |sql: &str| cluster.run(&["-q", "--format", "csv", "-c", sql]);
        for sql in hostile(&folders) {
            assert_contains(&failed(&run(&sql)), &[REFUSED]);
            is_untouched(&folders);
        }
        if scheduler.is_empty() {
            assert!(succeeded(&run(&harmless(&folders))).ends_with("s\n2\n"));
        }
    }
}

/// A session that plans without any folders.
fn free() -> SessionContext {
    let state = SessionStateBuilder::new_with_default_features();
    let state = datafusion_simjoin::install(state).unwrap().build();
    SessionContext::new_with_state(state).enable_url_table()
}

async fn planned(sql: &str) -> Arc<dyn ExecutionPlan> {
    let ctx = free();
    let frame = ctx.sql(sql).await.unwrap();
    assert!(!matches!(frame.logical_plan(), LogicalPlan::Ddl(_)));
    frame.create_physical_plan().await.unwrap()
}

/// A task that runs a plan, as a scheduler would send it.
fn task(job: &str, plan: Arc<dyn ExecutionPlan>) -> MultiTaskDefinition {
    let codec = physical_codec();
    let node = PhysicalPlanNode::try_from_physical_plan(plan, codec.as_ref()).unwrap();
    MultiTaskDefinition {
        task_ids: vec![TaskId {
            task_id: 0,
            task_attempt_num: 0,
            global_output_partition_ids: vec![0],
            ..TaskId::default()
        }],
        job_id: job.to_string(),
        stage_id: 1,
        plan: node.encode_to_vec(),
        session_id: "hostile".to_string(),
        ..MultiTaskDefinition::default()
    }
}

fn writer(job: &str, plan: Arc<dyn ExecutionPlan>, folder: &str) -> Arc<dyn ExecutionPlan> {
    let writer = ShuffleWriterExec::try_new(job.into(), 1, plan, folder.to_string());
    Arc::new(writer.unwrap())
}

/// Tasks that no scheduler made, from someone who has the secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_refuses_what_a_hand_made_plan_names() {
    let folders = Folders::new();
    let secret = folders.at("secret");
    fs::write(&secret, "the-secret-of-this-test").unwrap();
    let mut cluster = Cluster::start_with(&["--secret-file", &secret]);
    let inside = folders.at("in");
    cluster.add_executor(&["--secret-file", &secret, "--data-dir", &inside]);
    let executor = &cluster.executors[0];
    let url = format!("http://127.0.0.1:{}", executor.ports().1);
    let endpoint = Endpoint::from_shared(url).unwrap();
    let endpoint = Secret::read(Path::new(&secret)).unwrap().endpoints()(endpoint).unwrap();
    let mut client = ExecutorGrpcClient::new(endpoint.connect().await.unwrap());

    let out = folders.at("out");
    let scan = planned(&format!("SELECT x FROM '{out}/t.csv'")).await;
    let write = planned(&format!("COPY (SELECT 7 AS x) TO '{out}/new.csv'")).await;
    let one = planned("SELECT 1 AS x").await;
    // A second writer of rows, into a folder of its choice.
    let nested = writer("nested", Arc::clone(&one), &out);
    for (job, plan, refusal) in [
        ("scan", writer("scan", scan, ""), REFUSED),
        ("write", writer("write", write, ""), REFUSED),
        ("nested", writer("nested", nested, ""), "one writer of rows"),
        ("../out", writer("../out", Arc::clone(&one), ""), "no name of a statement"),
        ("bare", one, "one writer of rows"),
    ] {
        let tasks = vec![task(job, plan)];
        let launch = LaunchMultiTaskParams {
            multi_tasks: tasks,
            scheduler_endpoint: cluster.address.clone(),
        };
        let answer = client.launch_multi_task(launch).await.unwrap().into_inner();
        assert_eq!(answer.failed_jobs, Vec::<String>::new(), "{job}");
        executor.wait_for(&[&format!("job={job}"), refusal]);
        is_untouched(&folders);
    }
    // It goes on all the same.
    let answer =
        cluster.run(&["--secret-file", &secret, "-q", "-c", "SELECT count(*) FROM (VALUES (1))"]);
    succeeded(&answer);
}
