//! The threads of the command line, and how they end.
//!
//! The shell has a thread and a runtime of its own, so that its timers keep going when a statement
//! keeps all workers of the other runtime busy.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use super::errors::CliError;

/// What a cancelled statement, which may be in the middle of a poll, has to end before the program
/// leaves without it. Mostly it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the shell, which spawns its statements on the runtime that it is handed. Returns when
/// nothing of them is left, or when waiting for that takes too long: what they hold, such as
/// temporary files, goes with them, whether the shell ends with a result, an error or a panic.
pub(super) fn run_shell<F, S>(shell: F) -> Result<(), CliError>
where
    F: FnOnce(Handle) -> S,
    S: Future<Output = Result<(), CliError>>,
{
    let statements = Builder::new_multi_thread().enable_all().build().map_err(CliError::Io)?;
    let own = Builder::new_current_thread().enable_all().build().map_err(CliError::Io)?;
    let shell = shell(statements.handle().clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| own.block_on(shell)));
    wind_down(&own, statements);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

fn wind_down(own: &Runtime, statements: Runtime) {
    let deadline = Instant::now() + PATIENCE;
    let handle = statements.handle().clone();
    let ended = async {
        // A cancelled task is dropped by a worker, and with it the tasks that it has spawned.
        while handle.metrics().num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The unfinished file of a COPY is removed by a blocking task, which a runtime that shuts
        // down would not begin. They begin in their order.
        let _ = handle.spawn_blocking(|| ()).await;
    };
    let _ = own.block_on(async { tokio::time::timeout(PATIENCE, ended).await });
    statements.shutdown_timeout(deadline.saturating_duration_since(Instant::now()));
}
