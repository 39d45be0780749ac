//! A cursor that does one unit after the other on the CPU.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::engine::cursor::UnitQueue;
use crate::engine::{Collection, Cursor, Funnel, ItemId, MatchBuffer, ProbeUnit, Progress, Unit};
use crate::error::Result;
use crate::tuning::{Size, Tuning};

/// The time of a poll; the operator allows 10 ms. Of small sizes, a poll stops as often as it can.
const SLICE: Size<Duration> = Size { usual: Duration::from_millis(4), small: Duration::ZERO };

/// The progress of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerProgress {
    /// The unit is done.
    Done,
    /// The match buffer is full; there is more.
    Full,
    /// There is more.
    More,
}

/// Finds the matches of one unit at a time.
pub trait Worker: Send {
    /// The probe items.
    type Items: Collection;

    /// Reserves memory for a unit that has been fed.
    ///
    /// # Errors
    ///
    /// A resource error where memory is short: the unit is not taken.
    fn admit(&mut self, _unit: &Unit<Self::Items>) -> Result<()> {
        Ok(())
    }

    /// Takes up a unit; the former one is done.
    ///
    /// # Errors
    ///
    /// A resource error where memory is short.
    fn begin(&mut self, unit: Unit<Self::Items>) -> Result<()>;

    /// Adds matches of the unit for a millisecond at most; the cursor has begun the run.
    ///
    /// # Errors
    ///
    /// Where memory is short, or the family's function fails.
    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress>;

    /// Leaves out further matches of a probe item of the unit, where that is easy.
    fn retire(&mut self, probe: ItemId);

    /// The work done, without `filter_nanos`: the cursor sets that to its elapsed time less `verify_nanos`.
    fn funnel(&self) -> Funnel;
}

/// The cursor of a [`Worker`].
#[derive(Debug)]
pub struct UnitCursor<W: Worker> {
    worker: W,
    units: UnitQueue<Unit<W::Items>>,
    /// The number of the unit that the worker has taken up.
    unit: Option<u32>,
    nanos: u64,
    /// The time of a poll.
    slice: Duration,
}

impl<W: Worker> UnitCursor<W> {
    pub fn new(worker: W, tuning: Tuning) -> Self {
        let slice = tuning.size(SLICE);
        Self { worker, units: UnitQueue::default(), unit: None, nanos: 0, slice }
    }

    /// Works for a time slice.
    fn work(&mut self, started: Instant, matches: &mut MatchBuffer) -> Result<Progress> {
        if self.unit.is_none()
            && let Some(unit) = self.units.pop()
        {
            self.unit = Some(unit.number);
            self.worker.begin(unit)?;
        }
        let Some(number) = self.unit else { return Ok(self.units.progress()) };
        matches.begin(number);
        loop {
            match self.worker.work(matches)? {
                WorkerProgress::Full => return Ok(Progress::Full),
                WorkerProgress::More if started.elapsed() < self.slice => {}
                WorkerProgress::More => return Ok(Progress::Yield),
                WorkerProgress::Done => break,
            }
        }
        self.unit = None;
        matches.complete(number);
        Ok(if self.units.is_empty() { self.units.progress() } else { Progress::Yield })
    }
}

impl<W: Worker> Cursor for UnitCursor<W> {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        let unit = Unit::of(&unit)?;
        self.worker.admit(&unit)?;
        self.units.push(unit);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        let started = Instant::now();
        let worked = self.work(started, matches);
        self.nanos += started.elapsed().as_nanos() as u64;
        Poll::Ready(worked)
    }

    fn retire(&mut self, unit: u32, probe: ItemId) {
        if self.unit == Some(unit) {
            self.worker.retire(probe);
        }
    }

    fn funnel(&self) -> Funnel {
        let done = self.worker.funnel();
        Funnel { filter_nanos: self.nanos.saturating_sub(done.verify_nanos), ..done }
    }
}
