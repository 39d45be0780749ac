//! The axes that suit some vectors.

use std::mem::size_of;

use super::basis::Basis;
use crate::error::Result;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, concat, map, ranges};
use crate::vector::bounds::{Frame, Rounded, is_far};
use crate::vector::boxes::LANES;
use crate::vector::width::Vector;

/// The number of vectors of `d` dimensions that tell the axes of many.
pub(in crate::vector) fn sample_len(d: usize) -> usize {
    ((1 << 22) / d.max(1)).clamp(64, 1 << 11)
}

/// A bound on the bytes of axes and of finding them.
pub(in crate::vector) fn bytes(d: usize) -> usize {
    // Twice while they are collected, and with the square of each one's distance.
    let points = 2 * d * size_of::<f32>() + LANES * size_of::<f32>() + 3 * size_of::<f64>();
    sample_len(d) * points + 6 * LANES * d * size_of::<f64>()
}

/// The axes of the greatest variance of some vectors of `d` dimensions.
///
/// # Errors
///
/// When the work is cancelled.
pub(in crate::vector) fn basis_of(
    vectors: &[Vector<'_>],
    d: usize,
    frame: &Frame,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Basis> {
    let mut points = points_of(vectors, d, frame, threads, cancel)?;
    Basis::of(&mut points, d, Simd::detect(), threads, cancel)
}

/// Vectors as points, without a few that are far from most: they would make all axes point at them.
fn points_of(
    vectors: &[Vector<'_>],
    d: usize,
    frame: &Frame,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Vec<f32>> {
    /// Vectors of a task, at least.
    const LEAST: usize = 1 << 3;
    let parts = map(threads, ranges(threads, vectors.len(), LEAST), |range| {
        let mut points = Vec::with_capacity(range.len() * d);
        for &vector in &vectors[range] {
            cancel.check()?;
            let start = points.len();
            points.resize(start + d, 0.0_f32);
            match frame.point_of(vector, points[start..].iter_mut()) {
                Rounded::Usual { square, .. } if !is_far(square) => {}
                _ => points.truncate(start),
            }
        }
        Ok(points)
    })?;
    concat(threads, &parts, cancel)
}
