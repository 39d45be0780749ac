//! Clusters at the command line: the scheduler, the executors, and statements that they run.

use std::io;
use std::time::Duration;

use super::cluster_access::access;
use super::cluster_args::{ExecutorArgs, LogArgs, LogFormat, LogLevel, Process, SchedulerArgs};
use super::output::print_line;
use super::{cluster_control, log};
use simjoin_ballista::client::SchedulerAddress;
use simjoin_ballista::executor::{Executor, ExecutorOptions, stop_signal};
use simjoin_ballista::scheduler::{Scheduler, SchedulerOptions};
use simjoin_files::storage::DataDirs;
use simjoin_session::errors::{self, SessionError};

/// The stack of the threads that read plans, which go deep.
const STACK_BYTES: usize = 16 << 20;

/// Runs a process of a cluster until it is told to stop.
pub(super) fn run(process: Process) -> std::result::Result<(), SessionError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(SessionError::Io)?;
    let result = runtime.block_on(async {
        // Plans are read on a worker, whose stack is deep enough.
        let process = match process {
            Process::Scheduler(args) => tokio::spawn(scheduler(args)),
            Process::Executor(args) => tokio::spawn(executor(args)),
            Process::Cluster(args) => tokio::spawn(cluster_control::run(args)),
        };
        match process.await {
            Ok(result) => result,
            Err(e) => Err(SessionError::Usage(format!("the process failed: {e}"))),
        }
    });
    runtime.shutdown_background();
    result
}

/// Ends a process with its error as the last message of its log, in its form.
async fn logged(
    args: LogArgs,
    process: impl Future<Output = std::result::Result<(), SessionError>>,
) -> std::result::Result<(), SessionError> {
    log::to_stderr(args.log_level, args.log_format);
    match process.await {
        Err(error) if args.log_format == LogFormat::Json && args.log_level != LogLevel::Off => {
            ::log::error!("{}", errors::text(&error));
            Err(SessionError::Reported)
        }
        ended => ended,
    }
}

async fn scheduler(args: SchedulerArgs) -> std::result::Result<(), SessionError> {
    let log = LogArgs { ..args.log };
    logged(log, run_scheduler(args)).await
}

async fn executor(args: ExecutorArgs) -> std::result::Result<(), SessionError> {
    let log = LogArgs { ..args.log };
    logged(log, run_executor(args)).await
}

async fn run_scheduler(args: SchedulerArgs) -> std::result::Result<(), SessionError> {
    let external_host = match args.external_host {
        Some(host) => host,
        None if args.bind_host.is_unspecified() => {
            return Err(SessionError::Usage(format!(
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

async fn run_executor(args: ExecutorArgs) -> std::result::Result<(), SessionError> {
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
