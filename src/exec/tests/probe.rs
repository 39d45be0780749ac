//! Probe batches that are open together and complete in any order, as those of a device do.

use std::task::{Context, Poll};

use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use parking_lot::Mutex;
use simjoin_core::memory::Memory;

use super::*;
use crate::config::DeviceChoice;
use crate::engine::{Cursor, Funnel, MatchBuffer, PreparedJoin, ProbeUnit, Progress};
use crate::error;
use crate::exec::answer::output::BatchLimits;
use crate::exec::build::BuildPlan;
use crate::exec::build::headroom::Headroom;
use crate::exec::build_side::BuildSide;
use crate::exec::expected::Expected;
use crate::exec::layout::{JoinLayout, Sides};
use crate::exec::metrics::{BuildMetrics, ProbeMetrics};
use crate::exec::probe::{ProbeInput, ProbeSetup};
use crate::exec::rows::inputs::{ProbeInputs, ProbeRows};
use crate::families;
use crate::set::SetId;
use crate::util::parallel::Threads;

/// The units and matches that a cursor has seen which completes units out of order.
#[derive(Debug, Default)]
struct Seen {
    most_open: usize,
    /// Units that were complete before one that was fed earlier.
    overtaking: usize,
}

/// A join whose cursors ask for further units before those they have are complete.
#[derive(Debug)]
struct Reordered {
    inner: Arc<dyn PreparedJoin>,
    /// Otherwise one unit is open at a time.
    asks_ahead: bool,
    seen: Arc<Mutex<Seen>>,
}

impl PreparedJoin for Reordered {
    fn open(&self, _: &dyn Memory) -> error::Result<Box<dyn Cursor>> {
        Ok(Box::new(ReorderedCursor {
            inner: Arc::clone(&self.inner),
            asks_ahead: self.asks_ahead,
            seen: Arc::clone(&self.seen),
            units: vec![],
            open: vec![],
            asked: false,
            finished: false,
            turn: 0,
        }))
    }
}

/// A cursor for each unit, polled in turn, the last ones most often.
struct ReorderedCursor {
    inner: Arc<dyn PreparedJoin>,
    asks_ahead: bool,
    seen: Arc<Mutex<Seen>>,
    units: Vec<(u32, Box<dyn Cursor>)>,
    /// The units that are not complete, in the order of their coming.
    open: Vec<u32>,
    asked: bool,
    finished: bool,
    turn: usize,
}

impl Cursor for ReorderedCursor {
    fn feed(&mut self, unit: ProbeUnit) -> error::Result<()> {
        let number = unit.number;
        let mut cursor = self.inner.open(&unlimited())?;
        cursor.feed(unit)?;
        cursor.finish();
        self.units.push((number, cursor));
        self.open.push(number);
        self.asked = false;
        let mut seen = self.seen.lock();
        seen.most_open = seen.most_open.max(self.open.len());
        Ok(())
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        found: &mut MatchBuffer,
    ) -> Poll<error::Result<Progress>> {
        let done = self.units.is_empty();
        let asks = self.asks_ahead && !std::mem::replace(&mut self.asked, true);
        if !self.finished && (asks || done) {
            return Poll::Ready(Ok(Progress::NeedsInput));
        }
        if done {
            return Poll::Ready(Ok(Progress::Ended));
        }
        self.turn += 1;
        let place = if self.turn.is_multiple_of(3) { 0 } else { self.units.len() - 1 };
        let before = found.completed().len();
        let progress = match self.units[place].1.poll(cx, found) {
            Poll::Ready(progress) => progress?,
            Poll::Pending => return Poll::Pending,
        };
        for unit in &found.completed()[before..] {
            let place = self.open.iter().position(|open| open == unit).unwrap();
            self.open.remove(place);
            self.seen.lock().overtaking += usize::from(place > 0);
        }
        Poll::Ready(Ok(match progress {
            Progress::Ended => {
                self.units.remove(place);
                Progress::Yield
            }
            progress => progress,
        }))
    }

    fn retire(&mut self, unit: u32, probe: SetId) {
        for (number, cursor) in &mut self.units {
            if *number == unit {
                cursor.retire(unit, probe);
            }
        }
    }

    fn funnel(&self) -> Funnel {
        Funnel::default()
    }
}

/// A pool that refuses what goes beyond a limit, which it does not tell.
#[derive(Debug)]
struct Refusing {
    limit: Mutex<usize>,
    pool: UnboundedMemoryPool,
}

impl std::fmt::Display for Refusing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "refusing")
    }
}

impl MemoryPool for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, bytes: usize) {
        self.pool.shrink(reservation, bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.pool.reserved() + additional > *self.limit.lock() {
            return Err(DataFusionError::ResourcesExhausted("refused".to_string()));
        }
        self.pool.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Unknown
    }
}

fn unlimited() -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    MemoryConsumer::new("test").register(&pool)
}

/// A join by one partition, whose cursor is a [`ReorderedCursor`].
struct Probe<'a> {
    join: SimilarityJoin,
    /// The build side of a join of two inputs.
    build: Option<Side>,
    /// The rows of the build and of the probe side.
    rows: [&'a [Row]; 2],
    options: SimJoinOptions,
    batch_size: usize,
    asks_ahead: bool,
    /// Bytes left for probing.
    room: usize,
}

impl Probe<'_> {
    async fn run(self) -> (Result<Vec<RecordBatch>>, Seen) {
        let pool = Arc::new(Refusing { limit: Mutex::new(usize::MAX), pool: Default::default() });
        let shared: Arc<dyn MemoryPool> = Arc::<Refusing>::clone(&pool);
        let layout = Arc::new({
            let schema = schema();
            let arguments = self.join.arguments.each_ref().map(|of| (of, schema.as_ref()));
            let bound = families().bind(self.join.predicate, arguments).unwrap();
            let sides = self.build.map_or(Sides::Itself, Sides::Two);
            JoinLayout::try_new(self.join, bound, sides, &self.options).unwrap()
        });
        let metrics = ExecutionPlanMetricsSet::new();
        let plan = BuildPlan {
            layout: Arc::clone(&layout),
            converter: None,
            strategy: self.options.strategy,
            device: DeviceChoice::Cpu,
            partitions: 1,
            threads: Threads::small(1),
            readers: 1,
            metrics: BuildMetrics::new(&metrics),
            on_choice: Arc::new(|_| {}),
            spill: SpillChoice::Never,
            limited: false,
            needs_ranks: false,
            all_distinct: None,
            values: None,
            probes: None,
            expected: Expected::Unknown,
        };
        let stream = |rows: &[Row]| source(rows, 13, 1).execute(0, Arc::default()).unwrap();
        let memory = Headroom::of_build(&shared);
        let build = plan.run(stream(self.rows[0]), memory).await.unwrap();
        let mut build: BuildSide = Arc::try_unwrap(build).unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        build.prepared = Arc::new(Reordered {
            inner: Arc::clone(&build.prepared),
            asks_ahead: self.asks_ahead,
            seen: Arc::clone(&seen),
        });
        let setup = ProbeSetup {
            input: match self.build {
                Some(_) => {
                    let rows = ProbeInputs::new(source(self.rows[1], 13, 1), Arc::default(), true);
                    ProbeInput::Stream(Some(ProbeRows::new(&Arc::new(rows), 0)))
                }
                None => ProbeInput::Itself,
            },
            converter: None,
            reservation: MemoryConsumer::new("probe").register(&shared),
            pool: Arc::clone(&shared),
            kept: None,
            metrics: ProbeMetrics::new(&metrics, 0),
            limits: BatchLimits { rows: self.batch_size, bytes: 1 << 20 },
            layout,
        };
        let mut stream = setup.start(&Arc::new(build)).unwrap();
        *pool.limit.lock() = pool.reserved().saturating_add(self.room);
        let mut batches = vec![];
        let result = loop {
            match stream.next_batch().await {
                Ok(Some(batch)) => batches.push(batch),
                Ok(None) => break Ok(batches),
                Err(error) => break Err(error),
            }
        };
        drop(stream);
        assert_eq!(pool.reserved(), 0);
        let seen = std::mem::take(&mut *seen.lock());
        (result, seen)
    }
}

/// The join with the rows of a probe side counted one by one.
fn counting(case: &Case, probe: Side) -> SimilarityJoin {
    let mut join = case.join(Need::Counts(Some(probe)));
    join.output = vec![OutputColumn::Input(probe, 0), OutputColumn::Count(CountOf::Rows)];
    let fields = ["id", "count"].map(|name| Field::new(name, DataType::Int64, true));
    join.schema = Arc::new(Schema::new(fields.to_vec()));
    join
}

/// The counts of [`counting`], by id of the probe side.
fn counts(batches: &[RecordBatch]) -> BTreeMap<Option<i64>, i64> {
    let mut counts = BTreeMap::new();
    for batch in batches {
        let columns = [0, 1].map(|c| batch.column(c).as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let id = columns[0].is_valid(row).then(|| columns[0].value(row));
            *counts.entry(id).or_default() += columns[1].value(row);
        }
    }
    counts
}

fn is_semi_or_anti(join_type: JoinType) -> bool {
    use JoinType::{LeftAnti, LeftSemi, RightAnti, RightSemi};
    matches!(join_type, LeftAnti | LeftSemi | RightAnti | RightSemi)
}

/// Pairs, semi, anti and padded rows, totals and counts per row: units that overtake each other
/// change no answer.
#[tokio::test]
async fn batches_complete_in_any_order() {
    let mut rng = StdRng::seed_from_u64(3);
    let (mut matches, mut overtaking, mut self_overtaking) = (0, 0, 0);
    let strategies = strategies_on_cpu();
    for round in 0..96 {
        let mut case = Case::random(&mut rng, round);
        (case.join_type, case.keyed) = (JOIN_TYPES[round % 8], false);
        let (left, right) = (random_rows(&mut rng, 45), random_rows(&mut rng, 40));
        let options = SimJoinOptions {
            strategy: strategies[round / 8 % strategies.len()],
            match_buffer: PositiveCount::new([1, 3, 1000][round % 3]).unwrap(),
            ..SimJoinOptions::default()
        };
        for build in [Some(Side::Left), Some(Side::Right), None] {
            let rows: [&[Row]; 2] = match build {
                Some(Side::Left) => [&left, &right],
                Some(Side::Right) => [&right, &left],
                None => [&left, &left],
            };
            let [l, r] = if build == Some(Side::Right) { [rows[1], rows[0]] } else { rows };
            let expected = case.expected(l, r);
            matches += expected.len();
            let probe = |join: SimilarityJoin| Probe {
                join,
                build,
                rows,
                options: options.clone(),
                batch_size: [1, 7, 8192][round % 3],
                asks_ahead: true,
                room: usize::MAX,
            };
            let context = format!("round {round} {case:?} build {build:?} {options:?}");
            for need in [Need::Rows, Need::Counts(None)] {
                let (batches, seen) = probe(case.join(need)).run().await;
                check(&batches.unwrap(), need, &case, &expected, &context);
                assert!(seen.most_open > 1, "{seen:?} {context}");
                assert!(build.is_none() || seen.most_open == 4, "{seen:?} {context}");
                match build {
                    Some(_) => overtaking += seen.overtaking,
                    None => self_overtaking += seen.overtaking,
                }
            }
            if !is_semi_or_anti(case.join_type) {
                let side = build.map_or(Side::Left, Side::other);
                let (batches, _) = probe(counting(&case, side)).run().await;
                let mut wanted = BTreeMap::new();
                for (left, right) in &expected {
                    let id = if side == Side::Left { left } else { right };
                    *wanted.entry(*id).or_default() += 1;
                }
                assert_eq!(counts(&batches.unwrap()), wanted, "{context}");
            }
        }
    }
    assert!(matches > 1000, "{matches}");
    assert!(overtaking > 200 && self_overtaking > 50, "{overtaking} {self_overtaking}");
}

/// A join that has memory for one batch at a time needs no more because its cursor asks for
/// further ones: what it cannot open waits until the open batches are complete.
#[tokio::test]
async fn short_memory_closes_batches_instead_of_failing() {
    let mut rng = StdRng::seed_from_u64(4);
    let (left, right) = (random_rows(&mut rng, 60), random_rows(&mut rng, 60));
    let mut case = Case::random(&mut rng, 0);
    (case.join_type, case.keyed, case.filtered) = (JoinType::Left, false, false);
    (case.threshold, case.residual) = (0.2, None);
    let expected = case.expected(&left, &right);
    let mut most_open = BTreeSet::new();
    for room in (0..80_000).step_by(500) {
        let probe = |asks_ahead| Probe {
            join: case.join(Need::Rows),
            build: Some(Side::Right),
            rows: [&right, &left],
            options: SimJoinOptions::default(),
            batch_size: 8192,
            asks_ahead,
            room,
        };
        let (one_at_a_time, seen) = probe(false).run().await;
        assert!(seen.most_open <= 1);
        let (ahead, seen) = probe(true).run().await;
        match (one_at_a_time, ahead) {
            (Ok(_), Ok(batches)) => {
                check(&batches, Need::Rows, &case, &expected, &format!("{room} bytes"));
                most_open.insert(seen.most_open);
            }
            (one_at_a_time, ahead) => {
                assert!(one_at_a_time.is_err() && room < 40_000, "{room} bytes: {ahead:?}");
            }
        }
    }
    assert!(most_open.contains(&1) && most_open.contains(&4), "{most_open:?}");
}

/// While the device holds the candidates of one probe batch, those of the next one follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_inputs_are_on_the_device_together() {
    use crate::emulator::Emulator;
    use simjoin_gpu::runtime::Device;
    let Some(emulator) = Emulator::get() else { return };
    let lease = emulator.device();
    let mut rng = StdRng::seed_from_u64(5);
    let (left, right) = (random_rows(&mut rng, 60), random_rows(&mut rng, 60));
    for join_type in [JoinType::Inner, JoinType::Left, JoinType::LeftAnti, JoinType::Full] {
        let mut case = Case::random(&mut rng, 0);
        (case.join_type, case.keyed, case.filtered) = (join_type, false, false);
        (case.threshold, case.residual) = (0.2, None);
        let input = JoinInput::Two {
            left: source(&left, 60, 1),
            right: source(&right, 60, 1),
            build: Side::Right,
            partitions: 1,
        };
        let options = SimJoinOptions {
            strategy: StrategyName::new("ppjoin"),
            device: DeviceChoice::cuda(lease.ordinal()),
            ..SimJoinOptions::default()
        };
        let exec =
            SetSimilarityJoinExec::try_new(input, case.join(Need::Rows), &families(), options)
                .unwrap();
        let held = lease.hold();
        let joined = tokio::spawn(run(Arc::new(exec), 8192));
        // One batch fits into one chunk: a second chunk is of the next batch.
        tokio::task::block_in_place(|| lease.expect_at_least("in_flight", 2));
        drop(held);
        let batches = joined.await.unwrap().unwrap();
        let expected = case.expected(&left, &right);
        check(&batches, Need::Rows, &case, &expected, &format!("{join_type}"));
        lease.expect_nothing_left(Device::close, "after a join");
        lease.reset();
    }
}
