//! Estimates of joins on the CPU and on a device.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::emulator::gpu;
use crate::engine::{
    AnyMatcher, Collection, DeviceRequest, Estimate, MatchNeed, MatchSpec, Orders, Pairing,
    Placement, PrepareContext, ProbeRows, Strategy, Terms,
};
use crate::engine::{DeviceChoice, GpuOptions, StrategyName};
use crate::gpu::Device;
use crate::memory::Budget;
use crate::predicate::Side;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::vector::axis::NormAxis;
use crate::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use crate::vector::encode::VectorValues;
use crate::vector::join::VectorJoin;
use crate::vector::matcher::VectorMatcher;
use crate::vector::metric::{ArgumentOrder, Joining, Metric, Threshold};
use crate::vector::strategies::{GRID, LoopOnDevices, NestedLoop};

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
        probe: Side::Left,
        orders: Orders::of(pairing),
        need: MatchNeed::Count,
        probe_rows,
        candidate_chunk: 64,
        match_buffer: 1000,
        // Products of bytes would take less time than making an index of so few.
        simd: *Simd::available().iter().find(|simd| !simd.has_quick_bytes()).unwrap(),
        gpu: GpuOptions::default(),
    }
}

/// The join, and the estimates of the nested loop and of `grid`, the index of few dimensions.
fn estimate(
    build: &Arc<Vectors>,
    spec: MatchSpec,
    placements: &[Placement],
) -> (VectorJoin, [Estimate; 3]) {
    let pool = Budget::unlimited();
    let reservation = pool.reservation();
    let cancel = CancelFlag::default();
    let context =
        PrepareContext { reservation: &reservation, cancel: &cancel, threads: 4, probes: None };
    let joining =
        Joining { threshold: THRESHOLD, orders: ArgumentOrder::of(&spec, Side::Left), spec };
    let mut join = VectorJoin::new(Arc::clone(build), joining);
    let terms = Terms { is_only: false, placements, context };
    let strategies: [&dyn Strategy<VectorJoin>; 3] = [&NestedLoop, &LoopOnDevices, &GRID];
    let estimates = strategies.map(|strategy| strategy.estimate(&mut join, &terms).unwrap());
    (join, estimates)
}

const BOTH: [Placement; 2] = [Placement::Cpu, Placement::Gpu];

/// The probe rows that are expected decide, not those of the build side.
#[test]
fn the_expected_probe_rows_decide_where_a_join_runs() {
    if gpu().is_none() {
        return;
    }
    let _device = Device::open(0).unwrap();
    let build = uniform(2_000, 64);
    let of = |rows: ProbeRows| {
        let (_, [on_cpu, on_gpu, _]) = estimate(&build, spec(Pairing::All, rows), &BOTH);
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
        let (_, [on_cpu, on_gpu, _]) = estimate(&build, spec(Pairing::Unordered, rows), &BOTH);
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
    assert!(estimate(&build, itself, &[Placement::Cpu]).0.sampled().is_some());
    let _device = Device::open(0).unwrap();
    let (join, [_, on_gpu, _]) = estimate(&build, itself, &BOTH);
    assert!(join.sampled().is_none(), "{:?}", on_gpu.cost);
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
    let context =
        PrepareContext { reservation: &reservation, cancel: &cancel, threads: 4, probes: None };
    let matcher = VectorMatcher {
        threshold: THRESHOLD,
        first: Side::Left,
        values: VectorValues::new(THRESHOLD, NormAxis::new(THRESHOLD, 3)),
        casts: [false; 2],
        comparisons: &[],
    };
    let request = DeviceRequest {
        choice: DeviceChoice::Auto,
        self_join: true,
        work: f64::INFINITY,
        on_failure: Arc::new(|_| {}),
    };
    let mut spec = spec(Pairing::Unordered, ProbeRows::UNKNOWN);
    let chosen = |spec: &MatchSpec| {
        let auto = StrategyName::AUTO;
        AnyMatcher::choose(&matcher, auto, &build, spec, &request, context).unwrap()
    };
    assert!(chosen(&spec).is_on_device());
    // Not even a work fits.
    spec.gpu.memory_limit = Some(1);
    let chosen = chosen(&spec);
    assert!(!chosen.is_on_device(), "{chosen}");
    assert!(["grid", "directory"].contains(&chosen.chosen().strategy), "{chosen}");
}
