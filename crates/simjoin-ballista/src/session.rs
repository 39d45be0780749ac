//! Prepares the sessions of schedulers and executors.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::SchedulerConfig;
use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::PhysicalExtensionCodec;

use super::explain::SchedulerPlanner;
use super::{SimJoinLogicalCodec, SimJoinPhysicalCodec};
use datafusion_simjoin::config::SimJoinOptions;
use datafusion_simjoin::functions;
use datafusion_simjoin::install_parts;
use datafusion_simjoin::plan::{ClusterPlanning, internal_functions};
use simjoin_files::storage::DataDirs;
use simjoin_files::{FilePlanner, with_trusted_bounds};

/// The codec of physical plans: this crate's around Ballista's.
pub fn physical_codec() -> Arc<dyn PhysicalExtensionCodec> {
    Arc::new(codec())
}

fn codec() -> SimJoinPhysicalCodec {
    SimJoinPhysicalCodec::new(Arc::new(BallistaPhysicalExtensionCodec::default()))
}

/// The codec of logical plans: this crate's around Ballista's.
pub fn logical_codec() -> Arc<dyn LogicalExtensionCodec> {
    let ballista = BallistaLogicalExtensionCodec::default();
    Arc::new(SimJoinLogicalCodec::new(Arc::new(ballista)))
}

/// The configuration that sessions of a scheduler and tasks of an executor begin with: Ballista's,
/// with the options of the join, which a client's `SET` changes.
pub fn session_config() -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_option_extension(SimJoinOptions::default())
        .with_ballista_logical_extension_codec(logical_codec())
        .with_ballista_physical_extension_codec(physical_codec())
}

/// The session in which a scheduler plans a client's statement: Ballista's with the join, planned
/// for tasks that share nothing.
///
/// # Errors
///
/// The errors of DataFusion's runtime.
pub fn scheduler_session(config: SessionConfig) -> Result<SessionState> {
    scheduler_session_in(config, None)
}

/// [`scheduler_session`] over the files of some folders alone.
pub(super) fn scheduler_session_in(
    config: SessionConfig,
    data_dirs: Option<&DataDirs>,
) -> Result<SessionState> {
    // Files that come while a session lasts are seen by its next statement.
    let mut runtime = RuntimeEnvBuilder::new().with_object_list_cache_limit(0);
    if let Some(data_dirs) = data_dirs {
        runtime = runtime.with_object_store_registry(data_dirs.registry());
    }
    let config = config
        .with_extension(Arc::new(ClusterPlanning::default()))
        // Ballista's adaptive planner plans again after each stage, by rules that know DataFusion's
        // own operators: a side that turns out to be empty it repartitions again and again, without
        // an end, and partitions of a UNION it takes for co-partitioned no more. The other planner
        // cuts the plan into stages once.
        .with_ballista_adaptive_query_planner(false);
    let state = default_session_builder(config)?;
    let session_id = state.session_id().to_string();
    let builder = SessionStateBuilder::new_from_existing(state)
        .with_session_id(session_id)
        .with_runtime_env(runtime.build_arc()?);
    let planner = Arc::new(FilePlanner::for_others(Arc::new(SchedulerPlanner::new())));
    Ok(install_parts(with_trusted_bounds(builder))?.with_query_planner(planner).build())
}

/// The functions that tasks may call: DataFusion's and this crate's.
pub fn function_registry() -> BallistaFunctionRegistry {
    let mut registry = BallistaFunctionRegistry::default();
    let nested = datafusion::functions_nested::all_default_nested_functions();
    let ours = functions::all().into_iter().chain([functions::levenshtein()]);
    for function in nested.into_iter().chain(ours).chain(internal_functions()) {
        for alias in function.aliases() {
            registry.scalar_functions.insert(alias.clone(), Arc::clone(&function));
        }
        registry.scalar_functions.insert(function.name().to_string(), function);
    }
    for function in functions::windows() {
        registry.window_functions.insert(function.name().to_string(), function);
    }
    registry
}

/// Makes a scheduler plan similarity joins: its sessions, their configuration and both codecs.
pub fn configure_scheduler(mut config: SchedulerConfig) -> SchedulerConfig {
    config.override_config_producer = Some(Arc::new(session_config));
    config.override_session_builder = Some(Arc::new(scheduler_session));
    config.override_logical_codec = Some(logical_codec());
    config.override_physical_codec = Some(physical_codec());
    config
}

/// Makes an executor run similarity joins: its functions, the configuration of its tasks and both
/// codecs.
pub fn configure_executor(mut config: ExecutorProcessConfig) -> ExecutorProcessConfig {
    config.override_config_producer = Some(Arc::new(session_config));
    config.override_function_registry = Some(Arc::new(function_registry()));
    config.override_logical_codec = Some(logical_codec());
    config.override_physical_codec = Some(Arc::new(codec().watching_files()));
    config
}
