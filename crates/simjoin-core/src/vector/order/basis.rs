//! A few coordinates in which points lie far apart.
//!
//! The axes are those of the greatest variance (principal components), by orthogonal iteration on a
//! sample (Golub and Van Loan, *Matrix Computations*, section 7.3.2). They need not be exact: any
//! orthonormal rows P will do, as ‖PX − PY‖ ≤ ‖P‖‖X − Y‖. What they are off of orthonormal is
//! bounded by the Frobenius norm, ‖P‖² ≤ 1 + ‖PPᵀ − I‖.

use crate::error::Result;
use crate::simd::{Floats, Simd, kernels};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, for_each, map, ranges, steps_per_task};
use crate::vector::bounds::{SUMS, U32};
use crate::vector::boxes::LANES;

/// Points that are projected together.
pub(super) const ROWS: usize = 8;

/// Dimensions of a task, at least: those of a line of the cache.
const LEAST_DIMENSIONS: usize = 16;

/// The axes of coordinates.
#[derive(Debug, Clone)]
pub(in crate::vector) struct Basis {
    /// By dimension of the points, its part of each axis; zeros behind the last.
    columns: Vec<f32>,
    /// The number of axes.
    pub dims: usize,
    /// A bound on ‖P‖².
    pub stretch: f64,
}

kernels! {
    /// The products of some points with all axes, each summed in the order of the dimensions.
    fn project_rows[F: Floats, const R: usize](
        points: &[f32],
        columns: &[f32],
        to: &mut [[f32; LANES]; R],
    ) {
        let d = columns.len() / LANES;
        assert!(points.len() >= R * d);
        // SAFETY: the caller promises the instructions of the form; the assertion covers the points,
        // and there are `d` columns.
        unsafe {
            let (x, p) = (points.as_ptr(), columns.as_ptr());
            let mut sums = [F::splat(0.0); R];
            for k in 0..d {
                let axes = F::load(p.add(k * LANES));
                for r in 0..R {
                    sums[r] = F::add_product(sums[r], F::splat(*x.add(r * d + k)), axes);
                }
            }
            for r in 0..R {
                F::store(to[r].as_mut_ptr(), sums[r]);
            }
        }
    }
}

kernels! {
    /// Adds some dimensions of each point, times its coordinates, to their columns. `points` begins with the
    /// first of these dimensions, and has `d` numbers for each point.
    fn add_rows[F: Floats, const R: usize](
        points: &[f32],
        d: usize,
        coordinates: &[[f32; LANES]; R],
        columns: &mut [f32],
    ) {
        let own_dimensions = columns.len() / LANES;
        assert!(points.len() >= (R - 1) * d + own_dimensions);
        // SAFETY: as above.
        unsafe {
            let (x, p) = (points.as_ptr(), columns.as_mut_ptr());
            let mut own = [F::splat(0.0); R];
            for r in 0..R {
                own[r] = F::load(coordinates[r].as_ptr());
            }
            for k in 0..own_dimensions {
                let mut sum = F::load(p.add(k * LANES));
                for r in 0..R {
                    sum = F::add_product(sum, F::splat(*x.add(r * d + k)), own[r]);
                }
                F::store(p.add(k * LANES), sum);
            }
        }
    }
}

impl Basis {
    /// The axes for points of `d` dimensions, found from some of them, which are centred.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(
        points: &mut [f32],
        d: usize,
        simd: Simd,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        /// Rounds of the iteration.
        const ROUNDS: usize = 8;
        if d <= LANES {
            return Ok(Self::of_dimensions(d));
        }
        centre(points, d, threads, cancel)?;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut axes: Vec<Vec<f64>> = vec![vec![0.0; d]; LANES];
        for value in axes.iter_mut().flatten() {
            // Xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *value = (state >> 40) as f64 / f64::from(1 << 24) - 0.5;
        }
        orthonormalise(&mut axes);
        for _ in 0..ROUNDS {
            let columns = columns_of(&axes, d);
            let sums = image(points, &columns, simd, threads, cancel)?;
            for (lane, axis) in axes.iter_mut().enumerate() {
                let values = sums.iter().skip(lane).step_by(LANES);
                axis.iter_mut().zip(values).for_each(|(to, value)| *to = f64::from(*value));
            }
            orthonormalise(&mut axes);
        }
        // Points in fewer dimensions leave axes without a direction.
        axes.retain(|axis| axis.iter().any(|v| *v != 0.0));
        let stretch = stretch(&axes);
        Ok(Self { columns: columns_of(&axes, d), dims: axes.len(), stretch })
    }

    /// The dimensions themselves.
    fn of_dimensions(d: usize) -> Self {
        let mut columns = vec![0.0; d * LANES];
        (0..d).for_each(|k| columns[k * LANES + k] = 1.0);
        Self { columns, dims: d, stretch: 1.0 }
    }

    /// Writes the coordinates of points. `point` is called with the number of each point, and writes its numbers to
    /// the slice, in which those of another point, or zeros, still stand.
    ///
    /// # Errors
    ///
    /// The first error of `point`.
    pub(in crate::vector) fn project_each(
        &self,
        simd: Simd,
        coordinates: &mut [f32],
        mut point: impl FnMut(usize, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let (d, dims) = (self.columns.len() / LANES, self.dims);
        let mut rows = vec![0.0_f32; ROWS * d];
        let mut own = [[0.0; LANES]; ROWS];
        for (step, coordinates) in coordinates.chunks_mut(ROWS * dims).enumerate() {
            let points = coordinates.len() / dims;
            for (row, numbers) in rows.chunks_exact_mut(d).take(points).enumerate() {
                point(step * ROWS + row, numbers)?;
            }
            project_rows(simd, &rows, &self.columns, &mut own);
            for (to, from) in coordinates.chunks_exact_mut(dims).zip(&own) {
                to.copy_from_slice(&from[..dims]);
            }
        }
        Ok(())
    }

    /// The coordinates of a point, with zeros behind the last.
    pub(in crate::vector) fn project(&self, simd: Simd, point: &[f32]) -> [f32; LANES] {
        let mut to = [[0.0; LANES]; 1];
        project_rows(simd, point, &self.columns, &mut to);
        to[0]
    }

    /// The error of each coordinate of a point: of a point x̂ with the square of its norm, which is
    /// within `off` of X, from PX.
    pub(in crate::vector) fn slack(&self, square: f64, off: f64) -> f32 {
        let d = (self.columns.len() / LANES) as f64;
        let norm = self.stretch.sqrt();
        let sum = (d + 2.0) * U32 * 1.01 * square.sqrt() * norm + (d + 1.0) * 1e-42;
        let slack = (sum + off * norm) * (1.0 + 1e-6);
        (slack as f32).next_up()
    }
}

/// The sums of all points, each times its products with the axes, but for a few of the last ones. Threads share
/// the points out, then the dimensions, so that each sum has the order of the points.
fn image(
    points: &[f32],
    columns: &[f32],
    simd: Simd,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Vec<f32>> {
    let d = columns.len() / LANES;
    let groups = points.len() / (ROWS * d);
    let mut coordinates = vec![[[0.0; LANES]; ROWS]; groups];
    let share = steps_per_task(threads, groups, 1);
    let tasks = coordinates.chunks_mut(share).zip(points.chunks(share * ROWS * d)).collect();
    for_each(threads, tasks, |(own, points): (&mut [[[f32; LANES]; ROWS]], &[f32])| {
        for (own, points) in own.iter_mut().zip(points.chunks_exact(ROWS * d)) {
            cancel.check()?;
            project_rows(simd, points, columns, own);
        }
        Ok(())
    })?;
    let mut sums = vec![0.0_f32; d * LANES];
    let share = steps_per_task(threads, d, LEAST_DIMENSIONS);
    let tasks = (0..).step_by(share).zip(sums.chunks_mut(share * LANES)).collect();
    for_each(threads, tasks, |(first, sums): (usize, &mut [f32])| {
        cancel.check()?;
        let points = points.chunks_exact(ROWS * d).zip(&coordinates);
        points.for_each(|(points, own)| add_rows(simd, &points[first..], d, own, sums));
        Ok(())
    })?;
    Ok(sums)
}

/// Subtracts the mean.
fn centre(points: &mut [f32], d: usize, threads: Threads, cancel: &CancelFlag) -> Result<()> {
    let count = (points.len() / d).max(1) as f64;
    let mean = map(threads, ranges(threads, d, LEAST_DIMENSIONS), |range| {
        cancel.check()?;
        let mut sums = vec![0.0_f64; range.len()];
        for point in points.chunks_exact(d) {
            sums.iter_mut().zip(&point[range.clone()]).for_each(|(sum, v)| *sum += f64::from(*v));
        }
        Ok(sums.into_iter().map(|sum| (sum / count) as f32).collect::<Vec<_>>())
    })?;
    let mean = mean.concat();
    let share = steps_per_task(threads, points.len() / d, 1);
    for_each(threads, points.chunks_mut(share * d).collect(), |points: &mut [f32]| {
        cancel.check()?;
        for point in points.chunks_exact_mut(d) {
            point.iter_mut().zip(&mean).for_each(|(v, mean)| *v -= mean);
        }
        Ok(())
    })
}

/// The product of two vectors, in lanes: additions wait for each other.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let ((a, last_a), (b, last_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = last_a.iter().zip(last_b).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// Makes axes orthonormal, in their order (Gram and Schmidt, twice); those that others span become
/// zeros.
fn orthonormalise(axes: &mut [Vec<f64>]) {
    for at in 0..axes.len() {
        let (before, rest) = axes.split_at_mut(at);
        let own = &mut rest[0];
        let given = dot(own, own).sqrt();
        for _ in 0..2 {
            for other in before.iter() {
                let part = dot(own, other);
                own.iter_mut().zip(other).for_each(|(v, o)| *v -= part * o);
            }
        }
        let norm = dot(own, own).sqrt();
        let is_new = norm.is_finite() && norm > 1e-6 * given && norm > 1e-100;
        own.iter_mut().for_each(|v| *v = if is_new { *v / norm } else { 0.0 });
    }
}

/// The axes in `f32`, dimension by dimension.
fn columns_of(axes: &[Vec<f64>], d: usize) -> Vec<f32> {
    let mut columns = vec![0.0; d * LANES];
    for (lane, axis) in axes.iter().enumerate() {
        let places = columns.iter_mut().skip(lane).step_by(LANES);
        places.zip(axis).for_each(|(place, v)| *place = *v as f32);
    }
    columns
}

/// A bound on ‖P‖² of axes rounded to `f32`.
fn stretch(axes: &[Vec<f64>]) -> f64 {
    let rounded = |axis: &Vec<f64>| axis.iter().map(|v| f64::from(*v as f32)).collect();
    let axes: Vec<Vec<f64>> = axes.iter().map(rounded).collect();
    let mut squares = 0.0;
    for (i, a) in axes.iter().enumerate() {
        for (j, b) in axes.iter().enumerate() {
            let off = dot(a, b) - f64::from(u8::from(i == j));
            squares += off * off;
        }
    }
    1.0 + squares.sqrt() * (1.0 + SUMS) + SUMS
}
