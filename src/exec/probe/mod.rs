//! The probe side: one partition's way from input rows to output batches.

pub(crate) mod schedule;
pub(crate) mod slices;

use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::RecordOutput;
use futures::StreamExt;

use crate::engine::KeyConverter;
use crate::engine::{Cursor, MatchBuffer, ProbeUnit};
use crate::exec::answer::blocks::{Expansion, RowPairs};
use crate::exec::answer::consume::Counted;
use crate::exec::answer::emit::{RowEmission, RowWalk};
use crate::exec::answer::output::{BatchLimits, Output};
use crate::exec::answer::payload::Payload;
use crate::exec::build::read::is_out_of_memory;
use crate::exec::build::{BuildSide, Built, EncodedArguments, ROWS_PER_SLICE};
use crate::exec::layout::{Layout, RowsWith, Yield};
use crate::exec::metrics::ProbeMetrics;
use crate::exec::probe::schedule::SpareSlices;
use crate::exec::probe::slices::{ProbeStreams, Slices};
use crate::exec::spill::{Joining, SegmentReader, SpilledBuild, Visit};
use crate::set::{ProbeScratch, SetCollection, SetId};
use crate::util::once::Making;

/// Work between two looks at the runtime, which may have cancelled the query.
const TIME_SLICE: Duration = Duration::from_millis(5);

/// The build side while it is being made.
pub(crate) type BuildFuture = Making<Built>;

/// Where probe sets come from.
pub(crate) enum ProbeInput {
    /// The other input of the join.
    Stream(Option<SendableRecordBatchStream>),
    /// The build side itself: partitions take ranges of its sets, [`crate::exec::probe::schedule::Ranges`].
    Itself,
    /// Rows on disk that meet a piece of the build side.
    Stored(SegmentReader),
}

/// The next rows of the probe input: what another partition could spare, or the partition's own.
async fn next_slice(
    input: &mut Option<SendableRecordBatchStream>,
    spare: &SpareSlices,
) -> Result<Option<RecordBatch>> {
    loop {
        if let Some(slice) = spare.pop() {
            return Ok(Some(slice));
        }
        let Some(stream) = input else { return Ok(None) };
        tokio::select! {
            biased;
            batch = stream.next() => match batch.transpose()? {
                Some(batch) => return Ok(Some(spare.cut(batch, ROWS_PER_SLICE))),
                None => *input = None,
            },
            () = spare.added() => {}
        }
    }
}

/// A number of probe sets that are joined before the next ones are looked at.
pub(crate) struct Unit {
    pub(crate) sets: Arc<SetCollection>,
    pub(crate) range: Range<SetId>,
    pub(crate) payload: Arc<Payload>,
    /// Whether this unit answers for the rows without sets.
    pub(crate) has_setless: bool,
    pub(crate) counted: Counted,
    /// All matches have been given.
    pub(crate) matched: bool,
    pub(crate) rows_at_once: usize,
    /// For rows that may meet several pieces of the build side.
    pub(crate) visit: Option<Visit>,
    /// By place, the ranks of the rows among those of the build side; `None` where they have none,
    /// or are build rows themselves.
    pub(crate) ranks: Option<Vec<u32>>,
}

/// Rows of the probe input.
struct Slice {
    rows: RecordBatch,
    visit: Option<Visit>,
}

pub(crate) enum State {
    NextUnit,
    Matching(Unit),
    Emitting(RowEmission),
    /// Build rows that the answer lists.
    Tail(RowWalk),
    Done,
}

/// One partition of the join.
pub(crate) struct ProbePartition {
    pub build: BuildFuture,
    /// Where the rows of this partition come from; `None` for a self-join.
    pub probe: Option<Arc<ProbeStreams>>,
    pub partition: usize,
    /// For the cursor, and for probe batches.
    pub reservation: MemoryReservation,
    pub metrics: ProbeMetrics,
    pub limits: BatchLimits,
}

/// What a partition, or a worker on a piece, starts with.
pub(crate) struct RunningSetup {
    pub layout: Arc<Layout>,
    pub input: ProbeInput,
    pub converter: Option<Arc<KeyConverter>>,
    pub reservation: MemoryReservation,
    pub metrics: ProbeMetrics,
    pub limits: BatchLimits,
}

/// A partition whose build side is there.
pub(crate) struct Running {
    pub(crate) layout: Arc<Layout>,
    pub(crate) build: Arc<BuildSide>,
    pub(crate) input: ProbeInput,
    pub(crate) converter: Option<Arc<KeyConverter>>,
    pub(crate) reservation: MemoryReservation,
    pub(crate) metrics: ProbeMetrics,
    pub(crate) cursor: Box<dyn Cursor>,
    pub(crate) cursor_reservation: MemoryReservation,
    /// For what is counted of a unit.
    counted_reservation: MemoryReservation,
    pub(crate) scratch: ProbeScratch,
    pub(crate) matches: MatchBuffer,
    pub(crate) expansion: Expansion,
    /// The matches are being expanded a second time, in the other order.
    pub(crate) mirrored: bool,
    pub(crate) pairs: RowPairs,
    pub(crate) total: u64,
    pub(crate) output: Output,
    pub(crate) state: State,
    /// Rows that were too many for the memory there was, the next ones last.
    waiting: Vec<Slice>,
}

impl ProbePartition {
    /// The output of the partition.
    pub fn into_stream(self) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
        enum Stage {
            Waiting(Box<ProbePartition>),
            Running(Box<Running>),
            OnDisk(Arc<Joining>),
        }
        futures::stream::try_unfold(Stage::Waiting(Box::new(self)), |stage| async move {
            let stage = match stage {
                Stage::Waiting(partition) => {
                    let built = partition.build.clone().await.map_err(DataFusionError::Shared)?;
                    match &*built {
                        Built::Memory { side, layout, converter } => {
                            let (layout, converter) = (Arc::clone(layout), converter.clone());
                            let setup = partition.setup(layout, converter)?;
                            Stage::Running(Box::new(setup.start(Arc::clone(side))?))
                        }
                        Built::Disk(build) => Stage::OnDisk(partition.join_on_disk(build)?),
                    }
                }
                later => later,
            };
            Ok(match stage {
                Stage::Running(mut running) => {
                    let batch = running.next_batch().await?;
                    batch.map(|batch| (batch, Stage::Running(running)))
                }
                Stage::OnDisk(joining) => {
                    let batch = joining.next().await?;
                    batch.map(|batch| (batch, Stage::OnDisk(joining)))
                }
                Stage::Waiting(_) => None,
            })
        })
    }

    fn setup(
        self,
        layout: Arc<Layout>,
        converter: Option<Arc<KeyConverter>>,
    ) -> Result<RunningSetup> {
        let Self { probe, partition, reservation, metrics, limits, .. } = self;
        let input = match probe {
            Some(streams) => ProbeInput::Stream(streams.take(partition)?),
            None => ProbeInput::Itself,
        };
        Ok(RunningSetup { layout, input, converter, reservation, metrics, limits })
    }

    /// Takes part in the join of what is on disk.
    fn join_on_disk(&self, build: &Arc<SpilledBuild>) -> Result<Arc<Joining>> {
        let Some(streams) = &self.probe else { return build.join_shared(|| Ok(vec![])) };
        let slices = |stream| Slices::new(stream, self.metrics.rows.clone());
        match streams.are_shared() {
            true => build.join_shared(|| Ok(streams.take_all()?.into_iter().map(slices).collect())),
            // The others answer for themselves, perhaps elsewhere.
            false => {
                let own = streams.take(self.partition)?;
                Ok(build.join(own.into_iter().map(slices).collect()))
            }
        }
    }
}

impl RunningSetup {
    /// Opens what is needed to probe `build`.
    pub fn start(self, build: Arc<BuildSide>) -> Result<Running> {
        let Self { layout, input, converter, reservation, metrics, limits } = self;
        let matches = MatchBuffer::new(layout.match_buffer);
        let cursor_reservation = reservation.new_empty();
        cursor_reservation.try_grow(matches.footprint())?;
        let cursor = build.prepared.open(&cursor_reservation)?;
        metrics.peak_bytes.set_max(cursor_reservation.size());
        let output = Output::new(Arc::clone(&layout), limits);
        Ok(Running {
            build,
            input,
            converter,
            counted_reservation: reservation.new_empty(),
            reservation,
            metrics,
            cursor,
            cursor_reservation,
            scratch: ProbeScratch::default(),
            matches,
            expansion: Expansion::default(),
            mirrored: false,
            pairs: RowPairs::default(),
            total: 0,
            output,
            state: State::NextUnit,
            waiting: vec![],
            layout,
        })
    }
}

impl Running {
    /// The next batch of output; `None` at the end.
    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut since_yield = Instant::now();
        loop {
            if let Some(batch) = self.output.next_batch()? {
                return Ok(Some(batch.record_output(&self.metrics.baseline)));
            }
            // A step is short, but a residual may refuse what many of them find.
            if since_yield.elapsed() > TIME_SLICE {
                tokio::task::yield_now().await;
                since_yield = Instant::now();
            }
            match std::mem::replace(&mut self.state, State::Done) {
                State::NextUnit => self.state = self.next_unit().await?,
                State::Matching(unit) => self.state = self.match_sets(unit).await?,
                State::Emitting(emission) => self.state = self.emit(emission)?,
                State::Tail(walk) => self.state = self.emit_build_rows(walk)?,
                State::Done => {
                    self.metrics.baseline.done();
                    return Ok(None);
                }
            }
        }
    }

    /// Takes up the next probe sets.
    async fn next_unit(&mut self) -> Result<State> {
        let wants_unmatched = self.layout.pads(self.layout.probe)
            || self.layout.yields == Yield::RowsOf(self.layout.probe, RowsWith::NoMatch);
        if self.build.sets.is_empty() && !wants_unmatched {
            // Nothing can match, and nobody asks what does not: the input need not be read.
            return self.finish();
        }
        let unit = match &mut self.input {
            ProbeInput::Itself => {
                let (range, has_setless) = match self.build.ranges.next() {
                    Some(range) => (range, false),
                    None if self.build.ranges.take_setless() => (0..0, true),
                    None => return self.finish(),
                };
                self.metrics.distinct_sets.add(range.len());
                self.metrics.rows.add(self.build.sets.row_places(range.clone()).len());
                Unit {
                    sets: Arc::clone(&self.build.sets),
                    payload: Arc::clone(&self.build.payload),
                    has_setless,
                    counted: Counted::default(),
                    matched: false,
                    rows_at_once: 0,
                    visit: None,
                    ranks: None,
                    range,
                }
            }
            _ => {
                self.let_go();
                return match self.next_probe_slice().await? {
                    Some(slice) => self.begin_what_fits(slice).await,
                    None => self.finish(),
                };
            }
        };
        self.begin(unit)
    }

    async fn next_probe_slice(&mut self) -> Result<Option<Slice>> {
        if let Some(slice) = self.waiting.pop() {
            return Ok(Some(slice));
        }
        Ok(match &mut self.input {
            ProbeInput::Stream(input) => {
                let slice = next_slice(input, &self.build.spare).await?;
                self.metrics.rows.add(slice.as_ref().map_or(0, RecordBatch::num_rows));
                slice.map(|rows| Slice { rows, visit: None })
            }
            ProbeInput::Stored(reader) => {
                let slice = reader.next().await?;
                slice.map(|(rows, visit)| Slice { rows, visit: Some(visit) })
            }
            ProbeInput::Itself => None,
        })
    }

    /// Begins with a slice, or where memory is short with a part of it: the rest waits.
    async fn begin_what_fits(&mut self, mut slice: Slice) -> Result<State> {
        loop {
            let rows = slice.rows.num_rows();
            match self.encode(&slice).and_then(|unit| self.begin(unit)) {
                Err(error) if rows > 1 && is_out_of_memory(&error) => {
                    let half = rows / 2;
                    let visit = slice.visit.clone().map(|visit| visit.skip(half));
                    let rest = slice.rows.slice(half, rows - half);
                    self.waiting.push(Slice { rows: rest, visit });
                    slice.rows = slice.rows.slice(0, half);
                }
                // Other partitions may wait for somebody to read them; other workers go on.
                Err(error)
                    if matches!(self.input, ProbeInput::Stored(_)) && is_out_of_memory(&error) =>
                {
                    return self.begin_when_others_let_go(&slice).await;
                }
                begun => return begun,
            }
        }
    }

    /// Begins with a slice once other workers on the same piece have given memory back. An error
    /// where all of them wait for that.
    async fn begin_when_others_let_go(&mut self, slice: &Slice) -> Result<State> {
        let build = Arc::clone(&self.build);
        let shortage = &build.shortage;
        shortage.short.fetch_add(1, Ordering::AcqRel);
        self.let_go();
        // Those who wait hold nothing, and one of them tries.
        let _turn = shortage.turn.lock().await;
        let begun = loop {
            let mut freed = pin!(shortage.freed.notified());
            freed.as_mut().enable();
            let all_wait = build.all_are_short();
            match self.encode(slice).and_then(|unit| self.begin(unit)) {
                Err(error) if !all_wait && is_out_of_memory(&error) => {}
                begun => break begun,
            }
            self.reservation.free();
            self.counted_reservation.free();
            freed.await;
        };
        shortage.short.fetch_sub(1, Ordering::AcqRel);
        begun
    }

    /// Between two units: gives memory back where another worker waits for some.
    fn let_go(&mut self) {
        let shortage = &self.build.shortage;
        if shortage.short.load(Ordering::Acquire) > 0 {
            self.scratch = ProbeScratch::default();
            self.reservation.free();
            self.counted_reservation.free();
            shortage.freed.notify_waiters();
        }
    }

    /// The sets of some rows of the probe input.
    fn encode(&mut self, slice: &Slice) -> Result<Unit> {
        let _timer = self.metrics.encode_time.timer();
        let Slice { rows: slice, visit } = slice;
        let side = self.layout.probe;
        let carried = &self.layout.carried[side as usize];
        let mut arguments =
            EncodedArguments::evaluate(&self.layout, side, self.converter.as_deref(), slice)?;
        if let (Some(visit), Yield::RowsOf(..)) = (visit, self.layout.yields) {
            // One match is enough. Stored rows have no filter of their own.
            arguments.filter = visit.without_match(slice.num_rows());
        }
        let sets = self.build.encoder.encode(
            &arguments.as_input(),
            &self.build.key_ids,
            &mut self.scratch,
            &self.reservation,
            Payload::footprint(slice, carried) + slice.num_rows() * size_of::<u32>(),
        )?;
        let held = self.reservation.size() + self.cursor_reservation.size();
        self.metrics.peak_bytes.set_max(held);
        let ranks = match (&self.build.ranks, self.layout.row_order) {
            (Some(ranks), Some(order)) => {
                Some(ranks.of_others(slice.column(order.columns[side as usize]), &sets)?)
            }
            _ => None,
        };
        let sets = Arc::new(sets);
        let payload = Payload::of_batch(slice, carried, Arc::clone(&sets));
        Ok(Unit {
            range: 0..sets.len(),
            sets,
            payload: Arc::new(payload),
            has_setless: true,
            counted: Counted::default(),
            matched: false,
            rows_at_once: 0,
            visit: visit.clone(),
            ranks,
        })
    }

    fn begin(&mut self, mut unit: Unit) -> Result<State> {
        let counted = Counted::bytes_of_unit(&self.layout, &unit, &self.build);
        self.counted_reservation.try_resize(counted)?;
        unit.counted = Counted::of_unit(&self.layout, &unit, &self.build);
        let row_bytes = match Arc::ptr_eq(&unit.payload, &self.build.payload) {
            true => 2 * self.build.row_bytes,
            false => unit.payload.row_bytes() + self.build.row_bytes,
        };
        unit.rows_at_once = self.output.rows_at_once(row_bytes);
        let (sets, range) = (Arc::clone(&unit.sets), unit.range.clone());
        self.cursor.feed(ProbeUnit { number: 0, sets, range })?;
        if !matches!(self.input, ProbeInput::Itself) {
            self.metrics.distinct_sets.add(unit.range.len());
        }
        Ok(State::Matching(unit))
    }

    async fn match_sets(&mut self, mut unit: Unit) -> Result<State> {
        if !self.matches.is_empty() {
            self.consume(&mut unit)?;
            return Ok(State::Matching(unit));
        }
        if unit.matched {
            // In a self-join the next unit's pairs may join those that are waiting.
            let waits = matches!(self.input, ProbeInput::Itself);
            if !waits || !unit.counted.matches.is_empty() {
                self.flush(&unit.payload, &mut unit.counted)?;
            }
            return Ok(self.finish_unit(unit));
        }
        let (cursor, matches) = (&mut self.cursor, &mut self.matches);
        poll_fn(|cx| cursor.poll(cx, matches)).await?;
        self.metrics.update(self.cursor.funnel());
        unit.matched = matches.pop_completed().is_some();
        self.note_matches(&mut unit);
        Ok(State::Matching(unit))
    }

    /// The input has ended: the last partition answers for the build rows.
    fn finish(&mut self) -> Result<State> {
        let payload = Arc::clone(&self.build.payload);
        self.flush(&payload, &mut Counted::default())?;
        self.metrics.finish(self.cursor.funnel());
        if self.layout.yields == Yield::Total {
            self.output.push_total(self.total)?;
        }
        let last = self.build.finish_partition();
        self.let_go();
        if last && self.layout.marks_build() {
            return Ok(self.tail());
        }
        self.output.finish()?;
        Ok(State::Done)
    }
}
