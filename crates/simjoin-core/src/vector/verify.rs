//! Pairs of vectors decided in `f64` by sums in lanes, where these prove what the function says.
//!
//! The function adds from left to right, each addition waiting for the last one. Whatever the order, a
//! sum of d products lies within γ Σ |x y| of the true one, γ = d·u / (1 − d·u), u = 2⁻⁵³ (Higham, *Accuracy
//! and Stability of Numerical Algorithms*, section 3.1): where the sum in lanes is farther from the
//! threshold than both errors, it decides.

use crate::simd::{Floats, Simd, kernels};
use crate::vector::bounds::U64;
use crate::vector::metric::{Metric, Threshold};
use crate::vector::width::{Number, Vector, by_width};

/// Vectors of fewer dimensions are left to the function.
const LEAST_DIMENSIONS: usize = 16;

/// Sums at once.
const LANES: usize = 16;

/// Less could have lost something to underflow, more is near to overflow.
const USUAL: std::ops::Range<f64> = 1e-280..1e300;

/// Whether two vectors of one length match; `None` where only the function tells.
#[inline]
pub(super) fn is_match(
    simd: Simd,
    threshold: Threshold,
    x: Vector<'_>,
    y: Vector<'_>,
) -> Option<bool> {
    by_width!(x, |x| by_width!(y, |y| is_match_of(simd, threshold, x, y)))
}

#[inline]
fn is_match_of<X: Number, Y: Number>(
    simd: Simd,
    threshold: Threshold,
    x: &[X],
    y: &[Y],
) -> Option<bool> {
    if x.len() < LEAST_DIMENSIONS {
        return None;
    }
    // More than both errors, relative to the sum: 2⁻⁵⁰ (d + 8).
    let (bound, error) = (threshold.bound, (x.len() as f64 + 8.0) * U64 / 128.0);
    // The value lies within `off` of `value`.
    let (value, off) = match threshold.metric {
        Metric::Euclidean => {
            let [square] = distance(simd, x, y);
            if !USUAL.contains(&square) {
                return None;
            }
            (square.sqrt(), square.sqrt() * error)
        }
        Metric::InnerProduct => {
            let [product, absolute] = product(simd, x, y);
            if !USUAL.contains(&absolute) {
                return None;
            }
            (product, absolute * error)
        }
        Metric::Cosine => {
            let [product, xx, yy] = angle(simd, x, y);
            if !USUAL.contains(&xx) || !USUAL.contains(&yy) {
                return None;
            }
            (1.0 - product / (xx.sqrt() * yy.sqrt()), 8.0 * error)
        }
    };
    let (low, high) = (value - off, value + off);
    // Of a value on the edge, or not a number, nothing is proven.
    match threshold.metric {
        Metric::InnerProduct if low > bound => Some(true),
        Metric::InnerProduct if high < bound => Some(false),
        Metric::InnerProduct => None,
        Metric::Euclidean | Metric::Cosine if high < bound => Some(true),
        Metric::Euclidean | Metric::Cosine if low > bound => Some(false),
        Metric::Euclidean | Metric::Cosine => None,
    }
}

/// Sums over pairs of numbers, of what `terms` gives.
#[inline(always)]
fn sums<X: Number, Y: Number, const N: usize>(
    x: &[X],
    y: &[Y],
    terms: impl Fn(f64, f64) -> [f64; N],
) -> [f64; N] {
    let mut sums = [[0.0; LANES]; N];
    let ((xs, last_x), (ys, last_y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (xs, ys) in xs.iter().zip(ys) {
        for lane in 0..LANES {
            let terms = terms(xs[lane].wide(), ys[lane].wide());
            for (sum, term) in sums.iter_mut().zip(terms) {
                sum[lane] += term;
            }
        }
    }
    for (lane, (&x, &y)) in last_x.iter().zip(last_y).enumerate() {
        for (sum, term) in sums.iter_mut().zip(terms(x.wide(), y.wide())) {
            sum[lane] += term;
        }
    }
    sums.map(|lanes| lanes.iter().sum())
}

kernels! {
    fn distance[F: Floats, ; X: Number, Y: Number](x: &[X], y: &[Y]) -> [f64; 1] {
        sums(x, y, |x, y| [(x - y) * (x - y)])
    }
}

kernels! {
    /// The product, and the sum of the absolute values.
    fn product[F: Floats, ; X: Number, Y: Number](x: &[X], y: &[Y]) -> [f64; 2] {
        sums(x, y, |x, y| [x * y, (x * y).abs()])
    }
}

kernels! {
    fn angle[F: Floats, ; X: Number, Y: Number](x: &[X], y: &[Y]) -> [f64; 3] {
        sums(x, y, |x, y| [x * y, x * x, y * y])
    }
}
