//! Joins of vectors with boxes: stages out of the reach of a strip are not tested.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::harness::{Drive, Row, Sides};
use super::{bound, drive, need, rounds, rows, vector};
use crate::emulator::gpu;
use crate::engine::Pairing;
use crate::vector::device::tests::Kind;
use crate::vector::metric::{Metric, Threshold};

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
    for round in 0..rounds(12) {
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
        let threshold = Threshold { metric, bound };
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
