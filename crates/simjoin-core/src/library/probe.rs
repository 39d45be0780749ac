//! The probe side of a search: several threads take parts of it, each with a cursor of its own.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Builder, Thread, scope};
use std::time::Duration;

use parking_lot::Mutex;

use super::index::BuildIndex;
use super::pairs::Pair;
use super::search::PairSearch;
use crate::engine::{
    Collection, Cursor, Match, MatchBuffer, ProbeUnit, Progress, RowPairCounts, Scratch,
};
use crate::error::{Error, Result, internal_err};
use crate::memory::{Memory, Reservation};
use crate::util::parallel::Threads;

/// The most items of a part of a self-join.
const MOST_ITEMS: usize = 1 << 14;
/// The parts of the rest that each thread's next part is one of.
const PARTS: usize = 4;
/// Pairs of rows that are worth a thread.
const PAIRS_PER_THREAD: usize = 1 << 14;
/// The most units of a cursor that are open: a device works on some while others are found.
const MOST_OPEN: usize = 4;

/// Takes the matches that a thread finds.
pub(super) trait Consumer: Send {
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
pub(super) struct OpenUnit {
    /// Names the unit until it is complete.
    pub number: u32,
    pub items: Arc<dyn Collection>,
    pub range: Range<u32>,
    /// The number of the row that the collection calls 0.
    pub first_row: u32,
    _memory: Reservation,
}

/// A part of the probe side: items of the index, or rows.
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
    all: usize,
    threads: Threads,
    least: usize,
    most: usize,
    /// Whether the last ones are taken first: the sets with most work.
    from_behind: bool,
}

impl PartQueue {
    fn of(search: &PairSearch<'_>, index: &BuildIndex, threads: Threads) -> Self {
        let prepared = index.prepared.as_ref();
        let (all, least, most) = match search.itself {
            true => {
                (index.items.groups().len() as usize, prepared.least_range() as usize, MOST_ITEMS)
            }
            false => {
                let rows = search.rows(search.probe);
                let most = rows.rows_per_slice(search.options.memory_limit());
                let most = most.min(search.batch_rows).min(prepared.probe_rows()).max(1);
                (rows.len(), prepared.least_probe_rows(), most)
            }
        };
        let least = least.clamp(1, most);
        let left = AtomicUsize::new(all);
        Self { left, all, threads, least, most, from_behind: search.itself }
    }

    fn next(&self) -> Option<ProbePart> {
        let mut left = self.left.load(Relaxed);
        while left > 0 {
            let share = left.div_ceil(PARTS * self.threads.count());
            let len = share.clamp(self.least, self.most).min(left);
            match self.left.compare_exchange_weak(left, left - len, Relaxed, Relaxed) {
                Ok(_) if self.from_behind => return Some(ProbePart(left - len..left)),
                Ok(_) => return Some(ProbePart(self.all - left..self.all - left + len)),
                Err(now) => left = now,
            }
        }
        None
    }
}

/// Finds the matches of a search. Every thread has a consumer that `consumer` makes; they come back.
///
/// # Errors
///
/// The first error of a thread: when memory is refused or the search is cancelled, and the errors of
/// the consumers.
pub(super) fn run<C: Consumer>(
    search: &PairSearch<'_>,
    index: &BuildIndex,
    consumer: impl Fn() -> C,
) -> Result<Vec<C>> {
    let threads = threads(search, index);
    let parts = PartQueue::of(search, index, threads);
    let shared = Shared {
        search,
        index,
        parts,
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

/// The threads that pay.
fn threads(search: &PairSearch<'_>, index: &BuildIndex) -> Threads {
    let build = index.items.groups().row_count();
    let probe = match search.itself {
        true => index.items.groups().len() as usize,
        false => search.rows(search.probe).len(),
    };
    let worth = build.saturating_mul(probe) / PAIRS_PER_THREAD;
    search.options.threads().at_most(probe.min(worth))
}

/// The state that all threads of a search share.
struct Shared<'a> {
    search: &'a PairSearch<'a>,
    index: &'a BuildIndex,
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
        let memory = shared.search.memory.reservation();
        let spec = &shared.index.spec;
        let batch = shared.search.options.batch_pairs * size_of::<Pair>();
        memory.try_grow(spec.buffer_bytes().saturating_add(batch))?;
        let cursor = shared.index.prepared.open(&memory)?;
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
            self.shared.search.options.cancel.check()?;
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
                Ok(()) => return Ok(Fed::Unit),
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

    fn feed(&mut self, part: &ProbePart) -> Result<()> {
        let Shared { search, index, .. } = self.shared;
        let memory = self.memory.new_empty();
        let rows = part.0.clone();
        let (items, range) = match search.itself {
            true => (Arc::clone(&index.items), rows.start as u32..rows.end as u32),
            false => {
                let (scratch, side) = (&mut self.scratch, search.rows(search.probe));
                self.scratch_memory.shrink(self.scratch_memory.size());
                let items = side.with_slice(rows.start, rows.len(), |input| {
                    index.encoder.encode(input, &index.keys, scratch, &memory, 0)
                })?;
                // The batch and the scratch took the memory together.
                let of_scratch = scratch.size_in_bytes();
                memory.try_resize(items.size_in_bytes())?;
                self.scratch_memory.try_grow(of_scratch)?;
                let range = 0..items.groups().len();
                (items, range)
            }
        };
        let number = self.next_number;
        let unit = ProbeUnit::new(number, Arc::clone(&items), range.clone());
        self.cursor.feed(unit)?;
        self.next_number = number.wrapping_add(1);
        let first_row = if search.itself { 0 } else { rows.start as u32 };
        self.open.push(OpenUnit { number, items, range, first_row, _memory: memory });
        Ok(())
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
