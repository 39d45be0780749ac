//! The memory and the files of an executor's tasks.

use std::path::Path;
use std::sync::Arc;

use ballista_core::RuntimeProducer;
use ballista_executor::runtime_cache::MemoryPoolPolicy;
use datafusion::common::{Result, exec_err};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use sysinfo::System;

use simjoin_files::storage::DataDirs;

/// The part of the machine's memory that tasks have where no limit is given, in percent.
const PART_OF_MACHINE: u64 = 70;

/// The memory of the machine, or of the container that the process is in.
fn machine() -> u64 {
    let mut system = System::new();
    system.refresh_memory();
    let container = system.cgroup_limits().map(|limits| limits.total_memory);
    container.filter(|bytes| *bytes > 0).unwrap_or(u64::MAX).min(system.total_memory())
}

/// Gives each task a pool of its own: its part, by cores, of `limit` bytes, or of the machine's
/// memory.
pub(super) fn pool_policy(limit: Option<u64>, cores: usize) -> Result<MemoryPoolPolicy> {
    let bytes = limit.unwrap_or_else(|| machine() / 100 * PART_OF_MACHINE);
    let per_core = usize::try_from(bytes / cores as u64).unwrap_or(usize::MAX);
    if per_core == 0 {
        return exec_err!(
            "{bytes} bytes for {cores} cores leave none for each; raise --memory-limit"
        );
    }
    Ok(Arc::new(move |base, _, cores| {
        let bytes = per_core.saturating_mul(cores.max(1) as usize);
        RuntimeEnvBuilder::from_runtime_env(&base)
            .with_memory_pool(Arc::new(FairSpillPool::new(bytes)))
            .build_arc()
    }))
}

/// Makes the runtimes of sessions. All spill into `work_dir`, `work_dir_limit` bytes together, and
/// touch the files of `data_dirs` alone.
pub(super) fn runtimes(
    work_dir: &Path,
    work_dir_limit: Option<u64>,
    data_dirs: Option<&DataDirs>,
) -> Result<RuntimeProducer> {
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![work_dir.to_path_buf()]))
        .with_max_temp_directory_size(work_dir_limit.unwrap_or(u64::MAX))
        .build()?;
    let disk = Arc::new(disk);
    let registry = data_dirs.map(DataDirs::registry);
    Ok(Arc::new(move |_| {
        let mut builder = RuntimeEnvBuilder::new();
        builder.disk_manager = Some(Arc::clone(&disk));
        if let Some(registry) = &registry {
            builder = builder.with_object_store_registry(Arc::clone(registry));
        }
        builder.build_arc()
    }))
}
