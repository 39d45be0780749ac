//! Tiles of texts against all pairs, with buffers so small that units are done again, and on devices that
//! fail. Without a GPU the kernels run on the host.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use simjoin_core::string::collection::{ReadRow, ReadRows, Strings};
use simjoin_core::string::function::StringFunction;
use simjoin_core::string::gather::TextGathering;
use simjoin_core::string::join::StringJoin;

use self::draw::{Kind, edited, rounds, seed, text};
use super::fallback::TextsOnCpu;
use super::{StringDevices, prepare};
use crate::emulator::{Emulator, gpu};
use crate::engine::DeviceChoice;
use crate::engine::{
    Collection, Cursor, DeviceRequest, ItemId, Match, MatchBuffer, MatchNeed, MatchSpec, Orders,
    Pairing, PrepareContext, ProbeUnit, Progress, RowPairCounts,
};
use crate::error::Result;
use crate::memory::{Budget, Reservation};
use crate::offload::{CpuJoin, OpenDevices, Wanted};
use crate::predicate::Side;
use crate::runtime::Device;
use crate::tuning::Tuning;
use crate::util::parallel::Threads;

#[path = "../../../../tests/draw/texts.rs"]
#[allow(dead_code, unreachable_pub)]
mod draw;
use crate::util::cancel::CancelFlag;
use simjoin_core::string::threshold::Threshold;
use simjoin_core::string::value::{PairEvaluator, Value};

/// The collection of rows of a key and a text, by the alphabet of a build side.
fn collection(rows: &[(u32, String)], build: Option<&Strings>) -> Arc<Strings> {
    let mut read = ReadRows::default();
    for (row, (key, text)) in (0..).zip(rows) {
        let (start, bytes) = (read.text.len(), text.len() as u32);
        let len = Some(text.chars().count() as u32);
        read.rows.push(ReadRow { row, key: *key, len, bytes, start });
        read.text.push_str(text);
    }
    let alphabet = build.map(|build| Arc::clone(&build.alphabet));
    let cancel = CancelFlag::default();
    Arc::new(
        Strings::gather(
            &[read],
            TextGathering {
                alphabet,
                by_prefix: false,
                threads: Threads::small(2),
                cancel: &cancel,
            },
        )
        .unwrap(),
    )
}

fn rows(rng: &mut StdRng, kind: Kind, count: usize) -> Vec<(u32, String)> {
    let keys = rng.random_range(1..4);
    let bases: Vec<String> = (0..1 + count / 6).map(|_| text(rng, kind)).collect();
    let row = |_| {
        let (base, edits) = (bases.choose(rng).unwrap(), rng.random_range(0..5));
        (rng.random_range(0..keys), edited(rng, kind, base, edits))
    };
    (0..count).map(row).collect()
}

/// Two sides, and the question that is asked of them.
struct Case {
    probe: Arc<Strings>,
    join: StringJoin,
}

/// The way in which a case is run.
#[derive(Debug, Clone, Copy)]
struct Drive {
    ordinal: u32,
    demanded: bool,
    /// Matches of a work; `None`: as for any join.
    capacity: Option<u32>,
    /// Probe items of a unit, and room of the match buffer.
    range: u32,
    match_buffer: usize,
    /// The work of the device that fails.
    fault: Option<u32>,
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn reservation() -> Reservation {
    let pool = Budget::unlimited();
    pool.reservation()
}

fn draw(rng: &mut StdRng, kind: Kind) -> Case {
    let function = *StringFunction::ALL.choose(rng).unwrap();
    let function = match (function, rng.random_range(0..2)) {
        // Its texts have one length.
        (StringFunction::Hamming, _) | (_, 0) => StringFunction::Levenshtein,
        (function, _) => function,
    };
    let bound = match function.is_distance() {
        true => f64::from(*[0, 1, 2, 3, 4, 6, 7, 9, 15, 16, 40].choose(rng).unwrap()),
        false => *[0.3, 0.5, 2.0 / 3.0, 0.8, 0.9, 1.0].choose(rng).unwrap(),
    };
    let count = rng.random_range(1..260);
    let of_build = rows(rng, kind, count);
    let build = collection(&of_build, None);
    let pairing = *[Pairing::All, Pairing::Unordered].choose(rng).unwrap();
    let probe = match rng.random_bool(0.5) || pairing == Pairing::Unordered {
        true => Arc::clone(&build),
        false => {
            let count = rng.random_range(1..90);
            let mut of_probe = rows(rng, kind, count);
            of_probe.extend(of_build.iter().take(count).cloned());
            collection(&of_probe, Some(&build))
        }
    };
    let needs = [MatchNeed::Exists, MatchNeed::Count, MatchNeed::Pairs, MatchNeed::Scores];
    let need = match *needs.choose(rng).unwrap() {
        MatchNeed::Exists if pairing == Pairing::Unordered => MatchNeed::Count,
        need => need,
    };
    let spec = MatchSpec {
        probe: Side::Right,
        orders: Orders::of(pairing),
        need,
        candidate_chunk: 1 << 14,
        match_buffer: 1000,
        tuning: Tuning::small(),
        ..MatchSpec::default()
    };
    Case { probe, join: StringJoin::new(build, Threshold { function, bound }, spec) }
}

impl Case {
    /// The matches, with the distances of functions that are distances.
    fn expected(&self) -> Vec<(ItemId, ItemId, u32)> {
        let Self { probe, join: StringJoin { build, threshold, spec, .. } } = self;
        let Threshold { function, bound } = *threshold;
        let mut values = PairEvaluator::new(function);
        let mut expected = vec![];
        for run in probe.runs() {
            for x in run.items.clone() {
                for y in build.items_of(run.key) {
                    if spec.pairing() == Pairing::Unordered && y > x {
                        continue;
                    }
                    match values.of(probe.text(x), build.text(y)).unwrap() {
                        Value::Distance(d) if f64::from(d) <= bound => expected.push((x, y, d)),
                        Value::Similarity(s) if s >= bound => expected.push((x, y, 0)),
                        _ => {}
                    }
                }
            }
        }
        expected
    }

    fn devices(&self, drive: Drive) -> Arc<StringDevices> {
        let StringJoin { build, threshold, spec, .. } = &self.join;
        let request = DeviceRequest {
            choice: match drive.demanded {
                true => DeviceChoice::cuda(drive.ordinal),
                false => DeviceChoice::Auto,
            },
            self_join: Arc::ptr_eq(build, &self.probe),
            work: f64::INFINITY,
            on_failure: Arc::new(|_| {}),
        };
        let open = OpenDevices::from(vec![Device::open(drive.ordinal).unwrap()]);
        let mut devices = StringDevices::on(open, build, (*threshold, spec), &request).unwrap();
        if let (Some(devices), Some(capacity)) = (Arc::get_mut(&mut devices), drive.capacity) {
            devices.settings.capacity = capacity;
        }
        devices
    }

    /// Everything that a cursor gives.
    fn feed(
        &self,
        cursor: &mut dyn Cursor,
        range: u32,
        match_buffer: usize,
    ) -> Result<(Vec<Match>, RowPairCounts)> {
        let len = self.probe.len();
        let mut starts = (0..len).step_by(range.max(1) as usize);
        let mut matches = MatchBuffer::new(match_buffer);
        let (mut found, mut counts) = (vec![], RowPairCounts::default());
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        let (mut fed, mut completed) = (0, 0);
        loop {
            let progress = match cursor.poll(&mut cx, &mut matches) {
                Poll::Ready(progress) => progress?,
                Poll::Pending => {
                    thread::park_timeout(Duration::from_secs(60));
                    continue;
                }
            };
            found.extend_from_slice(matches.matches());
            counts += matches.counts();
            completed += matches.completed().len();
            matches.clear();
            match progress {
                Progress::NeedsInput => match starts.next() {
                    Some(start) => {
                        let range = start..len.min(start.saturating_add(range));
                        let items = Arc::clone(&self.probe) as Arc<dyn Collection>;
                        cursor.feed(ProbeUnit::new(fed, items, range))?;
                        fed += 1;
                    }
                    None => cursor.finish(),
                },
                Progress::Ended => {
                    assert_eq!(completed, fed as usize);
                    return Ok((found, counts));
                }
                Progress::Full | Progress::Yield => {}
            }
        }
    }

    fn run(&self, drive: Drive) -> Result<(Vec<Match>, RowPairCounts)> {
        let devices = self.devices(drive);
        let (memory, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&memory, &cancel, Threads::small(2));
        let prepared = prepare(&self.join, &devices, context)?;
        if let (Some(nth), Some(emulator)) = (drive.fault, Emulator::get()) {
            emulator.fault_async(drive.ordinal, nth, 700);
        }
        let mut cursor = prepared.open(&memory)?;
        self.feed(cursor.as_mut(), drive.range, drive.match_buffer)
    }

    /// Holds what a cursor gives to the matches expected.
    fn check(&self, need: MatchNeed, given: (Vec<Match>, RowPairCounts), what: &str) {
        let Self { probe, join: StringJoin { build, threshold, spec, .. } } = self;
        let (given, mut counts) = given;
        let expected = self.expected();
        let what = format!("{what} {threshold:?} {need:?} {:?}", spec.pairing());
        let rows_of =
            |x, y| RowPairCounts::of(spec.pairing(), [probe.groups(), build.groups()], [x, y]);
        let mut found: Vec<_> = given.iter().map(|m| (m.probe, m.build, m.detail)).collect();
        found.sort_unstable();
        match need {
            MatchNeed::Count => {
                let mut wanted = RowPairCounts::default();
                expected.iter().for_each(|&(x, y, _)| wanted += rows_of(x, y));
                found.iter().for_each(|&(x, y, _)| counts += rows_of(x, y));
                assert_eq!(counts, wanted, "{what}");
            }
            MatchNeed::Exists => {
                let probes = |pairs: &[(ItemId, ItemId, u32)]| -> BTreeSet<ItemId> {
                    pairs.iter().map(|pair| pair.0).collect()
                };
                assert_eq!(probes(&found), probes(&expected), "{what}");
                assert_eq!(probes(&found).len(), found.len(), "{what}");
                let pairs: BTreeSet<_> = expected.iter().map(|&(x, y, _)| (x, y)).collect();
                assert!(found.iter().all(|&(x, y, _)| pairs.contains(&(x, y))), "{what}");
            }
            MatchNeed::Scores if threshold.function.is_distance() => same(&found, &expected, &what),
            MatchNeed::Pairs | MatchNeed::Scores => {
                let pairs = |pairs: &[(ItemId, ItemId, u32)]| -> Vec<_> {
                    pairs.iter().map(|&(x, y, _)| (x, y)).collect()
                };
                same(&pairs(&found), &pairs(&expected), &what);
            }
        }
    }
}

/// Holds some values to those expected, and names the first ones that differ.
fn same<T: PartialEq + Debug>(found: &[T], expected: &[T], what: &str) {
    let first = found.iter().zip(expected).position(|(x, y)| x != y);
    let at = first.unwrap_or(found.len().min(expected.len()));
    assert!(
        found == expected,
        "{what}: {} in place of {} at place {at} of {}",
        found.get(at).map_or("none".to_string(), |x| format!("{x:?}")),
        expected.get(at).map_or("none".to_string(), |x| format!("{x:?}")),
        expected.len()
    );
}

fn drive(rng: &mut StdRng, ordinal: u32) -> Drive {
    Drive {
        ordinal,
        demanded: true,
        capacity: [None, Some(32), Some(300), Some(5000)][rng.random_range(0..4)],
        range: *[1, 20, 33, u32::MAX].choose(rng).unwrap(),
        match_buffer: *[1, 10, 1000].choose(rng).unwrap(),
        fault: None,
    }
}

#[test]
fn tiles_of_texts_match_as_the_functions_say() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed(33));
    let mut matches = 0;
    for case in 0..rounds(80) {
        let drawn = draw(&mut rng, Kind::ALL[case % Kind::ALL.len()]);
        let drive = drive(&mut rng, 0);
        let given = drawn.run(drive).unwrap();
        drawn.check(drawn.join.spec.need, given, &format!("{case} {drive:?}"));
        matches += drawn.expected().len();
    }
    assert!(matches > 5_000, "{matches}");
}

/// A device fails in one of its works: no match is lost, none comes twice, and nothing stays on it.
#[test]
fn the_cpu_joins_the_texts_that_a_failing_device_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(2912);
    let mut faults = 0;
    for case in 0..32 {
        let drawn = draw(&mut rng, Kind::ALL[case % Kind::ALL.len()]);
        let lease = emulator.device();
        let drive = Drive {
            demanded: false,
            fault: Some(rng.random_range(1..4)),
            ..drive(&mut rng, lease.ordinal())
        };
        let what = format!("{case} {drive:?}");
        let given = drawn.run(drive).unwrap();
        drawn.check(drawn.join.spec.need, given, &what);
        faults += lease.stat("faults");
        lease.expect_nothing_left(Device::close, &what);
    }
    assert!(faults > 10, "{faults} faults happened");
}

/// The join on the CPU that takes the place of a device, with an index and without.
#[test]
fn texts_join_on_the_cpu_in_place_of_a_device() {
    let mut rng = StdRng::seed_from_u64(2913);
    for case in 0..64 {
        let drawn = draw(&mut rng, Kind::ALL[case % Kind::ALL.len()]);
        let cpu = TextsOnCpu(drawn.join.clone());
        let (memory, cancel) = (reservation(), CancelFlag::default());
        let context = PrepareContext::new(&memory, &cancel, Threads::small(1));
        let prepared = cpu.prepare(Wanted::Join, context).unwrap();
        for mut cursor in [prepared.open(&memory).unwrap(), cpu.unprepared(Wanted::Join)] {
            let given = drawn.feed(cursor.as_mut(), 50, 100).unwrap();
            drawn.check(drawn.join.spec.need, given, &format!("{case} on the CPU"));
        }
    }
}
