//! Runs a strategy over two collections and holds what it gives to a nested loop.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, ListArray};
use arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::{NullEquality, Result};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use parking_lot::Mutex;

use crate::config::{DeviceChoice, GpuOptions, StrategyChoice};
use crate::engine::{
    self, Argument, Choice, Collection, Cursor, DeviceRequest, EncodeInput, Family, Funnel,
    KeyConverter, KeyDictionary, Match, MatchBuffer, MatchNeed, MatchSpec, Pairing, Placement,
    ProbeUnit, Progress, RowPairCounts, choose,
};
use crate::functions::measure_of;
use crate::gpu::Device;
use crate::set::{Bounds, Measure, Role};
use crate::set::{BuildEncoder, ProbeScratch, SetCollection, SetId};
use crate::set::{DeviceJoin, SetFamily, Statistics};
use crate::set::{JoinSpec, JoinStrategy, PrepareContext};
use crate::simd::Simd;
use crate::spec::{Call, Predicate, Side};
use crate::util::cancel::CancelFlag;

/// Rows of a side: the blocking key and the tokens, which may repeat.
pub(crate) type Rows = Vec<(i64, Vec<u32>)>;

/// How a cursor is driven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drive {
    pub match_buffer: usize,
    /// Probe sets of a unit.
    pub range: u32,
    /// Units fed to the cursor before it is polled, at least 1. Every other one is empty where
    /// `empty` says so.
    pub ahead: usize,
    pub empty: bool,
    /// Whether the next units are fed once those before are complete.
    pub drains: bool,
    /// Whether each probe set is retired when a match of it has been seen.
    pub retire: bool,
    pub device: Option<OnDevice>,
}

/// Where candidates are verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnDevice {
    pub ordinal: u32,
    /// Another device that takes part.
    pub second: Option<u32>,
    /// Whether the query insists on the device.
    pub demanded: bool,
    /// What goes wrong once the build side is there; the CPU has to step in.
    pub fault: Option<Fault>,
}

impl OnDevice {
    fn open(&self) -> Vec<Arc<Device>> {
        let ordinals = [Some(self.ordinal), self.second].into_iter().flatten();
        ordinals.map(|ordinal| Device::open(ordinal).unwrap()).collect()
    }

    fn choice(&self) -> DeviceChoice {
        match self.demanded {
            true => DeviceChoice::Cuda(self.second.map_or(Some(self.ordinal), |_| None)),
            false => DeviceChoice::Auto,
        }
    }
}

/// A failure of the emulated device, the first where there are two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// The call of the driver that fails; `None`: a kernel, after its launch.
    pub call: Option<&'static str>,
    /// Which of the calls to come, from 1 on.
    pub nth: u32,
    /// A `CUresult`.
    pub error: i32,
}

/// Wakes the thread of a test.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The matches and counts of a cursor.
struct Run {
    found: Vec<Match>,
    counts: RowPairCounts,
    funnel: Funnel,
}

/// Two encoded sides, and what they have in common by their original tokens.
pub(crate) struct Sides {
    name: String,
    pub build: Arc<SetCollection>,
    pub probe: Arc<SetCollection>,
    /// The probe sets under other addresses: units of two inputs come from different collections.
    probes: Vec<Arc<SetCollection>>,
    pub pairing: Pairing,
    /// Sizes by set, counted on the original rows.
    sizes: [Vec<u64>; 2],
    /// By probe set, then build set; `None` where the keys differ.
    overlaps: Vec<Option<u64>>,
}

impl Sides {
    /// Probe rows against build rows.
    pub(crate) fn two(name: &str, build: &Rows, probe: &Rows) -> Self {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let converter =
            KeyConverter::try_new(vec![DataType::Int64], NullEquality::NullEqualsNothing).unwrap();
        let (mut encoder, mut keys) = (BuildEncoder::default(), KeyDictionary::default());
        // More than one batch, as the operator would give them.
        for rows in build.chunks(50) {
            let (lists, key) = columns(rows);
            let key = converter.convert(&[key]).unwrap();
            let input = EncodeInput { values: &lists, keys: Some(&key), filter: None };
            encoder.push(&input, &mut keys, &reservation, 0).unwrap();
        }
        let (build_sets, encoder) = encoder.finish(&reservation, 0, &|| {}, &cancel).unwrap();
        let (lists, key) = columns(probe);
        let key = converter.convert(&[key]).unwrap();
        let input = EncodeInput { values: &lists, keys: Some(&key), filter: None };
        let mut scratch = ProbeScratch::default();
        let mut encode =
            || Arc::new(encoder.encode(&input, &keys, &mut scratch, &reservation, 0).unwrap());
        let probes = [encode(), encode(), encode()];
        let probe = (Arc::clone(&probes[0]), probe);
        let sides = Self::compare(name, Pairing::All, (Arc::new(build_sets), build), probe);
        Self { probes: probes.into(), ..sides }
    }

    /// Rows against themselves, each unordered pair once.
    pub(crate) fn itself(name: &str, rows: &Rows) -> Self {
        let build = Self::two(name, rows, &vec![]).build;
        Self::compare(name, Pairing::Unordered, (Arc::clone(&build), rows), (build, rows))
    }

    fn compare(
        name: &str,
        pairing: Pairing,
        (build, build_rows): (Arc<SetCollection>, &Rows),
        (probe, probe_rows): (Arc<SetCollection>, &Rows),
    ) -> Self {
        let build_sets = original_sets(&build, build_rows);
        let probe_sets = original_sets(&probe, probe_rows);
        let mut overlaps = vec![];
        for (probe_key, probe) in &probe_sets {
            overlaps.extend(
                build_sets.iter().map(|(build_key, build)| {
                    (probe_key == build_key).then(|| common(probe, build))
                }),
            );
        }
        let sizes = [build_sets, probe_sets]
            .map(|sets| sets.iter().map(|(_, tokens)| tokens.len() as u64).collect());
        let probes = vec![Arc::clone(&probe)];
        Self { name: name.into(), build, probe, probes, pairing, sizes, overlaps }
    }

    /// The overlap and the sizes (probe, build) of a pair of equal keys.
    fn pair(&self, probe: SetId, build: SetId) -> Option<(u64, u64, u64)> {
        let [build_sizes, probe_sizes] = &self.sizes;
        let place = probe as usize * build_sizes.len() + build as usize;
        self.overlaps[place].map(|o| (o, probe_sizes[probe as usize], build_sizes[build as usize]))
    }

    fn value(&self, spec: &JoinSpec, (o, probe, build): (u64, u64, u64)) -> f64 {
        spec.bounds.measure.value_in_role(o, spec.probe_role, probe, build)
    }

    /// The pairs that the join looks at.
    fn pairs(&self) -> impl Iterator<Item = (SetId, SetId)> + '_ {
        let (probe, build) = (self.probe.len(), self.build.len());
        let end = move |p| if self.pairing == Pairing::Unordered { p + 1 } else { build };
        (0..probe).flat_map(move |p| (0..end(p)).map(move |b| (p, b)))
    }

    /// Every value above 0 that some pair has, ascending.
    pub(crate) fn values(&self, spec: &JoinSpec) -> Vec<f64> {
        let pairs = self.pairs().filter_map(|(p, b)| self.pair(p, b));
        let mut values: Vec<f64> =
            pairs.map(|pair| self.value(spec, pair)).filter(|v| *v > 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// The matches with their exact overlap, ordered.
    pub(crate) fn expected(&self, spec: &JoinSpec) -> Vec<Match> {
        let matches = self.pairs().filter_map(|(probe, build)| {
            let pair = self.pair(probe, build)?;
            let value = self.value(spec, pair);
            let holds = value > 0.0 && value >= spec.bounds.threshold;
            holds.then_some(Match { probe, build, detail: pair.0 as u32 })
        });
        matches.collect()
    }

    /// Holds a strategy's matches to those expected.
    pub(crate) fn check(
        &self,
        strategy: &dyn JoinStrategy,
        spec: JoinSpec,
        drive: Drive,
        expected: &[Match],
    ) {
        let what = || format!("{strategy:?} {self:?} {spec:?} {drive:?}");
        let Run { mut found, counts, funnel } = self.run(strategy, spec, drive, &what);
        if let Some(OnDevice { demanded: true, .. }) = drive.device {
            let decided = funnel.device.candidates;
            // A set and itself are no candidates.
            let itself = |m: &Match| self.pairing == Pairing::Unordered && m.probe == m.build;
            assert!(decided > 0 || expected.iter().all(itself), "not on the device: {}", what());
        }
        match spec.need {
            MatchNeed::Count => {
                self.check_counts(&found, counts, expected, &what);
                assert_eq!(funnel.matches, expected.len() as u64, "counted wrongly: {}", what());
                return;
            }
            _ => assert_eq!(funnel.matches, found.len() as u64, "counted wrongly: {}", what()),
        }
        assert_eq!(counts, RowPairCounts::default(), "only counted: {}", what());
        if spec.pairing == Pairing::Unordered {
            // Either set of a pair may be the one that was probed.
            for m in &mut found {
                (m.probe, m.build) = (m.probe.max(m.build), m.probe.min(m.build));
            }
        }
        let distinct: BTreeSet<SetId> = found.iter().map(|m| m.probe).collect();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        let pair = |m: &Match| (m.probe, m.build);
        match spec.need {
            MatchNeed::Scores => assert_eq!(sorted, expected, "{}", what()),
            MatchNeed::Count | MatchNeed::Pairs | MatchNeed::Exists => {
                for m in &sorted {
                    let place = expected.binary_search_by_key(&pair(m), pair);
                    let Ok(place) = place else {
                        panic!("{m:?} is no match: {}", what());
                    };
                    let wanted = expected[place];
                    let (_, p, b) = self.pair(m.probe, m.build).unwrap();
                    let value = self.value(&spec, (m.detail.into(), p, b));
                    assert!(
                        m.detail <= wanted.detail && value >= spec.bounds.threshold,
                        "{m:?} has a wrong overlap, exact is {wanted:?}: {}",
                        what()
                    );
                }
                let found: Vec<_> = sorted.iter().map(pair).collect();
                let unique: BTreeSet<_> = found.iter().copied().collect();
                assert_eq!(unique.len(), found.len(), "a pair came twice: {}", what());
                if spec.need == MatchNeed::Pairs {
                    let expected: Vec<_> = expected.iter().map(pair).collect();
                    assert_eq!(found, expected, "{}", what());
                } else {
                    let expected: BTreeSet<_> = expected.iter().map(|m| m.probe).collect();
                    assert_eq!(distinct, expected, "{}", what());
                }
            }
        }
    }

    /// Holds the pairs of rows behind given and counted matches to those of the expected ones.
    fn check_counts(
        &self,
        found: &[Match],
        mut counts: RowPairCounts,
        expected: &[Match],
        what: &dyn Fn() -> String,
    ) {
        let add = |counts: &mut RowPairCounts, m: &Match| {
            let rows = u64::from(self.probe.row_count_of(m.probe));
            if self.pairing == Pairing::Unordered && m.probe == m.build {
                counts.squares += rows * rows;
                counts.rows += rows;
            } else {
                counts.cross += rows * u64::from(self.build.row_count_of(m.build));
            }
        };
        let mut wanted = RowPairCounts::default();
        expected.iter().for_each(|m| add(&mut wanted, m));
        found.iter().for_each(|m| add(&mut counts, m));
        assert_eq!(counts, wanted, "{}", what());
    }

    fn run(
        &self,
        strategy: &dyn JoinStrategy,
        spec: JoinSpec,
        drive: Drive,
        what: &dyn Fn() -> String,
    ) -> Run {
        let mut cursor = self.open(strategy, spec, drive.device, what);
        let mut run =
            Run { found: vec![], counts: RowPairCounts::default(), funnel: Funnel::default() };
        self.drive(cursor.as_mut(), drive, &mut run, what);
        run.funnel = cursor.funnel();
        run
    }

    /// A cursor over the build side.
    pub(crate) fn open(
        &self,
        strategy: &dyn JoinStrategy,
        spec: JoinSpec,
        device: Option<OnDevice>,
        what: &dyn Fn() -> String,
    ) -> Box<dyn Cursor> {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let statistics = self.statistics(&spec);
        for placement in [Placement::Cpu, Placement::Gpu] {
            if strategy.runs_on(placement) {
                let cost = strategy.estimate(&statistics, &spec, placement);
                assert!(cost.elapsed(1) >= 0.0, "no estimate: {}", what());
            }
        }
        let build = Arc::clone(&self.build);
        let device = device.map(|device| self.on_device(device, &spec));
        let context = PrepareContext {
            reservation: &reservation,
            cancel: &cancel,
            threads: 2,
            device: device.as_ref(),
        };
        let prepared = strategy.prepare(build, spec, &statistics, context).unwrap();
        prepared.open(&reservation).unwrap()
    }

    /// The figures of a join, with a sample.
    pub(crate) fn statistics(&self, spec: &JoinSpec) -> Statistics {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let context =
            PrepareContext { reservation: &reservation, cancel: &cancel, threads: 2, device: None };
        let mut statistics = Statistics::gather(&self.build, spec, context).unwrap();
        statistics.sample(&self.build, spec, 1e9, context).unwrap();
        statistics
    }

    /// What would be chosen for the sides.
    pub(crate) fn choose(
        &self,
        strategy: StrategyChoice,
        device: DeviceChoice,
        spec: &JoinSpec,
    ) -> Result<Choice> {
        let (reservation, cancel) = (reservation(), CancelFlag::default());
        let context =
            engine::PrepareContext { reservation: &reservation, cancel: &cancel, threads: 2 };
        let self_join = Arc::ptr_eq(&self.build, &self.probe);
        let request = DeviceRequest { choice: device, self_join, on_failure: Arc::new(|_| {}) };
        let types = DataType::new_list(DataType::UInt32, true);
        let arguments = [Argument::of_type(&types); 2];
        let matcher = SetFamily::new(measure_of).bind(predicate_of(spec), arguments)?;
        let build: Arc<dyn Collection> = Arc::<SetCollection>::clone(&self.build);
        choose(matcher.as_ref(), strategy, &build, &match_spec_of(spec), &request, context)
    }

    /// The matches of one run whose cursor gets the memory that it needs without a device, and
    /// `beside` bytes more; and the message about the device.
    pub(crate) fn run_within(
        &self,
        strategy: &dyn JoinStrategy,
        spec: JoinSpec,
        device: OnDevice,
        beside: usize,
    ) -> (Result<Vec<Match>>, Vec<String>) {
        let (unlimited, cancel) = (reservation(), CancelFlag::default());
        let context =
            PrepareContext { reservation: &unlimited, cancel: &cancel, threads: 2, device: None };
        let statistics = Statistics::gather(&self.build, &spec, context).unwrap();
        let told = Arc::new(Mutex::new(vec![]));
        let request = DeviceRequest {
            choice: device.choice(),
            self_join: false,
            on_failure: {
                let told = Arc::clone(&told);
                Arc::new(move |what| told.lock().push(what))
            },
        };
        let join = DeviceJoin::try_new(device.open(), &self.build, &spec, &request).unwrap();
        let prepare =
            |context| strategy.prepare(Arc::clone(&self.build), spec, &statistics, context);
        let enough = reservation();
        let on_cpu = prepare(context).unwrap().open(&enough).unwrap();
        let limit = enough.size() + beside;
        drop(on_cpu);
        let prepared = prepare(PrepareContext { device: Some(&join), ..context }).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
        let limited = MemoryConsumer::new("limited").register(&pool);
        let mut matches = MatchBuffer::new(1 << 20);
        let found = prepared.open(&limited).and_then(|mut cursor| {
            let (sets, range) = (Arc::clone(&self.probe), 0..self.probe.len());
            cursor.feed(ProbeUnit { number: 0, items: sets, range })?;
            cursor.finish();
            let mut cx = Context::from_waker(Waker::noop());
            loop {
                match cursor.poll(&mut cx, &mut matches) {
                    Poll::Ready(Ok(Progress::Ended)) => return Ok(matches.matches().to_vec()),
                    Poll::Ready(Err(error)) => return Err(error),
                    _ => {}
                }
            }
        });
        let told = told.lock().clone();
        (found, told)
    }

    /// The join on devices, on the first of which the fault is to come.
    pub(crate) fn on_device(&self, device: OnDevice, spec: &JoinSpec) -> Arc<DeviceJoin> {
        let OnDevice { ordinal, fault, .. } = device;
        let request = DeviceRequest {
            choice: device.choice(),
            self_join: Arc::ptr_eq(&self.build, &self.probe),
            on_failure: Arc::new(move |what| assert!(fault.is_some(), "{what}")),
        };
        let join = DeviceJoin::try_new(device.open(), &self.build, spec, &request).unwrap();
        #[cfg(feature = "cuda")]
        if let (Some(fault), Some(emulator)) = (fault, crate::emulator::Emulator::get()) {
            match fault.call {
                Some(call) => emulator.fault(ordinal, call, fault.nth, fault.error),
                None => emulator.fault_async(ordinal, fault.nth, fault.error),
            }
        }
        join
    }

    /// The units that a cursor is fed, with numbers that say nothing of their order.
    pub(crate) fn units(&self, drive: Drive) -> Vec<ProbeUnit> {
        let mut ranges: Vec<Range<SetId>> = vec![];
        let mut start = 0;
        while start < self.probe.len() {
            let end = self.probe.len().min(start.saturating_add(drive.range));
            ranges.push(start..end);
            if drive.empty {
                ranges.push(end..end);
            }
            start = end;
        }
        let unit = |(place, range): (usize, Range<SetId>)| ProbeUnit {
            number: (place as u32).wrapping_mul(0x9e37_79b1),
            items: Arc::clone(&self.probes[place % self.probes.len()]) as _,
            range,
        };
        ranges.into_iter().enumerate().map(unit).collect()
    }

    /// Feeds a cursor all units and polls it to its end. Every match belongs to an open unit, and
    /// every unit becomes complete once.
    fn drive(
        &self,
        cursor: &mut dyn Cursor,
        drive: Drive,
        run: &mut Run,
        what: &dyn Fn() -> String,
    ) {
        let Run { found, counts, .. } = run;
        let mut units = self.units(drive).into_iter();
        let mut open: BTreeMap<u32, Range<SetId>> = BTreeMap::new();
        let mut matches = MatchBuffer::new(drive.match_buffer);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let (mut wants_input, mut finished) = (true, false);
        for _ in 0..10_000_000 {
            if wants_input && !finished && (open.is_empty() || !drive.drains) {
                wants_input = false;
                for unit in units.by_ref().take(drive.ahead.max(1)) {
                    open.insert(unit.number, unit.range.clone());
                    cursor.feed(unit).unwrap();
                }
                finished = units.len() == 0;
                if finished {
                    cursor.finish();
                }
            }
            let progress = match cursor.poll(&mut cx, &mut matches) {
                Poll::Ready(progress) => progress.unwrap(),
                Poll::Pending => {
                    // Only a wake ends the wait early; a lost one shows as slowness, and in the end
                    // as a failure.
                    let start = Instant::now();
                    std::thread::park_timeout(Duration::from_secs(60));
                    assert!(start.elapsed() < Duration::from_secs(59), "not woken: {}", what());
                    continue;
                }
            };
            assert!(progress != Progress::Full || matches.is_full(), "not full: {}", what());
            for (unit, run) in matches.runs() {
                let range = open.get(&unit).unwrap_or_else(|| panic!("{unit} open: {}", what()));
                assert!(run.iter().all(|m| range.contains(&m.probe)), "beyond range: {}", what());
                if drive.retire
                    && let Some(last) = run.last()
                {
                    cursor.retire(unit, last.probe);
                }
            }
            found.extend_from_slice(matches.matches());
            let more = matches.counts();
            counts.cross += more.cross;
            counts.squares += more.squares;
            counts.rows += more.rows;
            for unit in matches.completed() {
                assert!(open.remove(unit).is_some(), "{unit} completed twice: {}", what());
            }
            matches.clear();
            match progress {
                Progress::NeedsInput if wants_input => {
                    assert!(open.is_empty(), "asks twice with {open:?}: {}", what());
                }
                Progress::NeedsInput => {
                    assert!(!finished, "asks for input after the end: {}", what());
                    wants_input = true;
                }
                Progress::Ended => {
                    assert!(finished && open.is_empty(), "ended with {open:?}: {}", what());
                    return;
                }
                Progress::Full | Progress::Yield => {}
            }
        }
        panic!("no end: {}", what());
    }
}

impl std::fmt::Debug for Sides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [build, probe] = &self.sizes;
        let shape = format!("{} probe sets, {} build sets", probe.len(), build.len());
        write!(f, "{} ({shape}, {} tokens, {:?})", self.name, self.build.universe(), self.pairing)
    }
}

/// The spec of a test; the roles and needs vary around it.
pub(crate) fn spec(measure: Measure, threshold: f64, pairing: Pairing) -> JoinSpec {
    JoinSpec {
        bounds: Bounds::new(measure, threshold),
        probe_role: Role::First,
        pairing,
        need: MatchNeed::Scores,
        candidate_chunk: 1 << 16,
        simd: Simd::detect(),
        gpu: GpuOptions::default(),
    }
}

/// The predicate of a join whose left argument is the measure's first one.
fn predicate_of(spec: &JoinSpec) -> Predicate {
    let call = Call { function: spec.bounds.measure.function(), first: Side::Left };
    Predicate { call, bound: spec.bounds.threshold }
}

/// The same join as the operator asks for it.
fn match_spec_of(spec: &JoinSpec) -> MatchSpec {
    let JoinSpec { bounds: _, probe_role, pairing, need, candidate_chunk, simd, gpu } = *spec;
    let probe = match probe_role {
        Role::First => Side::Left,
        Role::Second => Side::Right,
    };
    let both_orders = pairing == Pairing::Unordered;
    MatchSpec { probe, pairing, both_orders, need, candidate_chunk, match_buffer: 1000, simd, gpu }
}

pub(crate) fn reservation() -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    MemoryConsumer::new("test").register(&pool)
}

fn columns(rows: &[(i64, Vec<u32>)]) -> (ArrayRef, ArrayRef) {
    let lists = rows.iter().map(|(_, tokens)| Some(tokens.iter().map(|&t| Some(t))));
    let lists = ListArray::from_iter_primitive::<UInt32Type, _, _>(lists);
    let keys = Int64Array::from_iter_values(rows.iter().map(|(key, _)| *key));
    (Arc::new(lists), Arc::new(keys))
}

/// Key and sorted tokens of each set, by the rows that hold it.
fn original_sets(sets: &SetCollection, rows: &Rows) -> Vec<(i64, Vec<u32>)> {
    let original = (0..sets.len()).map(|set| {
        let (key, tokens) = &rows[sets.groups().rows(set)[0] as usize];
        let mut tokens = tokens.clone();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), sets.size(set) as usize);
        (*key, tokens)
    });
    original.collect()
}

fn common(a: &[u32], b: &[u32]) -> u64 {
    let (mut i, mut j, mut o) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        o += u64::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    o
}
