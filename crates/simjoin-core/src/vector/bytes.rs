//! The proofs of an inner product of 8-bit integers about a pair.
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

use super::bounds::{SUMS, U64, unit_scale};
use super::collection::Vectors;
use super::filter::{Filter, ProductBounds, RowBounds};
use super::metric::{Metric, Threshold};
use super::middle::{is_usual, square_from};
use super::nan::NumberKind;
use super::tile::Element;
use super::width::{Number, Vector, by_width};
use crate::engine::ItemId;
use crate::simd::{Floats, Simd, kernels};

/// Products of longer vectors could exceed what bounds leave room for: 255 · 128 · d ≤ 2²⁸.
pub(super) const MOST_DIMENSIONS: usize = 1 << 13;

/// The greatest absolute value of a coordinate.
pub(super) const MOST: f64 = 127.0;

/// Coordinates of an element.
pub(super) const QUAD: usize = 4;

/// Bounds lie within this of 0, besides [`Element::NEVER`] and [`Element::ALWAYS`].
const MOST_BOUND: f64 = (1 << 28) as f64;

/// Scales lie between the inverse of this and this.
pub(super) const MOST_SCALE: f64 = 1e100;

/// Makes bytes of the vectors of a join.
#[derive(Debug, Clone)]
pub(super) struct ByteFrame {
    simd: Simd,
    threshold: Threshold,
    /// The point that is subtracted, by dimension; none for products.
    centre: Vec<f64>,
    /// The scale of distances; for products, that of vectors whose norm is [near 1](unit_scale).
    scale: f64,
    /// For products, t.
    ratio: f64,
    /// For products, whether the scale is that of all vectors as they are.
    is_fixed: bool,
    /// For distances, the [head](Filter::head) of the filter.
    head: usize,
}

/// A vector that became integers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Quantised {
    /// A vector that matches nothing.
    Never,
    /// Nothing is known of it. Nothing was written.
    Unusual,
    /// A vector with NaN, as among those that are [`Rounded`](super::bounds::Rounded).
    Nan {
        matches: bool,
    },
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

impl ProductBounds<i32> {
    const NEVER: Self = Self { reject: i32::NEVER, accept: i32::UNSURE };
    const UNKNOWN: Self = Self { reject: i32::ALWAYS, accept: i32::UNSURE };
    const SURE: Self = Self { reject: i32::ALWAYS, accept: i32::SURE };

    /// The bounds of a product q·p whose given value is too great by `bias`: less than `reject` it is
    /// rejected, more than `accept` it is accepted.
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
    pub(super) fn new(
        simd: Simd,
        threshold: Threshold,
        centre: Vec<f64>,
        scale: f64,
        ratio: f64,
    ) -> Self {
        let sane = |v: f64, most: f64| if v >= 1.0 / most && v <= most { v } else { 1.0 };
        let (scale, ratio) = (sane(scale, MOST_SCALE), sane(ratio, 1e15));
        Self { simd, threshold, centre, scale, ratio, is_fixed: false, head: 0 }
    }

    /// The frame with a fixed scale, which inner products take as it is.
    pub(super) fn fixed(self) -> Self {
        Self { is_fixed: true, ..self }
    }

    /// The frame for distances most of whose tiles are rejected by their first `head` places.
    pub(super) fn with_head(self, head: usize) -> Self {
        Self { head, ..self }
    }

    /// The scale that takes the greatest coordinate to the border of the cube.
    pub(super) fn scale_for(greatest: f64) -> f64 {
        let scale = MOST / greatest;
        if scale.is_finite() { scale.clamp(1.0 / MOST_SCALE, MOST_SCALE) } else { 1.0 }
    }

    /// The scale of distances.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// The number that a vector is divided by before it is moved; `None` where it matches nothing.
    pub(super) fn divisor(metric: Metric, vector: Vector<'_>) -> Option<f64> {
        match metric {
            Metric::Cosine => Some(square_from(vector, &[]).sqrt()).filter(|n| *n != 0.0),
            Metric::Euclidean | Metric::InnerProduct => Some(1.0),
        }
    }

    /// Writes the integers of a vector, each with `bias` added to its byte.
    pub(super) fn quantise<'a>(
        &self,
        vector: Vector<'_>,
        scale: f64,
        bias: u8,
        to: impl Iterator<Item = &'a mut i32>,
    ) -> Quantised {
        let Some(divisor) = Self::divisor(self.threshold.metric, vector) else {
            return Quantised::Never;
        };
        let dimensions = vector.len();
        // Before anything is written: products of what is not usual are zeros.
        let is_usual = (1e-130..1e150).contains(&divisor) && is_usual(vector);
        if !is_usual || dimensions > MOST_DIMENSIONS {
            return self.unusual(vector);
        }
        let mut to = to;
        let mut write = |quads: [[u8; QUAD]; QUADS], count: usize| {
            for (quad, to) in quads.into_iter().take(count).zip(&mut to) {
                *to = i32::from_ne_bytes(quad.map(|q| q.wrapping_add(bias)));
            }
        };
        let scales = [1.0 / divisor, scale];
        let sums = by_width!(vector, |numbers| {
            integers(self.simd, numbers, &self.centre, scales, &mut write)
        });
        self.total(sums, dimensions, scale)
    }

    fn unusual(&self, vector: Vector<'_>) -> Quantised {
        let matches =
            NumberKind::of(vector).tame_sign().and_then(|sign| self.threshold.admits_nan(sign));
        matches.map_or(Quantised::Unusual, |matches| Quantised::Nan { matches })
    }

    fn total(&self, sums: LaneSums, dimensions: usize, scale: f64) -> Quantised {
        let [sum, square, off, all_off] = sums.0.map(|lanes| lanes.iter().sum::<f64>());
        let d = dimensions as f64;
        let mut rounding = d.sqrt() * COORDINATE;
        if self.threshold.metric == Metric::Cosine {
            // Of the norm, and of the division.
            rounding += scale * (d + 16.0) * U64 / 128.0;
        }
        let of = |off: f64| off.sqrt() * (1.0 + SUMS) + rounding;
        Quantised::Usual(Sums { sum, square, off: of(off), all_off: of(all_off) })
    }

    /// The bounds of a vector that has no sums.
    fn sorted_out(quantised: Quantised) -> std::result::Result<Sums, ProductBounds<i32>> {
        match quantised {
            Quantised::Usual(sums) => Ok(sums),
            Quantised::Never => Err(ProductBounds::<i32>::NEVER),
            Quantised::Unusual => Err(ProductBounds::<i32>::UNKNOWN),
            Quantised::Nan { matches: true } => Err(ProductBounds::<i32>::SURE),
            Quantised::Nan { matches: false } => Err(ProductBounds::<i32>::NEVER),
        }
    }

    fn of_distance(&self, dimensions: usize, sums: Sums, bias: f64) -> ProductBounds<i32> {
        let Some([far, near]) = self.threshold.distances(dimensions, self.scale) else {
            return ProductBounds::<i32>::UNKNOWN;
        };
        let Sums { square, off, all_off, .. } = sums;
        if far.is_nan() || far > 1e15 {
            return ProductBounds::<i32>::UNKNOWN;
        }
        let reject = 0.5 * (square - far * far / 2.0 * (1.0 + SUMS))
            - (far * off + off * off) * (1.0 + SUMS);
        let accept = match near > 0.0 {
            true => {
                0.5 * (square - near * near / 2.0 * (1.0 - SUMS)) + near * all_off * (1.0 + SUMS)
            }
            false => f64::INFINITY,
        };
        ProductBounds::<i32>::of(reject, accept, bias)
    }

    /// The part of a vector in the error of a product.
    fn error_of_product(&self, dimensions: usize, sums: Sums) -> f64 {
        let Sums { square, all_off, .. } = sums;
        let function = (4.0 * dimensions as f64 + 64.0) * U64 / 512.0;
        let error = 0.5 * (square / self.ratio + (self.ratio + 1.0) * all_off * all_off)
            + function * (square + all_off * all_off)
            + 1e-30;
        error * (1.0 + 1e-6)
    }

    /// The scale of a probe vector for products.
    fn row_scale(&self, vector: Vector<'_>) -> f64 {
        let greatest = vector.iter().fold(0.0, |greatest: f64, v| v.abs().max(greatest));
        match self.is_fixed && greatest <= MOST {
            true => 1.0,
            false => Self::scale_for(greatest),
        }
    }
}

/// More than the rounding of a coordinate within twice the cube, in `f64`.
const COORDINATE: f64 = U64 * 2.0 * MOST;

/// Coordinates that become integers at once.
const LANES: usize = QUAD * QUADS;
/// Elements of these.
const QUADS: usize = 4;

/// Sums of integers, of their squares, and of the squares of what they are off the cube's point and the
/// vector's. In lanes, which are the same in every form.
#[derive(Default)]
struct LaneSums([[f64; LANES]; 4]);

impl LaneSums {
    /// The integers of some coordinates; their low bytes.
    #[inline(always)]
    fn add(
        &mut self,
        numbers: &[impl Number; LANES],
        centre: &[f64; LANES],
        [inverse, scale]: [f64; 2],
    ) -> [[u8; QUAD]; QUADS] {
        /// Added to a number within ±2⁵¹, it leaves the nearest integer in the low bits.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let [sum, square, off, all_off] = &mut self.0;
        let mut integers = [[0; QUAD]; QUADS];
        for lane in 0..LANES {
            let exact = (numbers[lane].wide() * inverse - centre[lane]) * scale;
            let below = if exact < MOST { exact } else { MOST };
            let in_cube = if below > -MOST { below } else { -MOST };
            let rounded = in_cube + ROUND;
            let q = rounded - ROUND;
            let (rest, whole) = (q - in_cube, (q - exact).abs() + exact.abs() * U64);
            sum[lane] += q;
            square[lane] += q * q;
            off[lane] += rest * rest;
            all_off[lane] += whole * whole;
            integers[lane / QUAD][lane % QUAD] = rounded.to_bits() as u8;
        }
        integers
    }
}

/// The first numbers of a slice, and zeros behind them.
#[inline(always)]
fn padded(numbers: &[impl Number]) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    lanes.iter_mut().zip(numbers).for_each(|(lane, number)| *lane = number.wide());
    lanes
}

kernels! {
    /// Gives the integers of a vector to `write`, with the number of elements that count. A centre may have
    /// fewer dimensions, or more.
    fn integers[F: Floats, ; T: Number](
        vector: &[T],
        centre: &[f64],
        scales: [f64; 2],
        write: &mut impl FnMut([[u8; QUAD]; QUADS], usize),
    ) -> LaneSums {
        let mut sums = LaneSums::default();
        let centre = &centre[..centre.len().min(vector.len())];
        let (numbers, last) = vector.as_chunks::<LANES>();
        let (centres, rest) = centre.as_chunks::<LANES>();
        let mut centres = centres.iter();
        let mut rest = Some(rest);
        for numbers in numbers {
            let integers = match centres.next() {
                Some(centre) => sums.add(numbers, centre, scales),
                None => sums.add(numbers, &padded(rest.take().unwrap_or_default()), scales),
            };
            write(integers, QUADS);
        }
        if !last.is_empty() {
            let integers = sums.add(&padded(last), &padded(rest.take().unwrap_or_default()), scales);
            write(integers, last.len().div_ceil(QUAD));
        }
        sums
    }
}

impl Filter for ByteFrame {
    type Element = i32;

    fn threshold(&self) -> Threshold {
        self.threshold
    }

    fn places(dimensions: usize) -> usize {
        dimensions.div_ceil(QUAD)
    }

    fn head(&self) -> usize {
        self.head
    }

    fn panel_scale<'a>(&self, vectors: impl Iterator<Item = Vector<'a>>) -> f64 {
        match self.threshold.metric {
            Metric::InnerProduct if !self.is_fixed => {
                (self.scale * unit_scale(vectors)).clamp(1.0 / MOST_SCALE, MOST_SCALE)
            }
            _ => self.scale,
        }
    }

    fn build<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        scale: f64,
        to: impl Iterator<Item = &'a mut i32>,
    ) -> ProductBounds<i32> {
        if !vectors.is_vector(item) {
            return ProductBounds::<i32>::NEVER;
        }
        let vector = vectors.vector(item);
        match Self::sorted_out(self.quantise(vector, scale, 128, to)) {
            Err(bounds) => bounds,
            Ok(sums) => match self.threshold.metric {
                Metric::InnerProduct => {
                    let error = self.error_of_product(vector.len(), sums);
                    ProductBounds::<i32>::of(-error, error, 0.0)
                }
                Metric::Euclidean | Metric::Cosine => self.of_distance(vector.len(), sums, 0.0),
            },
        }
    }

    fn probe<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut i32>,
    ) -> RowBounds<i32> {
        if !vectors.is_vector(item) {
            return RowBounds::Fixed(ProductBounds::<i32>::NEVER);
        }
        let vector = vectors.vector(item);
        let is_product = self.threshold.metric == Metric::InnerProduct;
        let scale = if is_product { self.row_scale(vector) } else { self.scale };
        let sums = match Self::sorted_out(self.quantise(vector, scale, 0, to)) {
            Err(bounds) => return RowBounds::Fixed(bounds),
            Ok(sums) => sums,
        };
        // The other's bytes are greater by 128 than its integers.
        let bias = 128.0 * sums.sum;
        match is_product {
            true => {
                let error = self.error_of_product(vector.len(), sums);
                RowBounds::Scaled { slope: self.threshold.bound * scale, error, bias }
            }
            false => RowBounds::Fixed(self.of_distance(vector.len(), sums, bias)),
        }
    }

    fn bounds_at(row: RowBounds<i32>, scale: f64) -> ProductBounds<i32> {
        match row {
            RowBounds::Fixed(bounds) => bounds,
            RowBounds::Scaled { slope, error, bias } => {
                let least = (slope * scale).clamp(-1e33, 1e33);
                let error = error + least.abs() * U64;
                ProductBounds::<i32>::of(least - error, least + error, bias)
            }
        }
    }
}
