//! Filters by inverted index against the nested loop, with buffers and budgets so small that rows are
//! left again and again. Without a GPU the kernels run on the host.

use std::sync::Arc;

use datafusion::common::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::config::GpuOptions;
use crate::emulator::{Emulator, gpu};
use crate::engine::{Cost, MatchNeed, Pairing, Placement, PreparedJoin};
use crate::gpu::Device;
use crate::set::indexed::work::Form;
use crate::set::indexed::{IndexShape, IndexedJoin, Method, on_cpu};
use crate::set::tests::harness::{Drive, Fault, OnDevice, Sides, spec};
use crate::set::tests::shapes::{self, Shape};
use crate::set::tests::{NEEDS, rounds, thresholds};
use crate::set::{
    JoinSpec, JoinStrategy, Measure, PrepareContext, Role, SetCollection, Statistics,
};

const METHODS: [Method; 4] = [Method::Warps, Method::Blocks, Method::Threads, Method::Atomics];

/// An [`IndexedJoin`] with given room and budgets.
#[derive(Debug)]
pub(in crate::set) struct FixedIndex {
    method: Method,
    capacity: u32,
    budget: u64,
    row_budget: u64,
    partition: u32,
    threads: u32,
}

impl FixedIndex {
    /// Every method, with room for many candidates.
    pub(in crate::set) fn with_room() -> [Self; 4] {
        METHODS.map(|method| Self {
            method,
            capacity: 1 << 16,
            budget: u64::MAX,
            row_budget: u64::MAX,
            partition: 50_000,
            threads: 32,
        })
    }

    pub(in crate::set) fn draw(rng: &mut StdRng) -> Self {
        Self {
            method: *METHODS.choose(rng).unwrap(),
            capacity: *[1, 200, 1 << 16].choose(rng).unwrap(),
            budget: *[1000, 20_000, u64::MAX].choose(rng).unwrap(),
            row_budget: *[32, 200, u64::MAX].choose(rng).unwrap(),
            partition: *[1, 17, 100, 50_000].choose(rng).unwrap(),
            threads: *[32, 32, 64].choose(rng).unwrap(),
        }
    }
}

impl JoinStrategy for FixedIndex {
    fn name(&self) -> &'static str {
        "fixed index"
    }

    fn runs_on(&self, placement: Placement) -> bool {
        placement == Placement::Gpu
    }

    fn estimate(&self, _: &Statistics, _: &JoinSpec, _: Placement) -> Cost {
        Cost::default()
    }

    fn prepare(
        &self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        statistics: &Statistics,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let Self { method, capacity, budget, row_budget, partition, threads } = *self;
        let spec = JoinSpec { gpu: GpuOptions { partition, ..spec.gpu }, ..spec };
        let cpu = || on_cpu(&build, spec, statistics, context);
        let Some(join) = context.device else { return cpu().into_prepared() };
        let capacity = capacity.max(Form::least_capacity(method, threads));
        let form = IndexedJoin { method }.form(&spec, join);
        let form = Form { capacity, threads, budget, row_budget, ..form };
        match IndexedJoin::on_devices(&build, spec, join, form, cpu()) {
            Ok(prepared) => Ok(prepared),
            Err(error) if join.devices.demanded => Err(error.into()),
            Err(_) => cpu().into_prepared(),
        }
    }
}

/// Drives a filter over sides with drawn options; gives the number of matches.
fn check(rng: &mut StdRng, sides: &Sides, mut spec: JoinSpec) -> usize {
    let expected = sides.expected(&spec);
    let needs = if spec.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
    spec.need = *needs.choose(rng).unwrap();
    let drive = Drive {
        match_buffer: *[1, 7, 1000].choose(rng).unwrap(),
        range: *[3, 64, u32::MAX].choose(rng).unwrap(),
        ahead: *[1, 2, 5].choose(rng).unwrap(),
        empty: rng.random(),
        drains: rng.random(),
        retire: spec.need == MatchNeed::Exists && rng.random(),
        device: Some(OnDevice { ordinal: 0, second: None, demanded: true, fault: None }),
    };
    sides.check(&FixedIndex::draw(rng), spec, drive, &expected);
    expected.len()
}

fn check_shapes(seed: u64, shapes: impl Fn(&mut StdRng) -> Vec<Shape>) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut matches = 0;
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
fn indexes_under_keys() {
    check_shapes(51, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
}

#[test]
fn indexes_of_large_sets_and_unknown_tokens() {
    check_shapes(52, |rng| vec![shapes::sizes(rng, 2500), shapes::unknown(rng)]);
}

#[test]
fn indexes_of_frequent_tokens() {
    check_shapes(53, |rng| vec![shapes::zipfian(rng, 12), shapes::dense(rng, 300)]);
}

/// Two inputs and a self-join with plenty of matches.
fn both_sides(rng: &mut StdRng) -> [Sides; 2] {
    let shape = shapes::zipfian(rng, 12);
    [Sides::two(&shape.name, &shape.build, &shape.probe), Sides::itself(&shape.name, &shape.build)]
}

/// Drives a filter on devices, in units of `range` sets.
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

/// Whatever call fails, in whatever work: no match is lost, none comes twice, and nothing stays on
/// the device.
#[test]
fn the_cpu_goes_on_where_a_failing_device_has_left_a_row() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(56);
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
            // Behind the index in most runs.
            let fault = Some(Fault { call, nth: rng.random_range(1..60), error });
            let ordinal = lease.ordinal();
            let on = OnDevice { ordinal, second: None, demanded: false, fault };
            let range = *[20, u32::MAX].choose(&mut rng).unwrap();
            let drive = drive_on(on, range, &mut rng);
            let expected = sides.expected(&spec);
            assert!(expected.len() > 30, "{}", expected.len());
            sides.check(&FixedIndex::draw(&mut rng), spec, drive, &expected);
            sides.build.copies().clear();
            faults += lease.stat("faults");
            lease.expect_nothing_left(Device::close, &format!("after {fault:?}"));
        }
    }
    assert!(faults > 30, "{faults} faults happened");
}

/// Whatever fails on one of two devices, the other one takes its rows, also where the query insists on
/// devices.
#[test]
fn a_device_takes_up_the_rows_that_another_one_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(57);
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
            let fault = Fault { call, nth: rng.random_range(1..40), error };
            let [first, second] = leases.each_ref().map(|lease| lease.ordinal());
            let on = OnDevice {
                ordinal: first,
                second: Some(second),
                demanded: rng.random(),
                fault: (error != 0).then_some(fault),
            };
            let drive = drive_on(on, 20, &mut rng);
            sides.check(&FixedIndex::draw(&mut rng), spec, drive, &sides.expected(&spec));
            faults += leases[0].stat("faults");
            assert!(leases[1].stat("launches") > 0, "{fault:?}");
            sides.build.copies().clear();
            for lease in &leases {
                lease.expect_nothing_left(Device::close, &format!("after {fault:?}"));
            }
        }
    }
    assert!(faults > 4, "{faults} faults happened");
}

/// An index that does not fit on the device is left to the CPU, or, where the query insists on the
/// device, to a filter in front of it; the reason is told.
#[test]
fn an_index_that_does_not_fit_is_left_to_the_cpu() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(58);
    let [sides, _] = both_sides(&mut rng);
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    let expected = sides.expected(&spec);
    for (limit, demanded) in [(1, false), (1 << 15, true)] {
        spec.gpu = GpuOptions { memory_limit: Some(limit), ..GpuOptions::default() };
        let on = OnDevice { ordinal: 0, second: None, demanded, fault: None };
        let strategy: &dyn JoinStrategy =
            if demanded { &IndexedJoin::BWJOIN } else { &FixedIndex::draw(&mut rng) };
        let (found, told) = sides.run_within(strategy, spec, on, 256 << 20);
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert!(told.len() == 1 && told[0].starts_with("without an index: "), "{told:?}");
    }
}

/// Parts hold every set once, no more sets than they may, and no more postings where they have several
/// sets.
#[test]
fn parts_keep_to_their_bounds() {
    let mut rng = StdRng::seed_from_u64(59);
    for _ in 0..50 {
        let shape = shapes::keyed(&mut rng);
        let build = Sides::itself(&shape.name, &shape.build).build;
        let (sets, postings) = (rng.random_range(1..80), rng.random_range(1..60));
        let share = rng.random_range(0..4);
        let index = IndexShape::new(&build, |size| size * share / 3, sets, postings);
        let mut first = (0, 0);
        for part in &index.parts {
            let tokens =
                part.sets.clone().map(|set| (build.size(set) * share / 3).min(build.size(set)));
            assert_eq!((part.sets.start, part.first_posting), first);
            assert_eq!(part.postings, tokens.sum::<u32>());
            assert!(part.sets.len() <= sets as usize && !part.sets.is_empty());
            assert!(part.postings <= postings || part.sets.len() == 1, "{part:?}");
            first = (part.sets.end, part.first_posting + u64::from(part.postings));
        }
        assert_eq!(first.0, build.len());
    }
}
