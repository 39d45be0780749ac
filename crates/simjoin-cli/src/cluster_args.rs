//! The sub-commands that start the processes of a cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use simjoin_session::size::parse_size;

/// The processes of a cluster.
#[derive(Debug, Subcommand)]
pub enum Process {
    /// Start the scheduler of a cluster, which plans statements and hands out their tasks
    Scheduler(SchedulerArgs),
    /// Start an executor of a cluster, which runs tasks
    Executor(ExecutorArgs),
    /// Show what a cluster is doing, or cancel one of its statements
    Cluster(ControlArgs),
}

/// The end of the help of each command that opens a port.
const WARNING: &str = "Whoever reaches the ports of a cluster and has its secret reads and writes \
                       every file that the account of its executors can read and write, unless \
                       --data-dir names the folders that statements may touch. Nothing is \
                       encrypted.";

/// The processes that may use one of a cluster, and the files that it may use.
#[derive(Debug, clap::Args)]
pub struct AccessArgs {
    /// File with the secret that all processes and clients of the cluster have to give [default:
    /// one that the scheduler makes, for processes of its account on this machine]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Serve whoever reaches the port
    #[arg(long, conflicts_with = "secret_file")]
    pub no_secret: bool,

    /// Folder that statements may read and write, with all below it; repeatable [default: all
    /// files of this account]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Vec<PathBuf>,
}

/// The log of a process of a cluster.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// Least severity of the messages on standard error
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub log_level: LogLevel,

    /// Form of the messages on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

#[derive(Debug, clap::Args)]
pub struct ControlArgs {
    #[command(subcommand)]
    pub command: ControlCommand,
}

/// The commands on a cluster that runs.
#[derive(Debug, Subcommand)]
pub enum ControlCommand {
    /// List executors and the statements that wait or run
    Status {
        #[command(flatten)]
        connection: ConnectionArgs,

        /// Form of the list
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: StatusFormat,

        /// List statements that have ended as well
        #[arg(long)]
        all: bool,
    },
    /// Cancel statements
    Cancel {
        #[command(flatten)]
        connection: ConnectionArgs,

        /// Names of statements, as simjoin cluster status lists them
        #[arg(value_name = "JOB", required = true)]
        jobs: Vec<String>,
    },
}

/// The address of a scheduler, and its secret.
#[derive(Debug, clap::Args)]
pub struct ConnectionArgs {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050")]
    pub scheduler: String,

    /// File with the secret of the cluster [default: that of a scheduler of this account]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = WARNING)]
pub struct SchedulerArgs {
    /// Address to listen on; 0.0.0.0 for every network that this machine is in
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_host: IpAddr,

    /// Port to listen on; 0 for any that is free
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 50050)]
    pub bind_port: u16,

    /// Name or address by which executors reach this scheduler [default: that of --bind-host]
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,

    /// Give an executor up after this long without a message, and run its tasks elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = at_least_5())]
    pub executor_timeout_seconds: u64,

    #[command(flatten)]
    pub access: AccessArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = WARNING)]
pub struct ExecutorArgs {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050")]
    pub scheduler: String,

    /// Address to listen on; 0.0.0.0 for every network that this machine is in
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_host: IpAddr,

    /// Name or address by which clients and executors reach this executor [default: the address
    /// that the scheduler sees]
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,

    /// Port for rows; 0 for any that is free
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 0)]
    pub bind_port: u16,

    /// Port for tasks; 0 for any that is free
    #[arg(long, alias = "grpc-port", value_name = "PORT", default_value_t = 0)]
    pub bind_grpc_port: u16,

    /// Folder for rows between stages and for spilled data [default: the system's temporary one]
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,

    /// Greatest size of all files in that folder, such as 100g; a statement that passes it fails
    /// [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub work_dir_limit: Option<u64>,

    /// Tasks that run at the same time; 0 for as many as the machine has cores
    #[arg(short = 'c', long, alias = "vcores", value_name = "N", default_value_t = 0)]
    pub cores: usize,

    /// Greatest memory for the data of all tasks together, such as 512m or 8g; a task has its part
    /// by cores [default: 70% of the machine's memory]
    #[arg(short = 'm', long, alias = "memory-pool-size", value_name = "SIZE",
        value_parser = parse_size)]
    pub memory_limit: Option<u64>,

    /// Try this long to reach the scheduler
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub scheduler_connect_timeout_seconds: u64,

    #[command(flatten)]
    pub access: AccessArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

/// How much the processes of a cluster tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

/// The form of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Time, severity, place in the program, statement and message
    Text,
    /// An object a line, with the same as its fields
    Json,
}

/// The form of a list of what a cluster does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    /// Two tables
    Text,
    /// One object
    Json,
}

/// Executors tell of themselves every two seconds.
fn at_least_5() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(5..)
}
