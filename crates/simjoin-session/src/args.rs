//! The options of a session, as flags of a command line.

use std::path::PathBuf;

use clap::ValueEnum;

use super::size::parse_size;

/// The options of a session.
#[derive(Debug, Clone, clap::Args)]
pub struct SessionArgs {
    /// Run the statements on the cluster of this scheduler, such as localhost:50050
    #[arg(long, value_name = "HOST:PORT")]
    pub scheduler: Option<String>,

    /// File with the secret of that cluster [default: that of a scheduler of this account]
    #[arg(long, value_name = "FILE", requires = "scheduler")]
    pub secret_file: Option<PathBuf>,

    /// Folder that statements may read and write, with all below it; repeatable [default: all files
    /// of this account]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Vec<PathBuf>,

    /// Rows per batch of the execution [default: DataFusion's]
    #[arg(short = 'b', long, value_name = "ROWS", value_parser = parse_batch_size)]
    pub batch_size: Option<usize>,

    /// Greatest memory for the data of running statements, such as 512m or 2g [default: no limit]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = parse_size,
        conflicts_with = "scheduler")]
    pub memory_limit: Option<u64>,

    /// How statements share the memory limit
    #[arg(long, value_name = "TYPE", default_value = "greedy")]
    pub mem_pool_type: PoolType,

    /// How many of the largest memory consumers an out-of-memory error names; 0 for none
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub top_memory_consumers: usize,

    /// Greatest size of spilled data on disk, such as 10g [default: DataFusion's]
    #[arg(short = 'd', long, value_name = "SIZE", value_parser = parse_size,
        conflicts_with = "scheduler")]
    pub disk_limit: Option<u64>,

    /// Let statements raise the limits of -m and -d: SET datafusion.runtime.memory_limit,
    /// max_temp_directory_size
    #[arg(long, conflicts_with = "scheduler")]
    pub soft_limits: bool,
}

impl Default for SessionArgs {
    /// The options of a command line without flags.
    fn default() -> Self {
        Self {
            scheduler: None,
            secret_file: None,
            data_dir: vec![],
            batch_size: None,
            memory_limit: None,
            mem_pool_type: PoolType::Greedy,
            top_memory_consumers: 3,
            disk_limit: None,
            soft_limits: false,
        }
    }
}

/// Which memory pool enforces the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolType {
    /// First come, first served
    Greedy,
    /// Equal parts for the operators that can spill
    Fair,
}

fn parse_batch_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err("a batch has at least 1 row".to_string()),
    }
}
