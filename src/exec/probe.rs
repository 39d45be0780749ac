//! The probe side: one partition's way from input rows to output batches.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::RecordOutput;
use futures::StreamExt;
use futures::future::{BoxFuture, Shared};

use super::build::{BuildSide, EncodedArguments, ROWS_PER_SLICE};
use super::emit::RowEmission;
use super::layout::{Layout, RowsWith, Yield};
use super::metrics::ProbeMetrics;
use super::output::Output;
use super::pairs::{Expansion, ExpansionInput, RowPairs, SidePayloads};
use super::payload::Payload;
use crate::sets::{KeyConverter, ProbeScratch, SetCollection, SetId};
use crate::strategy::{Match, MatchBuffer, MatchCursor, MatchNeed, Pairing, ProbeSets, Progress};

/// Work between two looks at the runtime, which may have cancelled the query.
const TIME_SLICE: Duration = Duration::from_millis(5);

/// The build side while it is being made.
pub(super) type BuildFuture =
    Shared<BoxFuture<'static, Result<Arc<BuildSide>, Arc<DataFusionError>>>>;

/// Where probe sets come from.
pub(super) enum ProbeInput {
    /// The other input of the join.
    Stream(SendableRecordBatchStream),
    /// The build side itself: partitions take ranges of its sets from a shared counter.
    Itself { partitions: usize },
}

/// A number of probe sets that are joined before the next ones are looked at.
pub(super) struct Unit {
    pub(super) sets: Arc<SetCollection>,
    pub(super) range: Range<SetId>,
    pub(super) payload: Arc<Payload>,
    /// Whether this unit answers for the rows without sets.
    pub(super) has_setless: bool,
    /// The row pairs found, by set of the range or, where a residual decides, by place.
    pub(super) counts: Vec<u64>,
    /// Of these, by counted column, those in which it is not NULL; empty where that is all.
    pub(super) non_null: Vec<Vec<u64>>,
    /// All matches have been given.
    pub(super) matched: bool,
    pub(super) rows_at_once: usize,
}

pub(super) enum State {
    NextUnit,
    Matching(Unit),
    Emitting(RowEmission),
    /// Build rows, from this set on; beyond the last one, those without sets from there on.
    Tail {
        next_set: u32,
        next_setless: usize,
    },
    Done,
}

/// One partition of the join.
pub(super) struct ProbePartition {
    pub layout: Arc<Layout>,
    pub build: BuildFuture,
    pub input: ProbeInput,
    pub converter: Option<Arc<KeyConverter>>,
    /// For the cursor, and for probe batches.
    pub reservation: MemoryReservation,
    pub metrics: ProbeMetrics,
    pub batch_size: usize,
}

/// A partition whose build side is there.
pub(super) struct Running {
    pub(super) layout: Arc<Layout>,
    pub(super) build: Arc<BuildSide>,
    pub(super) input: ProbeInput,
    pub(super) converter: Option<Arc<KeyConverter>>,
    pub(super) reservation: MemoryReservation,
    pub(super) metrics: ProbeMetrics,
    pub(super) batch_size: usize,
    pub(super) cursor: Box<dyn MatchCursor>,
    pub(super) cursor_reservation: MemoryReservation,
    pub(super) scratch: ProbeScratch,
    /// The batch that units are cut from, and the next of its rows.
    pub(super) batch: Option<(RecordBatch, usize)>,
    pub(super) matches: MatchBuffer,
    pub(super) expansion: Expansion,
    pub(super) pairs: RowPairs,
    pub(super) total: u64,
    pub(super) output: Output,
    pub(super) state: State,
}

impl ProbePartition {
    /// The output of the partition.
    pub fn into_stream(self) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
        enum Stage {
            Waiting(Box<ProbePartition>),
            Running(Box<Running>),
        }
        futures::stream::try_unfold(Stage::Waiting(Box::new(self)), |stage| async move {
            let mut running = match stage {
                Stage::Waiting(partition) => Box::new(partition.start().await?),
                Stage::Running(running) => running,
            };
            let batch = running.next_batch().await?;
            Ok(batch.map(|batch| (batch, Stage::Running(running))))
        })
    }

    async fn start(self) -> Result<Running> {
        let Self { layout, build, input, converter, reservation, metrics, batch_size } = self;
        let build = build.await.map_err(DataFusionError::Shared)?;
        let matches = MatchBuffer::new(layout.match_buffer);
        let cursor_reservation = reservation.new_empty();
        cursor_reservation.try_grow(matches.footprint())?;
        let cursor = build.prepared.open(&cursor_reservation)?;
        metrics.peak_bytes.set_max(cursor_reservation.size());
        let output = Output::new(Arc::clone(&layout), batch_size);
        Ok(Running {
            build,
            input,
            converter,
            reservation,
            metrics,
            batch_size,
            cursor,
            cursor_reservation,
            scratch: ProbeScratch::default(),
            batch: None,
            matches,
            expansion: Expansion::default(),
            pairs: RowPairs::default(),
            total: 0,
            output,
            state: State::NextUnit,
            layout,
        })
    }
}

impl Running {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
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
                State::Tail { next_set, next_setless } => {
                    self.state = self.emit_build_rows(next_set, next_setless)?;
                }
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
            ProbeInput::Itself { partitions } => {
                let sets = self.build.sets.len() as usize;
                let share = (sets / (*partitions * 32)).clamp(1, 1024);
                let start = self.build.next_set.fetch_add(share, Ordering::Relaxed);
                if start >= sets + share {
                    return self.finish();
                }
                // The first range beyond the sets stands for the rows without one.
                let range = start.min(sets) as u32..(start + share).min(sets) as u32;
                self.metrics.distinct_sets.add(range.len());
                self.metrics.rows.add(self.build.sets.row_places(range.clone()).len());
                Unit {
                    sets: Arc::clone(&self.build.sets),
                    payload: Arc::clone(&self.build.payload),
                    has_setless: start >= sets,
                    counts: vec![],
                    non_null: vec![],
                    matched: false,
                    rows_at_once: 0,
                    range,
                }
            }
            ProbeInput::Stream(input) => {
                let (batch, start) = match self.batch.take() {
                    Some(rest) => rest,
                    None => match input.next().await.transpose()? {
                        Some(batch) => (batch, 0),
                        None => return self.finish(),
                    },
                };
                let rows = ROWS_PER_SLICE.min(batch.num_rows() - start);
                let slice = batch.slice(start, rows);
                if start + rows < batch.num_rows() {
                    self.batch = Some((batch, start + rows));
                }
                self.metrics.rows.add(rows);
                self.encode(&slice)?
            }
        };
        self.begin(unit)
    }

    /// The sets of some rows of the probe input.
    fn encode(&mut self, slice: &RecordBatch) -> Result<Unit> {
        let _timer = self.metrics.encode_time.timer();
        let side = self.layout.probe;
        let payload = Payload::of_batch(slice, &self.layout.carried[side as usize]);
        let arguments =
            EncodedArguments::evaluate(&self.layout, side, self.converter.as_deref(), slice)?;
        let sets = self.build.encoder.encode(
            &arguments.as_input(),
            &self.build.key_ids,
            &mut self.scratch,
            &self.reservation,
            payload.size_in_bytes() + slice.num_rows() * size_of::<u64>(),
        )?;
        let held = self.reservation.size() + self.cursor_reservation.size();
        self.metrics.peak_bytes.set_max(held);
        self.metrics.distinct_sets.add(sets.len() as usize);
        Ok(Unit {
            range: 0..sets.len(),
            sets: Arc::new(sets),
            payload: Arc::new(payload),
            has_setless: true,
            counts: vec![],
            non_null: vec![],
            matched: false,
            rows_at_once: 0,
        })
    }

    fn begin(&mut self, mut unit: Unit) -> Result<State> {
        if self.layout.counts_probe() {
            let len = if self.layout.sets_decide() {
                unit.range.len()
            } else {
                unit.sets.row_places(unit.range.clone()).len()
            };
            unit.counts = vec![0; len];
            let partners = self.build.partners.iter();
            unit.non_null = partners.map(|p| vec![0; if p.is_some() { len } else { 0 }]).collect();
        }
        let average = |p: &Payload| p.size_in_bytes() / p.row_count().max(1);
        unit.rows_at_once =
            self.output.rows_at_once(average(&unit.payload) + average(&self.build.payload));
        let probe = ProbeSets { sets: Arc::clone(&unit.sets), range: unit.range.clone() };
        self.cursor.start(probe)?;
        Ok(State::Matching(unit))
    }

    async fn match_sets(&mut self, mut unit: Unit) -> Result<State> {
        if !self.matches.is_empty() {
            self.consume(&mut unit)?;
            return Ok(State::Matching(unit));
        }
        if unit.matched {
            self.flush(&mut unit)?;
            return Ok(self.finish_unit(&unit));
        }
        let (cursor, matches) = (&mut self.cursor, &mut self.matches);
        let progress = poll_fn(|cx| cursor.poll_fill(cx, matches)).await?;
        self.metrics.update(self.cursor.funnel());
        unit.matched = progress == Progress::Done;
        self.note_matches(&mut unit);
        Ok(State::Matching(unit))
    }

    /// What a pair of sets says about all its rows.
    fn note_matches(&mut self, unit: &mut Unit) {
        if !self.layout.sets_decide() {
            return;
        }
        for found in self.matches.matches() {
            let probe = (found.probe - unit.range.start) as usize;
            if let Some(count) = unit.counts.get_mut(probe) {
                *count += self.build.sets.rows(found.build).len() as u64;
            }
            for (counts, partners) in unit.non_null.iter_mut().zip(&self.build.partners) {
                if let Some(partners) = partners {
                    counts[probe] += u64::from(partners.of_set[found.build as usize]);
                }
            }
            if let Some(visited) = &self.build.visited {
                visited.mark(found.build);
            }
        }
        if self.layout.spec.need == MatchNeed::Exists
            && let Some(found) = self.matches.matches().last()
        {
            self.cursor.retire(found.probe);
        }
    }

    /// Turns the buffered matches into what the join yields, stopping at a full batch.
    fn consume(&mut self, unit: &mut Unit) -> Result<()> {
        let output_time = self.metrics.output_time.clone();
        let _timer = output_time.timer();
        if self.layout.yields == Yield::Total
            && let Some(total) = self.total_of_matches(unit)
        {
            self.total += total;
            self.matches.clear();
            return Ok(());
        }
        if self.layout.sets_decide() && self.layout.yields != Yield::Pairs {
            self.matches.clear();
            return Ok(());
        }
        let input = ExpansionInput {
            layout: &self.layout,
            probe: &unit.sets,
            build: &self.build.sets,
            ranks: self.build.ranks.as_ref(),
        };
        let matches = self.matches.matches();
        let all = self.expansion.fill(&input, matches, unit.rows_at_once, &mut self.pairs);
        let last_probe = matches.last().map(|m| m.probe);
        if all {
            self.matches.clear();
            self.expansion.restart();
        }
        // A semi join with a residual may stop looking at a set once all its rows have a match.
        let flush_early = all && matches!(self.layout.yields, Yield::RowsOf(..));
        if self.pairs.len() >= unit.rows_at_once || flush_early {
            self.flush(unit)?;
            if let Some(set) = last_probe.filter(|&set| self.is_settled(unit, set)) {
                self.cursor.retire(set);
            }
        }
        Ok(())
    }

    /// Whether every row of a probe set has a match and none needs another one.
    fn is_settled(&self, unit: &Unit, set: SetId) -> bool {
        let first = unit.sets.row_places(unit.range.clone()).start;
        matches!(self.layout.yields, Yield::RowsOf(side, _) if side == self.layout.probe)
            && !self.layout.sets_decide()
            && unit
                .sets
                .row_places(set..set + 1)
                .all(|place| unit.counts.get((place - first) as usize).is_some_and(|&c| c > 0))
    }

    /// The pairs of rows behind the buffered matches, where sets alone tell.
    fn total_of_matches(&self, unit: &Unit) -> Option<u64> {
        use datafusion::logical_expr::Operator::{Gt, GtEq, Lt, LtEq, NotEq};
        let unordered = self.layout.spec.pairing == Pairing::Unordered;
        let ranks = self.build.ranks.as_ref();
        if self.layout.residual.is_some() || self.layout.row_order.is_some() && !unordered {
            return None;
        }
        // A comparison holds in one order of two rows that differ, and all rows do.
        let operator = match self.layout.row_order {
            Some(_) if !ranks.is_some_and(|r| r.distinct) => return None,
            order => order.map(|o| o.operator),
        };
        let pairs = |found: &Match| {
            let probe = unit.sets.rows(found.probe).len() as u64;
            let build = self.build.sets.rows(found.build).len() as u64;
            let identical = unordered && found.probe == found.build;
            match operator {
                None if identical || !unordered => probe * build,
                None => 2 * probe * build,
                Some(NotEq) if identical => probe * (probe - 1),
                Some(NotEq) => 2 * probe * build,
                Some(Lt | Gt) if identical => probe * (probe - 1) / 2,
                Some(LtEq | GtEq) if identical => probe * (probe + 1) / 2,
                Some(_) => probe * build,
            }
        };
        Some(self.matches.matches().iter().map(pairs).sum())
    }

    /// Decides the gathered pairs of rows and gives them out.
    fn flush(&mut self, unit: &mut Unit) -> Result<()> {
        if self.pairs.is_empty() {
            return Ok(());
        }
        let probe_payload = Arc::clone(&unit.payload);
        let (left, right) = self.layout.left_right(&*probe_payload, &*self.build.payload);
        let payloads = SidePayloads { layout: &self.layout, payloads: [left, right] };
        if let Some(residual) = &self.layout.residual {
            self.metrics.residual_rows.add(self.pairs.len());
            self.pairs.filter(residual, &payloads)?;
        }
        if !self.layout.sets_decide() {
            self.note_pairs(unit);
        }
        match self.layout.yields {
            Yield::Pairs => {
                let batch = self.pairs.to_batch(&self.layout, &payloads)?;
                self.output.push(batch)?;
                if unit.rows_at_once < self.batch_size {
                    self.output.cut()?;
                }
            }
            Yield::Total => self.total += self.pairs.len() as u64,
            Yield::RowsOf(..) | Yield::CountsPerProbeRow => {}
        }
        self.pairs.clear();
        Ok(())
    }

    /// What pairs of rows that passed the residual say about each of their rows.
    fn note_pairs(&self, unit: &mut Unit) {
        let (probe, build) = (self.layout.probe as usize, self.layout.build() as usize);
        if !unit.counts.is_empty() {
            let first = unit.sets.row_places(unit.range.clone()).start;
            for &place in &self.pairs.places[probe] {
                unit.counts[(place - first) as usize] += 1;
            }
            let pairs = || self.pairs.places[probe].iter().zip(&self.pairs.places[build]);
            for (counts, partners) in unit.non_null.iter_mut().zip(&self.build.partners) {
                let Some(partners) = partners else { continue };
                for (&probe, &build) in pairs() {
                    let counted = partners.at_place[build as usize];
                    counts[(probe - first) as usize] += u64::from(counted);
                }
            }
        }
        if let Some(visited) = &self.build.visited {
            self.pairs.places[build].iter().for_each(|&place| visited.mark(place));
        }
    }

    /// The input has ended: the last partition answers for the build rows.
    fn finish(&mut self) -> Result<State> {
        self.metrics.finish(self.cursor.funnel());
        if self.layout.yields == Yield::Total {
            self.output.push_total(self.total)?;
        }
        let last = self.build.finish_partition();
        if last && self.layout.marks_build() {
            return Ok(State::Tail { next_set: 0, next_setless: 0 });
        }
        self.output.finish()?;
        Ok(State::Done)
    }
}
