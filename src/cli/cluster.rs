//! Clusters at the command line: the scheduler, the executors, and statements that they run.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::config::{BALLISTA_JOB_NAME, BallistaConfig};
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use indicatif::HumanCount;

use super::cluster_access::access;
use super::cluster_args::{ExecutorArgs, LogArgs, LogFormat, LogLevel, Process, SchedulerArgs};
use super::errors::{self, CliError};
use super::operator::Operator;
use super::output::print_line;
use super::{cluster_control, log};
use crate::cluster::client::{self, ClusterQueryExec, Phase, SchedulerAddress, StageOperator};
use crate::cluster::executor::{Executor, ExecutorOptions, stop_signal};
use crate::cluster::scheduler::{Scheduler, SchedulerOptions};
use crate::cluster::{Access, Secret};
use crate::storage::DataDirs;

/// The stack of the threads that read plans, which go deep.
const STACK_BYTES: usize = 16 << 20;

/// Runs a process of a cluster until it is told to stop.
pub(super) fn run(process: Process) -> std::result::Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(CliError::Io)?;
    let result = runtime.block_on(async {
        // Plans are read on a worker, whose stack is deep enough.
        let process = match process {
            Process::Scheduler(args) => tokio::spawn(scheduler(args)),
            Process::Executor(args) => tokio::spawn(executor(args)),
            Process::Cluster(args) => tokio::spawn(cluster_control::run(args)),
        };
        match process.await {
            Ok(result) => result,
            Err(e) => Err(CliError::Usage(format!("the process failed: {e}"))),
        }
    });
    runtime.shutdown_background();
    result
}

/// Ends a process with its error as the last message of its log, in its form.
async fn logged(
    args: LogArgs,
    process: impl Future<Output = std::result::Result<(), CliError>>,
) -> std::result::Result<(), CliError> {
    log::to_stderr(args.log_level, args.log_format);
    match process.await {
        Err(error) if args.log_format == LogFormat::Json && args.log_level != LogLevel::Off => {
            ::log::error!("{}", errors::text(&error));
            Err(CliError::Reported)
        }
        ended => ended,
    }
}

async fn scheduler(args: SchedulerArgs) -> std::result::Result<(), CliError> {
    let log = LogArgs { ..args.log };
    logged(log, run_scheduler(args)).await
}

async fn executor(args: ExecutorArgs) -> std::result::Result<(), CliError> {
    let log = LogArgs { ..args.log };
    logged(log, run_executor(args)).await
}

async fn run_scheduler(args: SchedulerArgs) -> std::result::Result<(), CliError> {
    let external_host = match args.external_host {
        Some(host) => host,
        None if args.bind_host.is_unspecified() => {
            return Err(CliError::Usage(format!(
                "--bind-host {} needs --external-host, the name or address by which executors \
                 reach this scheduler",
                args.bind_host
            )));
        }
        None if args.bind_host.is_ipv6() => format!("[{}]", args.bind_host),
        None => args.bind_host.to_string(),
    };
    let scheduler = Scheduler::bind(SchedulerOptions {
        bind_host: args.bind_host,
        bind_port: args.bind_port,
        external_host: external_host.clone(),
        executor_timeout_seconds: args.executor_timeout_seconds,
        access: access(args.access.secret_file.as_deref(), args.access.no_secret)?,
        data_dirs: DataDirs::new(&args.access.data_dir)?,
    })
    .await?;
    let port = scheduler.port();
    let secret = match (&args.access.secret_file, args.access.no_secret) {
        (Some(file), _) => format!(" --secret-file {}", file.display()),
        (None, true) => " --no-secret".to_string(),
        (None, false) => String::new(),
    };
    if let Some(file) = scheduler.secret_file() {
        ::log::info!("the secret of this scheduler is in {}", file.display());
    }
    print_line(
        io::stdout(),
        &format!(
            "Scheduler at {external_host}:{port}. Start executors with: simjoin executor \
             --scheduler {external_host}:{port}{secret}"
        ),
    )?;
    tokio::select! {
        result = scheduler.serve() => Ok(result?),
        () = stop_signal() => Ok(()),
    }
}

async fn run_executor(args: ExecutorArgs) -> std::result::Result<(), CliError> {
    let scheduler = SchedulerAddress::parse(&args.scheduler)?;
    let executor = Executor::prepare(ExecutorOptions {
        scheduler: scheduler.clone(),
        bind_host: args.bind_host,
        external_host: args.external_host,
        bind_port: args.bind_port,
        bind_grpc_port: args.bind_grpc_port,
        work_dir: args.work_dir,
        cores: args.cores,
        memory_limit: args.memory_limit,
        work_dir_limit: args.work_dir_limit,
        data_dirs: DataDirs::new(&args.access.data_dir)?,
        access: access(args.access.secret_file.as_deref(), args.access.no_secret)?,
        connect_patience: Duration::from_secs(args.scheduler_connect_timeout_seconds),
    });
    // A signal while the scheduler is looked for ends the process at once.
    let executor = tokio::select! {
        executor = executor => executor?,
        () = stop_signal() => return Ok(()),
    };
    let (port, grpc_port) = executor.ports();
    let told = format!(
        "Executor with {} core(s) at ports {port} (rows) and {grpc_port} (tasks), for the \
         scheduler at {scheduler}. Its files are in {}",
        executor.cores(),
        executor.work_dir().display()
    );
    let ready = executor.ready();
    let run = executor.run();
    tokio::pin!(run);
    tokio::select! {
        result = &mut run => return Ok(result?),
        () = ready => print_line(io::stdout(), &told)?,
    }
    Ok(run.await?)
}

/// A session whose statements run on a cluster.
pub(super) fn connect(
    scheduler: &str,
    secret_file: Option<&Path>,
    builder: SessionStateBuilder,
) -> Result<SessionContext> {
    let access = match secret_file {
        Some(file) => Access::Secret(Secret::read(file)?),
        None => Access::Account,
    };
    client::connect_with(scheduler, &access, builder)
}

/// Characters of a statement's text that a cluster hears.
const TEXT_TOLD: usize = 500;

/// Tells the cluster what the next statement of a session is, for lists of statements.
pub(super) fn name_statement(ctx: &SessionContext, statement: &Statement) -> Result<()> {
    let state = ctx.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    if options.extensions.get::<BallistaConfig>().is_none() {
        return Ok(());
    }
    let text: String = statement.to_string().chars().take(TEXT_TOLD).collect();
    options.set(BALLISTA_JOB_NAME, &text)
}

/// The phase of a statement on a cluster, as a line for the user.
pub(super) fn status(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let query = plan.downcast_ref::<ClusterQueryExec>()?;
    Some(match query.job().phase() {
        Phase::Waiting => "waiting for the cluster".to_string(),
        Phase::Running { stages_done: 0, .. } => "running the first stage".to_string(),
        Phase::Running { stages_done, rows } => format!(
            "running: {stages_done} stage(s) done, {} rows out of the last",
            HumanCount(rows as u64)
        ),
        Phase::Fetching { rows, of } => {
            format!("fetching: {} of {} rows", HumanCount(rows as u64), HumanCount(of as u64))
        }
        Phase::Ended => "done".to_string(),
    })
}

/// The stages of an EXPLAIN ANALYZE, with their names, once it has given its rows; none of other
/// statements.
pub(super) fn stages(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, Vec<Operator>)> {
    let Some(query) = plan.downcast_ref::<ClusterQueryExec>() else { return vec![] };
    let operator = |StageOperator { depth, description, metrics }: StageOperator| Operator {
        depth,
        description,
        metrics,
    };
    let stages = query.stages().into_iter();
    stages.map(|of| (of.name, of.operators.into_iter().map(operator).collect())).collect()
}

/// How long a cluster may take to hear that a statement is cancelled.
const CANCEL_PATIENCE: Duration = Duration::from_secs(3);

/// Waits until the cluster knows that the statement is cancelled.
pub(super) async fn cancelled(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(query) = plan.downcast_ref::<ClusterQueryExec>() {
        let _ = tokio::time::timeout(CANCEL_PATIENCE, query.job().ended()).await;
    }
}
