//! Points of many dimensions as images in a few principal coordinates.
//!
//! With the rows of P orthonormal, or nearly so, ‖Px̂ − Pŷ‖ ≤ ‖P‖‖x̂ − ŷ‖: images farther apart than that are of
//! no partners. Boxes lie around images, and images of a panel are compared before vectors are. Vectors of text
//! or images vary in few coordinates, but in all of their dimensions.

use std::mem::size_of;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::simd::Simd;
use crate::vector::bounds::{DistanceLimits, Frame, SUMS, U32};
use crate::vector::boxes::LANES;
use crate::vector::collection::{Run, Vectors};
use crate::vector::middle::spread;
use crate::vector::order::{Basis, axes};
use crate::vector::width::Vector;

/// Points of more dimensions have images.
pub(super) const MOST_PLAIN: usize = LANES;

/// The axes of images of points of one length.
#[derive(Debug)]
pub(super) struct Axes {
    basis: Basis,
    /// The dimensions of the points.
    pub dimensions: usize,
}

impl Axes {
    /// A bound on the bytes of the axes for points of `d` dimensions and of finding them.
    pub(super) fn bytes(d: usize) -> usize {
        axes::bytes(d) + Self::own_bytes(d)
    }

    /// The bytes of the axes.
    pub(super) fn own_bytes(d: usize) -> usize {
        LANES * d * size_of::<f32>()
    }

    /// The axes that suit a run.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of_run(
        vectors: &Vectors,
        run: &Run,
        frame: &Frame,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let d = run.lens[0] as usize;
        let some = spread(run.items.clone(), axes::sample_len(d));
        let some: Vec<Vector<'_>> =
            some.filter(|&item| vectors.is_vector(item)).map(|item| vectors.vector(item)).collect();
        Self::of(&some, d, frame, context)
    }

    /// The axes that suit some vectors of `d` dimensions.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(
        vectors: &[Vector<'_>],
        d: usize,
        frame: &Frame,
        context: PrepareContext<'_>,
    ) -> Result<Self> {
        let PrepareContext { threads, cancel, .. } = context;
        let basis = axes::basis_of(vectors, d, frame, threads, cancel)?;
        Ok(Self { basis, dimensions: d })
    }

    /// The coordinates of an image: one at least, be it zero.
    pub(super) fn width(&self) -> usize {
        self.basis.dims.max(1)
    }

    /// The image of a point; the first [`Self::width`] numbers are coordinates.
    pub(super) fn image(&self, simd: Simd, point: &[f32]) -> [f32; LANES] {
        self.basis.project(simd, point)
    }

    /// Writes the images of some points. `point` writes one, like [`Basis::project_each`]'s.
    ///
    /// # Errors
    ///
    /// The first error of `point`.
    pub(super) fn images(
        &self,
        simd: Simd,
        coordinates: &mut [f32],
        mut point: impl FnMut(usize, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        if self.basis.dims > 0 {
            return self.basis.project_each(simd, coordinates, point);
        }
        let mut numbers = vec![0.0; self.dimensions];
        coordinates.fill(0.0);
        (0..coordinates.len()).try_for_each(|place| point(place, &mut numbers))
    }

    /// The limits for distances of images: from those for distances of points, of a point with the square of its norm.
    /// No distance of images proves that a point is near. `None` where none proves that it is far.
    ///
    /// A partner has a norm of ‖x̂‖ + ‖x̂ − ŷ‖ at most. A coordinate is off by [`Basis::slack`] at most, an image by
    /// √q times that, and the sum of q squares by (q + 4)·u of its value.
    pub(super) fn limits(&self, limits: DistanceLimits, square: f64) -> Option<DistanceLimits> {
        let far = f64::from(limits.reject).sqrt() * (1.0 + SUMS);
        let of_partner = (square.sqrt() + far) * (1.0 + SUMS);
        let slack = |square: f64| f64::from(self.basis.slack(square, 0.0));
        let width = self.width() as f64;
        let off = width.sqrt() * (slack(square) + slack(of_partner * of_partner));
        let most = (far * self.basis.stretch.sqrt() + off) * (1.0 + SUMS);
        let gamma = (width + 8.0) * U32 * 1.01 + SUMS;
        let reject = most * most * (1.0 + gamma) + (width + 1.0) * 1e-42;
        let float = (reject as f32).next_up();
        float.is_finite().then_some(DistanceLimits { reject: float, accept: 0.0 })
    }
}
