//! Tiles of every width, kernel and union against the nested loop, with buffers so small that units
//! are done again. Without a GPU the kernels run on the host.

use std::sync::Arc;

use datafusion::common::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::config::GpuOptions;
use crate::emulator::{Emulator, gpu};
use crate::engine::{Cost, MatchNeed, Pairing, Placement, PreparedJoin};
use crate::gpu::Device;
use crate::set::bitmap::{Front, on_cpu};
use crate::set::filter::SignatureScheme;
use crate::set::tests::harness::{Drive, Fault, OnDevice, Sides, spec};
use crate::set::tests::shapes::{self, Shape};
use crate::set::tests::{NEEDS, rounds, thresholds};
use crate::set::tiles::scheme::TileScheme;
use crate::set::tiles::shape::{TileKernel, WIDTHS};
use crate::set::tiles::{FixedTiles, Residence};
use crate::set::{
    BitmapBlocks, JoinSpec, JoinStrategy, Measure, PrepareContext, Role, SetCollection, Statistics,
};

impl FixedTiles {
    /// Plain columns, with room for many hits.
    pub(in crate::set) fn with_room() -> Self {
        Self {
            kernel: TileKernel::Counts,
            width: 8,
            members: 1,
            capacity: Some(1 << 20),
            residence: Residence::IfRoom,
        }
    }

    pub(in crate::set) fn draw(rng: &mut StdRng) -> Self {
        Self {
            kernel: *[TileKernel::Counts, TileKernel::Products, TileKernel::Warpgroups]
                .choose(rng)
                .unwrap(),
            width: *WIDTHS.choose(rng).unwrap(),
            members: *[1, 2, 4].choose(rng).unwrap(),
            capacity: [1, 40, 1000, 1 << 16].choose(rng).copied(),
            residence: *[Residence::IfRoom, Residence::Never].choose(rng).unwrap(),
        }
    }
}

impl JoinStrategy for FixedTiles {
    fn name(&self) -> &'static str {
        "fixed tiles"
    }

    fn runs_on(&self, placement: Placement) -> bool {
        placement == Placement::Gpu
    }

    fn estimate(&self, _: &Statistics, _: &JoinSpec, _: Placement) -> Cost {
        Cost::default()
    }

    /// On the CPU where the context has no device, or one that is not demanded has not the room.
    fn prepare(
        &self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        _: &Statistics,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        let demanded = context.device.is_some_and(|device| device.devices.demanded);
        match self.prepare_on_device(&build, spec, context) {
            Err(_) if !demanded => {
                on_cpu(&build, spec, SignatureScheme::fit(&build), Front::LEAST, context)
                    .into_prepared()
            }
            prepared => prepared,
        }
    }
}

/// Drives tiles over sides with drawn options; gives the number of matches.
fn check(rng: &mut StdRng, sides: &Sides, mut spec: JoinSpec) -> usize {
    let expected = sides.expected(&spec);
    let needs = if spec.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
    spec.need = *needs.choose(rng).unwrap();
    let tiles = FixedTiles::draw(rng);
    // Blocks of many threads take their time on the host.
    let ranges: &[u32] = match tiles.kernel {
        TileKernel::Counts => &[3, 64, u32::MAX],
        TileKernel::Products | TileKernel::Warpgroups => &[64, u32::MAX],
    };
    let drive = Drive {
        match_buffer: *[1, 7, 1000].choose(rng).unwrap(),
        range: *ranges.choose(rng).unwrap(),
        ahead: *[1, 2, 5].choose(rng).unwrap(),
        empty: rng.random(),
        drains: rng.random(),
        retire: spec.need == MatchNeed::Exists && rng.random(),
        device: Some(OnDevice { ordinal: 0, second: None, demanded: true, fault: None }),
    };
    sides.check(&tiles, spec, drive, &expected);
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
fn tiles_under_keys() {
    check_shapes(41, |rng| vec![shapes::repeats(rng), shapes::keyed(rng)]);
}

#[test]
fn tiles_of_sets_beyond_words_and_signatures() {
    check_shapes(42, |rng| vec![shapes::sizes(rng, 2500), shapes::unknown(rng)]);
}

#[test]
fn tiles_of_universes_around_the_width() {
    check_shapes(43, |rng| {
        [64, 256, 300, 1024].map(|universe| shapes::universe(rng, universe)).into()
    });
}

#[test]
fn tiles_of_frequent_tokens() {
    check_shapes(44, |rng| vec![shapes::zipfian(rng, 12), shapes::dense(rng, 300)]);
}

/// Two inputs and a self-join with plenty of matches.
fn both_sides(rng: &mut StdRng) -> [Sides; 2] {
    let shape = shapes::zipfian(rng, 12);
    [Sides::two(&shape.name, &shape.build, &shape.probe), Sides::itself(&shape.name, &shape.build)]
}

/// Drives tiles on devices, in units of `range` sets.
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
fn the_cpu_decides_the_tiles_that_a_failing_device_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(46);
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
            let fault = Some(Fault { call, nth: rng.random_range(1..12), error });
            let ordinal = lease.ordinal();
            let on = OnDevice { ordinal, second: None, demanded: false, fault };
            let range = *[20, u32::MAX].choose(&mut rng).unwrap();
            let drive = drive_on(on, range, &mut rng);
            let expected = sides.expected(&spec);
            assert!(expected.len() > 30, "{}", expected.len());
            sides.check(&FixedTiles::draw(&mut rng), spec, drive, &expected);
            sides.build.copies().clear();
            faults += lease.stat("faults");
            lease.expect_nothing_left(Device::close, &format!("after {fault:?}"));
        }
    }
    assert!(faults > 40, "{faults} faults happened");
}

/// Whatever fails on one of two devices, the other one takes its tiles, also where the query insists
/// on devices.
#[test]
fn a_device_takes_up_the_tiles_that_another_one_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(47);
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
            let fault = Fault { call, nth: rng.random_range(1..8), error };
            let [first, second] = leases.each_ref().map(|lease| lease.ordinal());
            let on = OnDevice {
                ordinal: first,
                second: Some(second),
                demanded: rng.random(),
                fault: (error != 0).then_some(fault),
            };
            let drive = drive_on(on, 20, &mut rng);
            sides.check(&FixedTiles::draw(&mut rng), spec, drive, &sides.expected(&spec));
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

/// Tiles of sets that do not fit on the device are refused; where the query insists on the device, it
/// verifies behind a filter, and the reason is told.
#[test]
fn tiles_that_do_not_fit_are_left_to_the_cpu() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(48);
    let [sides, _] = both_sides(&mut rng);
    let mut spec = spec(Measure::Jaccard, 0.2, sides.pairing);
    let expected = sides.expected(&spec);
    for limit in [1, 1 << 15] {
        spec.gpu = GpuOptions { memory_limit: Some(limit), ..GpuOptions::default() };
        let on = OnDevice { ordinal: 0, second: None, demanded: false, fault: None };
        let (found, told) = sides.run_within(&FixedTiles::draw(&mut rng), spec, on, 64 << 20);
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert!(told.len() == 1 && told[0].starts_with("without tiles: "), "{told:?}");
        let on = OnDevice { demanded: true, ..on };
        let (found, told) = sides.run_within(&BitmapBlocks, spec, on, 256 << 20);
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert!(told.len() == 1 && told[0].starts_with("without tiles: "), "{told:?}");
    }
}

/// Bits are those of frequent tokens first, then every bit of the rest gets as many as any other.
#[test]
fn rare_tokens_are_dealt_evenly() {
    let mut rng = StdRng::seed_from_u64(45);
    let shape = shapes::universe(&mut rng, 1024);
    let sides = Sides::itself(&shape.name, &shape.build);
    let scheme = TileScheme::new(&sides.build, 8);
    let mut tokens = vec![0; 256];
    for token in 0..scheme.universe {
        tokens[scheme.bit_of(token) as usize] += 1;
    }
    assert!(!scheme.is_exact());
    let (owned, hashed) = tokens.split_at(scheme.owned as usize);
    assert!(owned.iter().all(|&tokens| tokens == 1), "{owned:?}");
    let (least, most) = (hashed.iter().min().unwrap(), hashed.iter().max().unwrap());
    assert!(most - least <= 1, "{hashed:?}");
    assert!(TileScheme::new(&sides.build, 32).is_exact());
}
