//! Strategies that run on devices alone, with options drawn at random: against the nested loop, with
//! devices that fail, and with two of them. Without a GPU the kernels run on the host.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use simjoin_core::engine::{GpuOptions, Match, MatchNeed, Pairing, RowPairCounts, Strategy};
use simjoin_core::set::{JoinSpec, Measure, Role, SetJoin};
use simjoin_gpu::runtime::Device;

use crate::emulator::{Emulator, gpu};
use crate::harness::sets::shapes::{self, Shape};
use crate::harness::sets::{Drive, Fault, NEEDS, OnDevice, Rows, Sides, rounds, spec, thresholds};

/// A strategy of devices that tests force on any join.
pub(crate) trait OnDevices: Strategy<SetJoin> + Sized {
    /// With buffers so small that work is done again, among others.
    fn draw(rng: &mut StdRng) -> Self;

    /// How many probe sets a unit may have.
    fn ranges(&self) -> &'static [u32];
}

/// Drives a strategy over sides with drawn options; gives the number of matches.
fn check<S: OnDevices>(rng: &mut StdRng, sides: &Sides, mut spec: JoinSpec) -> usize {
    let expected = sides.expected(&spec);
    let needs = if spec.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
    spec.need = *needs.choose(rng).unwrap();
    let strategy = S::draw(rng);
    let drive = Drive {
        match_buffer: *[1, 7, 1000].choose(rng).unwrap(),
        range: *strategy.ranges().choose(rng).unwrap(),
        ahead: *[1, 2, 5].choose(rng).unwrap(),
        empty: rng.random(),
        drains: rng.random(),
        retire: spec.need == MatchNeed::Exists && rng.random(),
        device: Some(OnDevice { ordinal: 0, second: None, demanded: true, fault: None }),
    };
    sides.check(&strategy, spec, drive, &expected);
    expected.len()
}

/// Every measure over every shape, with a threshold each.
pub(crate) fn check_shapes<S: OnDevices>(seed: u64, shapes: impl Fn(&mut StdRng) -> Vec<Shape>) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut joins, mut matches) = (0, 0);
    let drawn: Vec<Shape> = (0..rounds()).flat_map(|_| shapes(&mut rng)).collect();
    for shape in drawn {
        let two = Sides::two(&shape.name, &shape.build, &shape.probe);
        let itself = Sides::itself(&shape.name, &shape.build);
        for sides in [&two, &itself] {
            let unordered = sides.pairing == Pairing::Unordered;
            for measure in Measure::ALL.into_iter().filter(|m| !unordered || m.is_symmetric()) {
                let mut spec = spec(measure, 1.0, sides.pairing);
                spec.probe_role = *[Role::First, Role::Second].choose(&mut rng).unwrap();
                let values = sides.values(&spec);
                let mut thresholds = thresholds(&mut rng, measure, &values);
                while thresholds.len() > 1 {
                    thresholds.swap_remove(rng.random_range(0..thresholds.len()));
                }
                for threshold in thresholds {
                    spec.bounds.threshold = threshold;
                    matches += check::<S>(&mut rng, sides, spec);
                    joins += 1;
                }
            }
        }
    }
    eprintln!("{joins} joins, {matches} matches");
    assert!(matches > 500, "only {matches} matches");
}

/// Two inputs and a self-join with plenty of matches.
pub(crate) fn both_sides(rng: &mut StdRng) -> [Sides; 2] {
    let shape = shapes::zipfian(rng, 12);
    [Sides::two(&shape.name, &shape.build, &shape.probe), Sides::itself(&shape.name, &shape.build)]
}

/// Drives a strategy on devices, in units of `range` sets.
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

/// Whatever call fails, in whatever work, one of the first `latest` of its kind: no match is lost, none comes twice,
/// and nothing stays on the device. Some faults must have happened.
pub(crate) fn check_faults<S: OnDevices>(seed: u64, latest: u32, least_faults: u64) {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(seed);
    let sides = both_sides(&mut rng);
    let calls = [
        Some("cuMemAlloc"),
        Some("cuMemHostAlloc"),
        Some("cuModuleGetFunction"),
        Some("cuMemcpyHtoDAsync"),
        Some("cuMemsetD8Async"),
        Some("cuEventRecord"),
        Some("cuLaunchKernel"),
        Some("cuEventSynchronize"),
        Some("cuMemcpyDtoHAsync"),
        None,
    ];
    let mut faults = 0;
    // Out of memory, invalid value, illegal address, launch failed.
    for (call, error) in calls.into_iter().flat_map(|call| [2, 1, 700, 719].map(|e| (call, e))) {
        for sides in &sides {
            let lease = emulator.device();
            let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
            let unordered = sides.pairing == Pairing::Unordered;
            let needs = if unordered { &NEEDS[1..] } else { &NEEDS };
            spec.need = *needs.choose(&mut rng).unwrap();
            let fault = Some(Fault { call, nth: rng.random_range(1..latest), error });
            let ordinal = lease.ordinal();
            let on = OnDevice { ordinal, second: None, demanded: false, fault };
            let range = *[20, u32::MAX].choose(&mut rng).unwrap();
            let drive = drive_on(on, range, &mut rng);
            let expected = sides.expected(&spec);
            assert!(expected.len() > 30, "{}", expected.len());
            sides.check(&S::draw(&mut rng), spec, drive, &expected);
            sides.build.attached().clear();
            faults += lease.stat("faults");
            lease.expect_nothing_left(Device::close, &format!("after {fault:?}"));
        }
    }
    assert!(faults > least_faults, "{faults} faults happened");
}

/// Whatever fails on one of two devices, the other one takes its work, also where the query insists on
/// devices.
pub(crate) fn check_faults_of_one_of_two<S: OnDevices>(seed: u64, latest: u32) {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(seed);
    let sides = both_sides(&mut rng);
    let calls =
        [None, Some("cuMemcpyHtoDAsync"), Some("cuLaunchKernel"), Some("cuMemcpyDtoHAsync")];
    let mut faults = 0;
    // None, invalid value, illegal address.
    for (call, error) in calls.into_iter().flat_map(|call| [0, 1, 700].map(|e| (call, e))) {
        for sides in &sides {
            let leases = [emulator.device(), emulator.device()];
            let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
            spec.need = *NEEDS[1..].choose(&mut rng).unwrap();
            let fault = Fault { call, nth: rng.random_range(1..latest), error };
            let [first, second] = leases.each_ref().map(|lease| lease.ordinal());
            let on = OnDevice {
                ordinal: first,
                second: Some(second),
                demanded: rng.random(),
                fault: (error != 0).then_some(fault),
            };
            let drive = drive_on(on, 20, &mut rng);
            sides.check(&S::draw(&mut rng), spec, drive, &sides.expected(&spec));
            faults += leases[0].stat("faults");
            assert!(leases[1].stat("launches") > 0, "{fault:?}");
            sides.build.attached().clear();
            for lease in &leases {
                lease.expect_nothing_left(Device::close, &format!("after {fault:?}"));
            }
        }
    }
    assert!(faults > 4, "{faults} faults happened");
}

/// Where a device that is not demanded has no memory at all, the CPU joins; `why` begins a reason that is
/// told.
pub(crate) fn check_left_to_cpu<S: OnDevices>(seed: u64, why: &str) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let [sides, _] = both_sides(&mut rng);
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    spec.gpu = GpuOptions { memory_limit: Some(1), ..GpuOptions::default() };
    let on = OnDevice { ordinal: 0, second: None, demanded: false, fault: None };
    let (found, told) = sides.run_within(&S::draw(&mut rng), spec, on, 256 << 20);
    let mut found = found.unwrap();
    found.sort_unstable();
    assert_eq!(found, sides.expected(&spec));
    assert!(told.iter().any(|reason| reason.starts_with(why)), "{told:?}");
}

/// Tests of a strategy that every one on devices has, by the first of their seeds, and the calls that fail
/// (the latest one, and how often one must) on one device, and on one of two.
macro_rules! tests_on_devices {
    ($strategy:ty, $seed:literal, $faults:expr, $latest_of_two:literal) => {
        #[test]
        fn keys() {
            check_shapes::<$strategy>($seed, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
        }

        #[test]
        fn large_sets_and_unknown_tokens() {
            let drawn = |rng: &mut StdRng| vec![shapes::sizes(rng, 2500), shapes::unknown(rng)];
            check_shapes::<$strategy>($seed + 1, drawn);
        }

        #[test]
        fn frequent_tokens() {
            let drawn = |rng: &mut StdRng| vec![shapes::zipfian(rng, 12), shapes::dense(rng, 300)];
            check_shapes::<$strategy>($seed + 2, drawn);
        }

        #[test]
        fn the_cpu_goes_on_where_a_device_fails() {
            let (latest, least) = $faults;
            check_faults::<$strategy>($seed + 3, latest, least);
        }

        #[test]
        fn a_device_does_what_another_one_drops() {
            check_faults_of_one_of_two::<$strategy>($seed + 4, $latest_of_two);
        }
    };
}

pub(crate) use tests_on_devices;

/// Where demanded devices lack the memory for a strategy, tiles join in pieces in its place; where not even
/// a piece fits, the query fails. `why` begins the reason that is told.
pub(crate) fn check_tiles_in_place(strategy: &dyn Strategy<SetJoin>, why: &str) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(78);
    let row = |rng: &mut StdRng| (0, (0..40).map(|_| rng.random_range(0..500)).collect());
    let build: Rows = (0..10_000).map(|_| row(&mut rng)).collect();
    let sides = Sides::two("dense sets", &build, &build[..20].to_vec());
    let mut spec = spec(Measure::Jaccard, 0.1, sides.pairing);
    let rows = |found: &Match| {
        u64::from(sides.probe.row_count_of(found.probe))
            * u64::from(sides.build.row_count_of(found.build))
    };
    let expected: u64 = sides.expected(&spec).iter().map(rows).sum();
    assert!(expected > 1000, "{expected}");
    spec.need = MatchNeed::Count;
    let on = OnDevice { ordinal: 0, second: None, demanded: true, fault: None };
    // Room for a stage of columns, not for the sets; and for nothing.
    for (limit, fits) in [(2_400_000, true), (1 << 15, false)] {
        spec.gpu = GpuOptions { memory_limit: Some(limit), ..GpuOptions::default() };
        let (found, told) = sides.buffer_within(strategy, spec, on, 256 << 20);
        assert!(told[0].starts_with(why), "{told:?}");
        if fits {
            let counts = found.unwrap().counts();
            assert_eq!(counts, RowPairCounts { cross: expected, ..RowPairCounts::default() });
            assert_eq!(told.len(), 1, "{told:?}");
            continue;
        }
        let error = found.unwrap_err();
        assert!(error.to_string().contains("signature tiles of the join need"), "{error}");
        assert!(told.len() == 2 && told[1].starts_with("without tiles: "), "{told:?}");
    }
}
