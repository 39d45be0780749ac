//! The published joins against all pairs.

use rand::prelude::*;

use crate::emulator::gpu;
use crate::engine::MatchNeed;
use crate::vector::device::Published;
use crate::vector::device::tests::harness::Drive;
use crate::vector::device::tests::{KINDS, bound, drive, need, rounds, sides};
use crate::vector::metric::{Metric, Threshold};

fn check(published: Published, seed: u64, counts: bool) {
    if gpu().is_none() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..rounds(60) {
        let kind = KINDS[round % KINDS.len()];
        let d = *[1, 2, 3, 8, 17].choose(&mut rng).unwrap();
        let sides = sides(&mut rng, kind, d, 190);
        let metric = Metric::Euclidean;
        let threshold = Threshold { metric, bound: bound(&mut rng, &sides, metric) };
        let expected = sides.expected(threshold);
        let need = if counts { MatchNeed::Count } else { need(&mut rng, &sides) };
        let drive = Drive { published: Some(published), ..drive(&mut rng) };
        let (given, told) = sides.run(threshold, need, drive).unwrap();
        assert!(told.is_empty(), "{told:?}");
        let what = format!(
            "round {round}, {kind:?}, {d} dimensions, {threshold:?}, {need:?}, {:?}, {drive:?}",
            sides.pairing
        );
        sides.check(need, &given, &expected, &what);
    }
}

#[test]
fn the_published_loop() {
    check(Published::Loop, 101, false);
}

#[test]
fn the_published_directory() {
    check(Published::Directory, 102, true);
    check(Published::Directory, 103, false);
}
