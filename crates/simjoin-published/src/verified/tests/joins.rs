//! Filters on the CPU, verification on a device: every layout, form and size of blocks, resident
//! and gathered sets, tiny chunks. Without a GPU the kernels run on the host.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use simjoin_core::set::filter_verify::FilterVerify;
use simjoin_core::set::join::SetJoin;
use simjoin_core::set::join_spec::JoinSpec;
use simjoin_core::set::measure::{Measure, Role};
use simjoin_gpu::runtime::Device;

use crate::device_harness::sets::{on_device, place_of};
use crate::emulator::{self, Emulator, gpu};
use crate::engine::{
    Cursor, DevicePlace, Match, MatchBuffer, MatchNeed, MatchRun, Pairing, PrepareContext,
    PreparedJoin, Progress,
};
use crate::engine::{GpuOptions, LayoutChoice};
use crate::error::{Error, Result};
use crate::harness::sets::shapes::{self, Shape};
use crate::harness::sets::{Drive, Fault, OnDevice, Sides, spec};
use crate::harness::sets::{Forced, NEEDS, forced, thresholds};
use crate::verified::devices::VerifyingDevices;
use crate::verified::verified_on_devices;

/// A [`FilterVerify`] with parts that its estimate may never choose for so few sets, whose candidates devices
/// verify where there are some.
#[derive(Debug)]
struct VerifiedParts {
    strategy: FilterVerify,
    /// Words of the signatures of postings.
    words: usize,
    /// Whether the bitmap filter stands in front of verification.
    signed: bool,
}

impl VerifiedParts {
    fn draw(rng: &mut StdRng) -> Self {
        let strategies = [FilterVerify::AllPairs, FilterVerify::PPJoin];
        Self {
            strategy: *strategies.choose(rng).unwrap(),
            words: *[0, 1, 2, 4].choose(rng).unwrap(),
            signed: rng.random_bool(0.7),
        }
    }
}

forced!(VerifiedParts);

impl Forced for VerifiedParts {
    fn prepare(
        &self,
        join: &SetJoin,
        place: Option<&Arc<dyn DevicePlace>>,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let parts = (self.words, self.signed.then(|| join.scheme()));
        let build = Arc::clone(&join.build);
        let candidates = self.strategy.candidates_with(build, join.spec, parts, context)?;
        match place_of(place)? {
            Some(device) => verified_on_devices(candidates, &device, context.reservation),
            None => Ok(Arc::new(candidates)),
        }
    }
}

fn options(rng: &mut StdRng) -> GpuOptions {
    GpuOptions {
        candidate_memory: *[1, 1 << 9, 1 << 12, 1 << 14, 1 << 16, 1 << 20, u64::MAX]
            .choose(rng)
            .unwrap(),
        // Nothing, next to nothing, enough for the collection, and more than there is.
        memory_limit: *[Some(1), Some(1 << 16), None, Some(u64::MAX)].choose(rng).unwrap(),
        layout: *LayoutChoice::ALL.choose(rng).unwrap(),
        block_size: rng.random_bool(0.9).then(|| *[32, 64, 128, 256].choose(rng).unwrap()),
        partition: 50,
        integers: false,
        ..GpuOptions::default()
    }
}

/// Holds a filter with verification on the device to the nested loop.
fn check(rng: &mut StdRng, sides: &Sides, mut spec: JoinSpec) -> usize {
    let expected = sides.expected(&spec);
    let strategy = VerifiedParts::draw(rng);
    let needs = if spec.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
    spec.need = *needs.choose(rng).unwrap();
    spec.candidate_chunk = *[1, 5, 1000, 1000].choose(rng).unwrap();
    spec.gpu = options(rng);
    let drive = Drive {
        match_buffer: *[1, 7, 1000].choose(rng).unwrap(),
        range: *[3, 64, u32::MAX].choose(rng).unwrap(),
        ahead: *[1, 2, 5].choose(rng).unwrap(),
        empty: rng.random(),
        drains: rng.random(),
        retire: spec.need == MatchNeed::Exists && rng.random(),
        device: Some(OnDevice {
            ordinal: 0,
            second: None,
            demanded: rng.random_bool(0.5),
            fault: None,
        }),
    };
    sides.check(&strategy, spec, drive, &expected);
    expected.len()
}

fn check_shapes(seed: u64, shapes: impl Fn(&mut StdRng) -> Vec<Shape>) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut matches = 0;
    for shape in shapes(&mut rng) {
        let two = Sides::two(&shape.name, &shape.build, &shape.probe);
        let itself = Sides::itself(&shape.name, &shape.build);
        for sides in [&two, &itself] {
            for measure in Measure::ALL {
                if sides.pairing == Pairing::Unordered && !measure.is_symmetric() {
                    continue;
                }
                let mut spec = spec(measure, 1.0, sides.pairing);
                spec.probe_role = *[Role::First, Role::Second].choose(&mut rng).unwrap();
                let values = sides.values(&spec);
                // Each takes up to a second where kernels run on the host.
                let mut thresholds = thresholds(&mut rng, measure, &values);
                while thresholds.len() > 2 {
                    thresholds.swap_remove(rng.random_range(0..thresholds.len()));
                }
                for threshold in thresholds {
                    spec.bounds.threshold = threshold;
                    matches += check(&mut rng, sides, spec);
                }
            }
        }
    }
    assert!(matches > 1000, "only {matches} matches");
}

#[test]
fn repeated_sets_under_few_keys() {
    check_shapes(21, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
}

#[test]
fn sizes_around_words_and_warps() {
    check_shapes(22, |rng| vec![shapes::sizes(rng, 2500), shapes::sizes(rng, 100_000)]);
}

#[test]
fn zipfian_tokens() {
    check_shapes(23, |rng| vec![shapes::zipfian(rng, 6), shapes::zipfian(rng, 60)]);
}

#[test]
fn probe_sets_with_unknown_tokens() {
    check_shapes(24, |rng| vec![shapes::unknown(rng)]);
}

#[test]
fn dense_sets() {
    check_shapes(25, |rng| [2, 64, 300].map(|universe| shapes::dense(rng, universe)).into());
}

/// Where the memory limit leaves no room for chunks, a query that does not insist on the device is
/// none the worse, and says so; one that does is told what would help.
#[test]
fn chunks_that_the_memory_limit_forbids_are_verified_on_the_cpu() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(27);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::two(&shape.name, &shape.build, &shape.probe);
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    spec.gpu.candidate_memory = 64 << 20;
    let expected = sides.expected(&spec);
    // Nothing beside the chunk of the filter; no chunk for the device.
    for beside in [0, 4 << 20] {
        let on_device = OnDevice { ordinal: 0, second: None, demanded: false, fault: None };
        let (found, told) =
            sides.run_within(&VerifiedParts::draw(&mut rng), spec, on_device, beside);
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("partly cpu: "), "{told:?}");
        let on_device = OnDevice { demanded: true, ..on_device };
        let (found, told) =
            sides.run_within(&VerifiedParts::draw(&mut rng), spec, on_device, beside);
        let error = found.unwrap_err();
        assert!(matches!(error.root(), Error::ResourcesExhausted(_)), "{error}");
        assert!(
            beside == 0 || error.to_string().contains("simjoin.gpu.candidate_memory"),
            "{error}"
        );
        assert!(told.is_empty(), "{told:?}");
    }
}

/// Whatever call fails, in whatever chunk: no match is lost, none is counted twice, and nothing
/// stays on the device.
#[test]
fn the_cpu_takes_up_what_a_failing_device_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(26);
    let shape = shapes::zipfian(&mut rng, 12);
    let two = Sides::two(&shape.name, &shape.build, &shape.probe);
    let itself = Sides::itself(&shape.name, &shape.build);
    let calls = [
        Some("cuMemAlloc"),
        Some("cuMemHostAlloc"),
        Some("cuMemcpyHtoDAsync"),
        Some("cuMemsetD8Async"),
        Some("cuEventRecord"),
        Some("cuLaunchKernel"),
        Some("cuEventSynchronize"),
        Some("cuMemcpyDtoHAsync"),
        None,
    ];
    // Out of memory, invalid value, illegal address, launch failed.
    for (call, error) in calls.into_iter().flat_map(|call| [2, 1, 700, 719].map(|e| (call, e))) {
        for sides in [&two, &itself] {
            let lease = emulator.device();
            let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
            spec.need = *NEEDS[1..].choose(&mut rng).unwrap();
            spec.gpu = GpuOptions {
                candidate_memory: 1 << 9,
                memory_limit: [None, Some(1 << 15)].choose(&mut rng).copied().unwrap(),
                ..GpuOptions::default()
            };
            let fault = Some(Fault { call, nth: rng.random_range(1..6), error });
            let ordinal = lease.ordinal();
            let drive = Drive {
                match_buffer: 50,
                range: *[20, u32::MAX].choose(&mut rng).unwrap(),
                ahead: *[1, 3].choose(&mut rng).unwrap(),
                empty: false,
                drains: rng.random(),
                retire: false,
                device: Some(OnDevice { ordinal, second: None, demanded: false, fault }),
            };
            let expected = sides.expected(&spec);
            assert!(expected.len() > 30, "{}", expected.len());
            sides.check(&VerifiedParts::draw(&mut rng), spec, drive, &expected);
            sides.build.attached().clear();
            lease.expect_nothing_left(Device::close, &format!("after {fault:?}"));
        }
    }
}

/// Units of equal size that a cursor is fed, `ahead` at a time.
fn halves(sides: &Sides, ordinal: u32) -> Drive {
    Drive {
        match_buffer: 1 << 20,
        range: sides.probe.len().div_ceil(2),
        ahead: 1,
        empty: false,
        drains: false,
        retire: false,
        device: Some(OnDevice { ordinal, second: None, demanded: true, fault: None }),
    }
}

/// Polls until the cursor has nothing more to do but to wait: for input, or for the device.
fn poll_to_rest(cursor: &mut dyn Cursor, matches: &mut MatchBuffer) -> Poll<Progress> {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match cursor.poll(&mut cx, matches) {
            Poll::Ready(Ok(Progress::Yield)) => {}
            Poll::Ready(progress) => return Poll::Ready(progress.unwrap()),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// Polls to the end; the matches, ordered, and the units in the order of their completion.
fn poll_to_end(cursor: &mut dyn Cursor, matches: &mut MatchBuffer) -> (Vec<Match>, Vec<u32>) {
    cursor.finish();
    while poll_to_rest(cursor, matches) != Poll::Ready(Progress::Ended) {
        std::thread::yield_now();
    }
    let mut found = matches.matches().to_vec();
    found.sort_unstable();
    (found, matches.completed().to_vec())
}

/// While the device is busy with the candidates of one unit, the filter goes on with the next one,
/// of another collection, and its candidates follow.
#[test]
fn units_of_two_inputs_are_on_the_device_together() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(28);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::two(&shape.name, &shape.build, &shape.probe);
    let spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    let lease = emulator.device();
    let drive = halves(&sides, lease.ordinal());
    let strategy = VerifiedParts { strategy: FilterVerify::PPJoin, words: 1, signed: false };
    let mut cursor = sides.open(&strategy, spec, drive.device, &|| "two inputs".to_string());
    let mut matches = MatchBuffer::new(drive.match_buffer);
    let held = lease.hold();
    let units = sides.units(drive);
    assert_eq!(units.len(), 2);
    for (nth, unit) in units.into_iter().enumerate() {
        cursor.feed(unit).unwrap();
        let rest = poll_to_rest(cursor.as_mut(), &mut matches);
        // Two works of a cursor are on their way at most.
        let progress = Poll::Ready(Progress::NeedsInput);
        assert_eq!(rest, if nth == 0 { progress } else { Poll::Pending });
        assert_eq!(cursor.funnel().device.chunks, nth as u64 + 1);
    }
    lease.expect_at_least("in_flight", 2);
    // Polled again without a unit, it waits for both.
    assert_eq!(poll_to_rest(cursor.as_mut(), &mut matches), Poll::Pending);
    assert!(matches.is_empty(), "{matches:?}");
    drop(held);
    let (found, mut completed) = poll_to_end(cursor.as_mut(), &mut matches);
    assert_eq!(found, sides.expected(&spec));
    completed.sort_unstable();
    let mut numbers: Vec<u32> = sides.units(drive).iter().map(|unit| unit.number).collect();
    numbers.sort_unstable();
    assert_eq!(completed, numbers);
    drop(cursor);
    sides.build.attached().clear();
    lease.expect_nothing_left(Device::close, "after two units");
}

/// Each range of a self-join fills packs of its own, whose matches are those of the range.
#[test]
fn ranges_of_a_self_join_have_their_packs() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(29);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::itself(&shape.name, &shape.build);
    for memory_limit in [None, Some(1)] {
        let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
        spec.gpu = GpuOptions { memory_limit, candidate_memory: 1 << 20, ..spec.gpu };
        let lease = emulator.device();
        let drive = halves(&sides, lease.ordinal());
        let strategy = VerifiedParts { strategy: FilterVerify::PPJoin, words: 1, signed: false };
        let mut cursor = sides.open(&strategy, spec, drive.device, &|| "itself".to_string());
        let mut matches = MatchBuffer::new(drive.match_buffer);
        let units = sides.units(drive);
        for (nth, unit) in units.clone().into_iter().enumerate() {
            cursor.feed(unit).unwrap();
            while poll_to_rest(cursor.as_mut(), &mut matches).is_pending() {
                // Only tiny packs are all in use.
                assert!(memory_limit.is_some());
                std::thread::yield_now();
            }
            if memory_limit.is_none() {
                assert_eq!(cursor.funnel().device.chunks, nth as u64 + 1);
            }
        }
        let (mut found, completed) = poll_to_end(cursor.as_mut(), &mut matches);
        assert_eq!(completed.len(), 2);
        for MatchRun { unit, matches: run, .. } in matches.runs() {
            let range = units.iter().find(|u| u.number == unit).unwrap().range.clone();
            assert!(run.iter().all(|found| range.contains(&found.probe)), "{unit} {run:?}");
        }
        for m in &mut found {
            (m.probe, m.build) = (m.probe.max(m.build), m.probe.min(m.build));
        }
        found.sort_unstable();
        assert_eq!(found, sides.expected(&spec));
        drop(cursor);
        sides.build.attached().clear();
        lease.expect_nothing_left(Device::close, "after two ranges");
    }
}

/// Sides with plenty of matches, and a spec that sends many small chunks.
fn many_chunks(rng: &mut StdRng) -> (Sides, JoinSpec) {
    let shape = shapes::zipfian(rng, 12);
    let sides = match rng.random() {
        true => Sides::two(&shape.name, &shape.build, &shape.probe),
        false => Sides::itself(&shape.name, &shape.build),
    };
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    spec.gpu.candidate_memory = 1 << 9;
    spec.gpu.memory_limit = [None, Some(1 << 15)].choose(rng).copied().unwrap();
    (sides, spec)
}

/// Two emulated devices that one test has for itself.
struct Leases([emulator::Device; 2]);

impl Leases {
    fn new(emulator: &'static Emulator) -> Self {
        Self([emulator.device(), emulator.device()])
    }

    /// A query on both; `fault` strikes the first.
    fn both(&self, demanded: bool, fault: Option<Fault>) -> OnDevice {
        let [first, second] = self.0.each_ref().map(emulator::Device::ordinal);
        OnDevice { ordinal: first, second: Some(second), demanded, fault }
    }

    /// Frees the copies of `sides`, and waits until nothing is left on either device.
    fn expect_nothing_left(&self, sides: &Sides, when: &str) {
        sides.build.attached().clear();
        for lease in &self.0 {
            lease.expect_nothing_left(Device::close, when);
        }
    }
}

/// Drives a cursor on `device` in units of `range` sets, with few matches at a time.
fn drive_on(device: OnDevice, range: u32, rng: &mut StdRng) -> Drive {
    Drive {
        match_buffer: 50,
        range,
        ahead: rng.random_range(1..4),
        empty: false,
        drains: rng.random(),
        retire: false,
        device: Some(device),
    }
}

#[test]
fn two_devices_share_the_chunks_of_a_join() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(31);
    for _ in 0..6 {
        let (sides, mut spec) = many_chunks(&mut rng);
        let leases = Leases::new(emulator);
        spec.need = *NEEDS[1..].choose(&mut rng).unwrap();
        let drive = drive_on(leases.both(true, None), 20, &mut rng);
        let expected = sides.expected(&spec);
        sides.check(&VerifiedParts::draw(&mut rng), spec, drive, &expected);
        let launches = leases.0.each_ref().map(|lease| lease.stat("launches"));
        assert!(launches.iter().all(|&launches| launches > 0), "{launches:?}");
        leases.expect_nothing_left(&sides, "shared");
    }
}

/// Whatever fails on one of two devices, the other one takes its chunks, also where the query
/// insists on devices.
#[test]
fn a_device_takes_up_what_another_one_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(32);
    let calls = [
        Some("cuMemcpyHtoDAsync"),
        Some("cuLaunchKernel"),
        Some("cuEventSynchronize"),
        Some("cuMemcpyDtoHAsync"),
        None,
    ];
    let mut faults = 0;
    // Invalid value, illegal address, ECC error.
    for (call, error) in calls.into_iter().flat_map(|call| [1, 700, 214].map(|e| (call, e))) {
        let (sides, mut spec) = many_chunks(&mut rng);
        let leases = Leases::new(emulator);
        spec.need = *NEEDS[1..].choose(&mut rng).unwrap();
        let fault = Some(Fault { call, nth: rng.random_range(1..4), error });
        // Units large enough to fill several packs.
        let drive = drive_on(leases.both(rng.random(), fault), u32::MAX, &mut rng);
        let expected = sides.expected(&spec);
        sides.check(&VerifiedParts::draw(&mut rng), spec, drive, &expected);
        // A join may have fewer such calls than the fault waits for.
        if leases.0[0].stat("faults") > 0 {
            faults += 1;
            assert!(leases.0[1].stat("launches") > 0, "{fault:?}");
        }
        leases.expect_nothing_left(&sides, &format!("after {fault:?}"));
    }
    assert!(faults > 8, "{faults} faults happened");
}

/// A device that cannot load the kernels leaves the candidates to the other one. Where none can, the strategy is
/// not to be had there.
#[test]
fn a_device_without_the_kernels_is_left_out() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(38);
    let (sides, mut spec) = many_chunks(&mut rng);
    spec.need = MatchNeed::Pairs;
    let leases = Leases::new(emulator);
    let fault = Some(Fault { call: Some("cuModuleLoadData"), nth: 1, error: 1 });
    let drive = drive_on(leases.both(true, fault), u32::MAX, &mut rng);
    sides.check(&VerifiedParts::draw(&mut rng), spec, drive, &sides.expected(&spec));
    let [faults, launches] = [leases.0[0].stat("faults"), leases.0[1].stat("launches")];
    assert!(
        faults == 1 && launches > 0 && leases.0[0].stat("launches") == 0,
        "{faults} {launches}"
    );
    leases.expect_nothing_left(&sides, "left out");
    let join = on_device(&sides, leases.both(false, fault), &spec);
    leases.0[1].fault("cuModuleLoadData", 1, 1);
    let refused = VerifyingDevices::new(&join, &sides.build, &spec).unwrap_err();
    assert!(refused.to_string().contains("cuModuleLoadData") && join.has_refused(), "{refused}");
    drop(join);
    leases.expect_nothing_left(&sides, "refused");
}

/// Where the last device fails, a query that insists on devices ends with the error; another one
/// goes on on the CPU and tells of both.
#[test]
fn the_failure_of_the_last_device_is_told() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(33);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::two(&shape.name, &shape.build, &shape.probe);
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    spec.gpu.candidate_memory = 1 << 9;
    let expected = sides.expected(&spec);
    for demanded in [false, true] {
        let leases = Leases::new(emulator);
        leases.0.iter().for_each(|lease| lease.fault_async(1, 700));
        let on = leases.both(demanded, None);
        let (found, told) = sides.run_within(&VerifiedParts::draw(&mut rng), spec, on, 64 << 20);
        if demanded {
            let error = found.unwrap_err().to_string();
            assert!(error.contains("illegal memory access"), "{error}");
            assert_eq!(told.len(), 1, "{told:?}");
        } else {
            let mut found = found.unwrap();
            found.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(told.len(), 2, "{told:?}");
            assert!(told[1].contains(", then cpu: "), "{told:?}");
        }
        assert!(told[0].starts_with("then without cuda:"), "{told:?}");
        leases.expect_nothing_left(&sides, "after both failed");
    }
}

/// A device on which the build sets do not fit is left out where another one holds them; one that
/// does not answer is, too.
#[test]
fn devices_that_cannot_be_used_are_left_out() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(34);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::two(&shape.name, &shape.build, &shape.probe);
    let spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    let faults = [
        // The allocation, and the one after idle memory has been freed.
        (vec![("cuMemAlloc", 2), ("cuMemAlloc", 2)], "too little memory for the sets"),
        (vec![("cuMemGetInfo", 1)], "cuMemGetInfo"),
    ];
    for (faults, why) in faults {
        let leases = Leases::new(emulator);
        faults.iter().for_each(|(call, error)| leases.0[1].fault(call, 1, *error));
        let on = leases.both(true, None);
        let join = on_device(&sides, on, &spec);
        let shown = join.to_string();
        let [first, second] = leases.0.each_ref().map(emulator::Device::ordinal);
        assert!(shown.starts_with(&format!("cuda:{first} CUDA emulator, without cuda:{second} (")));
        assert!(shown.contains(why), "{shown}");
        drop(join);
        sides.build.attached().clear();
        let both = on_device(&sides, on, &spec).to_string();
        assert_eq!(both, format!("cuda:{first},{second} CUDA emulator"));
        leases.expect_nothing_left(&sides, "left out");
    }
}
