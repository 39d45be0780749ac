//! The session that options ask for.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::catalog::{DynamicFileCatalog, UrlTableFactory};
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool,
};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::args::{PoolType, SessionArgs};
use super::cluster;
use super::reads::WatchedFiles;
use super::spill_folders::SpillFolders;
use datafusion_simjoin::config::SimJoinOptions;
use datafusion_simjoin::install;
use simjoin_files::storage::DataDirs;
use simjoin_files::{self as files, ExternalTables, FilePlanner, FileTables, Pipes};

/// Builds the session: options from the environment (`DATAFUSION_*`, `SIMJOIN_*`) and the flags,
/// the similarity join, and tables by file name. `stdin` is why statements may not read standard input. With `--scheduler`, its statements run on that
/// cluster.
///
/// # Errors
///
/// A configuration error for a wrong value in the environment or a scheduler's address that is
/// none.
pub fn build(args: &SessionArgs, stdin: Option<&'static str>) -> Result<SessionContext> {
    let mut config = SessionConfig::from_env()?
        .with_information_schema(true)
        .with_option_extension(SimJoinOptions::from_env()?);
    if let Some(rows) = args.batch_size {
        config = config.with_batch_size(rows);
    }
    // The order of a view is that of its rows. Operators that ask for none have it taken away below them.
    config = config.with_enable_subquery_sort_elimination(false);

    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(data_dirs) = DataDirs::new(&args.data_dir)? {
        runtime = runtime.with_object_store_registry(data_dirs.registry());
        config = config.with_extension(Arc::new(data_dirs));
    }
    if let Some(bytes) = args.memory_limit {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        runtime = runtime.with_memory_pool(memory_pool(args, bytes));
        config = with_room_for_sorts(config, bytes);
    }
    let (mut disk, config) = SpillFolders::disk_manager(config);
    if let Some(bytes) = args.disk_limit {
        disk.set_max_temp_directory_size(bytes);
    }
    let runtime = runtime.with_disk_manager_builder(disk);

    let runtime = runtime.build_arc()?;
    let files = ObjectStoreUrl::local_filesystem();
    let watched = WatchedFiles::new(runtime.object_store(&files)?);
    runtime.register_object_store(files.as_ref(), Arc::new(watched));
    let pipes = Arc::new(pipes(args, stdin));
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    builder = files::with_trusted_bounds(builder);
    builder.file_formats().get_or_insert_default().extend(files::formats());
    builder.table_factories().get_or_insert_default().extend(ExternalTables::factories(&pipes));
    let ctx = match &args.scheduler {
        Some(scheduler) => cluster::connect(scheduler, args.secret_file.as_deref(), builder)?,
        None => {
            let mut builder = install(builder)?;
            if let Some(planner) = builder.query_planner().take() {
                builder = builder.with_query_planner(Arc::new(FilePlanner::new(planner, &pipes)));
            }
            SessionContext::new_with_state(builder.build())
        }
    };
    Ok(with_tables_of_files(ctx, &pipes))
}

/// The pipes that statements may read.
fn pipes(args: &SessionArgs, stdin: Option<&'static str>) -> Pipes {
    let others = args.scheduler.as_ref().map(
        |_| "the statement runs on other machines; write its rows to a file that these can read",
    );
    Pipes::new(others, stdin)
}

/// The session with tables by the names of files.
fn with_tables_of_files(ctx: SessionContext, pipes: &Arc<Pipes>) -> SessionContext {
    let tables = Arc::new(FileTables::new(pipes));
    let catalogs = Arc::clone(ctx.state().catalog_list());
    let catalogs =
        DynamicFileCatalog::new(catalogs, Arc::clone(&tables) as Arc<dyn UrlTableFactory>);
    let session_id = ctx.session_id();
    let builder = ctx.into_state_builder().with_session_id(session_id);
    let ctx = SessionContext::from(builder.with_catalog_list(Arc::new(catalogs)).build());
    tables.set_session(ctx.state_weak_ref());
    ctx
}

/// The configuration with less memory set aside for each partition of a sort, where all partitions would take
/// more than a quarter of the limit: under a small one, nothing could be sorted. What the user has set stays.
fn with_room_for_sorts(mut config: SessionConfig, limit: usize) -> SessionConfig {
    let usual = SessionConfig::new().options().execution.sort_spill_reservation_bytes;
    let most = limit / 4 / config.target_partitions().max(1);
    let reserved = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    if *reserved == usual {
        *reserved = usual.min(most);
    }
    config
}

fn memory_pool(args: &SessionArgs, bytes: usize) -> Arc<dyn MemoryPool> {
    match (args.mem_pool_type, NonZeroUsize::new(args.top_memory_consumers)) {
        (PoolType::Greedy, None) => Arc::new(GreedyMemoryPool::new(bytes)),
        (PoolType::Fair, None) => Arc::new(FairSpillPool::new(bytes)),
        (PoolType::Greedy, Some(top)) => {
            Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(bytes), top))
        }
        (PoolType::Fair, Some(top)) => {
            Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), top))
        }
    }
}
