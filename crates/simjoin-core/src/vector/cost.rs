//! The time that a core takes for pairs of vectors.

use super::collection::Vectors;
use crate::engine::MatchSpec;
use crate::simd::{Matrix, Simd};

/// The time for a pair of vectors in `f32`, in nanoseconds of a core: measured on an EPYC (Zen 4) with
/// 8 to 960 dimensions.
pub(super) fn pair_cost(dimensions: u32) -> f64 {
    /// The cost of the comparison, and of a dimension.
    const PAIR: f64 = 0.05;
    const DIMENSION: f64 = 0.019;
    PAIR + DIMENSION * f64::from(dimensions)
}

/// The cost of a pair of vectors in bytes, and of a dimension, likewise.
struct ByteCost {
    pair: f64,
    dimension: f64,
}

impl ByteCost {
    const IN_LANES: Self = Self { pair: 0.02, dimension: 0.0047 };
    /// Measured on a Xeon (Sapphire Rapids) with 64 to 3,072 dimensions, between the rates of one core and of
    /// two threads on each core.
    const IN_TILES: Self = Self { pair: 0.09, dimension: 0.0008 };

    fn of(simd: Simd) -> Self {
        if simd.matrix() == Matrix::Absent { Self::IN_LANES } else { Self::IN_TILES }
    }
}

/// The time for a pair of vectors in bytes, likewise.
pub(super) fn byte_cost(simd: Simd, dimensions: u32) -> f64 {
    let ByteCost { pair, dimension } = ByteCost::of(simd);
    pair + dimension * f64::from(dimensions)
}

/// The time of products of bytes by that of products in `f32`, of vectors of these dimensions or fewer, at least.
pub(super) fn least_ratio(simd: Simd, dimensions: u32) -> f64 {
    byte_cost(simd, dimensions) / pair_cost(dimensions)
}

/// The time to decide a pair in `f64`.
pub(super) fn decision_cost(dimensions: u32) -> f64 {
    const PAIR: f64 = 30.0;
    const DIMENSION: f64 = 0.5;
    PAIR + DIMENSION * f64::from(dimensions)
}

/// The time for the products of all pairs in `f32`, in nanoseconds of a core.
pub(super) fn all_pairs(build: &Vectors, spec: &MatchSpec) -> f64 {
    build.probe_ratio(spec) * own_pairs(build)
}

/// The time for the products of as many probe vectors as build vectors.
pub(super) fn own_pairs(build: &Vectors) -> f64 {
    let of_run = |items: u32, d: u32| pair_cost(d) * f64::from(items).powi(2);
    build.runs().iter().map(|run| of_run(run.items.len() as u32, run.lens[1])).sum()
}
