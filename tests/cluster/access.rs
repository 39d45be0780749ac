//! Every request to each port of a cluster needs its secret.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ballista_core::client::BallistaClient;
use ballista_core::extension::{BallistaConfigGrpcEndpoint, SessionConfigExt};
use ballista_core::serde::protobuf::executor_grpc_client::ExecutorGrpcClient;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, CancelTasksParams, ExecuteQueryParams, GetJobStatusParams,
    LaunchMultiTaskParams, LaunchTaskParams, RegisterExecutorParams, RemoveJobDataParams,
    StopExecutorParams,
};
use ballista_core::serde::scheduler::{PartitionId, ShuffleLayout};
use datafusion::execution::SessionStateBuilder;
use simjoin_ballista::{Access, Secret, client};
use tonic::{Code, Status};

use crate::command_line::{failed, succeeded};
use crate::processes::{Cluster, Process};
use crate::program::simjoin;
use crate::support::{assert_contains, try_rows};

/// Two files of secrets.
fn secrets(folder: &Path) -> [String; 2] {
    ["right", "wrong"].map(|name| {
        let path = folder.join(name);
        fs::write(&path, format!("the-{name}-secret-of-a-test\n")).unwrap();
        path.display().to_string()
    })
}

const COUNT: [&str; 5] = ["-q", "--format", "csv", "-c", "SELECT count(*) AS n FROM (VALUES (1))"];

#[test]
fn a_secret_is_asked_for_by_scheduler_and_executors() {
    let folder = tempfile::tempdir().unwrap();
    let [right, wrong] = secrets(folder.path());
    let mut cluster = Cluster::start_with(&["--secret-file", &right]);
    let executor = |secret: &[&str]| {
        let mut command = simjoin();
        command.args(["executor", "--scheduler", &cluster.address]).args(secret);
        command.args(["--scheduler-connect-timeout-seconds", "0"]).stdin(Stdio::null());
        failed(&command.output().unwrap())
    };
    let error = executor(&["--secret-file", &wrong]);
    assert_contains(&error, &["refuses this executor", "secret is missing or wrong"]);
    assert_contains(&executor(&["--no-secret"]), &["refuses this executor", "--secret-file"]);
    let error = executor(&[]);
    assert_contains(&error, &["has left no secret for this account", "--secret-file"]);
    cluster.add_executor(&["--secret-file", &right]);

    let with = |secret: &[&str]| cluster.run(&[secret, &COUNT].concat());
    assert_eq!(succeeded(&with(&["--secret-file", &right])), "n\n1\n");
    for secret in [&["--secret-file", wrong.as_str()][..], &[]] {
        let error = failed(&with(secret));
        assert_contains(&error, &[&cluster.address, "secret is missing or wrong", "--secret-file"]);
    }
    // The text of a secret is nowhere told.
    let heard = cluster.executors[0].stderr() + &cluster.scheduler.stderr();
    assert!(!heard.contains("-secret-of-a-test"), "{heard}");
}

fn refused<T: std::fmt::Debug>(what: &str, answer: Result<T, Status>) {
    let status = answer.expect_err(what);
    assert_eq!(status.code(), Code::Unauthenticated, "{what}: {status}");
}

#[tokio::test]
async fn no_port_answers_without_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let [right, wrong] = secrets(folder.path());
    let mut cluster = Cluster::start_with(&["--secret-file", &right]);
    cluster.add_executor(&["--secret-file", &right]);
    let (rows, tasks) = cluster.executors[0].ports();

    let url = format!("http://{}", cluster.address);
    let mut scheduler = SchedulerGrpcClient::connect(url).await.unwrap();
    let query = ExecuteQueryParams::default();
    refused("execute_query", scheduler.execute_query(query).await);
    let status = GetJobStatusParams { job_id: "x".to_string() };
    refused("get_job_status", scheduler.get_job_status(status).await);
    let job = CancelJobParams { job_id: "x".to_string() };
    refused("cancel_job", scheduler.cancel_job(job).await);
    let executor = RegisterExecutorParams::default();
    refused("register_executor", scheduler.register_executor(executor).await);

    let mut executor =
        ExecutorGrpcClient::connect(format!("http://127.0.0.1:{tasks}")).await.unwrap();
    refused("launch_task", executor.launch_task(LaunchTaskParams::default()).await);
    let launch = LaunchMultiTaskParams::default();
    refused("launch_multi_task", executor.launch_multi_task(launch).await);
    refused("stop_executor", executor.stop_executor(StopExecutorParams::default()).await);
    refused("cancel_tasks", executor.cancel_tasks(CancelTasksParams::default()).await);
    let data = RemoveJobDataParams::default();
    refused("remove_job_data", executor.remove_job_data(data).await);

    // Rows: without a secret, with the wrong one, and with the right one, for which there is no
    // such partition.
    let secret = |file: &str| Secret::read(Path::new(file)).unwrap().endpoints();
    for (endpoints, is_refused) in
        [(None, true), (Some(secret(&wrong)), true), (Some(secret(&right)), false)]
    {
        let customize = endpoints.map(|f| std::sync::Arc::new(BallistaConfigGrpcEndpoint::new(f)));
        for flight in [true, false] {
            let id = PartitionId { job_id: "x".into(), stage_id: 1, partition_id: 0 };
            let mut client = BallistaClient::try_new(
                "127.0.0.1",
                rows,
                1 << 20,
                false,
                customize.clone(),
                1,
                1,
                0,
                0,
            )
            .await
            .unwrap();
            let fetched =
                client.fetch_partition("x", &id, None, ShuffleLayout::Passthrough, flight).await;
            let error = fetched.err().expect("no rows").to_string();
            assert_eq!(error.contains("secret is missing or wrong"), is_refused, "{error}");
            // Not even the secret leads out of the work folder.
            let id = PartitionId { job_id: "../x".into(), stage_id: 1, partition_id: 0 };
            let fetched =
                client.fetch_partition("x", &id, None, ShuffleLayout::Passthrough, flight).await;
            let error = fetched.err().expect("no rows").to_string();
            assert_eq!(error.contains("no name of a statement"), !is_refused, "{error}");
        }
    }
}

#[tokio::test]
async fn programs_give_the_secret_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let [right, wrong] = secrets(folder.path());
    let mut cluster = Cluster::start_with(&["--secret-file", &right]);
    cluster.add_executor(&["--secret-file", &right]);
    for (file, succeeds) in [(&right, true), (&wrong, false)] {
        let access = Access::Secret(Secret::read(Path::new(file)).unwrap());
        let builder = SessionStateBuilder::new_with_default_features();
        let ctx = client::connect_with(&cluster.address, &access, builder).unwrap();
        assert!(ctx.copied_config().ballista_override_create_grpc_client_endpoint().is_some());
        let rows = try_rows(&ctx, "SELECT count(*) FROM (VALUES (1), (2))").await;
        assert_eq!(rows.is_ok(), succeeds, "{rows:?}");
    }
}

/// `simjoin` as a process of an account with these folders.
fn of_account(run: &Path, state: &Path) -> Command {
    let mut command = simjoin();
    command.env("XDG_RUNTIME_DIR", run).env("XDG_STATE_HOME", state).stdin(Stdio::null());
    command
}

#[cfg(unix)]
#[test]
fn a_scheduler_of_this_machine_serves_its_account_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folders = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let path = folders.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (run, state, other) = (folder("run"), folder("state"), folder("other"));
    let mut scheduler =
        Process::start_command(of_account(&run, &state), &["scheduler", "--bind-port", "0"]);
    let address = scheduler.first_line["Scheduler at ".len()..].split_once(". ").unwrap().0;
    let address = address.to_string();
    let files: Vec<_> = fs::read_dir(run.join("simjoin")).unwrap().flatten().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let mode = files[0].metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let work_dir = folders.path().join("work").display().to_string();
    let executor = ["executor", "--scheduler", &address, "--cores", "1", "--work-dir", &work_dir];
    let executor = Process::start_command(of_account(&run, &state), &executor);

    let client = |mut command: Command| {
        command.args(["--scheduler", &address]).args(COUNT).output().unwrap()
    };
    assert_eq!(succeeded(&client(of_account(&run, &state))), "n\n1\n");
    // Another account, which cannot read the file.
    let error = failed(&client(of_account(&other, &other)));
    assert_contains(&error, &["secret is missing or wrong"]);
    // A file that others can read is trusted no more.
    fs::set_permissions(files[0].path(), fs::Permissions::from_mode(0o644)).unwrap();
    failed(&client(of_account(&run, &state)));
    fs::set_permissions(files[0].path(), fs::Permissions::from_mode(0o600)).unwrap();
    drop(executor);
    assert!(scheduler.terminate());
    assert_eq!(fs::read_dir(run.join("simjoin")).unwrap().count(), 0);
}

#[test]
fn addresses_of_the_network_need_a_secret_or_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let [right, _] = secrets(folder.path());
    let run = |args: &[&str]| failed(&simjoin().args(args).output().unwrap());
    let error = run(&["scheduler", "--bind-host", "0.0.0.0", "--external-host", "localhost"]);
    assert_contains(&error, &["--bind-host 0.0.0.0", "--secret-file FILE", "--no-secret"]);
    let error = run(&["executor", "--bind-host", "0.0.0.0"]);
    assert_contains(&error, &["--bind-host 0.0.0.0", "--secret-file FILE", "--no-secret"]);
    let error = run(&["scheduler", "--secret-file", &right, "--no-secret"]);
    assert_contains(&error, &["--secret-file", "cannot be used with"]);
    let nowhere = folder.path().join("nowhere").display().to_string();
    let error = run(&["scheduler", "--secret-file", &nowhere]);
    assert_contains(&error, &["--secret-file", "nowhere"]);
}

#[tokio::test]
async fn a_cluster_without_a_secret_serves_all() {
    let mut cluster = Cluster::start_with(&["--no-secret"]);
    cluster.add_executor(&["--no-secret"]);
    let mut scheduler =
        SchedulerGrpcClient::connect(format!("http://{}", cluster.address)).await.unwrap();
    let status = GetJobStatusParams { job_id: "x".to_string() };
    assert!(scheduler.get_job_status(status).await.is_ok());
    assert_eq!(succeeded(&cluster.run(&COUNT)), "n\n1\n");
}
