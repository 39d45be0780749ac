//! What an inner product of 8-bit integers proves of a pair.
//!
//! A vector x becomes X, after a translation, a division by its norm (cosine) and a scaling, and then
//! the integers q nearest to X within the cube of ±127. Products of integers are exact. P(X) is the
//! point of the cube next to X; r(x) bounds ‖q − P(X)‖, and R(x) bounds ‖q − X‖. Again bounds are sums
//! of a part of x and a part of y:
//!
//! * Distances, and angles as distances of unit vectors: points of a cube are no farther from each other
//!   than what they are next to, so that ‖q − p‖ ≤ ‖X − Y‖ + r(x) + r(y), however far X lies outside.
//!   ‖q − p‖² is ‖q‖² + ‖p‖² − 2 q·p. The pair does not match if that exceeds (E + r(x) + r(y))², which
//!   is at most E² + 2E r(x) + 2E r(y) + 2 r(x)² + 2 r(y)²; it matches if it is less than
//!   E² − 2E R(x) − 2E R(y), where E is the scaled threshold.
//! * Products: |X·Y − q·p| ≤ R(x)‖p‖ + R(y)‖q‖ + R(x) R(y), and R(x)‖p‖ ≤ ½ (t R(x)² + ‖p‖²/t), where t
//!   is about the usual ratio of ‖q‖ to R(x).
//!
//! A kernel multiplies signed bytes with unsigned ones: build vectors become q + 128, which adds 128 Σ p
//! to the product with a probe vector, and its bound takes that away. Bounds are integers, rounded so
//! that they prove less. What they do not fit gets bounds that prove nothing.

use super::bounds::{Bounds, SUMS, U64, square_of};
use super::collection::Vectors;
use super::filter::Filter;
use super::metric::{Metric, Threshold};
use super::tile::Element;
use crate::engine::ItemId;

/// Products of longer vectors could exceed what bounds leave room for: 255 · 128 · d ≤ 2²⁸.
pub(super) const MOST_DIMENSIONS: usize = 1 << 13;

/// The greatest absolute value of a coordinate.
pub(super) const MOST: f64 = 127.0;

/// Coordinates of an element.
const QUAD: usize = 4;

/// Bounds lie within this of 0, besides [`Element::NEVER`] and [`Element::ALWAYS`].
const MOST_BOUND: f64 = (1 << 28) as f64;

/// Scales lie between the inverse of this and this.
pub(super) const MOST_SCALE: f64 = 1e100;

/// How the vectors of a join become bytes.
#[derive(Debug, Clone)]
pub(super) struct ByteFrame {
    threshold: Threshold,
    /// What is subtracted, by dimension; none for products.
    centre: Vec<f64>,
    /// The scale of distances, and of the build side's vectors for products.
    scale: f64,
    /// For products, t.
    ratio: f64,
}

/// A vector that became integers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Quantised {
    /// It matches nothing.
    Never,
    /// Nothing is known of what was written.
    Unusual,
    Usual(Sums),
}

/// Sums over the integers q of a vector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    /// Σ q.
    pub sum: f64,
    /// ‖q‖².
    pub square: f64,
    /// r(x), and R(x).
    pub off: f64,
    pub all_off: f64,
}

/// An integer that nothing smaller than a bound is.
fn at_least(bound: f64) -> f64 {
    (bound + bound.abs() * 1e-12 + 1e-6).ceil()
}

impl Bounds<i32> {
    const NEVER: Self = Self { reject: i32::NEVER, accept: i32::UNSURE };
    const UNKNOWN: Self = Self { reject: i32::ALWAYS, accept: i32::UNSURE };

    /// Of a product q·p, which is given with `bias` too much: less than `reject` it is rejected, more
    /// than `accept` it is accepted.
    fn of(reject: f64, accept: f64, bias: f64) -> Self {
        // A product is rejected below 0 with this added, and then compared.
        let moved = at_least(-reject) - bias;
        if moved.is_nan() || moved > MOST_BOUND {
            return Self::UNKNOWN;
        }
        let moved = moved.max(-MOST_BOUND);
        let accept = at_least(accept) + bias + moved;
        let is_sure = accept.abs() < f64::from(i32::MAX);
        Self { reject: moved as i32, accept: if is_sure { accept as i32 } else { i32::UNSURE } }
    }
}

impl ByteFrame {
    /// A frame with this centre and scale; any prove only what is true. `ratio` is t.
    pub(super) fn new(threshold: Threshold, centre: Vec<f64>, scale: f64, ratio: f64) -> Self {
        let sane = |v: f64, most: f64| if v >= 1.0 / most && v <= most { v } else { 1.0 };
        Self { threshold, centre, scale: sane(scale, MOST_SCALE), ratio: sane(ratio, 1e15) }
    }

    /// The scale that takes the greatest coordinate to the border of the cube.
    pub(super) fn scale_for(greatest: f64) -> f64 {
        let scale = MOST / greatest;
        if scale.is_finite() { scale.clamp(1.0 / MOST_SCALE, MOST_SCALE) } else { 1.0 }
    }

    /// What a vector is divided by before it is moved; `None` where it matches nothing.
    pub(super) fn divisor(metric: Metric, vector: &[f64]) -> Option<f64> {
        match metric {
            Metric::Cosine => Some(square_of(vector.iter().copied()).sqrt()).filter(|n| *n != 0.0),
            Metric::Euclidean | Metric::InnerProduct => Some(1.0),
        }
    }

    /// Writes the integers of a vector, each with `bias` added to its byte.
    pub(super) fn quantise<'a>(
        &self,
        vector: &[f64],
        scale: f64,
        bias: u8,
        to: impl Iterator<Item = &'a mut i32>,
    ) -> Quantised {
        let Some(divisor) = Self::divisor(self.threshold.metric, vector) else {
            return Quantised::Never;
        };
        let dimensions = vector.len();
        if !(1e-130..1e150).contains(&divisor) || dimensions > MOST_DIMENSIONS {
            return Quantised::Unusual;
        }
        let (mut to, mut sums) = (to, LaneSums::default());
        let (quads, last) = vector.as_chunks::<QUAD>();
        let (centres, rest) = self.centre.as_chunks::<QUAD>();
        let mut centres = centres.iter();
        let at_end = |rest: &[f64]| std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0.0));
        let mut after = Some(at_end(rest));
        let mut write = |quad: &[f64; QUAD], count: usize| {
            let centre = centres.next().copied().or_else(|| after.take()).unwrap_or_default();
            let quad = sums.add(quad, &centre, [1.0 / divisor, scale], count);
            if let Some(to) = to.next() {
                *to = i32::from_ne_bytes(quad.map(|q| (q as u8).wrapping_add(bias)));
            }
        };
        quads.iter().for_each(|quad| write(quad, QUAD));
        if !last.is_empty() {
            write(&at_end(last), last.len());
        }
        self.total(sums, dimensions, scale)
    }

    fn total(&self, sums: LaneSums, dimensions: usize, scale: f64) -> Quantised {
        let [given, sum, square, off, all_off] = sums.0.map(|lanes| lanes.iter().sum::<f64>());
        // The function overflows for greater vectors. Not a number either.
        if given.is_nan() || given > 1e300 {
            return Quantised::Unusual;
        }
        let d = dimensions as f64;
        let mut rounding = d.sqrt() * COORDINATE;
        if self.threshold.metric == Metric::Cosine {
            // Of the norm, and of the division.
            rounding += scale * (d + 16.0) * U64 / 128.0;
        }
        let of = |off: f64| off.sqrt() * (1.0 + SUMS) + rounding;
        Quantised::Usual(Sums { sum, square, off: of(off), all_off: of(all_off) })
    }

    fn convert<'a>(
        &self,
        vector: &[f64],
        scale: f64,
        role: Role,
        to: impl Iterator<Item = &'a mut i32>,
    ) -> Bounds<i32> {
        let (bias, least) = match role {
            Role::Build => (128, 0.0),
            Role::Probe { least } => (0, least),
        };
        let sums = match self.quantise(vector, scale, bias, to) {
            Quantised::Never => return Bounds::<i32>::NEVER,
            Quantised::Unusual => return Bounds::<i32>::UNKNOWN,
            Quantised::Usual(sums) => sums,
        };
        // The other's bytes are greater by 128 than its integers.
        let bias = if role == Role::Build { 0.0 } else { 128.0 * sums.sum };
        match self.threshold.metric {
            Metric::InnerProduct => self.of_product(vector.len(), sums, least, bias),
            Metric::Euclidean | Metric::Cosine => self.of_distance(vector.len(), sums, bias),
        }
    }

    fn of_distance(&self, dimensions: usize, sums: Sums, bias: f64) -> Bounds<i32> {
        let Some([far, near]) = self.threshold.distances(dimensions, self.scale) else {
            return Bounds::<i32>::UNKNOWN;
        };
        let Sums { square, off, all_off, .. } = sums;
        if far.is_nan() || far > 1e15 {
            return Bounds::<i32>::UNKNOWN;
        }
        let reject = 0.5 * (square - far * far / 2.0 * (1.0 + SUMS))
            - (far * off + off * off) * (1.0 + SUMS);
        let accept = match near > 0.0 {
            true => {
                0.5 * (square - near * near / 2.0 * (1.0 - SUMS)) + near * all_off * (1.0 + SUMS)
            }
            false => f64::INFINITY,
        };
        Bounds::<i32>::of(reject, accept, bias)
    }

    fn of_product(&self, dimensions: usize, sums: Sums, least: f64, bias: f64) -> Bounds<i32> {
        let Sums { square, all_off, .. } = sums;
        let function = (4.0 * dimensions as f64 + 64.0) * U64 / 512.0;
        let error = 0.5 * (square / self.ratio + (self.ratio + 1.0) * all_off * all_off)
            + function * (square + all_off * all_off)
            + 1e-30;
        let error = error * (1.0 + 1e-6) + least.abs() * U64;
        Bounds::<i32>::of(least - error, least + error, bias)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Build,
    /// With the threshold of products, on one side alone.
    Probe {
        least: f64,
    },
}

/// More than the rounding of a coordinate within twice the cube, in `f64`.
const COORDINATE: f64 = U64 * 2.0 * MOST;

/// Sums of squares of what is given, of integers, of their squares, and of the squares of what they
/// are off the cube's point and the vector's. In lanes: additions wait for each other.
#[derive(Default)]
struct LaneSums([[f64; QUAD]; 5]);

impl LaneSums {
    /// The integers of four coordinates, of which `count` count; their low bytes.
    #[inline(always)]
    fn add(
        &mut self,
        quad: &[f64; QUAD],
        centre: &[f64; QUAD],
        [inverse, scale]: [f64; 2],
        count: usize,
    ) -> [i64; QUAD] {
        /// Added to a number within ±2⁵¹, it leaves the nearest integer in the low bits.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let [given, sum, square, off, all_off] = &mut self.0;
        let mut integers = [0; QUAD];
        for lane in 0..QUAD {
            let number = quad[lane];
            let exact = match lane < count {
                true => (number * inverse - centre[lane]) * scale,
                false => 0.0,
            };
            let in_cube = exact.clamp(-MOST, MOST);
            let rounded = in_cube + ROUND;
            let q = rounded - ROUND;
            let (rest, whole) = (q - in_cube, (q - exact).abs() + exact.abs() * U64);
            given[lane] += number * number;
            sum[lane] += q;
            square[lane] += q * q;
            off[lane] += rest * rest;
            all_off[lane] += whole * whole;
            integers[lane] = rounded.to_bits() as i64;
        }
        integers
    }
}

impl Filter for ByteFrame {
    type Element = i32;

    fn places(dimensions: usize) -> usize {
        dimensions.div_ceil(QUAD)
    }

    fn build<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut i32>,
    ) -> Bounds<i32> {
        match vectors.is_vector(item) {
            true => self.convert(vectors.vector(item), self.scale, Role::Build, to),
            false => Bounds::<i32>::NEVER,
        }
    }

    fn probe_scale<'a>(&self, vectors: impl Iterator<Item = &'a [f64]>) -> f64 {
        match self.threshold.metric {
            Metric::Euclidean | Metric::Cosine => self.scale,
            Metric::InnerProduct => {
                let usual = vectors.filter(|vector| square_of(vector.iter().copied()) <= 1e300);
                Self::scale_for(usual.flatten().fold(0.0, |greatest, v| v.abs().max(greatest)))
            }
        }
    }

    fn probe<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        scale: f64,
        to: impl Iterator<Item = &'a mut i32>,
    ) -> Bounds<i32> {
        let least = match self.threshold.metric {
            Metric::InnerProduct => (self.threshold.bound * self.scale * scale).clamp(-1e33, 1e33),
            Metric::Euclidean | Metric::Cosine => 0.0,
        };
        match vectors.is_vector(item) {
            true => self.convert(vectors.vector(item), scale, Role::Probe { least }, to),
            false => Bounds::<i32>::NEVER,
        }
    }
}
