//! Runs the nested loop on devices over two collections and holds what it gives to all pairs.

mod draw;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use simjoin_core::engine::{
    Collection, Cursor, DeviceRequest, Funnel, ItemId, Match, MatchBuffer, MatchNeed, MatchRun,
    MatchSpec, Orders, Pairing, PrepareContext, PreparedJoin, ProbeUnit, Progress, RowPairCounts,
};
use simjoin_core::engine::{DeviceChoice, GpuOptions};
use simjoin_core::error::Result;
use simjoin_core::memory::{Budget, Reservation};
use simjoin_core::predicate::Side;
use simjoin_core::simd::Simd;
use simjoin_core::tuning::Tuning;
use simjoin_core::util::cancel::CancelFlag;
use simjoin_core::util::parallel::Threads;
use simjoin_core::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use simjoin_core::vector::gather::VectorGathering;
use simjoin_core::vector::metric::{ArgumentOrder, Joining, Metric, Threshold};
use simjoin_core::vector::nested_loop;
use simjoin_core::vector::order::OrderRequest;
use simjoin_gpu::offload::OpenDevices;
use simjoin_gpu::runtime::Device;
use simjoin_gpu::vector::{self as device, VectorDevices, VectorKernel};

pub(crate) use self::draw::{KINDS, Kind, bound, drive, need, rounds, rows, sides, vector};
use crate::emulator::Emulator;

/// A row: its key and vector; `None` for a list with a NULL, of the length given behind.
pub(crate) type Row = (u32, Option<Vec<f64>>, u32);

/// A collection of rows.
pub(crate) fn collection(rows: &[Row]) -> Arc<Vectors> {
    Arc::new(Vectors::of(vec![read(rows)], &CancelFlag::default()).unwrap())
}

/// The vectors with boxes, where some pairs are out of reach.
fn ordered(rows: &[Row], threshold: Threshold) -> Arc<Vectors> {
    let order = Some(OrderRequest { threshold, most_share: 1.0 });
    let cancel = CancelFlag::default();
    let how =
        VectorGathering { order, threads: Threads::small(2), cancel: &cancel, reserve: &|_| true };
    Arc::new(Vectors::gather(vec![read(rows)], how).unwrap())
}

fn read(rows: &[Row]) -> ReadRows {
    let mut read = ReadRows::default();
    for (row, (key, vector, len)) in (0..).zip(rows) {
        let start = read.numbers.len();
        let content = match vector {
            Some(numbers) => {
                read.numbers.extend_from_slice(numbers);
                Content::Vector
            }
            None => Content::WithNull,
        };
        let len = vector.as_ref().map_or(*len, |numbers| numbers.len() as u32);
        read.rows.push(ReadRow { row, key: *key, content, len, start });
    }
    read.narrowed()
}

pub(crate) fn reservation() -> Reservation {
    let pool = Budget::unlimited();
    pool.reservation()
}

/// The words that are told of devices.
type Told = Arc<Mutex<Vec<String>>>;

/// Prepares a join on devices.
pub(crate) type PrepareOn = fn(
    &Arc<Vectors>,
    Joining,
    &Arc<VectorDevices>,
    PrepareContext<'_>,
) -> Result<Arc<dyn PreparedJoin>>;

/// How a cursor is driven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drive {
    pub match_buffer: usize,
    /// Probe items of a unit.
    pub range: u32,
    /// Units fed before the cursor is polled.
    pub ahead: usize,
    /// Hits of a work; `None`: as for any join.
    pub capacity: Option<u32>,
    /// The kernel; `None`: that of the device.
    pub kernel: Option<VectorKernel>,
    /// Whether the build side travels with the works, a stage at a time.
    pub travels: bool,
    /// Bytes of the device that the join may fill.
    pub limit: Option<u64>,
    pub ordinal: u32,
    pub second: Option<u32>,
    pub demanded: bool,
    /// The join.
    pub prepare: PrepareOn,
    /// The fault that comes once the build side is there: a call of the driver (`None`: a kernel), which
    /// of those to come, and a `CUresult`.
    pub fault: Option<(Option<&'static str>, u32, i32)>,
}

impl Drive {
    pub(crate) fn on(ordinal: u32) -> Self {
        Self {
            match_buffer: 1000,
            range: u32::MAX,
            ahead: 1,
            capacity: None,
            kernel: Emulator::get().map(|_| VectorKernel::Plain),
            travels: false,
            limit: None,
            ordinal,
            second: None,
            demanded: true,
            prepare: |build, joining, devices, context| {
                device::prepare(build, joining, devices, None, context)
            },
            fault: None,
        }
    }
}

/// Two collections.
pub(crate) struct Sides {
    pub build: Arc<Vectors>,
    pub probe: Arc<Vectors>,
    pub pairing: Pairing,
}

/// The matches that a cursor has given.
#[derive(Default)]
pub(crate) struct Given {
    pub found: Vec<Match>,
    pub counts: RowPairCounts,
    pub funnel: Funnel,
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Sides {
    pub fn two(build: &[Row], probe: &[Row]) -> Self {
        Self { build: collection(build), probe: collection(probe), pairing: Pairing::All }
    }

    pub fn itself(rows: &[Row], pairing: Pairing) -> Self {
        let build = collection(rows);
        Self { probe: Arc::clone(&build), build, pairing }
    }

    /// The sides of these rows with boxes.
    pub fn ordered(rows: &[Row], pairing: Pairing, threshold: Threshold) -> Self {
        let build = ordered(rows, threshold);
        Self { probe: Arc::clone(&build), build, pairing }
    }

    fn is_self_join(&self) -> bool {
        Arc::ptr_eq(&self.build, &self.probe)
    }

    /// The pairs of one key that are looked at.
    pub fn pairs(&self) -> Vec<(ItemId, ItemId)> {
        let mut pairs = vec![];
        for run in self.probe.runs() {
            let Some(partners) = self.build.run(run.key) else { continue };
            for probe in run.items.clone() {
                for build in partners.items.clone() {
                    let is_vector = self.probe.is_vector(probe) && self.build.is_vector(build);
                    let looked_at = self.pairing == Pairing::All || build <= probe;
                    if is_vector && looked_at {
                        pairs.push((probe, build));
                    }
                }
            }
        }
        pairs
    }

    /// The values of all pairs that have one.
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        let value = |(probe, build)| {
            metric.value(self.probe.vector(probe), self.build.vector(build)).unwrap()
        };
        self.pairs().into_iter().filter_map(value).collect()
    }

    /// The question that a join asks of pairs.
    pub fn joining(&self, threshold: Threshold, spec: MatchSpec) -> Joining {
        Joining { threshold, orders: ArgumentOrder::of(&spec, Side::Right), spec }
    }

    /// The matches.
    pub fn expected(&self, threshold: Threshold) -> Vec<(ItemId, ItemId)> {
        let matches = |&(probe, build): &(ItemId, ItemId)| {
            let (x, y) = (self.probe.vector(probe), self.build.vector(build));
            // Where each pair is met once it stands for both orders, which differ where signs of NaN do.
            let exchanged = self.pairing == Pairing::Unordered;
            threshold.matches(x, y).unwrap() || exchanged && threshold.matches(y, x).unwrap()
        };
        self.pairs().into_iter().filter(matches).collect()
    }

    pub fn spec(&self, need: MatchNeed, gpu: GpuOptions) -> MatchSpec {
        MatchSpec {
            probe: Side::Right,
            orders: Orders::of(self.pairing),
            need,
            candidate_chunk: 1 << 14,
            match_buffer: 1000,
            gpu: GpuOptions { integers: true, ..gpu },
            tuning: Tuning::small(),
            ..MatchSpec::default()
        }
    }

    /// The devices of a join, and what is told of them.
    pub fn open(
        &self,
        threshold: Threshold,
        spec: &MatchSpec,
        drive: Drive,
    ) -> Result<(Arc<VectorDevices>, Told)> {
        let told: Told = Arc::default();
        let request = DeviceRequest {
            choice: match drive.demanded {
                true if drive.second.is_some() => DeviceChoice::Cuda(None),
                true => DeviceChoice::cuda(drive.ordinal),
                false => DeviceChoice::Auto,
            },
            self_join: self.is_self_join(),
            work: f64::INFINITY,
            on_failure: {
                let told = Arc::clone(&told);
                Arc::new(move |what| told.lock().push(what))
            },
        };
        let ordinals = [Some(drive.ordinal), drive.second].into_iter().flatten();
        let devices: Vec<_> = ordinals.map(|ordinal| Device::open(ordinal).unwrap()).collect();
        let open = OpenDevices::from(devices);
        let join = VectorDevices::on(open, &self.build, (threshold, spec), drive.kernel, &request)?;
        Ok((join, told))
    }

    /// Everything that the join gives.
    pub fn run(
        &self,
        threshold: Threshold,
        need: MatchNeed,
        drive: Drive,
    ) -> Result<(Given, Vec<String>)> {
        let gpu = GpuOptions { memory_limit: drive.limit, ..GpuOptions::default() };
        let spec = self.spec(need, gpu);
        let (mut join, told) = self.open(threshold, &spec, drive)?;
        if let Some(join) = Arc::get_mut(&mut join) {
            let lens = [join.dimensions(); 2];
            let travels = drive.travels && self.build.runs().iter().all(|run| run.lens == lens);
            join.restrict(drive.capacity, travels);
        }
        if let (Some((call, nth, error)), Some(emulator)) = (drive.fault, Emulator::get()) {
            match call {
                Some(call) => emulator.fault(drive.ordinal, call, nth, error),
                None => emulator.fault_async(drive.ordinal, nth, error),
            }
        }
        let (memory, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&memory, &cancel, Threads::small(2));
        let joining = self.joining(threshold, spec);
        let prepared = match (drive.prepare)(&self.build, joining, &join, context) {
            Err(_) if !drive.demanded => {
                nested_loop::prepare(Arc::clone(&self.build), joining, context)?
            }
            prepared => prepared?,
        };
        let mut cursor = prepared.open(&memory)?;
        let mut given = Given::default();
        self.drive(cursor.as_mut(), drive, &mut given)?;
        given.funnel = cursor.funnel();
        let told = told.lock().clone();
        Ok((given, told))
    }

    /// Feeds a cursor all units and polls it to its end.
    pub fn drive(&self, cursor: &mut dyn Cursor, drive: Drive, given: &mut Given) -> Result<()> {
        let len = self.probe.len();
        let ranges: Vec<Range<u32>> = (0..len)
            .step_by(drive.range.clamp(1, len.max(1)) as usize)
            .map(|start| start..len.min(start.saturating_add(drive.range)))
            .collect();
        let mut units = (0..).zip(ranges).map(|(place, range): (u32, _)| ProbeUnit {
            number: place.wrapping_mul(0x9e37_79b1),
            items: Arc::clone(&self.probe) as _,
            range,
            bounds: None,
        });
        let mut open: BTreeMap<u32, Range<u32>> = BTreeMap::new();
        let mut matches = MatchBuffer::new(drive.match_buffer);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        let (mut wants_input, mut finished) = (true, false);
        loop {
            if wants_input && !finished {
                wants_input = false;
                for _ in 0..drive.ahead {
                    match units.next() {
                        Some(unit) => {
                            open.insert(unit.number, unit.range.clone());
                            cursor.feed(unit)?;
                        }
                        None if finished => {}
                        None => {
                            finished = true;
                            cursor.finish();
                        }
                    }
                }
            }
            let progress = match cursor.poll(&mut cx, &mut matches) {
                Poll::Ready(progress) => progress?,
                Poll::Pending => {
                    thread::park_timeout(Duration::from_secs(60));
                    continue;
                }
            };
            assert!(progress != Progress::Full || matches.is_full());
            for MatchRun { unit, matches: run, .. } in matches.runs() {
                let range = &open[&unit];
                assert!(run.iter().all(|m| range.contains(&m.probe)), "beyond the unit");
            }
            given.found.extend_from_slice(matches.matches());
            given.counts += matches.counts();
            for unit in matches.completed() {
                assert!(open.remove(unit).is_some(), "completed twice");
            }
            matches.clear();
            match progress {
                Progress::NeedsInput => wants_input = true,
                Progress::Ended => {
                    assert!(finished && open.is_empty(), "{open:?}");
                    return Ok(());
                }
                Progress::Full | Progress::Yield => {}
            }
        }
    }

    /// Holds what a join gives to the matches expected.
    pub fn check(&self, need: MatchNeed, given: &Given, expected: &[(ItemId, ItemId)], what: &str) {
        let mut found: Vec<_> = given.found.iter().map(|m| (m.probe, m.build)).collect();
        if self.pairing == Pairing::Unordered {
            found.iter_mut().for_each(|pair| *pair = (pair.0.max(pair.1), pair.0.min(pair.1)));
        }
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(
            given.funnel.matches,
            if need == MatchNeed::Exists { found.len() } else { expected.len() } as u64,
            "{what}"
        );
        match need {
            MatchNeed::Count => {
                let mut counts = given.counts;
                found.iter().for_each(|pair| self.add_rows(pair, &mut counts));
                let mut wanted = RowPairCounts::default();
                expected.iter().for_each(|pair| self.add_rows(pair, &mut wanted));
                assert_eq!(counts, wanted, "{what}");
            }
            MatchNeed::Exists => {
                let of = |pairs: &[(ItemId, ItemId)]| -> BTreeSet<ItemId> {
                    pairs.iter().map(|pair| pair.0).collect()
                };
                assert!(found.iter().all(|pair| expected.binary_search(pair).is_ok()), "{what}");
                assert_eq!(of(&found), of(&expected), "{what}");
                assert_eq!(of(&found).len(), found.len(), "{what}");
            }
            MatchNeed::Pairs | MatchNeed::Scores => assert_eq!(found, expected, "{what}"),
        }
    }

    fn add_rows(&self, &(probe, build): &(ItemId, ItemId), counts: &mut RowPairCounts) {
        let rows = u64::from(self.probe.groups().row_count_of(probe));
        if self.pairing == Pairing::Unordered && probe == build {
            counts.squares += rows * rows;
            counts.rows += rows;
        } else {
            counts.cross += rows * u64::from(self.build.groups().row_count_of(build));
        }
    }
}
