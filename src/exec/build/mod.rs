//! The build side: collected once, shared by all probe partitions.

pub(crate) mod headroom;
pub(crate) mod read;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

use crate::config::{DeviceChoice, SpillChoice, StrategyName};
use crate::engine::{
    Chosen, Collection, DeviceRequest, Domain, Encoded, FinishContext, KeyConverter, MatchNeed,
    MatchSpec, PrepareContext, PreparedJoin, ProbeRows, Probes, RowGroups,
};
use crate::exec::answer::totals::items_suffice;
use crate::exec::build::headroom::Headroom;
use crate::exec::build::read::{BuildCollector, Overflow, ReadOutcome, Share};
use crate::exec::build_side::schedule::Ranges;
use crate::exec::build_side::{BuildRows, BuildSide, Connected};
use crate::exec::expected::Expected;
use crate::exec::layout::JoinLayout;
use crate::exec::metrics::BuildMetrics;
use crate::exec::rows::payload::PayloadBuilder;
use crate::exec::rows::ranks::{NonNullRows, Ranks, comparable};
use crate::exec::rows::visited::Visited;
use crate::exec::sink::PairSink;
use crate::operator::errors::{is_out_of_device_memory, is_out_of_memory};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// Called with what has been chosen, and again with the notes of a device that fails.
pub(crate) type OnChoice = Arc<dyn Fn(Chosen) + Send + Sync>;

/// Everything that building needs.
#[derive(Clone)]
pub(crate) struct BuildPlan {
    pub layout: Arc<JoinLayout>,
    pub converter: Option<Arc<KeyConverter>>,
    pub strategy: StrategyName,
    pub device: DeviceChoice,
    pub partitions: usize,
    /// The threads that may encode and index at once.
    pub threads: Threads,
    /// The number of tasks that read rows at once, each into a dictionary of its own, at least 1.
    pub readers: usize,
    pub metrics: BuildMetrics,
    pub on_choice: OnChoice,
    /// Whether a build side that does not fit into memory goes to disk.
    pub spill: SpillChoice,
    /// Whether the session has a memory limit.
    pub limited: bool,
    /// Whether rows that repeat their items are refused where memory for their ranks is short: fewer rows
    /// at a time take less of it than a condition that is evaluated for all pairs takes of time.
    pub needs_ranks: bool,
    /// Whether no two rows are equal by the row order, and none is NULL, where the build side is a piece of all
    /// rows that meet; `None` where it has all of them.
    pub all_distinct: Option<bool>,
    /// All values of the rows, where they are known.
    pub values: Option<Arc<KnownValues>>,
    /// The rows that will probe the build side, where they are known.
    pub probes: Option<Arc<Probes>>,
    /// The rows that the probe side is expected to have.
    pub expected: Expected,
}

/// The values of a build side, gathered before its rows are encoded.
#[derive(Debug)]
pub(crate) struct KnownValues {
    domain: Arc<dyn Domain>,
    _reservation: MemoryReservation,
}

impl KnownValues {
    /// `reservation` holds the domain until the indexed build side does.
    pub(crate) fn new(domain: Arc<dyn Domain>, reservation: MemoryReservation) -> Self {
        Self { domain, _reservation: reservation }
    }
}

impl BuildPlan {
    /// Reads the whole input and indexes it. Dropping the future stops the work.
    pub(crate) async fn run(
        self,
        input: SendableRecordBatchStream,
        memory: Arc<Headroom>,
    ) -> Result<Arc<BuildSide>> {
        match self.run_or_overflow(input, memory).await? {
            Ok(build) => Ok(build),
            Err((_, error)) => Err(error),
        }
    }

    /// Like [`Self::run`]. Where memory gets short while tasks read, returns the rows read so far
    /// and the reason. `memory` keeps the part of its headroom that all partitions start with: each
    /// releases [`BuildSide::partition_bytes`] when it starts.
    pub(crate) async fn run_or_overflow(
        self,
        input: SendableRecordBatchStream,
        memory: Arc<Headroom>,
    ) -> Result<Result<Arc<BuildSide>, (Overflow, DataFusionError)>> {
        let read_elapsed = self.metrics.read_elapsed.clone();
        let reading = read_elapsed.timer();
        let reservation = memory.reservation("rows");
        let collector =
            Arc::new(BuildCollector::new(self, input, Arc::clone(&memory), reservation));
        let shares = collector.run().await?;
        let Ok(collector) = Arc::try_unwrap(collector) else {
            return internal_err!("a task still reads the build side of a similarity join");
        };
        let (plan, reservation, shares) = match collector.finish(shares)? {
            ReadOutcome::Read { plan, reservation, shares } => (plan, reservation, shares),
            ReadOutcome::Overflow(overflow, error) => return Ok(Err((overflow, error))),
        };
        reading.done();
        let ordering = Instant::now();
        let rows = shares.iter().map(|share| share.encoder.row_count()).sum();
        let (layout, partitions) = (Arc::clone(&plan.layout), plan.partitions);
        let indexed =
            on_thread(move |cancel| plan.index(shares, ordering, reservation, cancel)).await;
        let build = indexed.map_err(|e| out_of_memory(e, &layout, rows))?;
        // A partition that starts late finds its memory, whatever the others have taken.
        memory.release_to(partitions * build.partition_bytes);
        Ok(Ok(build))
    }

    /// Prepares the same items for this plan's layout, whose build side must be the same.
    pub(crate) async fn again(self, build: BuildSide) -> Result<Arc<BuildSide>> {
        let (rows, reservation) = build.into_rows();
        let ranks = rows.ranks.filter(|ranks| self.layout.orders_build_by(ranks.column));
        let rows = BuildRows { ranks, ..rows };
        on_thread(move |cancel| self.prepare(rows, reservation, cancel)).await
    }

    /// Whether strategy or device are left to the join.
    fn may_choose(&self) -> bool {
        self.strategy.is_auto() || self.device == DeviceChoice::Auto
    }

    /// Whether strategy and device are left to the join.
    fn is_free_to_choose(&self) -> bool {
        self.strategy.is_auto() && !matches!(self.device, DeviceChoice::Cuda(_))
    }

    /// The probe side as the choice sees it, where it matters.
    fn describe_expected(&self, spec: &MatchSpec) -> String {
        match spec.probe_rows.count() {
            _ if self.layout.self_join || self.probes.is_some() || !self.may_choose() => {
                String::new()
            }
            Some(rows) => format!(", expecting {rows} probe rows ({})", self.expected),
            None => format!(", expecting {}", self.expected),
        }
    }

    /// Orders the rows and prepares the join. The time of ordering counts from `started`, when reading ended.
    fn index(
        mut self,
        shares: Vec<Share>,
        started: Instant,
        reservation: MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<Arc<BuildSide>> {
        let peak = || self.metrics.peak_bytes.set_max(reservation.size());
        let (encoders, payload, order_column) = Share::split(shares);
        let context = FinishContext {
            reservation: &reservation,
            base: payload.size_in_bytes() + order_column.size_in_bytes(),
            peak: &peak,
            cancel,
            threads: self.threads,
            meets_others: self.layout.meets_others,
            self_join: self.layout.self_join,
            probe: Some(self.layout.probe),
        };
        let Encoded { mut items, encoder, keys: key_ids } =
            self.layout.matcher.finish(encoders, &context)?;
        self.values = None;
        // Before the ranks, which are left out where memory is short.
        reservation.try_grow(payload.finish_growth())?;
        let ranks = self.rank(order_column, items.groups_mut(), &reservation, cancel)?;
        cancel.check()?;
        let items: Arc<dyn Collection> = items.into();
        let groups = items.groups();
        let payload = payload.finish(Arc::clone(&items), self.threads, cancel)?;
        peak();
        let counted: Vec<usize> = self
            .layout
            .counted_columns()
            .filter_map(|column| self.layout.carried_index(self.layout.build(), column))
            .collect();
        reservation.try_grow(counted.len() * NonNullRows::footprint(groups))?;
        let partners = counted
            .iter()
            .map(|&column| NonNullRows::of_column(groups, &payload, column, cancel))
            .collect::<Result<Vec<_>>>()?;
        let visited = match (self.layout.marks_build(), self.layout.items_decide()) {
            (true, true) => Some(groups.len() as usize),
            (true, false) => Some(groups.row_count()),
            (false, _) => None,
        };
        // Pairs that have a NULL connect nothing: all pairs are given out then.
        let connects = self.layout.sink.pairs == PairSink::Connections
            && !payload.has_nulls()
            && self.layout.knows_pairs(ranks.is_some());
        let connected = connects.then(|| groups.len());
        let held = items.size_in_bytes()
            + encoder.size_in_bytes()
            + key_ids.size_in_bytes()
            + payload.size_in_bytes()
            + ranks.as_ref().map_or(0, Ranks::size_in_bytes)
            + partners.iter().flatten().count() * NonNullRows::footprint(groups)
            + visited.map_or(0, Visited::footprint)
            + connected.map_or(0, Connected::footprint);
        reservation.try_resize(held)?;
        let rows = BuildRows {
            items,
            encoder,
            key_ids,
            row_bytes: payload.row_bytes(),
            payload: Arc::new(payload),
            ranks,
            partners,
            visited: visited.map(Visited::new),
            connected: connected.map(Connected::new),
            held,
        };
        self.metrics.order_time.add_duration(started.elapsed());
        let metrics = self.metrics.clone();
        let side = self.prepare(rows, reservation, cancel)?;
        // Not before: rows that memory does not suffice for come again, in smaller pieces.
        metrics.item_rows.add(side.items.groups().row_count());
        metrics.items.add(side.items.groups().len() as usize);
        metrics.values.add(side.encoder.value_count());
        metrics.keys.add(side.key_ids.len() as usize);
        Ok(side)
    }

    /// Ranks the rows by the column of the row order: always in a self-join, whose row pairs need
    /// no other test then, and in a join of two inputs where ranks cost less than the expression. There
    /// they are left out where memory is short, unless the plan needs them.
    fn rank(
        &self,
        column: PayloadBuilder,
        groups: &mut RowGroups,
        reservation: &MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<Option<Ranks>> {
        let Some((order, _)) = self.layout.row_order.zip(column.data_type()) else {
            return Ok(None);
        };
        if !self.layout.self_join && !repeats_items(groups, cancel)? {
            return Ok(None);
        }
        let others = self.layout.meets_others;
        let bytes = column.finish_growth() + Ranks::footprint(&column, others);
        let held = reservation.size();
        // Ranks of two inputs leave the memory that partitions start with.
        let starts = self.partitions * self.layout.partition_bytes();
        let beside = if self.layout.self_join { 0 } else { starts };
        let ranked = reservation.try_grow(bytes + beside).and_then(|()| {
            reservation.shrink(beside);
            let (rows, starts) = column.into_rows(comparable, self.threads, cancel)?;
            let column = order.columns[self.layout.build() as usize];
            let threads = self.threads;
            let mut ranks =
                Ranks::of_rows(column, &rows, &starts, groups, others, threads, cancel)?;
            let whole = if self.layout.self_join { ranks.distinct } else { false };
            ranks.all_distinct = self.all_distinct.unwrap_or(whole);
            Ok(Some(ranks))
        });
        match ranked {
            Err(error)
                if !self.layout.self_join && !self.needs_ranks && is_out_of_memory(&error) =>
            {
                reservation.try_resize(held)?;
                Ok(None)
            }
            ranked => ranked,
        }
    }

    /// Chooses a strategy and prepares it.
    fn prepare(
        self,
        mut rows: BuildRows,
        reservation: MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<Arc<BuildSide>> {
        let mut prepared = self.prepare_join(&rows, &reservation, cancel);
        // Ranks of two inputs only save time.
        if let Err(error) = &prepared
            && is_out_of_memory(error)
            && !self.layout.self_join
            && !(self.needs_ranks && repeats_items(rows.items.groups(), cancel)?)
            && let Some(ranks) = rows.ranks.take()
        {
            rows.held -= ranks.size_in_bytes();
            drop(ranks);
            reservation.try_resize(rows.held)?;
            prepared = self.prepare_join(&rows, &reservation, cancel);
        }
        let (prepared, cursor, ranges) = prepared?;
        self.metrics.peak_bytes.set_max(reservation.size());
        self.metrics.bytes.set(reservation.size());
        let scratch = if self.layout.self_join { 0 } else { rows.encoder.scratch_bytes() };
        let of_partition = cursor + scratch + JoinLayout::SMALL_BATCH;
        let partitions = (Threads::new(self.partitions, self.threads.tuning), of_partition);
        let side = BuildSide::new(rows, prepared, ranges, partitions, reservation);
        Ok(Arc::new(side))
    }

    /// A strategy over the rows, with the bytes of its cursors and the parts of the probe side.
    fn prepare_join(
        &self,
        rows: &BuildRows,
        reservation: &MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<(Arc<dyn PreparedJoin>, usize, Ranges)> {
        let items = &rows.items;
        let threads = self.threads;
        let probes = self.probes.as_deref();
        let context =
            PrepareContext { probes, ..PrepareContext::new(reservation, cancel, threads) };
        let matcher = self.layout.matcher.as_ref();
        let mut spec = self.layout.spec;
        spec.tuning = threads.tuning;
        spec.probe_rows = match probes {
            Some(probes) => ProbeRows::expected(probes.len()),
            None => self.expected.rows(items.groups().row_count()),
        };
        if self.layout.sink.pairs == PairSink::Total
            && items_suffice(&self.layout, rows.ranks.as_ref())
        {
            spec.need = MatchNeed::Count;
        }
        let described: Arc<OnceLock<Chosen>> = Arc::default();
        // Of a device that fails while the join is prepared.
        let early = Arc::new(Mutex::new(String::new()));
        let request = DeviceRequest {
            choice: self.device,
            self_join: self.layout.self_join,
            // Known once a strategy is chosen.
            work: 0.0,
            on_failure: {
                let (described, early) = (Arc::clone(&described), Arc::clone(&early));
                let on_choice = Arc::clone(&self.on_choice);
                Arc::new(move |what: String| match described.get() {
                    Some(chosen) => on_choice(chosen.noting(&format!(", {what}"))),
                    None => *early.lock() = format!(", {what}"),
                })
            },
        };
        let prepare = |strategy: StrategyName, request: &DeviceRequest, why: &str| {
            let started = Instant::now();
            let mut choice = matcher.choose(strategy, items, &spec, request, context)?;
            self.metrics.note_choice(started.elapsed(), choice.start_times());
            let timer = self.metrics.index_time.timer();
            let prepared = choice.prepare(context)?;
            let cursor =
                self.cursor_bytes(prepared.as_ref(), choice.is_on_device(), reservation)?;
            timer.done();
            let note = format!("{}{why}", self.describe_expected(&spec));
            let chosen = described.get_or_init(|| choice.chosen().noting(&note));
            (self.on_choice)(chosen.noting(&early.lock()));
            Ok((prepared, cursor))
        };
        let smallest = matcher.smallest().filter(|_| self.is_free_to_choose());
        let (prepared, cursor) = match (prepare(self.strategy, &request, ""), smallest) {
            (Err(error), Some(smallest)) if is_out_of_memory(&error) => {
                reservation.try_resize(rows.held)?;
                let request = DeviceRequest { choice: DeviceChoice::Cpu, ..request };
                prepare(smallest, &request, ", for want of memory")?
            }
            (prepared, _) => prepared?,
        };
        let _timer = self.metrics.index_time.timer();
        // Partitions of a join of two inputs take slices of the other one.
        let (steps, probes) = match self.layout.self_join {
            true => (matcher.work(items.as_ref(), &spec)?, items.groups().len()),
            false => (vec![], 0),
        };
        reservation.try_grow(Ranges::footprint(&steps))?;
        let ranges = Ranges::new(steps, probes, self.partitions, prepared.as_ref());
        Ok((prepared, cursor, ranges))
    }

    /// The bytes of a cursor over `prepared` with its match buffer. Under a memory limit a cursor is
    /// opened to learn them.
    ///
    /// # Errors
    ///
    /// When memory for a cursor is refused, and another strategy may take less.
    fn cursor_bytes(
        &self,
        prepared: &dyn PreparedJoin,
        on_device: bool,
        reservation: &MemoryReservation,
    ) -> Result<usize> {
        let about = self.layout.cursor_bytes();
        if !self.limited || on_device {
            return Ok(about);
        }
        let own = reservation.new_empty();
        let buffer = self.layout.spec.buffer_bytes();
        match own.try_grow(buffer).and_then(|()| Ok(prepared.open(&own)?)) {
            Ok(_) => Ok(own.size()),
            Err(error) if is_out_of_memory(&error) && !self.is_free_to_choose() => Ok(about),
            Err(error) => Err(error),
        }
    }
}

/// Whether rows share items enough for ranks to pay where an expression could decide as well:
/// ranking all rows takes less time than evaluating the expression for all pairs of rows with one
/// item.
fn repeats_items(groups: &RowGroups, cancel: &CancelFlag) -> Result<bool> {
    /// Pairs of rows that the expression decides in the time that a row takes to be ranked.
    const PAIRS_PER_ROW: u64 = 32;
    let mut pairs = 0_u64;
    for item in 0..groups.len() {
        cancel.check_at(item as usize)?;
        pairs = pairs.saturating_add(u64::from(groups.row_count_of(item)).pow(2));
    }
    Ok(pairs / PAIRS_PER_ROW > groups.row_count() as u64)
}

/// Runs long work apart from the runtime. Dropping the future stops it.
async fn on_thread(
    work: impl FnOnce(&CancelFlag) -> Result<Arc<BuildSide>> + Send + 'static,
) -> Result<Arc<BuildSide>> {
    let cancel = CancelFlag::default();
    let _guard = cancel.on_drop();
    match SpawnedTask::spawn_blocking(move || work(&cancel)).join().await {
        Ok(result) => result,
        Err(error) => exec_err!("indexing the build side of a similarity join failed: {error}"),
    }
}

/// Says which side did not fit, and what would help. The error of a device says so itself.
pub(crate) fn out_of_memory(
    error: DataFusionError,
    layout: &JoinLayout,
    rows: usize,
) -> DataFusionError {
    if !is_out_of_memory(&error) || is_out_of_device_memory(&error) {
        return error;
    }
    let side = layout.build();
    error.context(match layout.self_join {
        true => format!(
            "the input of the similarity self-join does not fit into the memory limit \
             ({rows} rows read); raise the limit"
        ),
        false => format!(
            "the {side} side of the similarity join, which is built, does not fit into the memory \
             limit ({rows} rows read); raise the limit, or build the other side if it is smaller: \
             SET simjoin.build_side = '{}'",
            side.other()
        ),
    })
}
