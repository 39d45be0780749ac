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
use crate::exec::answer::Answer;
use crate::exec::answer::output::BatchLimits;
use crate::exec::build::headroom::Headroom;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::JoinLayout;
use crate::exec::metrics::ProbeMetrics;
use crate::exec::probe::source::{OpenBatches, Opened, ProbeInput, ProbeSource, wait_for_others};
use crate::operator::errors::is_out_of_memory;

/// Work between two looks at the runtime, which may have cancelled the query.
const TIME_SLICE: Duration = Duration::from_millis(5);

/// The parts that a partition, or a worker on a piece, starts with.
pub(crate) struct ProbeSetup {
    pub layout: Arc<JoinLayout>,
    pub input: ProbeInput,
    pub converter: Option<Arc<KeyConverter>>,
    pub reservation: MemoryReservation,
    /// The pool of the session.
    pub pool: Arc<dyn MemoryPool>,
    /// The headroom in which the reservation keeps bytes until the input ends.
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
///
/// ```text
///           a batch is fed, or the input ends       the last batch is complete
///  Feeding ───────────────────────────────────► Searching ──────────────────► Ended
///   ▲ │ ▲                                           │                           ▲
///   │ │ └──────── the cursor asks for input ────────┘                           │
///   │ └────────── no memory for a row: other partitions take the rows ──────────┘
///   └──────────── no memory for a row, until another partition frees some
/// ```
///
/// In every state the answer first takes what the buffer holds. In the last one the answer ends, and
/// the stream with it.
pub(crate) struct ProbeStream {
    source: ProbeSource,
    /// `None` once it has ended and its matches have been taken.
    cursor: Option<Box<dyn Cursor>>,
    answer: Answer,
    matches: MatchBuffer,
    state: State,
    metrics: ProbeMetrics,
    /// Outlives the cursor.
    cursor_reservation: MemoryReservation,
}

/// The progress of a stream.
#[derive(Debug, Clone, Copy)]
enum State {
    /// The cursor has asked for input.
    Feeding {
        /// The partition found no memory for a row, and all others had ended.
        alone: bool,
    },
    /// The cursor works on the batches that it has.
    Searching,
    /// The cursor has completed the last batch, or the partition has left its rows to the others.
    Ended,
}

impl ProbeSetup {
    /// Opens the source, the cursor and the answer that probe `build`.
    pub(crate) fn start(self, build: &Arc<BuildSide>) -> Result<ProbeStream> {
        let opened = self.open_cursor(build)?;
        Ok(self.into_stream(build, Some(opened)))
    }

    /// [`Self::start`] for one of the partitions that share a build side. Where there is no memory for it,
    /// the others do its part.
    pub(crate) async fn start_or_leave(self, build: &Arc<BuildSide>) -> Result<ProbeStream> {
        let mut alone = false;
        loop {
            let error = match self.open_cursor(build) {
                Ok(opened) => return Ok(self.into_stream(build, Some(opened))),
                Err(error) if is_out_of_memory(&error) => error,
                Err(error) => return Err(error),
            };
            if !self.input.is_shared() {
                return Err(error);
            }
            let free = || self.kept.iter().for_each(|kept| kept.release());
            if build.leftovers.leave(&mut vec![], free) {
                return Ok(self.into_stream(build, None));
            }
            if !wait_for_others(build, &mut alone).await {
                return Err(error);
            }
        }
    }

    /// A cursor, with the memory of the match buffer; the memory for a small batch is kept.
    fn open_cursor(&self, build: &BuildSide) -> Result<(Box<dyn Cursor>, MemoryReservation)> {
        let keep = |bytes| self.kept.iter().try_for_each(|kept| kept.keep(bytes));
        keep(build.partition_bytes)?;
        let reservation = self.reservation.new_empty();
        reservation.try_grow(self.layout.spec.buffer_bytes())?;
        let cursor = build.prepared.open(&reservation)?;
        keep(build.partition_bytes.max(reservation.size() + JoinLayout::SMALL_BATCH))?;
        Ok((cursor, reservation))
    }

    /// A stream with a cursor and its memory; without them, one that has ended.
    fn into_stream(
        self,
        build: &Arc<BuildSide>,
        opened: Option<(Box<dyn Cursor>, MemoryReservation)>,
    ) -> ProbeStream {
        let Self { layout, input, converter, reservation, pool, kept, metrics, limits } = self;
        let build = Arc::clone(build);
        let (cursor, cursor_reservation) = match opened {
            Some((cursor, reservation)) => (Some(cursor), reservation),
            None => (None, reservation.new_empty()),
        };
        let has_left = cursor.is_none();
        metrics.counters.peak_bytes.set_max(cursor_reservation.size());
        let counters = &metrics.counters;
        let (shared, memory) = (Arc::clone(&layout), (pool, reservation, kept));
        let mut source =
            ProbeSource::new(shared, Arc::clone(&build), input, converter, counters, memory);
        if has_left {
            source.note_left();
        }
        let answer = Answer::new(layout, build, limits, counters);
        ProbeStream {
            source,
            cursor,
            matches: answer.match_buffer(),
            answer,
            state: if has_left { State::Ended } else { State::Feeding { alone: false } },
            metrics,
            cursor_reservation,
        }
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
            match self.state {
                State::Feeding { alone } if self.source.may_open(self.held()) => {
                    self.open_next(alone).await?;
                }
                State::Feeding { .. } | State::Searching => {
                    let (cursor, matches) = (&mut self.cursor, &mut self.matches);
                    let progress = poll_fn(|cx| poll_cursor(cursor, cx, matches)).await?;
                    self.note(progress);
                }
                State::Ended => self.finish()?,
            }
        }
    }

    /// Hands the answer matches, and then batches that are complete; `false` where there are
    /// neither.
    fn take_matches(&mut self) -> Result<bool> {
        let cursor = &mut self.cursor;
        self.answer.take(&mut self.matches, |unit, item| {
            if let Some(cursor) = cursor {
                cursor.retire(unit, item);
            }
        })
    }

    /// Notes how far the cursor has come.
    fn note(&mut self, progress: Progress) {
        if let Some(cursor) = &self.cursor {
            self.metrics.update(cursor.funnel());
        }
        match progress {
            Progress::NeedsInput => self.state = State::Feeding { alone: false },
            Progress::Ended => self.state = State::Ended,
            Progress::Full | Progress::Yield => {}
        }
    }

    /// Feeds the next batch to the cursor, or says that there is none. While the input
    /// is not ready, the cursor goes on with the open batches.
    async fn open_next(&mut self, mut alone: bool) -> Result<()> {
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
            self.state = State::Searching;
            self.cursor.iter_mut().for_each(|cursor| cursor.finish());
            return Ok(());
        };
        let Some(cursor) = &mut self.cursor else {
            return internal_err!("a cursor has ended before its input");
        };
        match self.source.open(part, held, &mut |unit| Ok(cursor.feed(unit)?)).await? {
            Opened::Batch(batch) => {
                let reserved = self.source.reserved() + self.cursor_reservation.size();
                self.metrics.counters.peak_bytes.set_max(reserved);
                let number = batch.number;
                if !self.answer.open(batch) {
                    self.matches.need_all_of(number);
                }
                self.state = State::Searching;
            }
            Opened::Later => {}
            Opened::Stuck(error) => {
                let (cursor, memory) = (&mut self.cursor, &self.cursor_reservation);
                let free = || {
                    *cursor = None;
                    memory.free();
                };
                if self.source.leave(free) {
                    self.state = State::Ended;
                } else if self.source.wait_for_others(&mut alone).await {
                    self.state = State::Feeding { alone };
                } else {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn held(&self) -> OpenBatches {
        OpenBatches { batches: self.answer.open_batches(), bytes: self.answer.open_bytes() }
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
        Some(cursor) => cursor.poll(cx, matches).map_err(Into::into),
        None => Poll::Ready(Ok(Progress::Ended)),
    }
}
