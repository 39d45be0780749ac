//! Names that stand for a strategy on the CPU and for one on a GPU.

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::OF_SETS;
use crate::emulator::gpu;
use crate::engine::{DeviceChoice, Placement, StrategyInfo, StrategyName};
use crate::harness::sets::{Sides, shapes, spec};
use crate::set::{Measure, SetFamily};

fn family() -> SetFamily {
    SetFamily::default().with_devices(simjoin_gpu::set::STRATEGIES).with_comparisons(OF_SETS)
}

const FILTERS: [&str; 2] = ["ppjoin", "allpairs"];

fn sides() -> Sides {
    let shape = shapes::zipfian(&mut StdRng::seed_from_u64(27), 12);
    Sides::itself(&shape.name, &shape.build)
}

/// A name is listed once, at its place among the strategies of the CPU, and runs in both placements.
#[test]
fn a_name_is_listed_once() {
    let strategies = family().strategies();
    for name in FILTERS {
        let named: Vec<_> = strategies.iter().filter(|info| info.name() == name).collect();
        let [info] = named[..] else { panic!("{named:?}") };
        assert!([Placement::Cpu, Placement::Gpu].iter().all(|&place| info.runs_on(place)));
    }
    let own: Vec<&str> = SetFamily::default().strategies().iter().map(StrategyInfo::name).collect();
    assert!(strategies.iter().map(StrategyInfo::name).take(own.len()).eq(own));
}

/// A join that names a filter has it on a GPU where one is demanded, and otherwise where that is cheaper.
#[test]
fn a_named_filter_is_compared_in_both_placements() {
    if gpu().is_none() {
        return;
    }
    let sides = sides();
    let spec = spec(Measure::Jaccard, 0.5, sides.pairing);
    let family = family();
    for name in FILTERS {
        let choose = |device| {
            let chosen = sides.choose_of(family, StrategyName::new(name), device, &spec);
            chosen.unwrap().to_string()
        };
        let cuda = choose(DeviceChoice::cuda(0));
        assert!(cuda.contains("cuda:0 ") && cuda.ends_with("(as demanded)"), "{cuda}");
        let auto = choose(DeviceChoice::Auto);
        assert!(auto.contains(", cpu (") && auto.contains("with a GPU"), "{auto}");
        let cpu = choose(DeviceChoice::Cpu);
        assert!(cpu.starts_with(name) && cpu.ends_with(", cpu"), "{cpu}");
    }
}

/// Errors list each name once, in the order of the family.
#[test]
fn errors_list_a_name_once() {
    let sides = sides();
    let spec = spec(Measure::Jaccard, 0.5, sides.pairing);
    let choose = |name, device| {
        let family = family();
        sides.choose_of(family, StrategyName::new(name), device, &spec).unwrap_err().to_string()
    };
    let unknown = choose("none", DeviceChoice::Cpu);
    let on_gpu = choose("bitsliced", DeviceChoice::cuda(0));
    for error in [unknown, on_gpu] {
        assert_eq!(error.matches("ppjoin").count(), 1, "{error}");
        assert!(error.find("bitmap") < error.find("ppjoin"), "{error}");
        assert!(error.find("allpairs") < error.find("bwjoin"), "{error}");
    }
}
