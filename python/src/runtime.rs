//! The threads of the engine, and how Python waits for them.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use datafusion::common::DataFusionError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCFunction};
use simjoin_session::host;
use tokio::runtime::Runtime;
use tokio::task::JoinError;

use crate::errors;

/// The time between two looks at Python's signals.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// The runtime of this process.
pub(crate) fn runtime() -> PyResult<Arc<Runtime>> {
    host::runtime().map_err(|error| PyOSError::new_err(format!("no threads: {error}")))
}

/// Has the runtime's threads end before Python forks.
pub(crate) fn end_before_fork(py: Python<'_>) -> PyResult<()> {
    // Not every system has it.
    let Ok(register) = py.import("os")?.getattr("register_at_fork") else { return Ok(()) };
    let before = PyCFunction::new_closure(py, None, None, |arguments, _| {
        arguments.py().detach(host::before_fork);
    })?;
    register.call((), Some(&[("before", before)].into_py_dict(py)?)).map(drop)
}

/// Drops a value on a thread of the runtime: the trees of long statements are deeper than the stacks
/// of Python's threads.
pub(crate) fn drop_apart<T: Send + 'static>(value: T) {
    if let Ok(runtime) = runtime() {
        runtime.spawn_blocking(move || drop(value));
    }
}

/// Runs the future on the runtime and waits for it, without Python's lock. A signal whose handler
/// raises, such as Ctrl-C, cancels it. A panic is an exception.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    future: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    wait_with(py, future, |_| Ok(()))
}

/// [`wait`] that calls `meanwhile` every [`PATIENCE`], with Python's lock. Its error cancels as well.
pub(crate) fn wait_with<T: Send + 'static>(
    py: Python<'_>,
    future: impl Future<Output = T> + Send + 'static,
    mut meanwhile: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let mut task = runtime()?.spawn(future);
    loop {
        match py.detach(|| poll_briefly(&mut task)) {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) => return Err(panicked(py, error)),
            None => {
                if let Err(error) = py.check_signals().and_then(|()| meanwhile(py)) {
                    task.abort();
                    return Err(error);
                }
            }
        }
    }
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future of the runtime, up to [`PATIENCE`]. The timers of the runtime would not do: a
/// query may keep all threads busy that drive them.
pub(crate) fn poll_briefly<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Poll::Ready(output) = Pin::new(&mut *future).poll(&mut context) {
            return Some(output);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

/// The exception of a task that did not end.
fn panicked(py: Python<'_>, error: JoinError) -> PyErr {
    match error.try_into_panic() {
        Ok(panic) => errors::of_engine(py, panic_error(panic.as_ref())),
        Err(error) => errors::of_engine(py, DataFusionError::ExecutionJoin(Box::new(error))),
    }
}

/// The error of a panic of the engine.
pub(crate) fn panic_error(panic: &(dyn Any + Send)) -> DataFusionError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".to_string());
    DataFusionError::Internal(format!(
        "the engine panicked ({text}), which is a defect of simjoin: please report it"
    ))
}
