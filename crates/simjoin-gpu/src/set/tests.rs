//! The choice of a strategy of sets on devices.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use simjoin_core::set::{Measure, SetFamily};

use crate::emulator::gpu;
use crate::engine::{DeviceChoice, Pairing, PrepareContext, StrategyName};
use crate::harness::sets::shapes;
use crate::harness::sets::{Drive, OnDevice, Rows, Sides, reservation, spec};
use crate::runtime::Device;
use crate::set::STRATEGIES;
use crate::set::bitmap::BitmapTiles;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// The family with the strategies on devices.
fn family() -> SetFamily {
    SetFamily::default().with_devices(STRATEGIES)
}

/// `auto` leaves small joins to the CPU without asking for a device; `cuda` takes any strategy that a
/// GPU takes part in.
#[test]
fn the_choice_of_a_device_says_why() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(27);
    let shape = shapes::zipfian(&mut rng, 12);
    let sides = Sides::itself(&shape.name, &shape.build);
    let spec = spec(Measure::Jaccard, 0.5, sides.pairing);
    let choose = |strategy, device| sides.choose_of(family(), strategy, device, &spec);
    for strategy in [StrategyName::AUTO, StrategyName::new("bitmap")] {
        let auto = choose(strategy, DeviceChoice::Auto).unwrap();
        assert!(!auto.is_on_device());
        let shown = auto.to_string();
        assert!(shown.contains(", cpu (") && shown.contains("with a GPU"), "{shown}");
    }
    let cpu = choose(StrategyName::AUTO, DeviceChoice::Cpu).unwrap().to_string();
    assert!(cpu.ends_with(", cpu"), "{cpu}");
    let named = STRATEGIES.iter().map(|strategy| StrategyName::new(strategy.name()));
    for strategy in named.chain([StrategyName::AUTO]) {
        let chosen = choose(strategy, DeviceChoice::cuda(0)).unwrap();
        assert!(chosen.is_on_device());
        let shown = chosen.to_string();
        assert!(shown.contains("cuda:0 ") && shown.ends_with("(as demanded)"), "{shown}");
    }
    let bwjoin = choose(StrategyName::new("bwjoin"), DeviceChoice::Auto).unwrap();
    assert!(bwjoin.is_on_device());
    let error = choose(StrategyName::new("bwjoin"), DeviceChoice::Cpu).unwrap_err().to_string();
    assert!(error.contains("on a GPU alone") && error.contains("ppjoin"), "{error}");
    let error = choose(StrategyName::AUTO, DeviceChoice::cuda(127)).unwrap_err();
    assert!(error.to_string().contains("no CUDA device 127"), "{error}");
}

/// Where the devices have no room for a strategy that `auto` has placed there, the next best one joins.
#[test]
fn the_next_strategy_joins_where_devices_refuse() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(53);
    // Next to all pairs are candidates of an index.
    let row = |rng: &mut StdRng| (0, (0..40).map(|_| rng.random_range(0..500)).collect());
    let rows: Rows = (0..20_000).map(|_| row(&mut rng)).collect();
    let sides = Sides::two("dense sets", &rows, &vec![]);
    let mut spec = spec(Measure::Jaccard, 0.2, Pairing::Unordered);
    // Where the cores take their time, a device pays.
    spec.simd = Simd::named("portable").unwrap();
    // Too little for the matches of a stage.
    spec.gpu.memory_limit = Some(1_000_000);
    let _device = Device::open(0).unwrap();
    let (reservation, cancel) = (reservation(), CancelFlag::default());
    let context = PrepareContext::new(&reservation, &cancel, Threads::small(2));
    let mut chosen =
        sides.choose_of(family(), StrategyName::AUTO, DeviceChoice::Auto, &spec).unwrap();
    let before = chosen.to_string();
    assert!(before.starts_with("bitmap ") && chosen.is_on_device(), "{before}");
    chosen.prepare(context).unwrap();
    let shown = chosen.to_string();
    assert!(
        !chosen.is_on_device() && shown.ends_with(", cpu (in place of bitmap on a GPU)"),
        "{shown}"
    );
}

/// Where every token owns a bit, the tiles of a device decide alone.
#[test]
fn signatures_that_decide_are_tested_on_a_device() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(36);
    let shape = shapes::dense(&mut rng, 64);
    let sides = Sides::itself(&shape.name, &shape.build);
    let spec = spec(Measure::Jaccard, 0.5, sides.pairing);
    let cuda = DeviceChoice::cuda(0);
    let shown =
        sides.choose_of(family(), StrategyName::new("bitmap"), cuda, &spec).unwrap().to_string();
    assert!(shown.starts_with("bitmap ") && shown.ends_with("(as demanded)"), "{shown}");
    let on = OnDevice { ordinal: 0, second: None, demanded: true, fault: None };
    let (match_buffer, range, ahead) = (50, u32::MAX, 2);
    let (empty, drains, retire) = (false, rng.random(), false);
    let drive = Drive { match_buffer, range, ahead, empty, drains, retire, device: Some(on) };
    sides.check(&BitmapTiles, spec, drive, &sides.expected(&spec));
}
