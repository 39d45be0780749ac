//! Clusters at the command line: the scheduler, the executors, and statements that they run.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use indicatif::HumanCount;
use log::{LevelFilter, Log, Metadata, Record};

use super::cluster_args::{ExecutorArgs, LogLevel, Process, SchedulerArgs};
use super::errors::CliError;
use super::output::print_line;
use crate::cluster::client;
use crate::cluster::client::{ClusterQueryExec, Phase, SchedulerAddress};
use crate::cluster::executor::{Executor, ExecutorOptions, stop_signal};
use crate::cluster::scheduler::{Scheduler, SchedulerOptions};

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
        };
        match process.await {
            Ok(result) => result,
            Err(e) => Err(CliError::Usage(format!("the process failed: {e}"))),
        }
    });
    runtime.shutdown_background();
    result
}

async fn scheduler(args: SchedulerArgs) -> std::result::Result<(), CliError> {
    log_to_stderr(args.log_level);
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
    })
    .await?;
    let port = scheduler.port();
    print_line(
        io::stdout(),
        &format!(
            "Scheduler at {external_host}:{port}. Start executors with: simjoin executor \
             --scheduler {external_host}:{port}"
        ),
    )?;
    tokio::select! {
        result = scheduler.serve() => Ok(result?),
        () = stop_signal() => Ok(()),
    }
}

async fn executor(args: ExecutorArgs) -> std::result::Result<(), CliError> {
    log_to_stderr(args.log_level);
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

pub(super) fn connect(scheduler: &str, builder: SessionStateBuilder) -> Result<SessionContext> {
    client::connect(scheduler, builder)
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

/// How long a cluster may take to hear that a statement is cancelled.
const CANCEL_PATIENCE: Duration = Duration::from_secs(3);

/// Waits until the cluster knows that the statement is cancelled.
pub(super) async fn cancelled(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(query) = plan.downcast_ref::<ClusterQueryExec>() {
        let _ = tokio::time::timeout(CANCEL_PATIENCE, query.job().ended()).await;
    }
}

/// Tells what Ballista logs on standard error.
fn log_to_stderr(level: LogLevel) {
    let level = match level {
        LogLevel::Off => LevelFilter::Off,
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warn => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
    };
    if log::set_logger(&StderrLog).is_ok() {
        log::set_max_level(level);
    }
}

struct StderrLog;

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The network crates log every frame of each connection.
        !["h2", "hyper", "tower", "tonic"].iter().any(|name| metadata.target().starts_with(name))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("[{} {}] {}", record.level(), record.target(), record.args());
        }
    }

    fn flush(&self) {}
}
