//! Tiles of vectors against all pairs, with buffers so small that units are done again. Without a
//! GPU the kernels run on the host.

mod boxes;
mod choice;
mod integers;

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

pub(crate) use crate::device_harness::vectors::{
    self as harness, KINDS, Kind, bound, drive, need, rounds, rows, sides, vector,
};

use simjoin_core::vector::metric::{Metric, Threshold};

use self::harness::{Drive, Given, Sides, reservation};
use crate::emulator::{Emulator, gpu};
use crate::engine::GpuOptions;
use crate::engine::{Cursor, MatchNeed, Pairing, UnitCursor};
use crate::memory::Budget;
use crate::offload::OnCpu;
use crate::predicate::NanScore;
use crate::runtime::Device;
use crate::vector::fallback::VectorsOnCpu;
use crate::vector::pairs::PairWorker;
use crate::vector::shape::{VECTORS, VectorKernel};

/// The threshold of a round: in some rounds NaN is as NULL.
fn threshold_of_round(metric: Metric, bound: f64, round: usize) -> Threshold {
    let nan = if (round / 7).is_multiple_of(2) { NanScore::Ordered } else { NanScore::Null };
    Threshold { metric, bound, nan }
}

/// Holds random joins of a kind to all pairs.
fn check_kind(kind: Kind, seed: u64) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut matches = 0;
    for round in 0..rounds(24) {
        let d = *[1, 2, 3, 10, 11, 17, 40, 150].choose(&mut rng).unwrap();
        let sides = sides(&mut rng, kind, d, if d > 20 { 70 } else { 190 });
        let metric = *Metric::ALL.choose(&mut rng).unwrap();
        let threshold = threshold_of_round(metric, bound(&mut rng, &sides, metric), round);
        let expected = sides.expected(threshold);
        let (need, drive) = (need(&mut rng, &sides), drive(&mut rng));
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        let what = format!(
            "round {round}, {kind:?}, {d} dimensions, {threshold:?}, {need:?}, {:?}, {drive:?}",
            sides.pairing
        );
        sides.check(need, &given, &expected, &what);
        matches += expected.len();
    }
    assert!(matches > 1000, "only {matches} matches");
}

#[test]
fn vectors_of_whole_numbers() {
    check_kind(Kind::Whole, 71);
}

#[test]
fn vectors_of_fractions() {
    check_kind(Kind::Unit, 72);
}

#[test]
fn vectors_near_each_other() {
    check_kind(Kind::Near, 73);
}

#[test]
fn vectors_of_different_scales() {
    check_kind(Kind::Scales, 74);
}

#[test]
fn vectors_of_wild_numbers() {
    check_kind(Kind::Wild, 75);
}

#[test]
fn vectors_far_from_most() {
    check_kind(Kind::Far, 251);
}

#[test]
fn vectors_with_nan() {
    check_kind(Kind::Nan, 252);
}

/// Few pairs are compared in `f64` where one vector in fifty is far from most, has a great norm, or has NaN.
#[test]
fn odd_vectors_cost_their_own_pairs_alone() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(253);
    let (d, count) = (24, 500);
    for odd in ["none", "far", "norms", "nan"] {
        let mut build = vec![];
        for row in 0..count {
            let mut vector = vector(&mut rng, Kind::Unit, d);
            let factor = match odd {
                "far" if row % 50 == 7 => 1e9,
                "norms" => 10_f64.powf(rng.random_range(0.0..6.0)),
                _ => 1.0,
            };
            vector.iter_mut().for_each(|v| *v *= factor);
            if odd == "nan" && row % 5 == 0 {
                vector[row % d] = f64::NAN;
            }
            build.push((0, Some(vector), 0));
        }
        for metric in Metric::ALL {
            for sides in
                [Sides::itself(&build, Pairing::Unordered), Sides::two(&build, &build[..150])]
            {
                let mut values = sides.values(metric);
                values.retain(|value| value.is_finite());
                values.sort_by(f64::total_cmp);
                let is_product = metric == Metric::InnerProduct;
                let place = if is_product {
                    values.len() - 1 - values.len() / 300
                } else {
                    values.len() / 300
                };
                let threshold = Threshold::new(metric, values[place]);
                let expected = sides.expected(threshold);
                let drive = Drive::on(0);
                let (given, told) = sides.run(threshold, MatchNeed::Count, drive).unwrap();
                assert!(told.is_empty(), "{told:?}");
                let what = format!("{odd} {threshold:?} {:?}", sides.pairing);
                sides.check(MatchNeed::Count, &given, &expected, &what);
                // NaN matches all that have a product, where it does: the device and the host decide.
                let all = sides.pairs().len() as u64;
                let nan = (odd, is_product) == ("nan", true);
                let most = if nan { all } else { all / 8 };
                assert!(given.funnel.verified < most, "{what} {:?}", given.funnel);
            }
        }
    }
}

/// A launch of several blocks, all of whose units one block takes: the other ones have none. On the host
/// blocks run one after the other.
#[test]
fn blocks_that_no_unit_is_left_for() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(86);
    for kernel in [VectorKernel::Warpgroups, VectorKernel::Warps, VectorKernel::Plain] {
        for (d, count) in [(3, 700), (18, 520), (160, 400)] {
            let sides = Sides::itself(&rows(&mut rng, Kind::Unit, d, count, 1), Pairing::Unordered);
            let metric = Metric::Euclidean;
            let threshold = Threshold::new(metric, bound(&mut rng, &sides, metric));
            let expected = sides.expected(threshold);
            let kernel = Emulator::get().map(|_| kernel);
            let drive = Drive { kernel, ..Drive::on(0) };
            let (given, told) = sides.run(threshold, MatchNeed::Count, drive).unwrap();
            assert!(told.is_empty(), "{told:?}");
            sides.check(MatchNeed::Count, &given, &expected, &format!("{d} dimensions, {drive:?}"));
        }
    }
}

/// Vectors without numbers have a distance, too, and no cosine.
#[test]
fn vectors_without_numbers() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(76);
    for metric in Metric::ALL {
        for bound in [-0.0, 0.0, 1.0] {
            let sides = sides(&mut rng, Kind::Unit, 0, 20);
            let threshold = Threshold::new(metric, bound);
            let expected = sides.expected(threshold);
            let need = need(&mut rng, &sides);
            let (given, _) = sides.run(threshold, need, Drive::on(0)).unwrap();
            sides.check(need, &given, &expected, &format!("{threshold:?} {need:?}"));
        }
    }
}

/// Keys whose vectors have other lengths are joined on the CPU; vectors of different lengths that meet
/// are an error.
#[test]
fn vectors_of_different_lengths() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(77);
    let threshold = Threshold::new(Metric::Euclidean, 2.0);
    for _ in 0..rounds(4) {
        let mut mixed = |count: usize| {
            let mut all = rows(&mut rng, Kind::Whole, 3, count, 3);
            for (key, d) in [(10, 5), (11, 1), (12, 5)] {
                let more = rows(&mut rng, Kind::Whole, d, count / 8, 1);
                all.extend(more.into_iter().map(|(_, vector, len)| (key, vector, len)));
            }
            all
        };
        let (build, probe) = (mixed(150), mixed(100));
        let all = [
            Sides::two(&build, &probe),
            Sides::itself(&build, Pairing::Unordered),
            Sides::itself(&build, Pairing::All),
        ];
        for sides in all {
            let expected = sides.expected(threshold);
            let (need, drive) = (need(&mut rng, &sides), drive(&mut rng));
            let (given, _) = sides.run(threshold, need, drive).unwrap();
            sides.check(need, &given, &expected, &format!("{need:?} {drive:?}"));
            // The last key gets a vector of another length.
            let mut more = build.clone();
            more.push((12, Some(vec![1.0, 2.0]), 0));
            let wrong = match (sides.pairing, Arc::ptr_eq(&sides.build, &sides.probe)) {
                (Pairing::All, false) => Sides::two(&build, &more),
                (pairing, _) => Sides::itself(&more, pairing),
            };
            let error = wrong.run(threshold, need, drive).err().unwrap().to_string();
            assert!(error.contains("vectors of the same length"), "{error}");
        }
    }
}

/// Numbers of different widths on the two sides.
#[test]
fn wide_numbers_meet_narrow_ones() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(78);
    for kinds in [[Kind::Unit, Kind::Near], [Kind::Near, Kind::Unit]] {
        let [build, probe] = kinds.map(|kind| rows(&mut rng, kind, 3, 120, 2));
        let sides = Sides::two(&build, &probe);
        for metric in Metric::ALL {
            let threshold = Threshold::new(metric, bound(&mut rng, &sides, metric));
            let expected = sides.expected(threshold);
            let (need, drive) = (need(&mut rng, &sides), drive(&mut rng));
            let (given, _) = sides.run(threshold, need, drive).unwrap();
            sides.check(need, &given, &expected, &format!("{kinds:?} {threshold:?} {need:?}"));
        }
    }
}

const CALLS: [Option<&str>; 10] = [
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

/// Whatever call fails, in whatever work: no match is lost, none comes twice, and nothing stays on
/// the device.
#[test]
fn the_cpu_decides_the_vectors_that_a_failing_device_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(79);
    let mut faults = 0;
    // Out of memory, invalid value, illegal address, launch failed.
    for (call, error) in CALLS.into_iter().flat_map(|call| [2, 1, 700, 719].map(|e| (call, e))) {
        let kind = *[Kind::Whole, Kind::Unit, Kind::Wild].choose(&mut rng).unwrap();
        let sides = sides(&mut rng, kind, 3, 150);
        let lease = emulator.device();
        let metric = *Metric::ALL.choose(&mut rng).unwrap();
        let threshold = Threshold::new(metric, bound(&mut rng, &sides, metric));
        let need = need(&mut rng, &sides);
        let drive = Drive {
            ordinal: lease.ordinal(),
            demanded: false,
            fault: Some((call, rng.random_range(1..12), error)),
            ..drive(&mut rng)
        };
        let (given, _) = sides.run(threshold, need, drive).unwrap();
        let what = format!("{threshold:?} {need:?} {drive:?}");
        sides.check(need, &given, &sides.expected(threshold), &what);
        faults += lease.stat("faults");
        sides.build.attached().clear();
        lease.expect_nothing_left(Device::close, &what);
    }
    assert!(faults > 15, "{faults} faults happened");
}

/// A query that insists on a device ends with the driver's message.
#[test]
fn a_demanded_device_that_fails_ends_the_query() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(80);
    let sides = Sides::itself(&rows(&mut rng, Kind::Unit, 3, 150, 1), Pairing::Unordered);
    let threshold = Threshold::new(Metric::Euclidean, 0.5);
    let lease = emulator.device();
    let fault = Some((None, 4, 700));
    let drive = Drive { ordinal: lease.ordinal(), fault, ..Drive::on(0) };
    let error = sides.run(threshold, MatchNeed::Pairs, drive).err().unwrap().to_string();
    assert!(error.contains("illegal"), "{error}");
    sides.build.attached().clear();
    lease.expect_nothing_left(Device::close, "demanded");
}

/// Whatever fails on one of two devices, the other one takes its vectors.
#[test]
fn a_device_takes_up_the_vectors_that_another_one_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(81);
    let calls =
        [None, Some("cuMemcpyHtoDAsync"), Some("cuLaunchKernel"), Some("cuMemcpyDtoHAsync")];
    // None, invalid value, illegal address.
    for (call, error) in calls.into_iter().flat_map(|call| [0, 1, 700].map(|e| (call, e))) {
        let leases = [emulator.device(), emulator.device()];
        let [first, second] = leases.each_ref().map(|lease| lease.ordinal());
        let sides = sides(&mut rng, Kind::Whole, 3, 150);
        let threshold = Threshold::new(Metric::Euclidean, 2.0);
        let need = need(&mut rng, &sides);
        let drive = Drive {
            ordinal: first,
            second: Some(second),
            range: 20,
            demanded: rng.random(),
            fault: (error != 0).then_some((call, rng.random_range(6..12), error)),
            ..drive(&mut rng)
        };
        let (given, _) = sides.run(threshold, need, drive).unwrap();
        let what = format!("{need:?} {drive:?}");
        sides.check(need, &given, &sides.expected(threshold), &what);
        assert!(leases[1].stat("launches") > 3, "{what}");
        sides.build.attached().clear();
        for lease in &leases {
            lease.expect_nothing_left(Device::close, &what);
        }
    }
}

/// Joins of one collection share its copy on a device, whatever the metric.
#[test]
fn joins_of_one_collection_share_its_copy() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(82);
    let sides = Sides::itself(&rows(&mut rng, Kind::Unit, 3, 50, 1), Pairing::Unordered);
    let lease = emulator.device();
    let drive = Drive { ordinal: lease.ordinal(), ..Drive::on(0) };
    let spec = sides.spec(MatchNeed::Pairs, GpuOptions::default());
    let open = |metric| sides.open(Threshold::new(metric, 0.5), &spec, drive).unwrap().0;
    let first = open(Metric::Euclidean);
    let allocated = lease.stat("allocated");
    let second = open(Metric::Cosine);
    assert_eq!(lease.stat("allocated"), allocated);
    drop((first, second));
    assert_eq!(lease.stat("allocated"), allocated, "the copy stays with the collection");
    sides.build.attached().clear();
    lease.expect_nothing_left(Device::close, "shared");
}

/// A collection that does not fit is refused, with what it would take.
#[test]
fn a_collection_that_does_not_fit_is_refused() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(83);
    let sides = Sides::itself(&rows(&mut rng, Kind::Unit, 3, 50, 1), Pairing::Unordered);
    let threshold = Threshold::new(Metric::Euclidean, 0.5);
    for limit in [1, 1 << 12] {
        let gpu = GpuOptions { memory_limit: Some(limit), ..GpuOptions::default() };
        let spec = sides.spec(MatchNeed::Pairs, gpu);
        let error = sides.open(threshold, &spec, Drive::on(0)).err().unwrap().to_string();
        assert!(error.contains("the vectors of the join"), "{error}");
    }
}

/// One that travels in pieces is joined all the same, within the limit.
#[test]
fn a_collection_that_does_not_fit_travels_in_pieces() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(85);
    let build = rows(&mut rng, Kind::Unit, 40, 36_000, 2);
    let probe = rows(&mut rng, Kind::Unit, 40, 20, 2);
    let sides = Sides::two(&build, &probe);
    let threshold = Threshold::new(Metric::Euclidean, 4.2);
    let expected = sides.expected(threshold);
    assert!(expected.len() > 50, "{}", expected.len());
    let lease = emulator.device();
    for need in [MatchNeed::Pairs, MatchNeed::Count] {
        let limit = Some(6_500_000);
        let drive = Drive { ordinal: lease.ordinal(), limit, ..Drive::on(0) };
        let gpu = GpuOptions { memory_limit: limit, ..GpuOptions::default() };
        let (join, _) = sides.open(threshold, &sides.spec(need, gpu), drive).unwrap();
        assert!(join.pieces.is_some(), "it fits");
        let (given, _) = sides.run(threshold, need, drive).unwrap();
        sides.check(need, &given, &expected, "in pieces");
    }
    lease.expect_nothing_left(Device::close, "in pieces");
}

/// All pairs one by one, and the late join on the CPU without memory for anything else.
#[test]
fn all_pairs_are_compared_without_memory() {
    let mut rng = StdRng::seed_from_u64(84);
    for round in 0..40 {
        let kind = KINDS[round % KINDS.len()];
        let sides = sides(&mut rng, kind, 3, 60);
        let metric = *Metric::ALL.choose(&mut rng).unwrap();
        let threshold = Threshold::new(metric, bound(&mut rng, &sides, metric));
        let need = need(&mut rng, &sides);
        let spec = sides.spec(need, GpuOptions::default());
        let drive = drive(&mut rng);
        let mut given = Given::default();
        let build = Arc::clone(&sides.build);
        let mut cursor: Box<dyn Cursor> = match round % 2 {
            0 => Box::new(UnitCursor::new(
                PairWorker::new(build, sides.joining(threshold, spec)),
                spec.tuning,
            )),
            _ => {
                let cpu = VectorsOnCpu { build, join: sides.joining(threshold, spec) };
                let on_cpu = OnCpu::new(cpu, &reservation());
                let pool = Budget::new(PairWorker::BYTES);
                let memory = pool.reservation();
                Box::new(on_cpu.open(&memory).unwrap())
            }
        };
        sides.drive(cursor.as_mut(), drive, &mut given).unwrap();
        given.funnel = cursor.funnel();
        let what = format!("round {round}, {kind:?}, {threshold:?}, {need:?}, {drive:?}");
        sides.check(need, &given, &sides.expected(threshold), &what);
    }
}

#[test]
fn images_are_what_their_names_say() {
    for (_, cubin) in VECTORS.cubins {
        assert!(cubin.starts_with(b"\x7fELF"));
        assert_eq!(cubin.as_ptr() as usize % 16, 0);
    }
    assert!(VECTORS.ptx.ends_with('\0') && VECTORS.ptx.contains(".version 8.4"));
}
