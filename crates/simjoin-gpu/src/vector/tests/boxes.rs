//! Joins of vectors with boxes: stages out of the reach of a strip are not tested, and, of few dimensions,
//! groups of columns out of the reach of a group of rows.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use simjoin_core::vector::metric::{Metric, Threshold};

use super::harness::{Drive, Row, Sides};
use super::{bound, drive, need, rounds, rows, vector};
use crate::emulator::{Emulator, gpu};
use crate::engine::GpuOptions;
use crate::engine::{MatchNeed, Pairing};
use crate::offload::tiles::TileUnit;
use crate::runtime::Device;
use crate::vector::plan::Plan;
use crate::vector::shape::{VectorKernel, VectorShape};
use crate::vector::tests::Kind;
use crate::vector::work::{JobSettings, VectorJob};

/// Rows near a few centres, under some keys; some are wild.
fn clusters(rng: &mut StdRng, d: usize, count: usize) -> Vec<Row> {
    let centres = rows(rng, Kind::Unit, d, 12, 1);
    let keys = *[1, 1, 2].choose(rng).unwrap();
    let mut rows: Vec<Row> = vec![];
    while rows.len() < count {
        let Some(centre) = &centres.choose(rng).unwrap().1 else { continue };
        let near = centre.iter().map(|c| 10.0 * c + rng.random_range(-0.2..0.2)).collect();
        let row = match rng.random_range(0..50) {
            0 => (rng.random_range(0..keys), None, d as u32),
            1 => (rng.random_range(0..keys), Some(vector(rng, Kind::Wild, d)), 0),
            2 if !rows.is_empty() => rows.choose(rng).unwrap().clone(),
            _ => (rng.random_range(0..keys), Some(near), 0),
        };
        rows.push(row);
    }
    rows
}

#[test]
fn stages_out_of_reach_are_left_out() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(87);
    let (mut with_boxes, mut matches, mut left_out) = (0, 0, 0);
    for round in 0..rounds(8) {
        let d = *[2, 3, 8, 10, 17, 40].choose(&mut rng).unwrap();
        let rows = clusters(&mut rng, d, 600);
        let pairing = *[Pairing::Unordered, Pairing::All].choose(&mut rng).unwrap();
        let metric = *[Metric::Euclidean, Metric::Cosine].choose(&mut rng).unwrap();
        let plain = Sides::itself(&rows, pairing);
        let bound = match (rng.random_range(0..3), metric) {
            (0, _) => bound(&mut rng, &plain, metric),
            (_, Metric::Cosine) => rng.random_range(0.0..0.05),
            _ => rng.random_range(0.0..2.0),
        };
        let threshold = Threshold::new(metric, bound);
        let sides = Sides::ordered(&rows, pairing, threshold);
        let expected = sides.expected(threshold);
        assert_eq!(expected.len(), plain.expected(threshold).len());
        let (need, drive) = (need(&mut rng, &sides), drive(&mut rng));
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        let what = format!("round {round}, {d} dimensions, {threshold:?}, {need:?}, {drive:?}");
        sides.check(need, &given, &expected, &what);
        matches += expected.len();
        if sides.build.boxes().is_some() && !drive.travels && with_boxes < 3 {
            let drive = Drive { capacity: None, ..drive };
            let (given, _) = sides.run(threshold, need, drive).unwrap();
            let (all, _) = plain.run(threshold, need, drive).unwrap();
            left_out += usize::from(given.funnel.postings < all.funnel.postings);
            with_boxes += 1;
        }
    }
    assert!(matches > 1000, "only {matches} matches");
    assert!(left_out > 0, "{left_out} of {with_boxes} left stages out");
}

/// Whole numbers in place of all, of rows that have such.
fn make_whole(rows: &mut Vec<Row>) {
    rows.retain(|(_, vector, _)| vector.iter().flatten().all(|number| number.abs() < 1e3));
    for number in rows.iter_mut().filter_map(|row| row.1.as_mut()).flatten() {
        *number = number.round();
    }
}

fn shape_of(sides: &Sides, threshold: Threshold, need: MatchNeed, drive: Drive) -> VectorShape {
    let spec = sides.spec(need, GpuOptions::default());
    let (join, _) = sides.open(threshold, &spec, drive).unwrap();
    join.settings.form.shape
}

/// Ordered rows, with a threshold that few pairs satisfy.
fn near(rng: &mut StdRng, rows: &[Row], pairing: Pairing) -> (Sides, Threshold) {
    let metric = *[Metric::Euclidean, Metric::Euclidean, Metric::Cosine].choose(rng).unwrap();
    let bound = match (rng.random_range(0..3), metric) {
        (0, _) => bound(rng, &Sides::itself(rows, pairing), metric),
        (_, Metric::Cosine) => rng.random_range(0.0..0.05),
        _ => rng.random_range(0.0..2.0),
    };
    let threshold = Threshold::new(metric, bound);
    (Sides::ordered(rows, pairing, threshold), threshold)
}

/// One kernel is for up to 10 dimensions, one for up to 26; each unordered pair is tested once.
#[test]
fn groups_out_of_reach_are_not_multiplied() {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(88);
    let (mut boxed, mut matches, mut few) = ([0; 2], 0, 0);
    for round in 0..rounds(12) {
        let d = *[2, 3, 4, 5, 8, 10, 11, 17, 26, 27].choose(&mut rng).unwrap();
        // Many have several stages.
        let has_stages = round % 3 == 0;
        let count = rng.random_range(if has_stages { 2100..3000 } else { 200..1300 });
        let mut rows = clusters(&mut rng, d, count);
        if round % 4 == 0 {
            make_whole(&mut rows);
        }
        let pairing = if round % 8 == 7 { Pairing::All } else { Pairing::Unordered };
        let (sides, threshold) = near(&mut rng, &rows, pairing);
        let kernels = [VectorKernel::Warps, VectorKernel::Warpgroups];
        let drive = Drive {
            kernel: Emulator::get().map(|_| *kernels.choose(&mut rng).unwrap()),
            range: *[64, 200, u32::MAX, u32::MAX].choose(&mut rng).unwrap(),
            travels: round % 10 == 8,
            ..drive(&mut rng)
        };
        // Units that are done again test all pairs.
        let drive = match has_stages {
            true => Drive { capacity: None, range: drive.range.max(2048), ..drive },
            false => drive,
        };
        let need = need(&mut rng, &sides);
        let what = format!("round {round}, {d} dimensions, {threshold:?}, {need:?}, {drive:?}");
        let has_boxes = sides.build.boxes().is_some() && pairing == Pairing::Unordered && d <= 26;
        let shape = shape_of(&sides, threshold, need, drive);
        if drive.kernel.is_some() {
            assert_eq!(shape.reads_boxes(), has_boxes, "{what}");
        }
        let expected = sides.expected(threshold);
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        sides.check(need, &given, &expected, &what);
        matches += expected.len();
        if shape.reads_boxes() && !drive.travels {
            let steps = usize::from(d > 10);
            assert_eq!(shape.name, ["vectors_boxed_1", "vectors_boxed_2"][steps]);
            boxed[steps] += 1;
            let pairs = u64::from(sides.build.len()).pow(2) / 2;
            few += usize::from(has_stages && given.funnel.postings < pairs / 2);
        }
    }
    assert!(matches > 1000, "only {matches} matches");
    if Emulator::get().is_some() {
        assert!(boxed.iter().all(|&rounds| rounds > 2) && few > 1, "{boxed:?} {few}");
    }
}

/// A stage with too many hits has each pair decided, a part of it at a time: room for the matches of
/// a part is all that a work takes.
#[test]
fn stages_with_too_many_hits_are_cut() {
    if Emulator::get().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(91);
    for round in 0..3 {
        let d = [2, 4, 11][round];
        let rows = clusters(&mut rng, d, 4300);
        let threshold = Threshold::new(Metric::Euclidean, 0.01);
        let sides = Sides::ordered(&rows, Pairing::Unordered, threshold);
        let need = [MatchNeed::Count, MatchNeed::Pairs, MatchNeed::Exists][round % 3];
        let kernel = Some(VectorKernel::Warps);
        let drive = Drive { kernel, capacity: Some(100), ..Drive::on(0) };
        let (join, _) =
            sides.open(threshold, &sides.spec(need, GpuOptions::default()), drive).unwrap();
        let settings = JobSettings { capacity: 100, ..join.settings };
        assert!(settings.form.shape.reads_boxes());
        assert_eq!(settings.most_matches(), 512 * 128);
        let unit = |first_stage, stages| TileUnit { strip: 64, first_stage, stages };
        let plan = Plan { listed: vec![1, 3, 7], ..Plan::default() };
        let job = VectorJob {
            settings,
            plan: Arc::new(plan),
            units: vec![],
            dense: false,
            rows: None,
            columns: None,
            column_count: 1 << 14,
        };
        let cut = job.densely(&[unit(1, 1), unit(2, 1)], 20);
        let units: Vec<Vec<u32>> =
            cut.iter().map(|job| job.units.iter().map(|unit| unit.first_stage).collect()).collect();
        assert_eq!(units, [(48..64).chain(112..116).collect::<Vec<_>>(), (116..128).collect()]);
        for job in &cut {
            assert!(job.dense && job.units.iter().all(|u| (u.strip, u.stages) == (64, 1)));
            assert_eq!(job.stages_of(job.units[0]).next().unwrap().start, job.units[0].first_stage);
            // They are not cut again.
            assert_eq!(job.densely(&job.units[..2], 9)[0].units, job.units[..2]);
        }
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        sides.check(need, &given, &sides.expected(threshold), &format!("{d} dimensions, {need:?}"));
        // Each vector meets itself, so many stages have too many hits.
        assert!(given.funnel.verified > 1 << 20, "{:?}", given.funnel);
    }
}

/// Whatever fails, the pairs of the strips that the device drops are found, and once.
#[test]
fn the_cpu_decides_the_strips_that_a_failing_device_drops() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(89);
    let calls = [
        (None, 719),
        (Some("cuLaunchKernel"), 700),
        (Some("cuMemcpyHtoDAsync"), 1),
        (Some("cuMemcpyDtoHAsync"), 1),
        (Some("cuMemAlloc"), 2),
        (Some("cuEventSynchronize"), 719),
    ];
    let mut faults = 0;
    for (call, error) in calls {
        for nth in [1, 4, 8] {
            let d = rng.random_range(2..20);
            // One stage, and two.
            let count = rng.random_range(if nth == 4 { 2100..2500 } else { 600..1200 });
            let rows = clusters(&mut rng, d, count);
            let threshold = Threshold::new(Metric::Euclidean, 0.5);
            let sides = Sides::ordered(&rows, Pairing::Unordered, threshold);
            let need = need(&mut rng, &sides);
            let lease = emulator.device();
            let drive = Drive {
                ordinal: lease.ordinal(),
                kernel: Some(VectorKernel::Warps),
                range: 300,
                ahead: 3,
                capacity: *[None, Some(100)].choose(&mut rng).unwrap(),
                demanded: false,
                fault: Some((call, nth, error)),
                ..Drive::on(0)
            };
            let (given, _) = sides.run(threshold, need, drive).unwrap();
            let what = format!("{need:?} {drive:?}");
            sides.check(need, &given, &sides.expected(threshold), &what);
            faults += lease.stat("faults");
            sides.build.attached().clear();
            lease.expect_nothing_left(Device::close, &what);
        }
    }
    assert!(faults > 8, "{faults} faults happened");
}

/// With less memory the kernel takes its place that needs no boxes, and at last the build side travels.
#[test]
fn boxes_take_memory_of_the_device() {
    let Some(emulator) = Emulator::get() else { return };
    let mut rng = StdRng::seed_from_u64(90);
    let rows = clusters(&mut rng, 8, 500);
    let threshold = Threshold::new(Metric::Euclidean, 0.5);
    let sides = Sides::ordered(&rows, Pairing::Unordered, threshold);
    assert!(sides.build.boxes().is_some());
    let expected = sides.expected(threshold);
    let lease = emulator.device();
    let mut ran = vec![];
    let mut limit = 1_u64 << 24;
    while limit > 1 << 12 {
        let drive = Drive {
            ordinal: lease.ordinal(),
            kernel: Some(VectorKernel::Warpgroups),
            limit: Some(limit),
            ..Drive::on(0)
        };
        let gpu = GpuOptions { memory_limit: drive.limit, ..GpuOptions::default() };
        let spec = sides.spec(MatchNeed::Pairs, gpu);
        let Ok((join, _)) = sides.open(threshold, &spec, drive) else { break };
        let state = (join.settings.form.shape.reads_boxes(), join.pieces.is_some());
        drop(join);
        if !ran.contains(&state) {
            let (given, _) = sides.run(threshold, MatchNeed::Pairs, drive).unwrap();
            sides.check(MatchNeed::Pairs, &given, &expected, &format!("{drive:?}"));
            ran.push(state);
        }
        sides.build.attached().clear();
        limit -= limit / 64;
    }
    assert!(ran.starts_with(&[(true, false), (false, false)]), "{ran:?}");
    assert!(!ran.contains(&(true, true)));
    // They never are why numbers that prove to be wide travel.
    let state = |limit: u64| {
        let gpu = GpuOptions { memory_limit: Some(limit), ..GpuOptions::default() };
        let drive = Drive {
            ordinal: lease.ordinal(),
            kernel: Some(VectorKernel::Warpgroups),
            limit: Some(limit),
            ..Drive::on(0)
        };
        let opened = sides.open(threshold, &sides.spec(MatchNeed::Pairs, gpu), drive);
        sides.build.attached().clear();
        opened.ok().map(|(join, _)| (join.settings.form.shape.reads_boxes(), join.pieces))
    };
    let (mut without, mut with) = (1_u64 << 12, 1_u64 << 24);
    while without + 1 < with {
        let limit = without.midpoint(with);
        match state(limit) {
            Some((true, pieces)) => {
                assert_eq!(pieces, None);
                with = limit;
            }
            _ => without = limit,
        }
    }
    assert_eq!(state(without), Some((false, None)));
    lease.expect_nothing_left(Device::close, "boxes");
}
