//! The time until a device can begin, as the process has measured it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Before anything is measured: 220 to 390 ms on the host of an H200, the driver's start, the
/// context and the kernels together.
const FIRST_START: Duration = Duration::from_millis(300);

/// Not less: the first chunk goes to the device and back, and threads are woken for it.
const LEAST: Duration = Duration::from_millis(1);

/// The longest time of a step on the way to the first work of a device.
#[derive(Debug)]
pub(super) struct Step(AtomicU64);

/// The context of a device, with its streams and threads.
pub(super) static OPENING: Step = Step(AtomicU64::new(0));
/// A program.
pub(super) static LOADING: Step = Step(AtomicU64::new(0));
/// A piece of host memory.
pub(super) static PINNING: Step = Step(AtomicU64::new(0));

impl Step {
    /// Does the work of the step and notes its time, unless it fails.
    pub(super) fn measure<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let start = Instant::now();
        let outcome = work();
        if outcome.is_ok() {
            self.0.fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        outcome
    }

    fn longest(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The time until a device can begin that is open already, or has to be opened.
pub(super) fn time_to_begin(is_open: bool) -> Duration {
    let opening = OPENING.longest();
    let begin = match is_open {
        true => PINNING.longest(),
        false if opening.is_zero() => FIRST_START,
        false => opening + LOADING.longest() + PINNING.longest(),
    };
    begin.max(LEAST)
}
