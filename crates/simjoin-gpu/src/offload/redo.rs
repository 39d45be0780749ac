//! Jobs that no device has done, done on the CPU.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::engine::{
    Cursor, ItemId, Match, MatchBuffer, MatchNeed, MatchOrder, MatchRun, ProbeUnit,
};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::fallback::FallbackCursor;
use crate::offload::filter::{DeviceFilter, Undecided};
use crate::offload::join::Offload;
use crate::tuning::Size;

/// Matches that the CPU finds between two looks at them.
const MATCHES: usize = 1024;
/// Probe items that the CPU takes up at a time.
const PROBES: Size<u32> = Size { usual: 4096, small: 7 };

/// Jobs that the CPU takes up, one after the other.
pub(super) struct Redo<F: DeviceFilter> {
    cursor: Option<FallbackCursor>,
    jobs: VecDeque<(u32, F::Undecided)>,
    /// The job that the cursor works on.
    current: Option<Current<F::Undecided>>,
    /// The cursor has probe items of the job.
    is_fed: bool,
    buffer: Option<MatchBuffer>,
}

struct Current<U> {
    /// The unit of the join that the job belongs to.
    unit: u32,
    undecided: U,
    /// The probe items that the cursor has not got.
    left: Range<ItemId>,
}

/// The matches that the CPU has found in a job.
pub(super) struct RedoneMatches {
    pub unit: u32,
    /// The matches, by the orders in which they hold.
    pub runs: Vec<(MatchOrder, Vec<Match>)>,
    /// The job is done.
    pub done: bool,
}

impl<F: DeviceFilter> Default for Redo<F> {
    fn default() -> Self {
        Self { cursor: None, jobs: VecDeque::new(), current: None, is_fed: false, buffer: None }
    }
}

impl<F: DeviceFilter> Redo<F> {
    pub(super) fn push(&mut self, unit: u32, undecided: F::Undecided) {
        self.jobs.push_back((unit, undecided));
    }

    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.jobs.is_empty()
    }

    /// Works for a time slice, if there is work. Pending while the join on the CPU is prepared.
    pub(super) fn work(
        &mut self,
        cx: &mut Context<'_>,
        join: &Offload<F>,
        reservation: &dyn Memory,
    ) -> Poll<Result<Option<RedoneMatches>>> {
        if self.current.is_none() {
            self.current = self.jobs.pop_front().map(|(unit, undecided)| {
                let left = undecided.probes();
                Current { unit, undecided, left }
            });
        }
        let Some(current) = &mut self.current else { return Poll::Ready(Ok(None)) };
        let cursor = self.cursor.get_or_insert_with(|| join.on_cpu.open_for_all(reservation));
        if !self.is_fed {
            let collection = current.undecided.collection();
            let items = collection.unwrap_or_else(|| Arc::clone(&join.build));
            let Range { start, end } = current.left;
            let middle = end.min(start.saturating_add(join.tuning.size(PROBES)));
            cursor.feed(ProbeUnit::new(0, items, start..middle))?;
            current.left.start = middle;
            self.is_fed = true;
        }
        let buffer = self.buffer.get_or_insert_with(|| MatchBuffer::new(MATCHES));
        ready!(cursor.poll(cx, buffer))?;
        // Where one match will do, the CPU gives any: it counts, whatever job it belongs to.
        let first_only = join.need == MatchNeed::Exists;
        let is_of_job = |found: &Match| first_only || current.undecided.holds(found);
        let of_job = |run: MatchRun<'_>| {
            let matches = run.matches.iter().copied().filter(is_of_job).collect();
            (run.order, matches)
        };
        let runs = buffer.runs().map(of_job).collect();
        self.is_fed = buffer.completed().is_empty();
        let done = !self.is_fed && current.left.is_empty();
        let found = RedoneMatches { unit: current.unit, runs, done };
        buffer.clear();
        if found.done {
            self.current = None;
        }
        Poll::Ready(Ok(Some(found)))
    }
}
