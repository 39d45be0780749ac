//! The sub-commands that start the processes of a cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::args::parse_size;

/// The processes of a cluster.
#[derive(Debug, Subcommand)]
pub enum Process {
    /// Start the scheduler of a cluster, which plans statements and hands out their tasks
    Scheduler(SchedulerArgs),
    /// Start an executor of a cluster, which runs tasks
    Executor(ExecutorArgs),
}

#[derive(Debug, clap::Args)]
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

    /// Least severity of the messages on standard error
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub log_level: LogLevel,
}

#[derive(Debug, clap::Args)]
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

    /// Least severity of the messages on standard error
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub log_level: LogLevel,
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

/// Executors tell of themselves every two seconds.
fn at_least_5() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(5..)
}
