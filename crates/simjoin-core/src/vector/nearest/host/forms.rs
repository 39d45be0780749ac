//! The forms of vectors by which the CPU compares them: bytes, and points in `f32`.
//!
//! A vector becomes X, moved to the middle (distances) or divided by its norm (angles, as distances of
//! points of the unit sphere). The point x̂ is X rounded to `f32`, and `off` bounds ‖x̂ − X‖. The sum s of the
//! squares of x̂ − ŷ is off by γ = (d + 8)·2⁻²⁴ of its value, as nothing cancels, or underflows:
//!
//! ```text
//! √(s (1 − γ) − η) − off(x) − off(y)  ≤  ‖X − Y‖  ≤  √(s (1 + γ) + η) + off(x) + off(y)
//! ```
//!
//! The function rounds in `f64`. A vector whose value is no greater than another one's may be farther by that
//! rounding, which [`Forms::limit`] adds. The proofs of bytes are in [`crate::vector::bytes`].

use crate::error::Result;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::vector::bounds::{Frame, Rounded, SUMS, U32, U64};
use crate::vector::bytes::{ByteFrame, MOST, Quantised};
use crate::vector::metric::{Metric, Threshold};
use crate::vector::middle::{Middle, is_usual, spread};
use crate::vector::nearest::side::SideColumn;
use crate::vector::tile::{Element, RowLayout};
use crate::vector::width::Vector;

/// Points have places in a multiple of it.
const POINT_UNIT: usize = 16;

/// The bytes that are flipped: those of columns are greater by 128 than those of rows.
const FLIP: i32 = i32::from_ne_bytes([0x80; 4]);

/// The forms in which vectors are written.
#[derive(Debug)]
pub(super) struct Forms {
    metric: Metric,
    dimensions: usize,
    /// The layout of rows of bytes.
    pub layout: RowLayout,
    bytes: ByteFrame,
    points: Frame,
    /// A distance of points becomes one of bytes.
    pub to_bytes: f64,
    gamma: f64,
    underflow: f64,
    /// The rounding of the function: of the square of a distance, relative and absolute.
    rounding: [f64; 2],
}

/// Sums and a bound of the bytes q of a vector X.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByteSums {
    pub sum: i32,
    /// ‖q‖².
    pub square: i32,
    /// A bound on ‖q − P(X)‖, where P(X) is the point of the cube next to X.
    pub off: f32,
}

/// A vector that is written.
pub(super) struct To<'a> {
    pub bytes: &'a mut [i32],
    pub sums: &'a mut ByteSums,
    pub point: &'a mut [f32],
    pub off: &'a mut f32,
}

impl Forms {
    /// The forms that suit some vectors of a side.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(
        metric: Metric,
        side: &SideColumn,
        simd: Simd,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        /// Numbers that tell enough: bounds hold for whatever centre and scale.
        const NUMBERS: usize = 1 << 17;
        /// The part of the vectors of a small side that tells enough.
        const PART: usize = 16;
        let most = (side.len() as usize / PART).clamp(64, 1 << 10);
        let sampled = (NUMBERS / side.dimensions.max(1) as usize).clamp(64, most);
        let threshold = Threshold::new(metric, 0.0);
        let dimensions = side.dimensions as usize;
        let (mut some, mut buffer) = (vec![], vec![]);
        for number in spread(0..side.len(), sampled) {
            let vector = side.vector(number, &mut buffer);
            if is_usual(vector) {
                some.push(vector.iter().collect::<Vec<_>>());
            }
        }
        let points =
            Frame::of_vectors(threshold, some.iter().map(|vector| Vector::Wide(vector)), cancel)?;
        let bytes = byte_frame(simd, threshold, &some, dimensions, cancel)?;
        let d = dimensions as f64;
        let rounding = match metric {
            // A value is within (d + 8)·2⁻⁵¹ of the distance, relatively, or underflows.
            Metric::Euclidean | Metric::InnerProduct => [(d + 8.0) * U64 / 16.0, 1e-50],
            // It is within this of 1 − cos, which is half of the square.
            Metric::Cosine => [SUMS, 64.0 * (4.0 * d + 64.0) * U64 / 512.0],
        };
        Ok(Self {
            metric,
            dimensions,
            layout: i32::layout(simd),
            to_bytes: bytes.scale() / points.scale() * (1.0 + SUMS),
            bytes,
            points,
            gamma: (d + 8.0) * U32 * 1.01 + SUMS,
            underflow: (d + 1.0) * 1e-42,
            rounding,
        })
    }

    /// The elements of a vector as bytes.
    pub(super) fn places(&self) -> usize {
        self.dimensions.div_ceil(4)
    }

    /// The elements of a point.
    pub(super) fn stride(&self) -> usize {
        self.dimensions.next_multiple_of(POINT_UNIT)
    }

    /// Writes a vector; whether it has both forms.
    pub(super) fn write(&self, vector: Vector<'_>, to: To<'_>) -> bool {
        let scale = self.bytes.scale();
        let Quantised::Usual(sums) = self.bytes.quantise(vector, scale, 0, to.bytes.iter_mut())
        else {
            return false;
        };
        *to.sums =
            ByteSums { sum: sums.sum as i32, square: sums.square as i32, off: above(sums.off) };
        match self.points.point_of(vector, to.point[..self.dimensions].iter_mut()) {
            Rounded::Usual { off, .. } => {
                *to.off = above(off);
                off.is_finite() && sums.off.is_finite()
            }
            _ => false,
        }
    }

    /// No pair whose points have this square of a distance is farther apart; `off`: of both points.
    pub(super) fn most(&self, square: f32, off: f64) -> f64 {
        let square = f64::from(square) * (1.0 + self.gamma) + self.underflow;
        (square.sqrt() + off) * (1.0 + SUMS)
    }

    /// Whether a pair may lie within a limit.
    #[inline]
    pub(super) fn may_lie_within(&self, square: f32, off: f64, limit: f64) -> bool {
        let (far, least) = (limit + off, f64::from(square) * (1.0 - self.gamma) - self.underflow);
        least <= far * far * (1.0 + SUMS)
    }

    /// The distance within which all vectors lie whose value is no greater than this one.
    pub(super) fn limit_of(&self, value: f64) -> f64 {
        let threshold = Threshold::new(self.metric, value);
        let distances = threshold.distances(self.dimensions, self.points.scale());
        distances.map_or(f64::INFINITY, |[far, _]| far * (1.0 + SUMS))
    }

    /// The distance within which all vectors lie whose value is no greater than that of one at `distance`.
    pub(super) fn limit(&self, distance: f64) -> f64 {
        let [relative, absolute] = self.rounding;
        (distance * distance * (1.0 + relative) + absolute).sqrt() * (1.0 + SUMS)
    }
}

/// A float that is no less.
fn above(number: f64) -> f32 {
    let float = number as f32;
    if f64::from(float) < number { float.next_up() } else { float }
}

/// The bytes of a row as those of a column.
pub(super) fn flipped(bytes: i32) -> i32 {
    bytes ^ FLIP
}

/// A frame in which nearly all coordinates are in the cube. Whole numbers stay exact where they fit.
fn byte_frame(
    simd: Simd,
    threshold: Threshold,
    some: &[Vec<f64>],
    dimensions: usize,
    cancel: &CancelFlag,
) -> Result<ByteFrame> {
    /// The part of the coordinates that is in the cube.
    const INSIDE: f64 = 0.995;
    let metric = threshold.metric;
    let usual = some
        .iter()
        .filter_map(|vector| Some((vector, ByteFrame::divisor(metric, Vector::Wide(vector))?)));
    let mut centre = vec![0.0; dimensions];
    if metric == Metric::Euclidean {
        centre = Middle::of(some.iter().map(|vector| Vector::Wide(vector)), true, cancel)?.centre;
        centre.resize(dimensions, 0.0);
    } else {
        let count = usual.clone().count().max(1) as f64;
        for (vector, divisor) in usual.clone() {
            centre.iter_mut().zip(vector).for_each(|(sum, v)| *sum += v / divisor / count);
        }
        centre.iter_mut().filter(|mean| !mean.is_finite()).for_each(|mean| *mean = 0.0);
    }
    let is_whole = metric == Metric::Euclidean && some.iter().flatten().all(|v| v.fract() == 0.0);
    if is_whole {
        centre.iter_mut().for_each(|mean| *mean = mean.round());
    }
    let moved = usual.flat_map(|(vector, divisor)| {
        vector.iter().zip(&centre).map(move |(v, c)| (v / divisor - c).abs())
    });
    let mut moved: Vec<f64> = moved.filter(|v| v.is_finite()).collect();
    let greatest = moved.iter().copied().fold(0.0, f64::max);
    let scale = match is_whole && greatest <= MOST {
        true => 1.0,
        false => {
            let last = moved.len().saturating_sub(1);
            let place = (last as f64 * INSIDE) as usize;
            let most = match moved.is_empty() {
                true => 1.0,
                false => *moved.select_nth_unstable_by(place, f64::total_cmp).1,
            };
            ByteFrame::scale_for(if most > 0.0 { most } else { greatest })
        }
    };
    Ok(ByteFrame::new(simd, threshold, centre, scale, 1.0))
}
