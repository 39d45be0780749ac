//! The runtime of a host's process, whose threads `fork` does not copy.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use simjoin_core::util::per_process::PerProcess;
use tokio::runtime::{Builder, Handle, Runtime};

use super::threads::stack_bytes;

/// The longest time that [`before_fork`] waits for tasks that have been cancelled.
const TASKS_END: Duration = Duration::from_millis(50);

/// The longest time that [`before_fork`] waits for threads, which may drop a large plan.
const THREADS_END: Duration = Duration::from_secs(1);

type Place = Mutex<Option<Arc<Runtime>>>;

/// The place of this process: that of a child is its own, since another thread of its parent may have
/// held the parent's.
fn place() -> MutexGuard<'static, Option<Arc<Runtime>>> {
    static PLACE: PerProcess<Place> = PerProcess::new();
    let place = PLACE.get_or_try_make(|| Ok::<_, Infallible>(Place::default()));
    let place = place.unwrap_or_else(|never| match never {});
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runtime of this process, whose threads have stacks for the trees of long statements. A child of
/// `fork` gets another one.
///
/// # Errors
///
/// The system's error where it gives no threads.
pub fn runtime() -> io::Result<Arc<Runtime>> {
    let mut place = place();
    if let Some(runtime) = &*place {
        return Ok(Arc::clone(runtime));
    }
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().thread_name("simjoin-worker").thread_stack_size(stack_bytes());
    let runtime = Arc::new(builder.build()?);
    *place = Some(Arc::clone(&runtime));
    Ok(runtime)
}

/// Ends the threads of a runtime without tasks; [`runtime`] starts others. A child of `fork` has none of
/// them, but would have what they wait for: locks and queues that lead to the stacks of threads that are
/// not there. While statements run, the threads stay.
pub fn before_fork() {
    if Handle::try_current().is_ok() {
        return;
    }
    let mut place = place();
    let Some(runtime) = place.take() else { return };
    let deadline = Instant::now() + TASKS_END;
    let is_idle = || Arc::strong_count(&runtime) == 1 && runtime.metrics().num_alive_tasks() == 0;
    // Tasks that nobody waits for any longer end on their own.
    while !is_idle() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    if !is_idle() {
        *place = Some(runtime);
        return;
    }
    match Arc::try_unwrap(runtime) {
        Ok(runtime) => runtime.shutdown_timeout(THREADS_END),
        Err(runtime) => *place = Some(runtime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_runtime_without_work_ends() {
        let first = Arc::downgrade(&runtime().unwrap());
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let task = runtime().unwrap().spawn(ended);
        before_fork();
        assert!(first.upgrade().is_some(), "a task runs");
        end.send(()).unwrap();
        runtime().unwrap().block_on(task).unwrap().unwrap();
        let used = runtime().unwrap();
        before_fork();
        assert!(first.upgrade().is_some(), "a caller has the runtime");
        drop(used);
        before_fork();
        assert!(first.upgrade().is_none());
        assert_eq!(runtime().unwrap().block_on(async { 1 }), 1);
    }
}
