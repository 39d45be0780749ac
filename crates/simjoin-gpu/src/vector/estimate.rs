//! The cost of the nested loop on a device, before it is known.

use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::metric::{Metric, Threshold};

use crate::engine::{Cost, MatchSpec, Pairing};
use crate::runtime::Device;
use crate::vector::abi::NumberRange;
use crate::vector::boxes::boxes_to_read;
use crate::vector::resident::ResidentVectors;
use crate::vector::shape::{VectorKernel, VectorShape};

/// Bytes a nanosecond over the bus, with the conversion to `f32`.
pub(super) const BUS: f64 = 20.0;

/// The cost on the device that is taken where none is named: as reckoned for an H200, or by the device
/// that is open.
pub fn estimate(build: &Vectors, threshold: Threshold, spec: &MatchSpec) -> Cost {
    /// Nanoseconds of a join besides: memory, plans, launches and answers of its first works.
    const START: f64 = 2.3e6;
    /// Nanoseconds of the device for a number that is prepared, and of a core for a number that is converted.
    const PREPARE: f64 = 0.01;
    const CONVERT: f64 = 0.5;
    let device = Device::opened(0);
    let (capability, multiprocessors) = match &device {
        Some(device) => (device.capability(), device.multiprocessors()),
        None => ((9, 0), 132),
    };
    let is_open = device.is_some();
    let slower = 132.0 / f64::from(multiprocessors.max(1));
    let kernel = VectorKernel::of(capability);
    let has_integers = spec.gpu.integers && are_integers(build, threshold.metric);
    let boxes = boxes_to_read(build, spec.pairing(), spec.tuning);
    let pairs = build.runs().iter().map(|run| {
        let dimensions = run.lens[1];
        let integers = VectorShape::of_integers(kernel, dimensions).filter(|_| has_integers);
        let boxed = boxes.and_then(|b| VectorShape::of_boxes(kernel, dimensions, b));
        let shape = boxed.or(integers).unwrap_or_else(|| VectorShape::new(kernel, dimensions));
        let pairs = f64::from(run.items.len() as u32).powi(2);
        pairs / shape.rate(dimensions)
    });
    // In a self-join, tiles out of reach are left out.
    let share = match (spec.pairing(), build.boxes()) {
        (Pairing::Unordered, Some(boxes)) => f64::from(boxes.share),
        _ => 1.0,
    };
    let all = share * pairs.sum::<f64>();
    let numbers = build.number_count() as f64;
    let probed = build.probe_ratio(spec) * numbers;
    let (pairs, of_probes) = match spec.pairing() {
        Pairing::Unordered => (all / 2.0, 0.0),
        Pairing::All => (build.probe_ratio(spec) * all, probed),
    };
    // The vectors may lie there already.
    let is_there = device.is_some_and(|device| ResidentVectors::bytes_on(&device, build) > 0);
    let sent = of_probes + if is_there { 0.0 } else { numbers };
    let begin = Device::time_to_begin(0).map_or(f64::INFINITY, |time| time.as_nanos() as f64);
    let setup = if is_open { 0.0 } else { begin };
    if threshold.is_void() {
        return Cost { setup: f64::INFINITY, ..Cost::default() };
    }
    Cost {
        cpu: CONVERT * of_probes,
        device: START + slower * (pairs + PREPARE * (numbers + of_probes)),
        transfer: 4.0 * sent / BUS,
        setup,
    }
}

/// Whether kernels of integers may take the vectors, as a sample has it.
fn are_integers(vectors: &Vectors, metric: Metric) -> bool {
    metric != Metric::Cosine && NumberRange::of_sample(vectors).centre(metric).is_some()
}
