//! Estimates of joins on the CPU and on a device.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use simjoin_core::vector::STRATEGIES as ON_CPU;
use simjoin_core::vector::VectorFamily;
use simjoin_core::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use simjoin_core::vector::join::VectorJoin;
use simjoin_core::vector::metric::{ArgumentOrder, Joining, Metric, Threshold};

use crate::emulator::gpu;
use crate::engine::{
    Argument, Collection, DeviceRequest, Estimate, Family, MatchNeed, MatchSpec, Orders, Pairing,
    PrepareContext, ProbeRows, Terms,
};
use crate::engine::{DeviceChoice, StrategyName};
use crate::memory::Budget;
use crate::predicate::{Call, Predicate, Side};
use crate::runtime::Device;
use crate::simd::Simd;
use crate::tuning::Tuning;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::STRATEGIES;

const THRESHOLD: Threshold = Threshold::new(Metric::Euclidean, 0.05);

/// Uniform vectors.
fn uniform(count: u32, d: u32) -> Arc<Vectors> {
    let mut rng = StdRng::seed_from_u64(u64::from(count + d));
    let mut read = ReadRows::default();
    for row in 0..count {
        let (start, content) = (read.numbers.len(), Content::Vector);
        read.rows.push(ReadRow { row, key: 0, content, len: d, start });
        read.numbers.extend((0..d).map(|_| rng.random_range(0.0..1.0)));
    }
    Arc::new(Vectors::of(vec![read], &CancelFlag::default()).unwrap())
}

fn spec(pairing: Pairing, probe_rows: ProbeRows) -> MatchSpec {
    MatchSpec {
        orders: Orders::of(pairing),
        need: MatchNeed::Count,
        probe_rows,
        candidate_chunk: 64,
        match_buffer: 1000,
        // Products of bytes would take less time than making an index of so few.
        simd: *Simd::available().iter().find(|simd| !simd.has_quick_bytes()).unwrap(),
        tuning: Tuning::small(),
        ..MatchSpec::default()
    }
}

/// The join, and the estimates of the nested loop, of that on devices, and of the index
/// `directory`. `open`: an open device is compared.
fn estimate(build: &Arc<Vectors>, spec: MatchSpec, open: bool) -> (VectorJoin, [Estimate; 3]) {
    let pool = Budget::unlimited();
    let reservation = pool.reservation();
    let cancel = CancelFlag::default();
    let context = PrepareContext::new(&reservation, &cancel, Threads::small(4));
    let joining =
        Joining { threshold: THRESHOLD, orders: ArgumentOrder::of(&spec, Side::Left), spec };
    let mut join = VectorJoin::new(Arc::clone(build), joining);
    let mut terms = Terms { is_only: false, open_device: None, context };
    let on_device = STRATEGIES[0].estimate(&mut join, &terms).unwrap();
    terms.open_device = on_device.cost.filter(|_| open).map(|cost| cost.elapsed(4));
    let mut of = |name: &str| {
        let strategy = ON_CPU.iter().find(|strategy| strategy.name() == name).unwrap();
        strategy.estimate(&mut join, &terms).unwrap()
    };
    let [on_cpu, directory] = ["nested-loop", "directory"].map(&mut of);
    (join, [on_cpu, on_device, directory])
}

/// The probe rows that are expected decide, not those of the build side.
#[test]
fn the_expected_probe_rows_decide_where_a_join_runs() {
    if gpu().is_none() {
        return;
    }
    let _device = Device::open(0).unwrap();
    let build = uniform(2_000, 64);
    let of = |rows: ProbeRows| {
        let (_, [on_cpu, on_gpu, _]) = estimate(&build, spec(Pairing::All, rows), true);
        [on_cpu, on_gpu].map(|of| of.cost.unwrap().elapsed(4))
    };
    let ([cpu, on_device], [few_cpu, few_on_device], [many_cpu, many_on_device]) =
        (of(ProbeRows::UNKNOWN), of(ProbeRows::expected(10)), of(ProbeRows::expected(10_000_000)));
    assert_eq!(of(ProbeRows::expected(2_000)), [cpu, on_device]);
    assert!(few_cpu < few_on_device, "{few_cpu} {few_on_device}");
    assert!(many_cpu > 2.0 * many_on_device, "{many_cpu} {many_on_device}");
    assert!(many_cpu > 1000.0 * few_cpu && many_on_device > on_device);
    // The pairs of a self-join are known.
    let itself = |rows| {
        let (_, [on_cpu, on_gpu, _]) = estimate(&build, spec(Pairing::Unordered, rows), true);
        [on_cpu, on_gpu].map(|of| of.cost.unwrap())
    };
    assert_eq!(itself(ProbeRows::UNKNOWN), itself(ProbeRows::expected(10_000_000)));
}

/// No index is sampled where an open device takes less time than making one. Without a device the
/// index is there, and the join by it.
#[test]
fn no_index_is_sampled_that_cannot_win() {
    if gpu().is_none() {
        return;
    }
    let build = uniform(100_000, 3);
    let itself = spec(Pairing::Unordered, ProbeRows::UNKNOWN);
    assert!(estimate(&build, itself, false).0.has_index());
    let _device = Device::open(0).unwrap();
    let (join, [_, on_gpu, _]) = estimate(&build, itself, true);
    assert!(!join.has_index(), "{:?}", on_gpu.cost);
}

/// Where the open device turns out not to take the join, the CPU is looked at once more.
#[test]
fn the_cpu_is_sampled_where_devices_refuse() {
    if gpu().is_none() {
        return;
    }
    let _device = Device::open(0).unwrap();
    let vectors = uniform(100_000, 3);
    let build: Arc<dyn Collection> = Arc::<Vectors>::clone(&vectors);
    let pool = Budget::unlimited();
    let reservation = pool.reservation();
    let cancel = CancelFlag::default();
    let context = PrepareContext::new(&reservation, &cancel, Threads::small(4));
    let call = Call { function: Metric::Euclidean.function(), first: Side::Left };
    let types = DataType::new_list(DataType::Float64, true);
    let family = VectorFamily::default().with_devices(STRATEGIES, None);
    let predicate = Predicate::new(call, THRESHOLD.bound);
    let matcher = family.bind(predicate, [Argument::of_type(&types); 2]).unwrap();
    let request = DeviceRequest {
        choice: DeviceChoice::Auto,
        self_join: true,
        work: f64::INFINITY,
        on_failure: Arc::new(|_| {}),
    };
    let mut spec = spec(Pairing::Unordered, ProbeRows::UNKNOWN);
    let chosen = |spec: &MatchSpec| {
        let auto = StrategyName::AUTO;
        matcher.choose(auto, &build, spec, &request, context).unwrap()
    };
    assert!(chosen(&spec).is_on_device());
    // Not even a work fits.
    spec.gpu.memory_limit = Some(1);
    let chosen = chosen(&spec);
    assert!(!chosen.is_on_device(), "{chosen}");
    assert!(chosen.chosen().strategy == "directory", "{chosen}");
}
