//! The join of two sides on disk, piece by piece.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::choices::PieceChoice;
use super::context::SpillContext;
use super::queue::BatchQueue;
use super::stored::{PieceJoin, StoredBuild};
use crate::disk::Segment;
use crate::engine::Probes;
use crate::exec::answer::output::BatchLimits;
use crate::exec::build_side::BuildSide;
use crate::exec::layout::JoinLayout;
use crate::exec::metrics::ProbeMetrics;
use crate::exec::probe::{ProbeInput, ProbeSetup, ProbeStream};
use crate::exec::rows::feed::{SegmentFeed, SegmentReader};
use crate::exec::rows::segment::{BandNotes, SpilledSide};
use crate::exec::rows::slices::Slices;
use crate::exec::rows::visited::Visited;
use crate::operator::errors::is_out_of_memory;
use crate::tuning::Tuning;

/// The least bytes for the probe rows of a worker, where there are several workers.
const ROWS_BYTES: usize = 256 << 10;
/// Timeout after which a join whose consumer has stopped reading releases its permit.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// A build side on disk, for the partitions of a join.
pub(crate) struct SpilledBuild {
    stored: Arc<StoredBuild>,
    /// The join that all partitions share. It ends with the last partition: none of its tasks holds
    /// this build side.
    shared: Mutex<Option<Arc<SpilledJoin>>>,
}

/// Ends a queue when dropped, also where the task that fills the queue panics.
struct QueueEnd(Arc<BatchQueue>);

impl QueueEnd {
    fn end(self, result: Result<()>) {
        self.0.end(result);
    }
}

impl Drop for QueueEnd {
    fn drop(&mut self) {
        self.0.end(exec_err!("the join from disk stopped before its end"));
    }
}

/// A join on its way. Dropping it ends the work.
pub(crate) struct SpilledJoin {
    queue: Arc<BatchQueue>,
    _driver: SpawnedTask<()>,
}

impl SpilledJoin {
    /// The next batch of the answer, for any partition.
    pub(crate) async fn next(&self) -> Result<Option<RecordBatch>> {
        self.queue.pop().await
    }
}

impl SpilledBuild {
    pub(crate) fn new(stored: StoredBuild) -> Self {
        Self { stored: Arc::new(stored), shared: Mutex::default() }
    }

    /// The tuning of the session.
    pub(crate) fn tuning(&self) -> Tuning {
        self.stored.context.build.threads.tuning
    }

    /// Starts the join of all partitions that share `probe`, or returns the join that was started.
    pub(crate) fn join_shared(
        &self,
        probe: impl FnOnce() -> Result<Vec<Slices>>,
    ) -> Result<Arc<SpilledJoin>> {
        let mut shared = self.shared.lock();
        Ok(match &*shared {
            Some(joining) => Arc::clone(joining),
            None => Arc::clone(shared.insert(self.start(probe()?, false))),
        })
    }

    /// Starts the join with `probe`, the rows of one partition.
    pub(crate) fn join(&self, probe: Vec<Slices>) -> Arc<SpilledJoin> {
        self.start(probe, true)
    }

    /// Starts a join with the rows of `probe`; none for a self-join. `others` says whether there
    /// may be more such joins, which take turns.
    fn start(&self, probe: Vec<Slices>, others: bool) -> Arc<SpilledJoin> {
        let context = &self.stored.context;
        let workers = context.build.threads.count();
        let queue = Arc::new(BatchQueue::new(2 * workers, context.task.memory_pool()));
        let driver = Driver {
            build: Arc::clone(&self.stored),
            queue: Arc::clone(&queue),
            workers,
            metrics: (0..workers)
                .map(|worker| ProbeMetrics::new(&context.plan_metrics, worker))
                .collect(),
            jobs: vec![],
            needs_ranks: true,
            permit: Arc::default(),
            others,
        };
        let end = QueueEnd(Arc::clone(&queue));
        let task = SpawnedTask::spawn(async move { end.end(driver.run(probe).await) });
        Arc::new(SpilledJoin { queue, _driver: task })
    }
}

/// A job that is left to do.
#[derive(Debug, Clone)]
enum SpillJob {
    /// A piece of a self-join against itself, then against the segments behind it.
    Itself(Range<usize>),
    /// A piece against some segments of the probe side.
    Cross(Range<usize>, Range<usize>),
}

impl SpillJob {
    /// Both halves, where the piece has more than one segment.
    fn halves(&self, segments: &[Segment<BandNotes>]) -> Option<[Self; 2]> {
        let (SpillJob::Itself(piece) | SpillJob::Cross(piece, _)) = self;
        if piece.len() < 2 {
            return None;
        }
        let all: usize = segments[piece.clone()].iter().map(|s| s.bytes).sum();
        let (mut middle, mut before) = (piece.start + 1, segments[piece.start].bytes);
        while middle + 1 < piece.end && before < all / 2 {
            before += segments[middle].bytes;
            middle += 1;
        }
        let (first, second) = (piece.start..middle, middle..piece.end);
        Some(match self {
            // What is behind the first half begins with the second one.
            SpillJob::Itself(_) => [SpillJob::Itself(first), SpillJob::Itself(second)],
            SpillJob::Cross(_, with) => {
                [SpillJob::Cross(first, with.clone()), SpillJob::Cross(second, with.clone())]
            }
        })
    }
}

struct Driver {
    build: Arc<StoredBuild>,
    queue: Arc<BatchQueue>,
    workers: usize,
    metrics: Vec<ProbeMetrics>,
    /// Taken up before further pieces, the last one first.
    jobs: Vec<SpillJob>,
    /// Whether the job on its way [needs ranks](PieceJoin::needs_ranks). A piece that cannot be halved does
    /// without, where it has no memory for them.
    needs_ranks: bool,
    /// Held while a piece is in memory.
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    /// Whether other joins may wait for a permit.
    others: bool,
}

impl Driver {
    async fn run(mut self, probe: Vec<Slices>) -> Result<()> {
        let context = Arc::clone(&self.build.context);
        let plan = &context.plan;
        let probe = match context.build.layout.self_join {
            true => Arc::clone(&self.build.side),
            false => Arc::new(context.store_probe(probe, &self.build.bands).await?),
        };
        let meetings = Meetings::new(&self.build.side, probe, &context)?;
        let segments = self.build.side.segments.len();
        let mut next = 0;
        while !self.jobs.is_empty() || next < segments {
            let permit = Arc::clone(&self.build.permits).acquire_owned().await;
            *self.permit.lock() = permit.ok();
            let job = self.jobs.pop().unwrap_or_else(|| {
                let piece = self.build.piece(next, meetings.probe.widest());
                next = piece.end;
                match plan.once {
                    true => SpillJob::Itself(piece),
                    false => SpillJob::Cross(piece, 0..meetings.probe.segments.len()),
                }
            });
            let waiting = self.jobs.len();
            match &job {
                SpillJob::Itself(piece) => self.join_itself(&job, piece, &meetings).await?,
                SpillJob::Cross(piece, with) => {
                    self.join_cross(&job, piece, with, &meetings).await?;
                }
            }
            // Otherwise the next job replaces this one.
            if self.jobs.len() == waiting {
                self.needs_ranks = true;
            }
            self.permit.lock().take();
        }
        self.sweep(&meetings).await
    }

    async fn join_itself(
        &mut self,
        job: &SpillJob,
        piece: &Range<usize>,
        meetings: &Meetings,
    ) -> Result<()> {
        let context = Arc::clone(&self.build.context);
        let Some(itself) = &context.plan.itself else {
            return internal_err!("a join of two inputs is no self-join");
        };
        let choice = PieceChoice::default();
        let built = self.build.build(piece.clone(), self.join_of(itself, None, &choice)).await;
        let Some(build) = self.unless_out_of_memory(built, job)? else { return Ok(()) };
        let started = self.start(&build, itself, None).await;
        let Some(workers) = self.unless_out_of_memory(started, job)? else { return Ok(()) };
        context.metrics.passes.add(1);
        self.finish(workers).await?;
        let behind = piece.end..self.build.side.segments.len();
        let met = meetings.of_piece(piece, &behind);
        if met.is_empty() {
            context.choices.add(&choice);
            return Ok(());
        }
        // The same build items once more, for probe items of other pieces.
        let rest = SpillJob::Cross(piece.clone(), behind.clone());
        let cross = &context.plan.cross;
        let Ok(build) = Arc::try_unwrap(build) else {
            return internal_err!("a worker still probes a piece of a similarity join");
        };
        let probes = meetings.probes(&met);
        let plan = self.build.plan(self.join_of(cross, Some(probes), &choice));
        let built = plan.again(build).await;
        let Some(build) = self.unless_out_of_memory(built, &rest)? else { return Ok(()) };
        let feed = meetings.feed(piece, met, &context);
        let started = self.start(&build, cross, Some(feed)).await;
        let Some(workers) = self.unless_out_of_memory(started, &rest)? else { return Ok(()) };
        self.finish(workers).await?;
        context.choices.add(&choice);
        Ok(())
    }

    async fn join_cross(
        &mut self,
        job: &SpillJob,
        piece: &Range<usize>,
        with: &Range<usize>,
        meetings: &Meetings,
    ) -> Result<()> {
        let context = Arc::clone(&self.build.context);
        let cross = &context.plan.cross;
        let met = meetings.of_piece(piece, with);
        if met.is_empty() && !cross.marks_build() {
            return Ok(());
        }
        let choice = PieceChoice::default();
        let join = self.join_of(cross, Some(meetings.probes(&met)), &choice);
        let built = self.build.build(piece.clone(), join).await;
        let Some(build) = self.unless_out_of_memory(built, job)? else { return Ok(()) };
        let feed = meetings.feed(piece, met, &context);
        let started = self.start(&build, cross, Some(feed)).await;
        let Some(workers) = self.unless_out_of_memory(started, job)? else { return Ok(()) };
        context.metrics.passes.add(1);
        self.finish(workers).await?;
        context.choices.add(&choice);
        Ok(())
    }

    /// The join of a piece with itself, or with the rows of `probes`.
    fn join_of<'a>(
        &self,
        layout: &'a Arc<JoinLayout>,
        probes: Option<Arc<Probes>>,
        choice: &PieceChoice,
    ) -> PieceJoin<'a> {
        let (partitions, threads) =
            (self.workers, self.build.context.build.threads.at_most(self.workers));
        let metrics = self.build.context.build.metrics.of_piece();
        let (on_choice, needs_ranks) = (choice.on_choice(), self.needs_ranks);
        PieceJoin { layout, partitions, threads, probes, metrics, on_choice, needs_ranks }
    }

    /// Gives out the probe rows that meet no piece, where the answer lists them.
    async fn sweep(&mut self, meetings: &Meetings) -> Result<()> {
        let context = Arc::clone(&self.build.context);
        let cross = &context.plan.cross;
        let lonely = meetings.lonely();
        if !cross.listed(cross.probe).unmatched || lonely.is_empty() {
            return Ok(());
        }
        let feed = meetings.feed_of(lonely, &context);
        loop {
            // What joins no row is no choice.
            let join = self.join_of(cross, None, &PieceChoice::default());
            let started = match self.build.build(0..0, join).await {
                Ok(build) => self.start(&build, cross, Some(Arc::clone(&feed))).await,
                Err(error) => Err(error),
            };
            match started {
                Err(error) if self.workers > 1 && is_out_of_memory(&error) => self.workers = 1,
                started => return self.finish(started?).await,
            }
        }
    }

    /// Notes the jobs that replace `job` where memory did not suffice for it.
    fn unless_out_of_memory<T>(&mut self, result: Result<T>, job: &SpillJob) -> Result<Option<T>> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if is_out_of_memory(&error) => {
                match job.halves(&self.build.side.segments) {
                    Some([first, second]) => self.jobs.extend([second, first]),
                    // Each worker has buffers of its own, and reads into a dictionary of its own.
                    None if self.workers > 1 => {
                        self.workers = 1;
                        self.jobs.push(job.clone());
                    }
                    None if self.needs_ranks => {
                        self.needs_ranks = false;
                        self.jobs.push(job.clone());
                    }
                    None => return Err(error),
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens workers that probe `build` with the rows of `feed`, or with itself: as many workers as
    /// memory allows.
    async fn start(
        &self,
        build: &Arc<BuildSide>,
        layout: &Arc<JoinLayout>,
        feed: Option<Arc<SegmentFeed>>,
    ) -> Result<Vec<ProbeStream>> {
        let context = &self.build.context;
        let mut workers = vec![];
        let pool = context.task.memory_pool();
        let rows = MemoryConsumer::new("SetSimilarityJoin probe rows").register(pool);
        for (worker, metrics) in self.metrics.iter().enumerate().take(self.workers) {
            let name = format!("SetSimilarityJoin probe[{worker}]");
            let setup = ProbeSetup {
                layout: Arc::clone(layout),
                input: match &feed {
                    Some(feed) => ProbeInput::Stored(SegmentReader::new(Arc::clone(feed))),
                    None => ProbeInput::Itself,
                },
                converter: context.plan.converter.clone(),
                reservation: MemoryConsumer::new(name).register(pool),
                pool: Arc::clone(pool),
                kept: None,
                metrics: metrics.again(),
                limits: BatchLimits::of(&context.task, self.workers),
            };
            // Cursors must leave the memory that the rows need.
            let room = if self.workers > 1 { rows.try_grow(ROWS_BYTES) } else { Ok(()) };
            let started = room.and_then(|()| setup.start(build));
            match started {
                Ok(worker) => workers.push(worker),
                Err(error) if is_out_of_memory(&error) && !workers.is_empty() => {
                    (workers.len()..self.workers).for_each(|_| {
                        build.finish_partition();
                    });
                    build.leftovers.end(self.workers - workers.len());
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(workers)
    }

    /// Runs the workers to their ends.
    async fn finish(&self, workers: Vec<ProbeStream>) -> Result<()> {
        let mut tasks = JoinSet::new();
        for mut worker in workers {
            let queue = Arc::clone(&self.queue);
            let permit = self.others.then(|| Arc::clone(&self.permit));
            tasks.spawn(async move {
                while let Some(batch) = worker.next_batch().await? {
                    let batch = queue.measured(batch);
                    if let Some(permit) = &permit
                        && tokio::time::timeout(READ_TIMEOUT, queue.room_for(&batch)).await.is_err()
                    {
                        // The consumer of this output may read all of another partition first.
                        permit.lock().take();
                    }
                    queue.push(batch).await;
                }
                Ok(())
            });
        }
        all_of(tasks, "joining a piece of a similarity join").await
    }
}

/// Waits for all tasks; when one fails, the others are stopped.
pub(crate) async fn all_of(mut tasks: JoinSet<Result<()>>, what: &str) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.unwrap_or_else(|error| exec_err!("{what} failed: {error}"));
        if ended.is_err() {
            // Their memory is free when the error is seen.
            tasks.shutdown().await;
            return ended;
        }
    }
    Ok(())
}

/// The pairs of segments of both sides that meet.
struct Meetings {
    build: Arc<SpilledSide>,
    probe: Arc<SpilledSide>,
    /// By probe segment, the positions of its partners.
    partners: Vec<Option<Range<u64>>>,
    /// By build segment, whether its rows lie anywhere.
    anywhere: Vec<bool>,
    /// By probe segment, the last build segment that it meets.
    last: Vec<Option<usize>>,
    /// The marks of probe rows that have a match, where the answer depends on them.
    marks: Option<Arc<Visited>>,
    /// The memory of the marks.
    _reservation: MemoryReservation,
}

impl Meetings {
    fn new(
        build: &Arc<SpilledSide>,
        probe: Arc<SpilledSide>,
        context: &SpillContext,
    ) -> Result<Self> {
        let layout = &context.plan.cross;
        let axis = layout.matcher.axis();
        let reach = |segment: &Segment<BandNotes>| match segment.notes.lies_anywhere(axis) {
            true => Some(0..u64::MAX),
            false => axis.reach(layout.probe, segment.notes.positions.clone()),
        };
        let partners: Vec<_> = probe.segments.iter().map(reach).collect();
        let lies_anywhere = |segment: &Segment<BandNotes>| segment.notes.lies_anywhere(axis);
        // A row with matches is counted for each piece.
        let listed = layout.listed(layout.probe);
        let asked = listed.unmatched || listed.matched && !layout.sink.counts;
        let rows = if asked && !context.plan.once { probe.rows as usize } else { 0 };
        let reservation =
            MemoryConsumer::new("SetSimilarityJoin marks").register(context.task.memory_pool());
        reservation.try_grow(Visited::footprint(rows))?;
        let mut meetings = Self {
            build: Arc::clone(build),
            last: vec![],
            marks: (rows > 0).then(|| Arc::new(Visited::new(rows))),
            _reservation: reservation,
            probe,
            partners,
            anywhere: build.segments.iter().map(lies_anywhere).collect(),
        };
        let segments = 0..build.segments.len();
        meetings.last = (0..meetings.probe.segments.len())
            .map(|p| segments.clone().rev().find(|&b| meetings.meets(p, b)))
            .collect();
        Ok(meetings)
    }

    fn meets(&self, probe: usize, build: usize) -> bool {
        let (partners, anywhere) = (&self.partners[probe], self.anywhere[build]);
        let (probe, build) = (&self.probe.segments[probe].notes, &self.build.segments[build].notes);
        let is_near = |partners: &Range<u64>| {
            partners.start < u64::from(build.positions.end)
                && u64::from(build.positions.start) < partners.end
        };
        // Equal items are in one bucket.
        let apart = probe.bucket.zip(build.bucket).is_some_and(|(probe, build)| probe != build);
        probe.key_part == build.key_part
            && !apart
            && (anywhere || partners.as_ref().is_some_and(is_near))
    }

    /// The probe segments among `with` that meet a piece.
    fn of_piece(&self, piece: &Range<usize>, with: &Range<usize>) -> Vec<usize> {
        with.clone().filter(|&p| piece.clone().any(|b| self.meets(p, b))).collect()
    }

    /// The probe segments that meet nothing.
    fn lonely(&self) -> Vec<usize> {
        (0..self.last.len()).filter(|&p| self.last[p].is_none()).collect()
    }

    /// The rows of some probe segments, for estimates.
    fn probes(&self, segments: &[usize]) -> Arc<Probes> {
        let rows = |&p: &usize| {
            let segment = &self.probe.segments[p];
            (segment.notes.positions.clone(), segment.rows as u64)
        };
        Arc::new(Probes { parts: segments.iter().map(rows).collect() })
    }

    /// The rows of the probe segments that meet a piece.
    fn feed(
        &self,
        piece: &Range<usize>,
        mut segments: Vec<usize>,
        context: &SpillContext,
    ) -> Arc<SegmentFeed> {
        // Far positions first: on an axis of sizes they take longest.
        segments.reverse();
        let is_last = |&p: &usize| (p, self.last[p].is_none_or(|last| last < piece.end));
        self.feed_with(segments.iter().map(is_last).collect(), context)
    }

    fn feed_of(&self, segments: Vec<usize>, context: &SpillContext) -> Arc<SegmentFeed> {
        self.feed_with(segments.into_iter().map(|p| (p, true)).collect(), context)
    }

    /// The rows of some segments, each with whether no later piece meets it.
    fn feed_with(&self, segments: Vec<(usize, bool)>, context: &SpillContext) -> Arc<SegmentFeed> {
        let how = (&context.metrics.visits, context.build.threads.tuning);
        Arc::new(SegmentFeed::new(&self.probe, segments, &self.marks, how))
    }
}
