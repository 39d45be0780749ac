//! A build side on disk, and how it comes back into memory.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::bands::Bands;
use super::context::SpillContext;
use crate::config::SpillChoice;
use crate::engine::Probes;
use crate::exec::build::headroom::Headroom;
use crate::exec::build::{BuildPlan, KnownValues, OnChoice};
use crate::exec::build_side::BuildSide;
use crate::exec::expected::Expected;
use crate::exec::layout::JoinLayout;
use crate::exec::metrics::BuildMetrics;
use crate::exec::rows::segment::SpilledSide;
use crate::operator::errors::is_out_of_memory;
use crate::util::parallel::Threads;

/// Stored bytes for a task that reads a piece, at least: dictionaries that are merged take memory
/// and time.
const READER_BYTES: usize = 8 << 20;
/// The bytes that the domain of a piece may take in any case, where memory is left.
const LEAST_VALUES_BYTES: usize = 64 << 10;
/// The bytes of a domain for each byte of the piece, at most. A dictionary takes more where most
/// tokens occur in one row of the piece only.
const VALUES_BYTES: usize = 4;

/// A build side on disk, and how it comes back.
pub(crate) struct StoredBuild {
    pub(crate) context: Arc<SpillContext>,
    pub(crate) side: Arc<SpilledSide>,
    pub(crate) bands: Arc<Bands>,
    /// Whether no two rows are equal by the row order, and none is NULL, where that is asked for.
    pub(crate) all_distinct: bool,
    pub(crate) growth: Mutex<Growth>,
    /// One piece at a time is in memory, unless no partition reads its output.
    pub(crate) permits: Arc<Semaphore>,
}

/// Bytes in memory for each byte stored, at the peak, as far as that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    /// The bytes of a piece whose dictionary is made of tables.
    tables: f64,
    /// The bytes of a piece whose values are known, without those of its domain.
    domain: f64,
}

impl Growth {
    /// A guess before the first piece, from `bytes` in memory for each byte stored.
    pub(crate) fn guess(bytes: f64) -> Self {
        Self { tables: bytes, domain: bytes.min(2.0) }
    }

    fn of(&mut self, has_domain: bool) -> &mut f64 {
        if has_domain { &mut self.domain } else { &mut self.tables }
    }

    /// Notes that a piece of `bytes` stored bytes took `peak` bytes, or needed more where it did not
    /// fit.
    fn note(&mut self, has_domain: bool, bytes: usize, peak: usize, fitted: bool) {
        /// The least bytes of a piece that tells the growth: smaller pieces take mostly what every piece takes.
        const LEAST_BYTES: usize = 1 << 20;
        let ratio = peak as f64 / bytes.max(1) as f64;
        let growth = self.of(has_domain);
        *growth = match (fitted, bytes > LEAST_BYTES) {
            (true, true) => ratio.max(0.25),
            (true, false) => growth.min(ratio).max(0.25),
            (false, true) => growth.max(1.5 * ratio),
            (false, false) => *growth,
        };
    }
}

/// The join of a piece.
pub(super) struct PieceJoin<'a> {
    pub layout: &'a Arc<JoinLayout>,
    /// Probe partitions, and threads that collect and index the piece.
    pub partitions: usize,
    pub threads: Threads,
    /// The rows that will probe the piece, where they are others than its own.
    pub probes: Option<Arc<Probes>>,
    pub metrics: BuildMetrics,
    pub on_choice: OnChoice,
    /// [`BuildPlan::needs_ranks`].
    pub needs_ranks: bool,
}

/// A build side that fits into memory after all.
pub(crate) struct Reloaded {
    pub side: Arc<BuildSide>,
    /// The layout to probe the side with.
    pub layout: Arc<JoinLayout>,
    /// The headroom for the start of each partition.
    pub starts: Arc<Headroom>,
}

impl StoredBuild {
    /// The whole side in memory after all, if that is likely to succeed: its rows have fewer
    /// distinct items than feared, or other queries have freed memory.
    pub(crate) async fn reload(&self) -> Result<Option<Reloaded>> {
        let context = &self.context;
        if context.piece_rows().is_some() || self.side.rows > u64::from(u32::MAX) {
            return Ok(None);
        }
        let starts = context.build.partitions * context.build.layout.partition_bytes();
        let rows = context.build.layout.bytes_for_rows(&context.task.memory_pool().memory_limit());
        if let Some(available) = context.available() {
            let room = self.budget(available).min(available.saturating_sub(starts + rows));
            let all = 0..self.side.segments.len();
            let known = self.domain_bytes(all, available, self.side.bytes());
            let growth = *self.growth.lock().of(known.is_some());
            let bytes = self.side.bytes() as f64 * growth;
            if bytes > 0.9 * room.saturating_sub(known.unwrap_or(0)) as f64 {
                return Ok(None);
            }
        }
        let plan = &context.plan;
        // The layouts need the same of the build side.
        let (layout, probing) = match (&plan.itself, &plan.direct) {
            (Some(itself), _) => (itself, itself),
            (None, Some(direct)) => (&plan.cross, direct),
            (None, None) => return Ok(None),
        };
        let all = 0..self.side.segments.len();
        let memory = Headroom::of_build(context.task.memory_pool());
        let join = PieceJoin {
            layout,
            partitions: context.build.partitions,
            threads: context.build.threads,
            probes: None,
            metrics: context.build.metrics.of_reloaded(),
            on_choice: Arc::clone(&context.build.on_choice),
            needs_ranks: true,
        };
        let built = self.build_in(&memory, all, join).await;
        // As for a build side that has never left memory.
        let built = built.and_then(|side| {
            let starts = context.build.partitions * side.partition_bytes;
            memory.ensure(starts + rows)?;
            memory.release_to(starts);
            Ok(side)
        });
        match built {
            Ok(side) => Ok(Some(Reloaded { side, layout: Arc::clone(probing), starts: memory })),
            Err(error) if is_out_of_memory(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes that a piece may take of the `available` ones.
    fn budget(&self, available: usize) -> usize {
        let context = &self.context;
        let cursor = context.build.layout.cursor_bytes();
        let workers = context.build.threads.count() * (cursor + (512 << 10));
        available.saturating_sub(workers.min(available / 2))
    }

    /// The bytes of a domain of the values of some segments, where they are few beside the
    /// `available` bytes and `bytes` of rows.
    fn domain_bytes(
        &self,
        segments: Range<usize>,
        available: usize,
        bytes: usize,
    ) -> Option<usize> {
        let form = &self.context.plan.forms[self.context.build.layout.build() as usize];
        let limit = bytes.saturating_mul(VALUES_BYTES).max(LEAST_VALUES_BYTES).min(available / 4);
        let known = form.domain_bytes(self.side.domain_size(segments)?);
        (known <= limit as u64).then_some(known as usize)
    }

    /// Segments from `from` on that make a piece, beside which a probe row of `widest` bytes fits.
    pub(super) fn piece(&self, from: usize, widest: usize) -> Range<usize> {
        /// Bytes that encoding takes for each byte of a row.
        const ENCODING: usize = 5;
        let segments = &self.side.segments;
        let available = self.context.available();
        let beside = widest.saturating_mul(ENCODING);
        let target = available.map(|bytes| {
            let budget = self.budget(bytes);
            let least = (bytes / 4).min(budget);
            let room = (0.8 * budget as f64).min(bytes.saturating_sub(beside).max(least) as f64);
            let growth = *self.growth.lock();
            // All segments may have greater values than those of the piece.
            let known = self.domain_bytes(0..segments.len(), bytes, usize::MAX);
            let with_domain = known.and_then(|known| {
                let rows = (room - known as f64) / growth.domain;
                (known as f64 <= rows * VALUES_BYTES as f64).then_some(rows)
            });
            with_domain.unwrap_or(room / growth.tables)
        });
        let rows_limit = self.context.piece_rows().unwrap_or(u32::MAX as usize);
        let (mut end, mut bytes, mut rows) = (from, 0, 0);
        while let Some(segment) = segments.get(end) {
            bytes += segment.bytes;
            rows += segment.rows;
            if end > from && (target.is_some_and(|t| bytes as f64 > t) || rows > rows_limit) {
                break;
            }
            end += 1;
        }
        from..end
    }

    pub(super) fn plan(&self, join: PieceJoin<'_>) -> BuildPlan {
        let context = &self.context;
        let PieceJoin { layout, partitions, threads, probes, metrics, on_choice, needs_ranks } =
            join;
        BuildPlan {
            layout: Arc::clone(layout),
            converter: context.plan.converter.clone(),
            partitions,
            threads,
            readers: threads.count(),
            metrics,
            on_choice,
            spill: SpillChoice::Never,
            limited: context.available().is_some(),
            needs_ranks,
            all_distinct: Some(self.all_distinct),
            values: None,
            probes,
            expected: Expected::Unknown,
            ..context.build.clone()
        }
    }

    /// Collects and indexes some segments.
    pub(super) async fn build(
        &self,
        segments: Range<usize>,
        join: PieceJoin<'_>,
    ) -> Result<Arc<BuildSide>> {
        let memory = Headroom::of_build(self.context.task.memory_pool());
        self.build_in(&memory, segments, join).await
    }

    /// Builds within `memory`.
    async fn build_in(
        &self,
        memory: &Arc<Headroom>,
        segments: Range<usize>,
        join: PieceJoin<'_>,
    ) -> Result<Arc<BuildSide>> {
        let bytes: usize = self.side.segments[segments.clone()].iter().map(|s| s.bytes).sum();
        let mut plan = self.plan(join);
        // Values that are all known need no table to be numbered.
        let form = &self.context.plan.forms[plan.layout.build() as usize];
        let available = self.context.available().unwrap_or(usize::MAX);
        let known = self.domain_bytes(segments.clone(), available, bytes);
        let size = self.side.domain_size(segments.clone()).filter(|_| known.is_some());
        if let Some((size, domain)) = size.and_then(|size| Some((size, form.domain(size)?))) {
            let reservation = memory.reservation("values");
            reservation.try_grow(form.domain_bytes(size) as usize)?;
            let read_elapsed = plan.metrics.read_elapsed.clone();
            let _reading = read_elapsed.timer();
            let domain = self.side.fill(domain, segments.clone()).await?;
            plan.values = Some(Arc::new(KnownValues::new(domain, reservation)));
        } else {
            plan.readers = (bytes / READER_BYTES).clamp(1, plan.threads.count());
        }
        let built = plan.run(self.side.read_all(segments), Arc::clone(memory)).await;
        let peak = memory.peak().saturating_sub(known.unwrap_or(0));
        self.growth.lock().note(known.is_some(), bytes, peak, built.is_ok());
        built
    }
}
