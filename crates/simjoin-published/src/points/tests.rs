//! The published joins against all pairs.

use rand::prelude::*;

use super::PublishedPoints;
use crate::device_harness::vectors::{
    Drive, KINDS, PrepareOn, Sides, bound, drive, need, reservation, rounds, sides,
};
use crate::emulator::gpu;
use crate::engine::GpuOptions;
use crate::engine::{MatchNeed, PrepareContext};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::metric::{Metric, Threshold};

fn check(published: PublishedPoints, seed: u64, counts: bool) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut walked = 0;
    for round in 0..rounds(if counts { 60 } else { 20 }) {
        let kind = KINDS[round % KINDS.len()];
        let d = *[1, 2, 3, 8, 17].choose(&mut rng).unwrap();
        let sides = sides(&mut rng, kind, d, 190);
        let metric = Metric::Euclidean;
        let threshold = Threshold::new(metric, bound(&mut rng, &sides, metric));
        let expected = sides.expected(threshold);
        let need = if counts { MatchNeed::Count } else { need(&mut rng, &sides) };
        let prepare: PrepareOn = match published {
            PublishedPoints::Loop => |build, joining, devices, context| {
                PublishedPoints::Loop.prepare_on(build, joining, devices, context)
            },
            PublishedPoints::Directory => |build, joining, devices, context| {
                PublishedPoints::Directory.prepare_on(build, joining, devices, context)
            },
        };
        let drive = Drive { prepare, ..drive(&mut rng) };
        walked += u32::from(walks(published, &sides, threshold, need, drive));
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        let what = format!(
            "round {round}, {kind:?}, {d} dimensions, {threshold:?}, {need:?}, {:?}, {drive:?}",
            sides.pairing
        );
        sides.check(need, &given, &expected, &what);
    }
    if published == PublishedPoints::Directory && counts {
        assert!(walked > 10, "{walked} directories");
    }
}

/// Whether a join that lies on the device walks a directory.
fn walks(
    published: PublishedPoints,
    sides: &Sides,
    threshold: Threshold,
    need: MatchNeed,
    drive: Drive,
) -> bool {
    let (join, _) = sides.open(threshold, &sides.spec(need, GpuOptions::default()), drive).unwrap();
    let (memory, cancel) = (reservation(), CancelFlag::default());
    let context = PrepareContext::new(&memory, &cancel, Threads::small(2));
    let directory = published.directory(&sides.build, &join, context).unwrap();
    directory.is_some() && !drive.travels
}

#[test]
fn the_published_loop() {
    check(PublishedPoints::Loop, 101, false);
}

#[test]
fn the_published_directory() {
    check(PublishedPoints::Directory, 102, true);
}

/// Few joins count: others take the loop.
#[test]
fn the_published_directory_of_any_statement() {
    check(PublishedPoints::Directory, 103, false);
}
