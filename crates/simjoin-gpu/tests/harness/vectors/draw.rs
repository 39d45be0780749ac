//! Vectors, bounds and drives, drawn at random.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use simjoin_core::engine::{MatchNeed, Pairing};
use simjoin_core::vector::metric::Metric;
use simjoin_gpu::vector::VectorKernel;

use super::{Drive, Row, Sides};
use crate::emulator::Emulator;

/// The numbers that vectors are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Small integers: values on the threshold, and equal vectors.
    Whole,
    Unit,
    /// `f64` that are no `f32`, all near to each other.
    Near,
    /// Far from the origin, or of very different norms.
    Scales,
    /// Every magnitude, and what is not finite.
    Wild,
    /// Some vectors far from most.
    Far,
    /// NaN among other numbers, of either sign.
    Nan,
}

pub(crate) const KINDS: [Kind; 5] = [Kind::Whole, Kind::Unit, Kind::Near, Kind::Scales, Kind::Wild];

const WILD: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e30,
    -1e-30,
    5e-324,
    1e-310,
    1e160,
    2e-160,
    f64::INFINITY,
    f64::NAN,
    f64::NEG_INFINITY,
    0.3,
    65504.0,
    1.0 + f64::EPSILON,
];

pub(crate) fn vector(rng: &mut StdRng, kind: Kind, d: usize) -> Vec<f64> {
    let scale = 10.0_f64.powi(rng.random_range(-6..6));
    let wild = rng.random_range(0..4);
    let far = match rng.random_range(0..12) {
        0 => 1e9,
        1 => 1e14,
        2 => 300.0,
        _ => 1.0,
    };
    let number = |rng: &mut StdRng, i: usize| match kind {
        Kind::Whole => f64::from(rng.random_range(-2_i8..=2)),
        Kind::Unit => f64::from(rng.random_range(-1.0_f32..1.0)),
        Kind::Near => 3.0 + i as f64 + rng.random_range(-1e-9..1e-9),
        Kind::Scales => scale * rng.random_range(0.0..1.0),
        Kind::Far => {
            far * (f64::from(rng.random_range(-1.0_f32..1.0)) + f64::from(u8::from(far == 1e14)))
        }
        Kind::Nan if wild == 0 && i.is_multiple_of(3) => f64::NAN.copysign(scale - 1.0),
        Kind::Nan if wild == 1 && rng.random_bool(0.3) => *WILD.choose(rng).unwrap(),
        Kind::Nan => f64::from(rng.random_range(-1.0_f32..1.0)),
        Kind::Wild if wild == 0 => *WILD.choose(rng).unwrap(),
        Kind::Wild => f64::from(rng.random_range(-1.0_f32..1.0)),
    };
    (0..d).map(|i| number(rng, i)).collect()
}

/// Rows under some keys; vectors repeat, and some have a NULL.
pub(crate) fn rows(rng: &mut StdRng, kind: Kind, d: usize, count: usize, keys: u32) -> Vec<Row> {
    let mut rows: Vec<Row> = vec![];
    for _ in 0..count {
        let key = rng.random_range(0..keys);
        let row = match rng.random_range(0..12) {
            0 => (key, None, d as u32),
            1 | 2 if !rows.is_empty() => {
                let (_, vector, len) = rows.choose(rng).unwrap().clone();
                (key, vector, len)
            }
            3 => (key, Some(vec![0.0; d]), 0),
            _ => (key, Some(vector(rng, kind, d)), 0),
        };
        rows.push(row);
    }
    rows
}

/// Bounds on, around and beyond the values of pairs.
pub(crate) fn bound(rng: &mut StdRng, sides: &Sides, metric: Metric) -> f64 {
    let mut values = sides.values(metric);
    values.sort_by(f64::total_cmp);
    let value = values.choose(rng).copied().unwrap_or(1.0);
    // Most of the time few pairs match.
    let few = match metric {
        Metric::InnerProduct => values.get((values.len() - values.len() / 10).saturating_sub(1)),
        Metric::Euclidean | Metric::Cosine => values.get(values.len() / 10),
    };
    let few = few.copied().unwrap_or(1.0);
    let bound = match rng.random_range(0..12) {
        0 => value,
        1 => value.next_up(),
        2 => value.next_down(),
        3 => few.next_down(),
        4 => *[0.0, -0.0, -1.0, 1e-300].choose(rng).unwrap(),
        5 => *[f64::INFINITY, f64::MAX, 1e200].choose(rng).unwrap(),
        6 => f64::NAN,
        _ => few,
    };
    // The bound NaN says that nothing matches.
    bound
}

pub(crate) fn drive(rng: &mut StdRng) -> Drive {
    // A real device has its own kernel; blocks of many threads take their time on the host.
    let kernel = match Emulator::get().map(|_| rng.random_range(0..6)) {
        None => None,
        Some(0) => Some(VectorKernel::Warpgroups),
        Some(1) => Some(VectorKernel::Warps),
        Some(_) => Some(VectorKernel::Plain),
    };
    Drive {
        kernel,
        match_buffer: *[1, 7, 1000].choose(rng).unwrap(),
        range: *[3, 64, 100, u32::MAX].choose(rng).unwrap(),
        ahead: rng.random_range(1..4),
        capacity: *[None, Some(1), Some(40), Some(1000)].choose(rng).unwrap(),
        travels: rng.random_bool(0.3),
        demanded: rng.random(),
        ..Drive::on(0)
    }
}

const NEEDS: [MatchNeed; 4] =
    [MatchNeed::Exists, MatchNeed::Count, MatchNeed::Pairs, MatchNeed::Scores];

/// A join of two inputs, or of an input with itself.
pub(crate) fn sides(rng: &mut StdRng, kind: Kind, d: usize, count: usize) -> Sides {
    let keys = *[1, 1, 3, 40].choose(rng).unwrap();
    let build = rows(rng, kind, d, count, keys);
    match rng.random_range(0..5) {
        0 | 1 => Sides::itself(&build, Pairing::Unordered),
        2 => Sides::itself(&build, Pairing::All),
        _ => {
            let probe = rows(rng, kind, d, count / 2, keys + 1);
            Sides::two(&build, &probe)
        }
    }
}

pub(crate) fn need(rng: &mut StdRng, sides: &Sides) -> MatchNeed {
    let needs = if sides.pairing == Pairing::Unordered { &NEEDS[1..] } else { &NEEDS };
    *needs.choose(rng).unwrap()
}

pub(crate) fn rounds(usual: usize) -> usize {
    let cases = std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|v| v.parse::<usize>().ok());
    cases.map_or(usual, |cases| cases * usual)
}
