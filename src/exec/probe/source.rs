//! The sources of the probe batches of a partition.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use futures::future::poll_fn;

use crate::engine::{Collection, KeyConverter, ProbeUnit, Scratch};
use crate::exec::answer::ProbeBatch;
use crate::exec::answer::batch::MatchCounts;
use crate::exec::build::headroom::Headroom;
use crate::exec::build_side::BuildSide;
use crate::exec::build_side::parts::{ProbePart, Slice};
use crate::exec::build_side::schedule::SpareSlices;
use crate::exec::layout::{JoinLayout, RowOrder};
use crate::exec::metrics::ProbeCounters;
use crate::exec::rows::arguments::EncodedArguments;
use crate::exec::rows::feed::SegmentReader;
use crate::exec::rows::inputs::ProbeRows;
use crate::exec::rows::payload::Payload;
use crate::exec::rows::ranks::Ranks;
use crate::exec::rows::slices::shared_rows;
use crate::operator::errors::is_out_of_memory;

/// The most batches that are open at the same time: one whose candidates a device verifier
/// collects, and one for each of its packs on their way.
const MOST_OPEN: usize = 4;
/// The most open ranges of a self-join, which share packs and take memory for counts only.
const MOST_OPEN_RANGES: usize = 16;
/// The source opens a further batch where the memory pool has room for this many more.
const PLENTY: usize = 64;

/// The source of probe items.
pub(crate) enum ProbeInput {
    /// The other input of the join.
    Stream(Option<ProbeRows>),
    /// The build side itself: partitions take ranges of its items,
    /// [`crate::exec::build_side::schedule::Ranges`].
    Itself,
    /// Rows on disk that meet a piece of the build side.
    Stored(SegmentReader),
}

impl ProbeInput {
    /// Whether all partitions, or workers, that probe a build side take rows or items of this input, and one that
    /// ends leaves its own to the others.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Stream(rows) => rows.as_ref().is_some_and(ProbeRows::are_shared),
            Self::Itself | Self::Stored(_) => true,
        }
    }
}

/// The batches that are open.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpenBatches {
    pub batches: usize,
    pub bytes: usize,
}

/// The outcome of opening a part.
pub(super) enum Opened {
    Batch(ProbeBatch),
    /// Nothing before the open batches are complete.
    Later,
    /// No memory for a single row or item, which waits, although no batch is open.
    Stuck(DataFusionError),
}

/// Makes probe batches of the input, as large as memory allows.
///
/// One reservation holds all open batches and the buffers of the next one. Where memory is short
/// for a further batch, its rows wait until the open ones are complete, and from then on one batch
/// is open at a time. Where it is short for the only batch, its rows are halved. A partition that
/// finds no memory for a single row leaves its rows to the others, and ends.
pub(super) struct ProbeSource {
    layout: Arc<JoinLayout>,
    build: Arc<BuildSide>,
    input: ProbeInput,
    converter: Option<Arc<KeyConverter>>,
    counters: ProbeCounters,
    pool: Arc<dyn MemoryPool>,
    reservation: MemoryReservation,
    kept: Option<Arc<Headroom>>,
    scratch: Scratch,
    /// Parts that were too large for the memory there was, the next one last.
    waiting: Vec<ProbePart>,
    /// Memory was short.
    short: bool,
    next_number: u32,
    /// Whether all partitions that probe the build side share its input.
    shares: bool,
    /// Whether this partition takes parts that others leave.
    takes: bool,
}

/// Feeds a cursor.
pub(super) type Feed<'a> = &'a mut (dyn FnMut(ProbeUnit) -> Result<()> + Send);

impl ProbeSource {
    pub(super) fn new(
        layout: Arc<JoinLayout>,
        build: Arc<BuildSide>,
        input: ProbeInput,
        converter: Option<Arc<KeyConverter>>,
        counters: &ProbeCounters,
        (pool, reservation, kept): (Arc<dyn MemoryPool>, MemoryReservation, Option<Arc<Headroom>>),
    ) -> Self {
        let shares = input.is_shared();
        Self {
            shares,
            takes: true,
            layout,
            build,
            input,
            converter,
            counters: counters.clone(),
            pool,
            reservation,
            kept,
            scratch: Scratch::default(),
            waiting: vec![],
            short: false,
            next_number: 0,
        }
    }

    /// Notes that the partition has left before it took anything.
    pub(super) fn note_left(&mut self) {
        self.takes = false;
    }

    /// The bytes reserved.
    pub(super) fn reserved(&self) -> usize {
        self.reservation.size()
    }

    /// Whether a further batch may be opened beside the open ones. A worker that is out of memory
    /// waits for this one to give its memory back.
    pub(super) fn may_open(&self, held: OpenBatches) -> bool {
        let most = match self.input {
            ProbeInput::Itself => MOST_OPEN_RANGES,
            ProbeInput::Stream(_) | ProbeInput::Stored(_) => MOST_OPEN,
        };
        if held.batches == 0 {
            return true;
        }
        let others_wait = self.build.shortage.short.load(Ordering::Acquire) > 0;
        if self.short || others_wait || held.batches >= most {
            return false;
        }
        match self.pool.memory_limit() {
            MemoryLimit::Finite(limit) => {
                let room = limit.saturating_sub(self.pool.reserved());
                room / PLENTY >= held.bytes / held.batches
            }
            MemoryLimit::Infinite | MemoryLimit::Unknown => true,
        }
    }

    /// Gives memory back where another worker waits for some. No batch is open.
    pub(super) fn release(&mut self) {
        if self.build.shortage.short.load(Ordering::Acquire) > 0 {
            self.free();
            self.build.shortage.freed.notify_waiters();
        }
    }

    /// Ends the input, of which no batch is open any more. Returns whether this partition was the
    /// last one. A worker that waits for memory finds that of this one free.
    pub(super) fn finish(&mut self) -> bool {
        self.free();
        self.kept.iter().for_each(|kept| kept.release());
        let is_last = self.build.finish_partition();
        self.build.shortage.freed.notify_waiters();
        is_last
    }

    fn free(&mut self) {
        self.scratch = Scratch::default();
        self.reservation.free();
    }

    /// The next part of the input; `None` at its end. Nothing is lost where the future is dropped
    /// before it is ready.
    pub(super) async fn next_part(&mut self) -> Result<Option<ProbePart>> {
        if let Some(part) = self.waiting.pop() {
            return Ok(Some(part));
        }
        let next = if self.is_futile() { None } else { self.next_of_input().await? };
        if next.is_none() && self.takes {
            let left = self.build.leftovers.take_or_end();
            self.takes = left.is_some();
            return Ok(left);
        }
        Ok(next)
    }

    async fn next_of_input(&mut self) -> Result<Option<ProbePart>> {
        Ok(match &mut self.input {
            ProbeInput::Stream(input) => {
                let BuildSide { prepared, spare, partitions, tuning, .. } = self.build.as_ref();
                let tasks = if self.shares { *partitions } else { 1 };
                let least = prepared.least_probe_rows();
                let rows =
                    shared_rows(spare.rows(), tasks, least, *tuning).min(prepared.probe_rows());
                let slice = next_slice(input, spare, rows).await?;
                self.counters.rows.add(slice.as_ref().map_or(0, RecordBatch::num_rows));
                slice.map(|rows| ProbePart::Rows(Slice { rows, visit: None }))
            }
            ProbeInput::Stored(reader) => {
                let slice = reader.next().await?;
                slice.map(|(rows, visit)| ProbePart::Rows(Slice { rows, visit: Some(visit) }))
            }
            ProbeInput::Itself => {
                let part = match self.build.ranges.next() {
                    Some(range) => Some((range, false)),
                    None => self.build.ranges.take_itemless().then_some((0..0, true)),
                };
                part.map(|(range, has_itemless)| {
                    let rows = self.build.items.groups().slots(range.clone()).len();
                    self.counters.rows.add(rows);
                    ProbePart::Items { range, has_itemless }
                })
            }
        })
    }

    /// Whether nothing can match, and the answer has no row of the probe input without a match:
    /// the input need not be read.
    fn is_futile(&self) -> bool {
        let layout = &self.layout;
        self.build.items.groups().is_empty() && !layout.listed(layout.probe).unmatched
    }

    /// Makes a batch of a part and feeds it to the cursor. Where memory is short, it makes a batch
    /// of the first half, or none before the open batches are complete; the rest waits.
    pub(super) async fn open(
        &mut self,
        mut part: ProbePart,
        held: OpenBatches,
        feed: Feed<'_>,
    ) -> Result<Opened> {
        loop {
            let error = match self.try_open(&part, held, feed) {
                Ok(batch) => return Ok(Opened::Batch(batch)),
                Err(error) if is_out_of_memory(&error) => error,
                Err(error) => return Err(error),
            };
            self.short = true;
            if held.batches > 0 {
                let keep = held.bytes + self.scratch.size_in_bytes();
                self.reservation.shrink(self.reservation.size().saturating_sub(keep));
                self.waiting.push(part);
                return Ok(Opened::Later);
            }
            if let Some([first, rest]) = part.halves() {
                self.waiting.push(rest);
                part = first;
                continue;
            }
            // The consumer of a stream may wait for another partition; workers on a piece go on.
            let opened = match self.input {
                ProbeInput::Stored(_) => self.wait_for_memory(&part, feed).await,
                ProbeInput::Stream(_) | ProbeInput::Itself => Err(error),
            };
            return match opened {
                Ok(batch) => Ok(Opened::Batch(batch)),
                Err(error) if is_out_of_memory(&error) => {
                    self.waiting.push(part);
                    Ok(Opened::Stuck(error))
                }
                Err(error) => Err(error),
            };
        }
    }

    /// Leaves all parts that wait to the other partitions, with the memory of this one and what
    /// `free` gives back; `false` where it is the last one, or has rows of its own.
    pub(super) fn leave(&mut self, free: impl FnOnce()) -> bool {
        let build = Arc::clone(&self.build);
        let mut parts = std::mem::take(&mut self.waiting);
        let left = self.shares
            && build.leftovers.leave(&mut parts, || {
                self.free();
                free();
                self.kept.iter().for_each(|kept| kept.release());
            });
        self.waiting = parts;
        if left {
            self.takes = false;
            build.shortage.freed.notify_waiters();
        }
        left
    }

    /// Gives all memory back until another partition has done so; see [`wait_for_others`].
    pub(super) async fn wait_for_others(&mut self, alone: &mut bool) -> bool {
        self.free();
        self.shares && wait_for_others(&self.build, alone).await
    }

    /// Makes a batch of a part once other workers on the same piece have given memory back. An
    /// error where all of them wait for that: each keeps the memory of its cursor.
    async fn wait_for_memory(&mut self, part: &ProbePart, feed: Feed<'_>) -> Result<ProbeBatch> {
        let build = Arc::clone(&self.build);
        let shortage = &build.shortage;
        // A worker that counts as waiting holds no batch: where all of them wait, one alone tries.
        self.free();
        shortage.short.fetch_add(1, Ordering::AcqRel);
        shortage.freed.notify_waiters();
        let _permit = shortage.permit.lock().await;
        let opened = loop {
            let mut freed = pin!(shortage.freed.notified());
            freed.as_mut().enable();
            let all_wait = build.all_are_short();
            match self.try_open(part, OpenBatches::default(), feed) {
                Err(error) if !all_wait && is_out_of_memory(&error) => {}
                opened => break opened,
            }
            self.reservation.free();
            freed.await;
        };
        shortage.short.fetch_sub(1, Ordering::AcqRel);
        opened
    }

    /// Makes a batch of a part and feeds it to the cursor.
    fn try_open(
        &mut self,
        part: &ProbePart,
        held: OpenBatches,
        feed: Feed<'_>,
    ) -> Result<ProbeBatch> {
        let mut batch = match part {
            ProbePart::Rows(slice) => self.encode(slice, held)?,
            ProbePart::Items { range, has_itemless } => {
                let build = &self.build;
                let (items, payload) = (Arc::clone(&build.items), Arc::clone(&build.payload));
                let mut batch = self.batch(items, payload);
                (batch.range, batch.has_itemless) = (range.clone(), *has_itemless);
                batch
            }
        };
        let counted = MatchCounts::bytes_of_batch(&self.layout, &batch, &self.build);
        batch.bytes += counted;
        let all = held.bytes + self.scratch.size_in_bytes() + batch.bytes;
        self.reservation.try_resize(all)?;
        batch.counted = MatchCounts::of_batch(&self.layout, &batch, &self.build);
        feed(batch.unit())?;
        self.counters.items.add(batch.range.len());
        self.next_number = self.next_number.wrapping_add(1);
        Ok(batch)
    }

    /// The items of some rows of the probe input.
    fn encode(&mut self, slice: &Slice, held: OpenBatches) -> Result<ProbeBatch> {
        let encode_time = self.counters.encode_time.clone();
        let _timer = encode_time.timer();
        let Slice { rows, visit } = slice;
        let side = self.layout.probe;
        let carried = &self.layout.carried[side as usize];
        let mut arguments =
            EncodedArguments::evaluate(&self.layout, side, self.converter.as_deref(), rows)?;
        if let Some(visit) = visit
            && self.layout.sink.needs_one_match_of(side)
        {
            // Stored rows have no filter of their own.
            arguments.filter = visit.without_match(rows.num_rows());
        }
        let ranked = self.build.ranks.as_ref().zip(self.layout.row_order);
        let firsts = ranked.filter(|(ranks, _)| self.layout.gives_firsts(ranks.all_distinct));
        let places = 1 + usize::from(firsts.is_some());
        let payload =
            Payload::footprint(rows, carried) + rows.num_rows() * places * size_of::<u32>();
        let (encoder, input) = (&self.build.encoder, arguments.as_input());
        let (keys, scratch, memory) = (&self.build.key_ids, &mut self.scratch, &self.reservation);
        let base = held.bytes + payload;
        // Rows that come back from disk visit.
        let items = match visit {
            Some(_) => encoder.encode_stored(&input, keys, scratch, memory, base)?,
            None => encoder.encode(&input, keys, scratch, memory, base)?,
        };
        if visit.is_none() {
            self.counters.nan_rows.add(side, arguments.rows_with_nan(&self.layout));
        }
        let column = |order: RowOrder| rows.column(order.columns[side as usize]);
        let ranks = ranked.map(|(ranks, order)| ranks.of_others(column(order), items.groups()));
        let firsts = firsts.map(|(_, order)| Ranks::least_places(column(order), items.groups()));
        let (ranks, firsts) = (ranks.transpose()?, firsts.transpose()?);
        let bytes = payload + items.size_in_bytes();
        let payload = Payload::of_batch(rows, carried, Arc::clone(&items));
        let batch = self.batch(items, Arc::new(payload));
        Ok(ProbeBatch { ranks, firsts, visit: visit.clone(), bytes, ..batch })
    }

    /// A batch of all rows of a collection.
    fn batch(&self, items: Arc<dyn Collection>, payload: Arc<Payload>) -> ProbeBatch {
        ProbeBatch {
            number: self.next_number,
            range: 0..items.groups().len(),
            items,
            payload,
            has_itemless: true,
            visit: None,
            ranks: None,
            firsts: None,
            items_suffice: false,
            counted: MatchCounts::default(),
            rows_at_once: 0,
            bytes: 0,
        }
    }
}

impl Drop for ProbeSource {
    fn drop(&mut self) {
        self.build.leftovers.end(usize::from(self.takes));
    }
}

/// Waits until another partition of `build` has given memory back or ended: whether it is worth to
/// try again. It is not where this partition was `alone` before, or where the others do not get on,
/// whose consumer may wait for this one.
pub(super) async fn wait_for_others(build: &BuildSide, alone: &mut bool) -> bool {
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut freed = pin!(build.shortage.freed.notified());
    freed.as_mut().enable();
    if build.has_one_partition_left() {
        return !std::mem::replace(alone, true);
    }
    tokio::time::timeout(PATIENCE, freed).await.is_ok()
}

/// The next rows of the probe input, `most` at most: slices that another partition left, or rows of
/// the input.
async fn next_slice(
    input: &mut Option<ProbeRows>,
    spare: &SpareSlices,
    most: usize,
) -> Result<Option<RecordBatch>> {
    loop {
        if let Some(slice) = spare.pop() {
            return Ok(Some(slice));
        }
        let Some(rows) = input else { return Ok(None) };
        tokio::select! {
            biased;
            batch = poll_fn(|cx| rows.poll_next(cx)) => match batch.transpose()? {
                Some(batch) => return Ok(Some(spare.cut(batch, most))),
                None => *input = None,
            },
            () = spare.added() => {}
        }
    }
}
