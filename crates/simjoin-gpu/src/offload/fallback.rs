//! The join on the CPU, prepared once a device has failed.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::thread;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::engine::{
    Cursor, Funnel, ItemId, MatchBuffer, PrepareContext, PreparedJoin, ProbeUnit, Progress,
};
use crate::error::{Error, Result, exec_error, internal_error};
use crate::memory::{Memory, Reservation};
use crate::util::cancel::{CancelFlag, CancelOnDrop};
use crate::util::parallel::Threads;

/// The matches that the CPU has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The pairs of the join.
    Join,
    /// Every match of any probe item with any build item, as a pair even in a join that counts. The CPU may
    /// name either item of an unordered pair as the probe, so that the share of a job is known only from pairs.
    All,
}

/// A family's join on the CPU.
pub(crate) trait CpuJoin: Send + Sync + 'static {
    /// Prepares the join, and grows the reservation of the context by what it keeps.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    fn prepare(&self, wanted: Wanted, context: PrepareContext<'_>)
    -> Result<Arc<dyn PreparedJoin>>;

    /// A cursor that compares all pairs, in no more memory than [`Self::least_bytes`].
    fn unprepared(&self, wanted: Wanted) -> Box<dyn Cursor>;

    /// The bytes of such a cursor, whatever is fed to it.
    fn least_bytes(&self) -> usize;
}

/// The join on the CPU, for all partitions of a join that runs on devices. Where memory does not
/// suffice for its index, it compares all pairs: other partitions hold memory until they end, and
/// those may wait for this one.
#[derive(Debug)]
pub struct OnCpu {
    join: FallbackJoin,
    all: FallbackJoin,
}

impl OnCpu {
    /// A join whose preparation grows a reservation like this one.
    pub(crate) fn new(join: impl CpuJoin, reservation: &dyn Memory) -> Self {
        let join: Arc<dyn CpuJoin> = Arc::new(join);
        let late = |wanted| FallbackJoin::new(&join, wanted, reservation);
        Self { join: late(Wanted::Join), all: late(Wanted::All) }
    }

    /// A cursor in place of one over devices.
    pub(crate) fn open(&self, reservation: &dyn Memory) -> Result<FallbackCursor> {
        reservation.try_grow(self.least_bytes())?;
        Ok(self.join.open(reservation))
    }

    /// The bytes that a cursor takes in any case.
    pub(crate) fn least_bytes(&self) -> usize {
        self.join.0.cpu.least_bytes()
    }

    /// A cursor that gives all matches of any probe items. The caller holds
    /// [`Self::least_bytes`] for it.
    pub(super) fn open_for_all(&self, reservation: &dyn Memory) -> FallbackCursor {
        self.all.open(reservation)
    }

    /// The join on the CPU alone.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(crate) fn into_prepared(self) -> Result<Arc<dyn PreparedJoin>> {
        let Shared { cpu, wanted, reservation, .. } = &*self.join.0;
        prepare_with(cpu.as_ref(), *wanted, reservation, &CancelFlag::default())
    }
}

fn prepare_with(
    cpu: &dyn CpuJoin,
    wanted: Wanted,
    reservation: &dyn Memory,
    cancel: &CancelFlag,
) -> Result<Arc<dyn PreparedJoin>> {
    // Queries that run have the other threads.
    cpu.prepare(wanted, PrepareContext::new(reservation, cancel, Threads::ONE))
}

/// A join that a thread prepares once a cursor over it has work. The thread is cancelled when the
/// last cursor that waits for it is dropped.
#[derive(Debug)]
struct FallbackJoin(Arc<Shared>);

struct Shared {
    cpu: Arc<dyn CpuJoin>,
    wanted: Wanted,
    reservation: Reservation,
    state: Mutex<State>,
}

enum State {
    /// No cursor has asked for it, or none waits any more.
    Idle,
    Preparing {
        attempt: Arc<CancelOnDrop>,
        waiting: Vec<Arc<AtomicWaker>>,
    },
    Ready {
        join: Arc<dyn PreparedJoin>,
        _memory: Reservation,
    },
    /// There is no memory to prepare it.
    Unprepared,
    Failed(Arc<Error>),
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl FallbackJoin {
    fn new(cpu: &Arc<dyn CpuJoin>, wanted: Wanted, reservation: &dyn Memory) -> Self {
        Self(Arc::new(Shared {
            cpu: Arc::clone(cpu),
            wanted,
            reservation: reservation.new_empty(),
            state: Mutex::new(State::Idle),
        }))
    }

    fn open(&self, reservation: &dyn Memory) -> FallbackCursor {
        FallbackCursor {
            state: CursorState::Waiting(None),
            join: Arc::clone(&self.0),
            reservation: reservation.new_empty(),
            units: VecDeque::new(),
            finished: false,
        }
    }
}

impl Shared {
    /// The prepared join, `None` where memory does not suffice; a thread begins to prepare it where
    /// none does. `wait` keeps the thread at it.
    fn poll(
        self: &Arc<Self>,
        wait: &mut Option<Wait>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Arc<dyn PreparedJoin>>>> {
        let wait = wait.get_or_insert_with(|| Wait::new(self));
        wait.waker.register(cx.waker());
        let mut state = self.state.lock();
        match &mut *state {
            State::Idle => {
                let cancel = CancelFlag::default();
                let attempt = Arc::new(cancel.on_drop());
                let waiting = vec![Arc::clone(&wait.waker)];
                *state = State::Preparing { attempt: Arc::clone(&attempt), waiting };
                drop(state);
                self.start(&attempt, cancel);
                Poll::Pending
            }
            State::Preparing { waiting, .. } => {
                if !waiting.iter().any(|waker| Arc::ptr_eq(waker, &wait.waker)) {
                    waiting.push(Arc::clone(&wait.waker));
                }
                Poll::Pending
            }
            State::Ready { join, .. } => Poll::Ready(Ok(Some(Arc::clone(join)))),
            State::Unprepared => Poll::Ready(Ok(None)),
            State::Failed(error) => Poll::Ready(Err(Error::Shared(Arc::clone(error)))),
        }
    }

    /// Has a thread prepare the join.
    fn start(self: &Arc<Self>, attempt: &Arc<CancelOnDrop>, cancel: CancelFlag) {
        // Only those that wait keep the attempt.
        let (shared, attempt) = (Arc::clone(self), Arc::downgrade(attempt));
        let (work, number) = (Arc::clone(self), attempt.clone());
        let prepare = move || {
            let memory = work.reservation.new_empty();
            let prepared = catch_unwind(AssertUnwindSafe(|| {
                prepare_with(work.cpu.as_ref(), work.wanted, &memory, &cancel)
            }));
            let prepared =
                prepared.unwrap_or_else(|_| Err(internal_error!("preparing a join panics")));
            let taken = memory.size();
            let has_room = |join| leaves_room(&memory, taken).map(|()| join);
            let made = match prepared.and_then(has_room) {
                Ok(join) => Ok(State::Ready { join, _memory: memory }),
                Err(error) if error.is_out_of_memory() => Ok(State::Unprepared),
                Err(error) => Err(error),
            };
            work.settle(&number, made);
        };
        let started = thread::Builder::new().name("simjoin-prepare".to_string()).spawn(prepare);
        if let Err(error) = started {
            shared.settle(&attempt, Err(exec_error!("no thread prepares the join: {error}")));
        }
    }

    /// Notes the end of an attempt, unless it was given up.
    fn settle(&self, attempt: &Weak<CancelOnDrop>, made: Result<State>) {
        let mut state = self.state.lock();
        let is_current = match &*state {
            State::Preparing { attempt: current, .. } => {
                std::ptr::eq(attempt.as_ptr(), Arc::as_ptr(current))
            }
            _ => false,
        };
        if !is_current {
            return;
        }
        let made = made.unwrap_or_else(|error| State::Failed(Arc::new(error)));
        let before = mem::replace(&mut *state, made);
        drop(state);
        if let State::Preparing { waiting, .. } = before {
            waiting.iter().for_each(|waker| waker.wake());
        }
    }
}

/// A cursor's wait for a join. Once none waits, the attempt is cancelled.
struct Wait {
    join: Arc<Shared>,
    waker: Arc<AtomicWaker>,
}

impl Wait {
    fn new(join: &Arc<Shared>) -> Self {
        Self { join: Arc::clone(join), waker: Arc::default() }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut state = self.join.state.lock();
        if let State::Preparing { waiting, .. } = &mut *state {
            waiting.retain(|waker| !Arc::ptr_eq(waker, &self.waker));
            if waiting.is_empty() {
                // With it goes the attempt, which cancels the thread.
                *state = State::Idle;
            }
        }
    }
}

/// A cursor over a join that is prepared once the cursor has a unit.
pub(crate) struct FallbackCursor {
    state: CursorState,
    join: Arc<Shared>,
    reservation: Reservation,
    /// Units fed before the join was prepared.
    units: VecDeque<ProbeUnit>,
    finished: bool,
}

enum CursorState {
    /// With its wait, once it has a unit.
    Waiting(Option<Wait>),
    Open(Box<dyn Cursor>),
}

impl FallbackCursor {
    /// The cursor over the prepared join; it gets the units that were fed meanwhile.
    fn open(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let CursorState::Waiting(wait) = &mut self.state else { return Poll::Ready(Ok(())) };
        let Poll::Ready(join) = self.join.poll(wait, cx) else { return Poll::Pending };
        let mut cursor = self.open_over(join?)?;
        for unit in self.units.drain(..) {
            cursor.feed(unit)?;
        }
        if self.finished {
            cursor.finish();
        }
        self.state = CursorState::Open(cursor);
        Poll::Ready(Ok(()))
    }
}

impl FallbackCursor {
    /// A cursor over a prepared join; one that compares all pairs where memory does not suffice.
    fn open_over(&self, join: Option<Arc<dyn PreparedJoin>>) -> Result<Box<dyn Cursor>> {
        let held = self.reservation.size();
        match join.map(|join| join.open(&self.reservation)) {
            Some(Err(error)) if error.is_out_of_memory() => self.reservation.try_resize(held)?,
            Some(opened) => return opened,
            None => {}
        }
        Ok(self.join.cpu.unprepared(self.join.wanted))
    }
}

impl Cursor for FallbackCursor {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        match &mut self.state {
            CursorState::Open(cursor) => cursor.feed(unit),
            CursorState::Waiting(_) => {
                self.units.push_back(unit);
                Ok(())
            }
        }
    }

    fn finish(&mut self) {
        self.finished = true;
        if let CursorState::Open(cursor) = &mut self.state {
            cursor.finish();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        if let CursorState::Open(cursor) = &mut self.state {
            return cursor.poll(cx, matches);
        }
        if self.units.is_empty() {
            let progress = if self.finished { Progress::Ended } else { Progress::NeedsInput };
            return Poll::Ready(Ok(progress));
        }
        match self.open(cx) {
            Poll::Ready(opened) => Poll::Ready(opened.map(|()| Progress::Yield)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn retire(&mut self, unit: u32, probe: ItemId) {
        if let CursorState::Open(cursor) = &mut self.state {
            cursor.retire(unit, probe);
        }
    }

    fn funnel(&self) -> Funnel {
        match &self.state {
            CursorState::Open(cursor) => cursor.funnel(),
            CursorState::Waiting(_) => Funnel::default(),
        }
    }
}

/// Fails unless the pool has as much memory left as has been `taken`.
pub(super) fn leaves_room(reservation: &dyn Memory, taken: usize) -> Result<()> {
    reservation.new_empty().try_grow(taken)
}
