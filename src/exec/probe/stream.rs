//! The probe loop of one partition, or of one worker on a piece of the build side.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::RecordOutput;

use crate::engine::{Cursor, KeyConverter, MatchBuffer, Progress};
use crate::exec::answer::output::BatchLimits;
use crate::exec::answer::{Answer, Taken};
use crate::exec::build::headroom::Headroom;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::Layout;
use crate::exec::metrics::ProbeMetrics;
use crate::exec::probe::source::{Held, ProbeInput, ProbeSource};

/// Work between two looks at the runtime, which may have cancelled the query.
const TIME_SLICE: Duration = Duration::from_millis(5);

/// What a partition, or a worker on a piece, starts with.
pub(crate) struct ProbeSetup {
    pub layout: Arc<Layout>,
    pub input: ProbeInput,
    pub converter: Option<Arc<KeyConverter>>,
    pub reservation: MemoryReservation,
    /// The pool of the session.
    pub pool: Arc<dyn MemoryPool>,
    /// Where the reservation keeps bytes until the input ends.
    pub kept: Option<Arc<Headroom>>,
    pub metrics: ProbeMetrics,
    pub limits: BatchLimits,
}

/// A partition whose build side is there.
///
/// The source makes probe batches, the cursor finds their matches, the answer makes rows of them.
/// A batch is open from its feed until the cursor calls it complete. On the CPU the cursor asks for
/// input when all batches are complete, so that one is open at a time. A cursor with a device asks
/// as soon as its filter is free: then batches whose candidates are on the device stay open beside
/// the next one, as many as the source allows ([`ProbeSource::may_open`]).
pub(crate) struct ProbeStream {
    source: ProbeSource,
    /// `None` once it has ended and its matches have been taken.
    cursor: Option<Box<dyn Cursor>>,
    answer: Answer,
    matches: MatchBuffer,
    /// The next run of matches that the answer takes.
    next_run: usize,
    /// The cursor has asked for input.
    wants_input: bool,
    /// The cursor has completed the last batch.
    ended: bool,
    metrics: ProbeMetrics,
    /// Outlives the cursor.
    cursor_reservation: MemoryReservation,
}

impl ProbeSetup {
    /// Opens the source, the cursor and the answer that probe `build`.
    pub(crate) fn start(self, build: Arc<BuildSide>) -> Result<ProbeStream> {
        let Self { layout, input, converter, reservation, pool, kept, metrics, limits } = self;
        let matches = MatchBuffer::new(layout.spec.match_buffer);
        let cursor_reservation = reservation.new_empty();
        cursor_reservation.try_grow(matches.footprint())?;
        let cursor = build.prepared.open(&cursor_reservation)?;
        metrics.counters.peak_bytes.set_max(cursor_reservation.size());
        let counters = &metrics.counters;
        let (shared, memory) = (Arc::clone(&layout), (pool, reservation, kept));
        Ok(ProbeStream {
            source: ProbeSource::new(
                shared,
                Arc::clone(&build),
                input,
                converter,
                counters,
                memory,
            ),
            cursor: Some(cursor),
            answer: Answer::new(layout, build, limits, counters),
            matches,
            next_run: 0,
            wants_input: true,
            ended: false,
            metrics,
            cursor_reservation,
        })
    }
}

impl ProbeStream {
    /// The next batch of output; `None` at the end.
    pub(crate) async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut since_yield = Instant::now();
        loop {
            if let Some(batch) = self.answer.next_batch()? {
                return Ok(Some(batch.record_output(&self.metrics.counters.baseline)));
            }
            if self.answer.is_finished() {
                self.metrics.finish();
                return Ok(None);
            }
            // A step is short, but a residual may refuse the pairs of many.
            if since_yield.elapsed() > TIME_SLICE {
                tokio::task::yield_now().await;
                since_yield = Instant::now();
            }
            if self.answer.list()? || self.take_matches()? {
                continue;
            }
            if self.ended {
                self.finish()?;
            } else if self.wants_input && self.source.may_open(self.held()) {
                self.open_next().await?;
            } else {
                let (cursor, matches) = (&mut self.cursor, &mut self.matches);
                let progress = poll_fn(|cx| poll_cursor(cursor, cx, matches)).await?;
                self.note(progress);
            }
        }
    }

    /// Hands the answer matches, and then batches that are complete; `false` where there are
    /// neither.
    fn take_matches(&mut self) -> Result<bool> {
        if let Some((unit, matches)) = self.matches.run(self.next_run) {
            let Taken { done, settled } = self.answer.take(unit, matches)?;
            if let Some((item, cursor)) = settled.zip(self.cursor.as_mut()) {
                cursor.retire(unit, item);
            }
            self.next_run += usize::from(done);
            return Ok(true);
        }
        self.matches.clear_matches();
        self.next_run = 0;
        match self.matches.pop_completed() {
            Some(unit) => self.answer.close(unit).map(|()| true),
            None => Ok(false),
        }
    }

    /// Notes what the cursor has just added to the buffer.
    fn note(&mut self, progress: Progress) {
        let Some(cursor) = &mut self.cursor else { return };
        self.metrics.update(cursor.funnel());
        self.answer.add_counts(self.matches.counts());
        for (unit, matches) in self.matches.runs() {
            if let Some(item) = self.answer.note(unit, matches) {
                cursor.retire(unit, item);
            }
        }
        match progress {
            Progress::NeedsInput => self.wants_input = true,
            Progress::Ended => self.ended = true,
            Progress::Full | Progress::Yield => {}
        }
    }

    /// Feeds the next batch to the cursor, or says that there is none. While the input
    /// is not ready, the cursor goes on with the open batches.
    async fn open_next(&mut self) -> Result<()> {
        let held = self.held();
        let part = if held.batches == 0 {
            self.source.release();
            self.source.next_part().await?
        } else {
            let (cursor, matches) = (&mut self.cursor, &mut self.matches);
            tokio::select! {
                biased;
                part = self.source.next_part() => part?,
                progress = poll_fn(|cx| poll_cursor(cursor, cx, matches)) => {
                    self.note(progress?);
                    return Ok(());
                }
            }
        };
        let Some(part) = part else {
            self.wants_input = false;
            self.cursor.iter_mut().for_each(|cursor| cursor.finish());
            return Ok(());
        };
        let Some(cursor) = &mut self.cursor else {
            return internal_err!("a cursor has ended before its input");
        };
        let opened = self.source.open(part, held, &mut |unit| cursor.feed(unit)).await?;
        if let Some(batch) = opened {
            let reserved = self.source.reserved() + self.cursor_reservation.size();
            self.metrics.counters.peak_bytes.set_max(reserved);
            self.answer.open(batch);
            self.wants_input = false;
        }
        Ok(())
    }

    fn held(&self) -> Held {
        Held { batches: self.answer.open_batches(), bytes: self.answer.open_bytes() }
    }

    /// The cursor has ended: the last partition gives out the build rows. A worker that waits for
    /// memory may have that of this one before they are out.
    fn finish(&mut self) -> Result<()> {
        self.cursor = None;
        self.matches = MatchBuffer::new(1);
        self.cursor_reservation.free();
        self.answer.finish(|| self.source.finish())
    }
}

/// Polls a cursor; one that is gone has ended.
fn poll_cursor(
    cursor: &mut Option<Box<dyn Cursor>>,
    cx: &mut Context<'_>,
    matches: &mut MatchBuffer,
) -> Poll<Result<Progress>> {
    match cursor {
        Some(cursor) => cursor.poll(cx, matches),
        None => Poll::Ready(Ok(Progress::Ended)),
    }
}
