//! What the vectors of a join become, so that products reject and accept pairs.

use std::fmt::Debug;

use super::bounds::{Bounds, Frame};
use super::collection::Vectors;
use super::tile::Element;
use crate::engine::ItemId;

/// The bound of an element.
pub(super) type Bound<F> = <<F as Filter>::Element as Element>::Bound;

/// A way to write vectors, with what their products then prove.
pub(super) trait Filter: Debug + Send + Sync + 'static {
    type Element: Element;

    /// The places of a vector.
    fn places(dimensions: usize) -> usize;

    /// Writes a build item to `to`, each element to the next place of it.
    fn build<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut Self::Element>,
    ) -> Bounds<Bound<Self>>;

    /// The scale of a block of probe vectors.
    fn probe_scale<'a>(&self, vectors: impl Iterator<Item = &'a [f64]>) -> f64;

    /// Writes a probe item, whose scale is given, likewise.
    fn probe<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        scale: f64,
        to: impl Iterator<Item = &'a mut Self::Element>,
    ) -> Bounds<Bound<Self>>;
}

impl Filter for Frame {
    type Element = f32;

    fn places(dimensions: usize) -> usize {
        dimensions
    }

    fn build<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Bounds {
        Self::build(self, vectors, item, to)
    }

    fn probe_scale<'a>(&self, vectors: impl Iterator<Item = &'a [f64]>) -> f64 {
        Self::probe_scale(self, vectors)
    }

    fn probe<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        scale: f64,
        to: impl Iterator<Item = &'a mut f32>,
    ) -> Bounds {
        Self::probe(self, vectors, item, scale, to)
    }
}
