//! The proofs of an inner product in `f32` about a pair.
//!
//! A vector x becomes x̂, rounded to `f32` after a translation (distances only), a scaling by a power
//! of two, or a division by its norm (cosine). r(x) is a bound on ‖x̂ − X‖, where X is x so changed
//! without rounding. The kernel computes p of x̂ and ŷ, and the textbook bound holds whatever the
//! order of the additions (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1):
//!
//! ```text
//! |p − x̂·ŷ| ≤ γ ‖x̂‖‖ŷ‖ + η ≤ γ/2 (‖x̂‖² + ‖ŷ‖²) + η        γ = d·u / (1 − d·u), u = 2⁻²⁴
//! ```
//!
//! with η for products that underflow. Everything else follows with bounds that are sums of a part
//! of x and a part of y, so that a pair is decided by one addition and one comparison:
//!
//! * Distances: D = ‖X − Y‖ lies within r(x) + r(y) of ‖x̂ − ŷ‖, whose square is
//!   ‖x̂‖² + ‖ŷ‖² − 2 x̂·ŷ. The pair does not match if that exceeds (E + r(x) + r(y))², which is at most
//!   E² + 2E r(x) + 2E r(y) + 2 r(x)² + 2 r(y)²; it matches if it is less than
//!   E² − 2E r(x) − 2E r(y), where E is the scaled threshold.
//! * Products: |X·Y − x̂·ŷ| ≤ r(x)‖ŷ‖ + r(y)‖x̂‖ + r(x) r(y), and
//!   r(x)‖ŷ‖ ≤ ½ (2²⁴ r(x)² + 2⁻²⁴ ‖ŷ‖²).
//!
//! The function itself rounds in `f64`: its value lies within a few d·2⁻⁵³ of the true one, relative
//! to the distance or to ‖x‖‖y‖, and the bounds allow for that too. Every bound is computed in `f64`
//! with a margin over its own rounding. A vector that these bounds do not fit (not finite, out of
//! range) gets bounds that prove nothing.

use super::collection::Vectors;
use super::filter::{Filter, ProductBounds, RowBounds};
use super::metric::{Metric, Threshold};
use super::middle::{Middle, spread, square_from, square_of_numbers};
use super::nan::NumberKind;
use super::rounding::{Changes, floats_of, sums_of};
pub(super) use super::rounding::{U32, U64};
use super::tile::Element;
use super::width::{Number, Vector, by_width};
use crate::engine::ItemId;
use crate::error::Result;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// Vectors of more dimensions are compared in `f64` alone: γ is stated for no more.
pub(super) const MOST_DIMENSIONS: usize = 1 << 17;

/// Scaled squares of norms above this could overflow `f32`.
const MOST_SQUARE: f64 = 1.267_650_600_228_229_4e30; // 2^100

/// Scales lie between 2^-400 and 2^400.
const MOST_EXPONENT: i32 = 400;

/// The relative rounding of sums of up to [`MOST_DIMENSIONS`] terms in `f64`, generously.
pub(super) const SUMS: f64 = 1e-9;

impl ProductBounds {
    /// The bounds of a vector that matches nothing.
    pub(super) const NEVER: Self = Self { reject: f32::NEVER, accept: f32::UNSURE };
    /// The bounds of a vector whose products prove nothing.
    const UNKNOWN: Self = Self { reject: f32::ALWAYS, accept: f32::UNSURE };
    /// The bounds of a vector that matches all but those with bounds that prove nothing, or no match.
    const SURE: Self = Self { reject: f32::ALWAYS, accept: f32::SURE };

    /// The bounds of a product that is off by `error`, with the threshold `least`.
    fn of_scaled(least: f64, error: f64) -> Self {
        // Greater ones cannot be told apart by products of such vectors.
        let least = least.clamp(-1e33, 1e33);
        let slack = least.abs() * U64;
        Self::of(least - slack - error, least + slack + error)
    }

    /// Bounds in `f32` that are safe for an addition in `f32`.
    fn of(reject: f64, accept: f64) -> Self {
        /// More than the rounding of an addition of two bounds.
        const ADDITION: f64 = 4.0 * U32;
        let reject = reject - reject.abs() * ADDITION;
        let accept = accept + accept.abs() * ADDITION;
        let (low, high) = (reject as f32, accept as f32);
        Self {
            reject: if f64::from(low) > reject { low.next_down() } else { low },
            accept: if f64::from(high) < accept { high.next_up() } else { high },
        }
    }
}

/// A vector that was rounded to `f32`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rounded {
    /// A vector that matches nothing.
    Never,
    /// Nothing is known of what was written.
    Unusual,
    /// A vector with NaN, which matches all that have a value and are not unusual, or none of them.
    Nan { matches: bool },
    /// ‖x̂‖², and r(x).
    Usual { square: f64, off: f64 },
}

/// Squares of distances of points, as a sum of squared differences gives them in `f32`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DistanceLimits {
    /// A point farther away than this is no partner, and a box holds none,
    pub reject: f32,
    /// and a point nearer than this is one.
    pub accept: f32,
}

/// Makes `f32` of the vectors of a join.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    threshold: Threshold,
    /// The point that is subtracted, by dimension; none for products.
    centre: Vec<f64>,
    /// The scale of distances.
    scale: f64,
}

/// A power of two that brings the greatest norm of those vectors near 1 that are usual.
pub(super) fn unit_scale<'a>(vectors: impl Iterator<Item = Vector<'a>>) -> f64 {
    let squares = vectors.map(|vector| square_from(vector, &[]));
    scale_for(squares.filter(|s| s.is_finite()).fold(0.0, f64::max).sqrt())
}

/// A power of two that brings `norm` near 1.
fn scale_for(norm: f64) -> f64 {
    if norm > 0.0 && norm.is_finite() {
        let exponent = -(norm.log2().round() as i32);
        2.0_f64.powi(exponent.clamp(-MOST_EXPONENT, MOST_EXPONENT))
    } else {
        1.0
    }
}

/// Whether a point lies far from most, by the square of its norm: a frame takes the greatest norm of its
/// sample to 2 at most, those of points that are far from most apart.
pub(super) fn is_far(square: f64) -> bool {
    square > 16.0
}

pub(super) fn square_of(vector: impl Iterator<Item = f64>) -> f64 {
    vector.map(|v| v * v).sum()
}

impl Threshold {
    /// Partners are at most `far` apart, and vectors nearer than `near` are partners, in a scale:
    /// vectors divided by their norms where the metric is that of angles. The function's rounding is
    /// allowed for. `None` of products.
    pub(super) fn distances(self, dimensions: usize, scale: f64) -> Option<[f64; 2]> {
        let (d, bound) = (dimensions as f64, self.bound);
        match self.metric {
            Metric::InnerProduct => None,
            Metric::Euclidean => {
                // The function's value is within this of the distance, relatively, or underflows.
                let (scaled, relative) = (bound * scale, (d + 8.0) * U64 / 256.0);
                Some([
                    scaled.max(0.0) * (1.0 + relative) + 1e-36,
                    scaled * (1.0 - relative) - 1e-36,
                ])
            }
            Metric::Cosine => {
                let slack = 8.0 * (4.0 * d + 64.0) * U64 / 512.0 + bound.abs() * SUMS;
                let chord = |distance: f64| scale * (2.0 * distance.max(0.0)).sqrt();
                let (far, near) = (chord(bound + slack), chord(bound - slack));
                Some([far * (1.0 + SUMS) + 1e-36, near * (1.0 - SUMS) - 1e-36])
            }
        }
    }
}

impl Frame {
    /// The frame for a build side; of many vectors, for a sample.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(build: &Vectors, threshold: Threshold, cancel: &CancelFlag) -> Result<Self> {
        /// Vectors that tell enough of the others: bounds hold for whatever centre and scale.
        const SAMPLE: usize = 1 << 11;
        let items = spread(0..build.len(), SAMPLE);
        Self::of_vectors(threshold, items.map(|item| build.vector(item)), cancel)
    }

    /// The frame for some vectors.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of_vectors<'a>(
        threshold: Threshold,
        vectors: impl Iterator<Item = Vector<'a>>,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        Self::of_some(threshold, &vectors.collect::<Vec<_>>(), Threads::ONE, cancel)
    }

    /// Like [`Self::of_vectors`], by several threads.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of_some(
        threshold: Threshold,
        vectors: &[Vector<'_>],
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        if threshold.metric != Metric::Euclidean {
            return Ok(Self { threshold, centre: vec![], scale: 1.0 });
        }
        let Middle { centre, radius, .. } = Middle::of_some(vectors, true, threads, cancel)?;
        Ok(Self { threshold, centre, scale: scale_for(radius) })
    }

    /// The scale of points: a distance is multiplied by it.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// ‖x̂‖² and r(x), or the bounds of a vector that has none.
    fn sorted_out(&self, rounded: Rounded) -> std::result::Result<(f64, f64), ProductBounds> {
        match rounded {
            Rounded::Usual { square, off } => Ok((square, off)),
            Rounded::Never => Err(ProductBounds::NEVER),
            Rounded::Unusual => Err(ProductBounds::UNKNOWN),
            Rounded::Nan { matches: true } => Err(ProductBounds::SURE),
            // Not even those of its kind; what is unusual is left open with it.
            Rounded::Nan { matches: false } => Err(ProductBounds::NEVER),
        }
    }

    /// Converts an item of either side, in the scale of distances, to a point: partners lie within
    /// [`Self::limits`] of each other.
    pub(super) fn point<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Rounded {
        match vectors.is_vector(item) {
            true => self.point_of(vectors.vector(item), to),
            false => Rounded::Never,
        }
    }

    /// Like [`Self::point`], of a vector.
    pub(super) fn point_of<'a>(
        &self,
        vector: Vector<'_>,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Rounded {
        self.round(vector, self.scale, to)
    }

    fn round<'a>(
        &self,
        vector: Vector<'_>,
        scale: f64,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Rounded {
        let rounded = by_width!(vector, |numbers| self.round_numbers(numbers, scale, to));
        rounded.unwrap_or_else(|| self.unusual(vector))
    }

    /// `None` of what is not usual.
    fn round_numbers<'a>(
        &self,
        vector: &[impl Number],
        scale: f64,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Option<Rounded> {
        let dimensions = vector.len();
        let (divisor, zero) = match self.threshold.metric {
            Metric::Cosine => {
                let square = square_of_numbers(vector, &[]);
                (square.sqrt(), square == 0.0)
            }
            _ => (1.0, false),
        };
        if zero {
            return Some(Rounded::Never);
        }
        let is_usual = (1e-130..1e150).contains(&divisor) && dimensions <= MOST_DIMENSIONS;
        if !is_usual {
            return None;
        }
        // Only distances have a centre.
        let centre = &self.centre[..self.centre.len().min(dimensions)];
        let (simd, changes) = (Simd::detect(), Changes { scale, factor: scale / divisor });
        let [given, square, error] = sums_of(simd, vector, centre, changes).total();
        // The function overflows for greater vectors. Not a number either.
        if !(given <= 1e300 && square <= MOST_SQUARE && error.is_finite()) {
            return None;
        }
        let mut to = to;
        floats_of(simd, vector, centre, changes, &mut |floats: &[f32]| {
            floats.iter().zip(&mut to).for_each(|(float, to)| *to = *float);
        });
        let mut off = error.sqrt() * (1.0 + SUMS) + 1e-40;
        if self.threshold.metric == Metric::Cosine {
            // The rounding of the norm.
            off += (dimensions as f64 + 8.0) * U64 / 512.0;
        }
        Some(Rounded::Usual { square, off })
    }

    /// The frame for another threshold of the metric.
    pub(super) fn within(&self, threshold: Threshold) -> Self {
        Self { threshold, ..self.clone() }
    }

    fn unusual(&self, vector: Vector<'_>) -> Rounded {
        let matches =
            NumberKind::of(vector).tame_sign().and_then(|sign| self.threshold.admits_nan(sign));
        matches.map_or(Rounded::Unusual, |matches| Rounded::Nan { matches })
    }

    /// The squares of distances, computed in `f32` as sums of squared differences, that decide the
    /// pairs of a point that is `off` by so much, with the square of its norm, with points that are off
    /// by `most_off` at most. `None` where no distance does.
    ///
    /// Partners lie at most `far` apart, so that one has a norm of ‖X‖ + `far` at most, and is off by a
    /// rounding of that: points far from all others do not widen the limits of these.
    ///
    /// The sum of d squares is off by (d + 4)·u of its value, as nothing cancels. For cosine the
    /// points lie on the unit sphere, where 1 − X·Y = ½‖X − Y‖².
    pub(super) fn limits(
        &self,
        dimensions: usize,
        [square, off]: [f64; 2],
        most_off: f64,
    ) -> Option<DistanceLimits> {
        let d = dimensions as f64;
        let [far, near] = self.threshold.distances(dimensions, self.scale)?;
        // A coordinate is off by half a step of an `f32`, or of the least one; see `round` for the rest.
        let norm = (square.sqrt() + off + far) * (1.0 + 4.0 * U32);
        let of_partner = norm * (U32 + U64) * (1.0 + SUMS) + d.sqrt() * 1e-45 + 1e-40;
        let of_partner = match self.threshold.metric {
            Metric::Cosine => most_off,
            Metric::Euclidean | Metric::InnerProduct => of_partner.min(most_off),
        };
        let most_off = if of_partner.is_nan() { most_off } else { of_partner };
        let both = (off + most_off) * (1.0 + SUMS);
        // Not a number, either.
        if !(far + both <= 1e15 && dimensions <= MOST_DIMENSIONS) {
            return None;
        }
        let gamma = (d + 8.0) * U32 * 1.01 + SUMS;
        let underflow = (d + 1.0) * 1e-42;
        let reject = (far + both) * (far + both) * (1.0 + gamma) + underflow;
        let inner = (near - both).max(0.0);
        let accept = (inner * inner * (1.0 - gamma) - underflow).max(0.0);
        let (high, low) = (reject as f32, accept as f32);
        Some(DistanceLimits {
            reject: if f64::from(high) < reject { high.next_up() } else { high },
            accept: if f64::from(low) > accept { low.next_down() } else { low },
        })
    }

    /// `square` is ‖x̂‖², `off` is r(x).
    fn of_distance(&self, dimensions: usize, square: f64, off: f64) -> ProductBounds {
        let d = dimensions as f64;
        let gamma = (d + 2.0) * U32 * 1.01 + 4.0 * SUMS;
        let underflow = (d + 1.0) * 1e-42;
        let Some([far, near]) = self.threshold.distances(dimensions, self.scale) else {
            return ProductBounds::UNKNOWN;
        };
        if far.is_nan() || far > 1e30 {
            return ProductBounds::UNKNOWN;
        }
        let reject = 0.5 * (square * (1.0 - gamma) - far * far / 2.0 * (1.0 + SUMS))
            - (far * off + off * off) * (1.0 + SUMS)
            - underflow;
        let accept = match near > 0.0 {
            true => {
                0.5 * (square * (1.0 + gamma) - near * near / 2.0 * (1.0 - SUMS))
                    + near * off * (1.0 + SUMS)
                    + underflow
            }
            false => f64::INFINITY,
        };
        ProductBounds::of(reject, accept)
    }

    /// The part of a vector in the error of a product.
    fn error_of_product(&self, dimensions: usize, square: f64, off: f64) -> f64 {
        let d = dimensions as f64;
        let gamma = (d + 2.0) * U32 * 1.01;
        let function = (4.0 * d + 64.0) * U64 / 512.0;
        let mut error = 0.5 * (gamma + U32) * square
            + 0.5 * (1.0 / U32 + 2.0) * off * off
            + function * (square + off * off)
            + (d + 1.0) * 1e-42;
        if self.threshold.metric == Metric::Cosine {
            error += function;
        }
        error * (1.0 + 1e-6)
    }
}

impl Filter for Frame {
    type Element = f32;

    fn threshold(&self) -> Threshold {
        self.threshold
    }

    fn places(dimensions: usize) -> usize {
        dimensions
    }

    /// For products a scale that fits the greatest vector of a panel, so that vectors of other norms
    /// elsewhere do not matter.
    fn panel_scale<'a>(&self, vectors: impl Iterator<Item = Vector<'a>>) -> f64 {
        match self.threshold.metric {
            Metric::Euclidean | Metric::Cosine => self.scale,
            Metric::InnerProduct => unit_scale(vectors),
        }
    }

    /// Where the products of an item would prove nothing, its places keep their zeros.
    fn build<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        scale: f64,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> ProductBounds {
        if !vectors.is_vector(item) {
            return ProductBounds::NEVER;
        }
        let vector = vectors.vector(item);
        match self.sorted_out(self.round(vector, scale, to)) {
            Err(bounds) => bounds,
            Ok((square, off)) => match self.threshold.metric {
                Metric::Euclidean => self.of_distance(vector.len(), square, off),
                Metric::InnerProduct | Metric::Cosine => {
                    ProductBounds::of_scaled(0.0, self.error_of_product(vector.len(), square, off))
                }
            },
        }
    }

    /// For products, a probe item has a scale of its own.
    fn probe<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> RowBounds<f32> {
        if !vectors.is_vector(item) {
            return RowBounds::Fixed(ProductBounds::NEVER);
        }
        let vector = vectors.vector(item);
        let scale = self.panel_scale(std::iter::once(vector));
        let (square, off) = match self.sorted_out(self.round(vector, scale, to)) {
            Err(bounds) => return RowBounds::Fixed(bounds),
            Ok(sums) => sums,
        };
        let d = vector.len();
        // The threshold of products, on one side alone.
        match self.threshold.metric {
            Metric::Euclidean => RowBounds::Fixed(self.of_distance(d, square, off)),
            Metric::Cosine => {
                let error = self.error_of_product(d, square, off);
                RowBounds::Fixed(ProductBounds::of_scaled(1.0 - self.threshold.bound, error))
            }
            Metric::InnerProduct => {
                let error = self.error_of_product(d, square, off);
                RowBounds::Scaled { slope: self.threshold.bound * scale, error, bias: 0.0 }
            }
        }
    }

    fn bounds_at(row: RowBounds<f32>, scale: f64) -> ProductBounds {
        match row {
            RowBounds::Fixed(bounds) => bounds,
            RowBounds::Scaled { slope, error, .. } => {
                ProductBounds::of_scaled(slope * scale, error)
            }
        }
    }
}
