//! What an inner product in `f32` proves of a pair.
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

use datafusion::common::Result;

use super::collection::Vectors;
use super::metric::{Metric, Threshold};
use super::tile::Element;
use crate::engine::ItemId;
use crate::util::cancel::CancelFlag;

/// Vectors of more dimensions are compared in `f64` alone: γ is stated for no more.
const MOST_DIMENSIONS: usize = 1 << 17;

/// Scaled squares of norms above this could overflow `f32`.
const MOST_SQUARE: f64 = 1.267_650_600_228_229_4e30; // 2^100

/// Scales lie between 2^-400 and 2^400.
const MOST_EXPONENT: i32 = 400;

/// The relative rounding of sums of up to [`MOST_DIMENSIONS`] terms in `f64`, generously.
pub(super) const SUMS: f64 = 1e-9;

/// The rounding of an `f32`.
pub(super) const U32: f64 = 1.0 / (1 << 24) as f64;
/// 2⁻⁴³, far above the rounding of a single `f64`.
pub(super) const U64: f64 = U32 * U32 * 32.0;

/// What a product proves: of a pair whose product is less than the sum of both `reject`, that it does
/// not match; greater than the sum of both `accept`, that it does. Of bytes, see [`super::bytes`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds<T = f32> {
    pub reject: T,
    pub accept: T,
}

impl Bounds {
    /// Of a vector that matches nothing.
    pub(super) const NEVER: Self = Self { reject: f32::NEVER, accept: f32::UNSURE };
    /// Of a vector whose products prove nothing.
    const UNKNOWN: Self = Self { reject: f32::ALWAYS, accept: f32::UNSURE };

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
    /// It matches nothing.
    Never,
    /// Nothing is known of what was written.
    Unusual,
    /// ‖x̂‖², and r(x).
    Usual { square: f64, off: f64 },
}

/// Squares of distances of points, as a sum of squared differences gives them in `f32`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// A point farther away than this is no partner, and a box holds none,
    pub reject: f32,
    /// and a point nearer than this is one.
    pub accept: f32,
}

/// How the vectors of a join become `f32`.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    threshold: Threshold,
    /// What is subtracted, by dimension; none for products.
    centre: Vec<f64>,
    /// The scale of distances, and of the build side's vectors for products.
    scale: f64,
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

pub(super) fn square_of(vector: impl Iterator<Item = f64>) -> f64 {
    vector.map(|v| v * v).sum()
}

/// Sums over the numbers of a vector x: of the squares of x, of x̂, and of what x̂ is off. In lanes:
/// additions wait for each other.
#[derive(Default)]
struct Sums([[f64; SUM_LANES]; 3]);

const SUM_LANES: usize = 8;

impl Sums {
    /// Adds numbers, which `exact` changes with those of a centre.
    #[inline]
    fn add(&mut self, vector: &[f64], centre: &[f64], exact: impl Fn(f64, f64) -> f64) {
        let (numbers, last) = vector.as_chunks::<SUM_LANES>();
        let (centres, last_centres) = centre[..vector.len()].as_chunks::<SUM_LANES>();
        for (numbers, centres) in numbers.iter().zip(centres) {
            for lane in 0..SUM_LANES {
                self.add_one(lane, numbers[lane], exact(numbers[lane], centres[lane]));
            }
        }
        for (lane, (number, centre)) in last.iter().zip(last_centres).enumerate() {
            self.add_one(lane, *number, exact(*number, *centre));
        }
    }

    #[inline(always)]
    fn add_one(&mut self, lane: usize, number: f64, exact: f64) {
        let float = f64::from(exact as f32);
        let off = (float - exact).abs() + exact.abs() * U64;
        let [given, square, error] = &mut self.0;
        given[lane] += number * number;
        square[lane] += float * float;
        error[lane] += off * off;
    }

    fn total(&self) -> [f64; 3] {
        self.0.map(|lanes| lanes.iter().sum())
    }
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
        const SAMPLE: usize = 1 << 14;
        let step = (build.len() as usize / SAMPLE).max(1);
        let items = (0..build.len()).step_by(step);
        Self::of_vectors(threshold, || items.clone().map(|item| build.vector(item)), cancel)
    }

    /// The frame for the vectors that `vectors` gives.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of_vectors<'a, I: Iterator<Item = &'a [f64]>>(
        threshold: Threshold,
        vectors: impl Fn() -> I,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let mut frame = Self { threshold, centre: vec![], scale: 1.0 };
        let usual = |vector: &&[f64]| square_of(vector.iter().copied()) < 1e300;
        if threshold.metric == Metric::Euclidean {
            let mut counts: Vec<f64> = vec![];
            for (step, vector) in vectors().filter(usual).enumerate() {
                cancel.check_at(step)?;
                if vector.len() > frame.centre.len() {
                    frame.centre.resize(vector.len(), 0.0);
                    counts.resize(vector.len(), 0.0);
                }
                for ((sum, count), v) in frame.centre.iter_mut().zip(&mut counts).zip(vector) {
                    *sum += v;
                    *count += 1.0;
                }
            }
            frame.centre.iter_mut().zip(&counts).for_each(|(sum, count)| *sum /= count);
            // Any centre will do.
            frame.centre.iter_mut().filter(|c| !c.is_finite()).for_each(|c| *c = 0.0);
        }
        if threshold.metric != Metric::Cosine {
            let mut greatest = 0.0_f64;
            for (step, vector) in vectors().filter(usual).enumerate() {
                cancel.check_at(step)?;
                let moved = vector.iter().enumerate().map(|(i, v)| v - frame.centre_at(i));
                let square = square_of(moved);
                greatest = if square.is_finite() { greatest.max(square) } else { greatest };
            }
            frame.scale = scale_for(greatest.sqrt());
        }
        Ok(frame)
    }

    fn centre_at(&self, dimension: usize) -> f64 {
        self.centre.get(dimension).copied().unwrap_or(0.0)
    }

    /// The scale of a block of probe vectors.
    pub(super) fn probe_scale<'a>(&self, vectors: impl Iterator<Item = &'a [f64]>) -> f64 {
        match self.threshold.metric {
            Metric::Euclidean | Metric::Cosine => self.scale,
            Metric::InnerProduct => {
                let squares = vectors.map(|vector| square_of(vector.iter().copied()));
                scale_for(squares.filter(|s| s.is_finite()).fold(0.0, f64::max).sqrt())
            }
        }
    }

    /// Converts a build item to `to`, each number to the next place of it. Where its products would
    /// prove nothing, the places keep their zeros.
    pub(super) fn build<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Bounds {
        match vectors.is_vector(item) {
            true => self.convert(vectors.vector(item), self.scale, 0.0, to),
            false => Bounds::NEVER,
        }
    }

    /// Converts a probe item, whose scale is given, likewise.
    pub(super) fn probe<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        scale: f64,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Bounds {
        let bound = self.threshold.bound;
        // The threshold of products, on one side alone.
        let least = match self.threshold.metric {
            Metric::Euclidean => 0.0,
            Metric::InnerProduct => bound * self.scale * scale,
            Metric::Cosine => 1.0 - bound,
        };
        match vectors.is_vector(item) {
            true => self.convert(vectors.vector(item), scale, least, to),
            false => Bounds::NEVER,
        }
    }

    fn convert<'a>(
        &self,
        vector: &[f64],
        scale: f64,
        least: f64,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Bounds {
        match self.round(vector, scale, to) {
            Rounded::Never => Bounds::NEVER,
            Rounded::Unusual => Bounds::UNKNOWN,
            Rounded::Usual { square, off } => match self.threshold.metric {
                Metric::Euclidean => self.of_distance(vector.len(), square, off),
                Metric::InnerProduct | Metric::Cosine => {
                    self.of_product(vector.len(), square, off, least)
                }
            },
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
        vector: &[f64],
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Rounded {
        self.round(vector, self.scale, to)
    }

    fn round<'a>(
        &self,
        vector: &[f64],
        scale: f64,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Rounded {
        let dimensions = vector.len();
        let (divisor, zero) = match self.threshold.metric {
            Metric::Cosine => {
                let square = square_of(vector.iter().copied());
                (square.sqrt(), square == 0.0)
            }
            _ => (1.0, false),
        };
        if zero {
            return Rounded::Never;
        }
        let is_usual = (1e-130..1e150).contains(&divisor) && dimensions <= MOST_DIMENSIONS;
        if !is_usual {
            return Rounded::Unusual;
        }
        // Only distances have a centre.
        let (front, back) = vector.split_at(self.centre.len().min(dimensions));
        let moved = |v: f64, c: f64| (v - c) * scale;
        let plain = |v: f64| v * scale / divisor;
        let mut sums = Sums::default();
        sums.add(front, &self.centre, moved);
        sums.add(back, back, |v, _| plain(v));
        let [given, square, error] = sums.total();
        // The function overflows for greater vectors. Not a number either.
        if !(given <= 1e300 && square <= MOST_SQUARE && error.is_finite()) {
            return Rounded::Unusual;
        }
        let exact = front.iter().zip(&self.centre).map(|(&v, &c)| moved(v, c));
        to.zip(exact.chain(back.iter().map(|&v| plain(v)))).for_each(|(to, v)| *to = v as f32);
        let mut off = error.sqrt() * (1.0 + SUMS) + 1e-40;
        if self.threshold.metric == Metric::Cosine {
            // The rounding of the norm.
            off += (dimensions as f64 + 8.0) * U64 / 512.0;
        }
        Rounded::Usual { square, off }
    }

    /// The squares of distances, computed in `f32` as sums of squared differences, that decide the
    /// pairs of a point that is `off` by so much with points that are off by `most_off` at most.
    /// `None` where no distance does.
    ///
    /// The sum of d squares is off by (d + 4)·u of its value, as nothing cancels. For cosine the
    /// points lie on the unit sphere, where 1 − X·Y = ½‖X − Y‖².
    pub(super) fn limits(&self, dimensions: usize, off: f64, most_off: f64) -> Option<Limits> {
        let d = dimensions as f64;
        let [far, near] = self.threshold.distances(dimensions, self.scale)?;
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
        Some(Limits {
            reject: if f64::from(high) < reject { high.next_up() } else { high },
            accept: if f64::from(low) > accept { low.next_down() } else { low },
        })
    }

    /// The greatest distance of partners in the scale of points, about.
    pub(super) fn reach(&self) -> f64 {
        match self.threshold.metric {
            Metric::InnerProduct => f64::INFINITY,
            Metric::Euclidean => self.threshold.bound * self.scale,
            Metric::Cosine => (2.0 * self.threshold.bound.max(0.0)).sqrt(),
        }
    }

    /// `square` is ‖x̂‖², `off` is r(x).
    fn of_distance(&self, dimensions: usize, square: f64, off: f64) -> Bounds {
        let d = dimensions as f64;
        let gamma = (d + 2.0) * U32 * 1.01 + 4.0 * SUMS;
        let underflow = (d + 1.0) * 1e-42;
        let Some([far, near]) = self.threshold.distances(dimensions, self.scale) else {
            return Bounds::UNKNOWN;
        };
        if far.is_nan() || far > 1e30 {
            return Bounds::UNKNOWN;
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
        Bounds::of(reject, accept)
    }

    fn of_product(&self, dimensions: usize, square: f64, off: f64, least: f64) -> Bounds {
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
        error *= 1.0 + 1e-6;
        // Greater ones cannot be told apart by products of such vectors.
        let least = least.clamp(-1e33, 1e33);
        let slack = least.abs() * U64;
        Bounds::of(least - slack - error, least + slack + error)
    }
}
