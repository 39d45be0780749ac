//! The limits of `-m` and `-d`, which statements may lower, but not lift.

use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, human_readable_size};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionContext;

use super::args::SessionArgs;

/// The limits that the program was started with.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The pool that `-m` asks for.
    memory: Option<Arc<dyn MemoryPool>>,
    disk: Option<u64>,
}

impl Limits {
    /// The limits of the arguments, for the session that was built from them.
    pub fn new(args: &SessionArgs, ctx: &SessionContext) -> Self {
        if args.soft_limits {
            return Self::default();
        }
        let pool = || Arc::clone(&ctx.runtime_env().memory_pool);
        Self { memory: args.memory_limit.map(|_| pool()), disk: args.disk_limit }
    }

    /// Holds the session to the limits once a statement has run, before which the session had the
    /// runtime `before`. `RESET` gives them back.
    ///
    /// # Errors
    ///
    /// A plan error where the statement `asked` lifts a limit, which then stays as it was.
    pub fn hold(&self, ctx: &SessionContext, before: &Arc<RuntimeEnv>, asked: &str) -> Result<()> {
        let now = ctx.runtime_env();
        if Arc::ptr_eq(&now, before) {
            return Ok(());
        }
        if let Some(given) = &self.memory {
            let most = bytes_of(given.as_ref()).unwrap_or(usize::MAX);
            match bytes_of(now.memory_pool.as_ref()) {
                Some(bytes) if bytes <= most => {}
                Some(bytes) => {
                    set_pool(ctx, &now, &before.memory_pool)?;
                    return plan_err!(
                        "datafusion.runtime.memory_limit cannot be {}: simjoin was started with \
                         --memory-limit {}; set no more than that, or start it with --soft-limits",
                        human_readable_size(bytes),
                        human_readable_size(most)
                    );
                }
                None => set_pool(ctx, &now, given)?,
            }
        }
        if let Some(most) = self.disk
            && now.disk_manager.max_temp_directory_size() > most
        {
            let size = now.disk_manager.max_temp_directory_size();
            now.disk_manager.set_max_temp_directory_size(most)?;
            let asked = asked.to_ascii_lowercase();
            if asked.starts_with("set ") && asked.contains("max_temp_directory_size") {
                let former = before.disk_manager.max_temp_directory_size().min(most);
                now.disk_manager.set_max_temp_directory_size(former)?;
                return plan_err!(
                    "datafusion.runtime.max_temp_directory_size cannot be {}: simjoin was started \
                     with --disk-limit {}; set no more than that, or start it with --soft-limits",
                    human_readable_size(usize::try_from(size).unwrap_or(usize::MAX)),
                    human_readable_size(usize::try_from(most).unwrap_or(usize::MAX))
                );
            }
        }
        Ok(())
    }
}

/// The limit of a pool; `None` where there is none.
pub fn bytes_of(pool: &dyn MemoryPool) -> Option<usize> {
    match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => Some(bytes),
        MemoryLimit::Infinite | MemoryLimit::Unknown => None,
    }
}

fn set_pool(ctx: &SessionContext, now: &RuntimeEnv, pool: &Arc<dyn MemoryPool>) -> Result<()> {
    let runtime = RuntimeEnvBuilder::from_runtime_env(now).with_memory_pool(Arc::clone(pool));
    set_runtime(ctx, runtime)
}

/// Gives the session another runtime.
pub fn set_runtime(ctx: &SessionContext, runtime: RuntimeEnvBuilder) -> Result<()> {
    let runtime = runtime.build_arc()?;
    let state = ctx.state_ref();
    let mut state = state.write();
    *state = SessionStateBuilder::from(state.clone()).with_runtime_env(runtime).build();
    Ok(())
}
