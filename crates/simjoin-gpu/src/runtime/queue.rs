//! The device's queue of works.
//!
//! ```text
//! submit ─► waiting ─► launcher ─► in flight ─► collector ─► answer
//!                         ▲        (≤ 6 slots)      │
//!                         └─────── free slots ◄─────┘
//! ```
//!
//! The launcher issues works of any type in the order of their submission, each in a free slot; the
//! collector waits for them in the same order, asleep, has each take its results, and answers it.
//! So the device copies for one work while it computes another. Every submitter limits the number
//! of its own works under way, which makes first come, first served fair.
//!
//! Every work is answered exactly once, whatever happens: an error of its own is the answer to it
//! alone; once the device is lost that is the answer to all.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::runtime::driver::{Context, Result, panic_message};
use crate::runtime::memory::PinnedPool;
use crate::runtime::module::Modules;
use crate::runtime::stage::{Issued, Latest, StreamSlot};
use crate::runtime::{DeviceError, DeviceWork, Usage};

/// Works on the device at once: some on their way there, one in a kernel, some on their way back or
/// waiting for a thread to wake up.
pub(super) const SLOTS: usize = 6;

/// A queue and its two threads, which end when the queue is dropped and all works are answered.
#[derive(Debug)]
pub(crate) struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    modules: Modules,
    pinned: Arc<PinnedPool>,
    /// Called once the device is lost.
    on_loss: fn(&Arc<Context>),
    /// Works submitted and not answered.
    pending: AtomicUsize,
    state: Mutex<QueueContents>,
    /// Something to do for the launcher: a work and a slot for it, or the end.
    launch: Condvar,
    /// Something to do for the collector: a work in flight, or the end.
    collect: Condvar,
}

#[derive(Debug)]
struct QueueContents {
    waiting: VecDeque<Waiting>,
    in_flight: VecDeque<InFlight>,
    free: Vec<StreamSlot>,
    /// Since when all slots have been free, if a work was ever done.
    idle_since: Option<Instant>,
    /// No more works come.
    closed: bool,
    /// The launcher starts no more works.
    launched_all: bool,
}

#[derive(Debug)]
struct Waiting {
    work: Box<dyn DeviceWork>,
    since: Instant,
}

#[derive(Debug)]
struct InFlight {
    slot: StreamSlot,
    work: Box<dyn DeviceWork>,
    issued: Issued,
    queued_nanos: u64,
    idle_nanos: u64,
}

impl Queue {
    /// Starts the queue. The context is current.
    pub(super) fn start(
        context: &Arc<Context>,
        modules: Modules,
        pinned: &Arc<PinnedPool>,
        name: &str,
        on_loss: fn(&Arc<Context>),
    ) -> Result<Self> {
        let free = (0..SLOTS).map(|_| StreamSlot::new(context, pinned)).collect::<Result<_>>()?;
        let latest = Latest::new(context)?;
        let shared = Arc::new(Shared {
            context: Arc::clone(context),
            modules,
            pinned: Arc::clone(pinned),
            on_loss,
            pending: AtomicUsize::new(0),
            state: Mutex::new(QueueContents {
                waiting: VecDeque::new(),
                in_flight: VecDeque::new(),
                free,
                idle_since: None,
                closed: false,
                launched_all: false,
            }),
            launch: Condvar::new(),
            collect: Condvar::new(),
        });
        // From here on dropping the queue ends the threads that have been started.
        let queue = Self(Arc::clone(&shared));
        let spawn = |role: &str, work: Box<dyn FnOnce(&Shared) + Send>| {
            let shared = Arc::clone(&shared);
            let work = move || {
                let entered = shared.context.enter();
                work(&shared);
                // While the context is current: with the last of the threads all memory goes.
                drop(shared);
                drop(entered);
            };
            let thread = thread::Builder::new().name(format!("{name}-{role}"));
            thread.spawn(work).map_err(|error| DeviceError::Failed {
                call: "starting a thread",
                code: error.raw_os_error().unwrap_or(0),
                message: error.to_string(),
            })
        };
        spawn("launch", Box::new(Shared::launch_all))?;
        spawn("collect", Box::new(|shared| shared.collect_all(latest)))?;
        Ok(queue)
    }

    /// Adds a work; never blocks for long.
    pub(super) fn submit(&self, work: Box<dyn DeviceWork>) {
        self.0.pending.fetch_add(1, Ordering::Relaxed);
        self.0.state.lock().waiting.push_back(Waiting { work, since: Instant::now() });
        self.0.launch.notify_one();
    }

    /// Works submitted and not answered.
    pub(super) fn pending(&self) -> usize {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// The programs on the device.
    pub(super) fn modules(&self) -> &Modules {
        &self.0.modules
    }

    /// Frees the device memory of the slots that are free.
    pub(super) fn trim(&self) {
        self.0.trim();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.launch.notify_one();
    }
}

impl Shared {
    /// The work of the launcher.
    fn launch_all(&self) {
        let mut state = self.state.lock();
        loop {
            if self.context.lost().is_some() {
                state = self.fail_waiting(state);
            }
            if !state.waiting.is_empty() && !state.free.is_empty() {
                state = self.launch_next(state);
            } else if state.closed && state.waiting.is_empty() {
                break;
            } else {
                self.launch.wait(&mut state);
            }
        }
        state.launched_all = true;
        drop(state);
        self.collect.notify_one();
        // Idle blocks are never used again.
        self.pinned.close();
    }

    /// Answers all works that wait: the device is lost.
    fn fail_waiting<'a>(
        &'a self,
        mut state: MutexGuard<'a, QueueContents>,
    ) -> MutexGuard<'a, QueueContents> {
        let waiting = std::mem::take(&mut state.waiting);
        MutexGuard::unlocked(&mut state, || {
            (self.on_loss)(&self.context);
            for Waiting { work, .. } in waiting {
                self.answer(work, Err(self.lost()));
            }
        });
        state
    }

    /// Starts the work that has waited longest. There is one, and a free slot.
    fn launch_next<'a>(
        &'a self,
        mut state: MutexGuard<'a, QueueContents>,
    ) -> MutexGuard<'a, QueueContents> {
        let was_idle = state.free.len() == SLOTS;
        let idle_since = state.idle_since.take_if(|_| was_idle);
        let (Some(Waiting { mut work, since }), Some(mut slot)) =
            (state.waiting.pop_front(), state.free.pop())
        else {
            return state;
        };
        // Works under way beside it.
        let others = SLOTS - 1 - state.free.len();
        let idle_nanos = idle_since.map_or(0, nanos_since);
        let queued_nanos = nanos_since(since);
        let issued = MutexGuard::unlocked(&mut state, || self.issue(&mut slot, work.as_mut()));
        match issued {
            Ok(Some(issued)) => {
                let in_flight = InFlight { slot, work, issued, queued_nanos, idle_nanos };
                state.in_flight.push_back(in_flight);
                self.collect.notify_one();
            }
            Ok(None) => {
                state.put_back(slot);
                MutexGuard::unlocked(&mut state, || self.answer(work, Ok(Usage::default())));
            }
            // The memory of other works comes back, with the next slot at the latest.
            Err(DeviceError::OutOfMemory { .. }) if others > 0 => {
                state.put_back(slot);
                state.waiting.push_front(Waiting { work, since });
                if state.free.len() < SLOTS {
                    self.launch.wait(&mut state);
                }
            }
            Err(error) => {
                state.put_back(slot);
                MutexGuard::unlocked(&mut state, || self.answer(work, Err(error)));
            }
        }
        state
    }

    /// Issues a work; `None` where there is nothing to do. After an error nothing of it is under
    /// way.
    fn issue(&self, slot: &mut StreamSlot, work: &mut dyn DeviceWork) -> Result<Option<Issued>> {
        let mut attempt = || {
            let issued = guarded(|| slot.issue(&self.modules, |stage| work.issue(stage)));
            if issued.is_err() {
                // Copies may still read what the work holds.
                slot.settle();
            }
            issued
        };
        match attempt() {
            Err(DeviceError::OutOfMemory { .. }) => {
                self.trim();
                attempt()
            }
            issued => issued,
        }
    }

    /// The work of the collector.
    fn collect_all(&self, mut latest: Latest) {
        let mut state = self.state.lock();
        loop {
            let Some(in_flight) = state.in_flight.pop_front() else {
                if state.launched_all {
                    break;
                }
                self.collect.wait(&mut state);
                continue;
            };
            let InFlight { mut slot, mut work, issued, queued_nanos, idle_nanos } = in_flight;
            MutexGuard::unlocked(&mut state, || {
                let mut outcome =
                    guarded(|| slot.finish(issued, |results| work.finish(results), &mut latest));
                if outcome.is_err() {
                    // As in `issue`.
                    slot.settle();
                }
                if let Ok(usage) = &mut outcome {
                    usage.times.queued_nanos = queued_nanos;
                    usage.times.idle_nanos = idle_nanos;
                }
                if self.context.lost().is_some() {
                    outcome = Err(self.lost());
                }
                self.state.lock().put_back(slot);
                self.launch.notify_one();
                self.answer(work, outcome);
            });
        }
    }

    /// Answers a work, of which nothing is under way any more.
    fn answer(&self, work: Box<dyn DeviceWork>, outcome: Result<Usage>) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
        // An answer that panics must not end the queue of all others.
        let _ = catch_unwind(AssertUnwindSafe(|| work.answer(outcome)));
    }

    fn lost(&self) -> DeviceError {
        match self.context.lost() {
            Some(lost) => lost.clone(),
            None => self.context.lose("the queue of the device", 0, "an unknown error".into()),
        }
    }

    fn trim(&self) {
        let memory: Vec<_> =
            self.state.lock().free.iter_mut().filter_map(StreamSlot::take_memory).collect();
        // Outside of the lock: the driver takes its time.
        drop(memory);
    }
}

impl QueueContents {
    fn put_back(&mut self, slot: StreamSlot) {
        self.free.push(slot);
        if self.free.len() == SLOTS {
            self.idle_since = Some(Instant::now());
        }
    }
}

/// The result of a work's own code. A panic in it is the answer to that work alone.
fn guarded<T>(code: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|panic| {
        let what = panic_message(&*panic);
        Err(DeviceError::Internal(format!("work for a CUDA device panics: {what}")))
    })
}

fn nanos_since(start: Instant) -> u64 {
    start.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
}
