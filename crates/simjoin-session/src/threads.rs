//! The threads of the command line, and how they end.
//!
//! The shell has a thread and a runtime of its own, so that its timers keep going when a statement
//! keeps all workers of the other runtime busy.
//!
//! All threads have large stacks: the trees of long statements are deep, and planning and dropping
//! them recurses. [`check_depth`](datafusion_simjoin::sql::check_depth) refuses deeper statements before they
//! are parsed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use super::errors::SessionError;

/// The time that a cancelled statement, which may be in the middle of a poll, has to end before the
/// program leaves without it. Mostly it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stack of a thread. It takes address space, and memory only as far as it is used.
const STACK_BYTES: usize = 256 << 20;

/// The stack of each thread that parses, plans or runs a statement, or drops what remains of it.
pub fn stack_bytes() -> usize {
    // Where address space is scarce (`ulimit -v`), threads share it with what they work on.
    address_space().map_or(STACK_BYTES, |bytes| (bytes / 128).clamp(4 << 20, STACK_BYTES))
}

#[cfg(unix)]
fn address_space() -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills in the structure.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY)
        .then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn address_space() -> Option<usize> {
    None
}

/// The bytes of a stack that a statement's trees may take, by estimate; the rest makes up for
/// errors of the estimate.
pub fn stack_for_trees() -> usize {
    stack_bytes() / 3
}

/// Runs the shell, which spawns its statements on the runtime that it is handed. Returns when
/// all of them have ended, or when waiting for that takes too long. Their temporary files go with
/// them, whether the shell ends with a result, an error or a panic.
pub fn run_shell<F, S>(shell: F) -> Result<(), SessionError>
where
    F: FnOnce(Handle) -> S + Send + 'static,
    S: Future<Output = Result<(), SessionError>>,
{
    let thread = std::thread::Builder::new().name("shell".to_string()).stack_size(stack_bytes());
    let thread = thread.spawn(|| run_here(shell)).map_err(SessionError::Io)?;
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn run_here<F, S>(shell: F) -> Result<(), SessionError>
where
    F: FnOnce(Handle) -> S,
    S: Future<Output = Result<(), SessionError>>,
{
    let mut statements = Builder::new_multi_thread();
    let statements = statements.enable_all().thread_stack_size(stack_bytes()).build();
    let statements = statements.map_err(SessionError::Io)?;
    let own = Builder::new_current_thread().enable_all().build().map_err(SessionError::Io)?;
    let shell = shell(statements.handle().clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| own.block_on(shell)));
    wind_down(&own, statements, matches!(outcome, Ok(Ok(()))));
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Waits for the tasks of statements that are still alive. After a success there are none.
fn wind_down(own: &Runtime, statements: Runtime, succeeded: bool) {
    let deadline = Instant::now() + PATIENCE;
    let handle = statements.handle().clone();
    let ended = async {
        // A cancelled task is dropped by a worker, and with it the tasks that it has spawned.
        while handle.metrics().num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The unfinished file of a COPY is removed by a blocking task, which a runtime that shuts
        // down would not begin. They begin in their order.
        if !succeeded {
            let _ = handle.spawn_blocking(|| ()).await;
        }
    };
    let _ = own.block_on(async { tokio::time::timeout(PATIENCE, ended).await });
    statements.shutdown_timeout(deadline.saturating_duration_since(Instant::now()));
}
