//! The probe side of a search: several threads take parts of it, each with a cursor of its own.
//!
//! ```text
//! UnitSource ── parts ──► threads: items of a part ── feed ──► Cursor ── matches ──► Consumer
//! ```

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Builder, Thread, scope};
use std::time::Duration;

use parking_lot::Mutex;

use super::{
    AnyMatcher, Chosen, Collection, Cursor, DeviceChoice, DeviceRequest, ItemBounds, ItemId, Match,
    MatchBuffer, MatchSpec, PrepareContext, PreparedJoin, ProbeUnit, Progress, RowPairCounts,
    Scratch, StrategyName,
};
use crate::error::{Error, Result, internal_err};
use crate::memory::{Memory, Reservation};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// The parts of the rest that each thread's next part is one of.
const PARTS: usize = 4;
/// The most units of a cursor that are open: a device works on some while others are found.
const MOST_OPEN: usize = 4;

/// The probe side of a search, as its threads take it.
pub(crate) trait UnitSource: Sync {
    /// The sizes of its parts.
    fn parts(&self) -> PartSizes;

    /// The items of the first places of a part, which is not empty. `memory` grows by items that are made.
    ///
    /// # Errors
    ///
    /// When memory is refused, or a row cannot be an item.
    fn items(
        &self,
        part: Range<usize>,
        scratch: &mut Scratch,
        memory: &dyn Memory,
    ) -> Result<ProbeItems>;
}

/// The places of a probe side, and how many of them are a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartSizes {
    /// All places.
    pub all: usize,
    /// The places of a part, at least and at most.
    pub least: usize,
    pub most: usize,
    /// Whether the last ones are taken first: those with most work.
    pub from_behind: bool,
}

/// The items of some places of a probe side.
#[derive(Debug)]
pub(crate) struct ProbeItems {
    pub items: Arc<dyn Collection>,
    /// The items of the places, as a range of `items`.
    pub range: Range<ItemId>,
    /// The number of the row that the collection calls 0.
    pub first_row: u32,
    /// [`ProbeUnit::bounds`].
    pub bounds: Option<ItemBounds>,
    /// The places that they are made of, at least one.
    pub places: usize,
}

/// Takes the matches that a thread finds.
pub(crate) trait Consumer: Send {
    /// Takes some matches of a unit. A break ends the search.
    fn take(&mut self, unit: &OpenUnit, matches: &[Match]) -> Result<ControlFlow<()>>;

    /// Takes matches that were counted only.
    fn count(&mut self, _counts: RowPairCounts) {}

    /// Takes a unit all of whose matches have been taken.
    fn complete(&mut self, _unit: &OpenUnit) -> Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
}

/// Some probe items whose matches are looked for.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    /// Names the unit until it is complete.
    pub number: u32,
    pub items: Arc<dyn Collection>,
    pub range: Range<u32>,
    /// The number of the row that the collection calls 0.
    pub first_row: u32,
    /// [`ProbeUnit::bounds`].
    pub bounds: Option<ItemBounds>,
    _memory: Reservation,
}

/// A part of the probe side, by its places.
#[derive(Debug, Clone)]
struct ProbePart(Range<usize>);

impl ProbePart {
    fn halves(&self) -> Option<[Self; 2]> {
        let Range { start, end } = self.0;
        let middle = start + (end - start) / 2;
        (end - start > 1).then_some([Self(start..middle), Self(middle..end)])
    }
}

/// The parts that no thread has taken. Parts shrink with what is left, so that all threads end at
/// about the same time (Polychronopoulos, Kuck: "Guided self-scheduling", IEEE Trans. Computers 1987).
#[derive(Debug)]
struct PartQueue {
    left: AtomicUsize,
    sizes: PartSizes,
    threads: Threads,
}

impl PartQueue {
    fn new(sizes: PartSizes, threads: Threads) -> Self {
        let most = sizes.most.max(1);
        let sizes = PartSizes { least: sizes.least.clamp(1, most), most, ..sizes };
        Self { left: AtomicUsize::new(sizes.all), sizes, threads }
    }

    fn next(&self) -> Option<ProbePart> {
        let PartSizes { all, least, most, from_behind } = self.sizes;
        let mut left = self.left.load(Relaxed);
        while left > 0 {
            let share = left.div_ceil(PARTS * self.threads.count());
            let len = share.clamp(least, most).min(left);
            match self.left.compare_exchange_weak(left, left - len, Relaxed, Relaxed) {
                Ok(_) if from_behind => return Some(ProbePart(left - len..left)),
                Ok(_) => return Some(ProbePart(all - left..all - left + len)),
                Err(now) => left = now,
            }
        }
        None
    }
}

/// A join of `items`, prepared by a strategy on a device. Where no other index fits into memory, the smallest one may.
/// In a `self_join` the probe items are the same. `None` where the choice is not wanted.
///
/// # Errors
///
/// When no strategy can be had there, memory is refused, or the work is cancelled.
pub(crate) fn prepare(
    matcher: &dyn AnyMatcher,
    (strategy, device): (StrategyName, DeviceChoice),
    items: &Arc<dyn Collection>,
    (spec, self_join): (&MatchSpec, bool),
    context: PrepareContext<'_>,
    mut is_wanted: impl FnMut(&Chosen) -> Result<bool>,
) -> Result<Option<Arc<dyn PreparedJoin>>> {
    let held = context.reservation.size();
    let mut by = |strategy, choice| {
        let on_failure = Arc::new(|_| {});
        let request = DeviceRequest { choice, self_join, work: 0.0, on_failure };
        let mut choice = matcher.choose(strategy, items, spec, &request, context)?;
        is_wanted(&choice.chosen())?.then(|| choice.prepare(context)).transpose()
    };
    let smallest = matcher.smallest().filter(|_| strategy.is_auto());
    match (by(strategy, device), smallest) {
        (Err(error), Some(smallest))
            if error.is_out_of_memory() && !matches!(device, DeviceChoice::Cuda(_)) =>
        {
            context.reservation.try_resize(held)?;
            by(smallest, DeviceChoice::Cpu)
        }
        (prepared, _) => prepared,
    }
}

/// The threads that a search pays for, given the rows of its two sides.
pub(crate) fn threads_of([build, probe]: [usize; 2], threads: Threads) -> Threads {
    /// Pairs of rows that are worth a thread.
    const PAIRS_PER_THREAD: usize = 1 << 14;
    threads.at_most(probe.min(build.saturating_mul(probe) / PAIRS_PER_THREAD))
}

/// A prepared join, and what its probe side is searched with.
#[derive(Clone, Copy)]
pub(crate) struct Probing<'a> {
    pub prepared: &'a dyn PreparedJoin,
    pub spec: &'a MatchSpec,
    pub source: &'a dyn UnitSource,
    /// The threads that pay.
    pub threads: Threads,
    /// Grows by cursors, by items that the source makes, and by the buffers of consumers.
    pub memory: &'a dyn Memory,
    /// The bytes of the buffers of a consumer.
    pub consumer_bytes: usize,
    pub cancel: &'a CancelFlag,
}

impl Probing<'_> {
    /// Finds all matches. Every thread has a consumer that `consumer` makes; they come back.
    ///
    /// # Errors
    ///
    /// The first error of a thread: when memory is refused or the search is cancelled, and the errors of
    /// the source and of the consumers.
    pub(crate) fn run<C: Consumer>(self, consumer: impl Fn() -> C) -> Result<Vec<C>> {
        let threads = self.threads;
        let shared = Shared {
            probing: self,
            parts: PartQueue::new(self.source.parts(), threads),
            leftovers: Mutex::default(),
            stop: AtomicBool::new(false),
            error: Mutex::default(),
        };
        let mut consumers = scope(|scope| {
            let mut started = vec![];
            for _ in 1..threads.count() {
                let (shared, consumer) = (&shared, consumer());
                // Fewer threads do the work, too.
                let Ok(thread) =
                    Builder::new().spawn_scoped(scope, move || shared.work(consumer, true))
                else {
                    break;
                };
                started.push(thread);
            }
            let mut consumers = vec![shared.work(consumer(), threads.count() > 1)];
            for thread in started {
                match thread.join() {
                    Ok(consumer) => consumers.push(consumer),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            consumers
        });
        if !shared.leftovers.lock().is_empty() {
            consumers.push(shared.work(consumer(), false));
        }
        match shared.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(consumers),
        }
    }
}

/// The state that all threads of a search share.
struct Shared<'a> {
    probing: Probing<'a>,
    parts: PartQueue,
    /// Parts of threads that found no memory beside the others.
    leftovers: Mutex<Vec<ProbePart>>,
    /// A thread has failed, or its consumer wants no more.
    stop: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Shared<'_> {
    /// The work of a thread. Where memory is short and it `may_leave`, it leaves its parts to others.
    fn work<C: Consumer>(&self, mut consumer: C, may_leave: bool) -> C {
        let _stop = StopOnPanic(&self.stop);
        let ended = match ProbeThread::try_new(self, may_leave) {
            Ok(mut worker) => worker.run(&mut consumer),
            Err(error) if may_leave && error.is_out_of_memory() => {
                self.leftovers.lock().extend(self.parts.next());
                return consumer;
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => self.stop.store(true, Relaxed),
            Err(error) => {
                self.error.lock().get_or_insert(error);
                self.stop.store(true, Relaxed);
            }
        }
        consumer
    }
}

/// Ends the other threads where the callback of one panics.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }
}

/// Wakes a thread that waits for a device.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A thread with a cursor.
struct ProbeThread<'a> {
    shared: &'a Shared<'a>,
    may_leave: bool,
    cursor: Box<dyn Cursor>,
    matches: MatchBuffer,
    scratch: Scratch,
    open: Vec<OpenUnit>,
    /// Parts that were too large for the memory there was, the next one last.
    waiting: Vec<ProbePart>,
    next_number: u32,
    /// The memory of the cursor, which it outlives.
    memory: Reservation,
    /// The memory of the scratch.
    scratch_memory: Reservation,
}

impl<'a> ProbeThread<'a> {
    fn try_new(shared: &'a Shared<'a>, may_leave: bool) -> Result<Self> {
        let Probing { prepared, spec, memory, consumer_bytes, .. } = shared.probing;
        let memory = memory.new_empty();
        memory.try_grow(spec.buffer_bytes().saturating_add(consumer_bytes))?;
        let cursor = prepared.open(&memory)?;
        Ok(Self {
            shared,
            may_leave,
            cursor,
            matches: MatchBuffer::new(spec.match_buffer),
            scratch: Scratch::default(),
            open: vec![],
            waiting: vec![],
            next_number: 0,
            scratch_memory: memory.new_empty(),
            memory,
        })
    }

    fn run(&mut self, consumer: &mut impl Consumer) -> Result<ControlFlow<()>> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let (mut wants_input, mut is_finished) = (true, false);
        loop {
            self.shared.probing.cancel.check()?;
            if self.shared.stop.load(Relaxed) {
                return Ok(ControlFlow::Continue(()));
            }
            if wants_input && !is_finished && self.open.len() < MOST_OPEN {
                match self.feed_next()? {
                    Fed::Unit => wants_input = false,
                    Fed::Later => {}
                    Fed::Left => return Ok(ControlFlow::Continue(())),
                    Fed::Nothing => {
                        self.cursor.finish();
                        is_finished = true;
                    }
                }
            }
            let progress = match self.cursor.poll(&mut cx, &mut self.matches) {
                Poll::Ready(progress) => progress?,
                Poll::Pending => {
                    std::thread::park_timeout(Duration::from_millis(50));
                    continue;
                }
            };
            if self.hand_over(consumer)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            match progress {
                Progress::NeedsInput => wants_input = true,
                Progress::Ended => return Ok(ControlFlow::Continue(())),
                Progress::Full | Progress::Yield => {}
            }
        }
    }

    /// Gives the consumer what the buffer holds.
    fn hand_over(&mut self, consumer: &mut impl Consumer) -> Result<ControlFlow<()>> {
        for run in self.matches.runs() {
            let Some(unit) = self.open.iter().find(|unit| unit.number == run.unit) else {
                return internal_err!("matches of probe unit {}, which is not open", run.unit);
            };
            if consumer.take(unit, run.matches)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        consumer.count(self.matches.counts());
        self.matches.clear_matches();
        while let Some(number) = self.matches.pop_completed() {
            let Some(place) = self.open.iter().position(|unit| unit.number == number) else {
                return internal_err!("probe unit {number} is complete, but was not open");
            };
            if consumer.complete(&self.open.swap_remove(place))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Feeds the cursor the next part, or as much of it as there is memory for.
    fn feed_next(&mut self) -> Result<Fed> {
        let shared = self.shared;
        let part = self.waiting.pop().or_else(|| shared.parts.next());
        let Some(mut part) = part.or_else(|| shared.leftovers.lock().pop()) else {
            return Ok(Fed::Nothing);
        };
        loop {
            let error = match self.feed(&part) {
                Ok(rest) => {
                    self.waiting.extend(rest);
                    return Ok(Fed::Unit);
                }
                Err(error) if error.is_out_of_memory() => error,
                Err(error) => return Err(error),
            };
            if !self.open.is_empty() {
                self.waiting.push(part);
                return Ok(Fed::Later);
            }
            if let Some([first, rest]) = part.halves() {
                self.waiting.push(rest);
                part = first;
            } else if self.may_leave {
                self.waiting.push(part);
                shared.leftovers.lock().append(&mut self.waiting);
                return Ok(Fed::Left);
            } else {
                return Err(error);
            }
        }
    }

    /// Feeds the cursor the items of a part, or of its first places: then the rest comes back.
    fn feed(&mut self, part: &ProbePart) -> Result<Option<ProbePart>> {
        let memory = self.memory.new_empty();
        let scratch = &mut self.scratch;
        self.scratch_memory.shrink(self.scratch_memory.size());
        let made = self.shared.probing.source.items(part.0.clone(), scratch, &memory)?;
        let ProbeItems { items, range, first_row, bounds, places } = made;
        self.scratch_memory.try_grow(scratch.size_in_bytes())?;
        let number = self.next_number;
        let mut unit = ProbeUnit::new(number, Arc::clone(&items), range.clone());
        unit.bounds.clone_from(&bounds);
        self.cursor.feed(unit)?;
        self.next_number = number.wrapping_add(1);
        self.open.push(OpenUnit { number, items, range, first_row, bounds, _memory: memory });
        let rest = part.0.start + places..part.0.end;
        Ok((!rest.is_empty()).then_some(ProbePart(rest)))
    }
}

/// The outcome of feeding a cursor.
enum Fed {
    Unit,
    /// Once the open units are complete, there may be memory.
    Later,
    /// There is no memory for a row beside the other threads, which get the parts.
    Left,
    /// All parts have been taken.
    Nothing,
}
