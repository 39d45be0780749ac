//! The forms of the vectors of a join with which products reject and accept pairs.

use std::fmt::Debug;

use super::collection::Vectors;
use super::metric::Threshold;
use super::tile::Element;
use super::width::Vector;
use crate::engine::ItemId;

/// The bound of an element.
pub(super) type Bound<F> = <<F as Filter>::Element as Element>::Bound;

/// The proof of a product: a pair whose product is less than the sum of both `reject` does not match;
/// one whose product is greater than the sum of both `accept` does. For bytes, see [`super::bytes`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProductBounds<T = f32> {
    pub reject: T,
    pub accept: T,
}

/// The proofs of the products of a row, which may depend on the panel.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowBounds<T> {
    /// Equal bounds for all panels.
    Fixed(ProductBounds<T>),
    /// Bounds of inner products: the threshold, scaled as products with a panel are, is `slope` times
    /// the panel's scale. Products are given with `bias` too much.
    Scaled { slope: f64, error: f64, bias: f64 },
}

/// The scale of a panel behind one of another scale: that one where it is finer by no more than a bit, so
/// that neighbours whose scales would take turns have one, and are compared at once.
pub(super) fn steady(last: Option<f64>, own: f64) -> f64 {
    last.filter(|last| *last <= own && own <= 2.0 * last).unwrap_or(own)
}

/// A way to write vectors, with what their products then prove.
pub(super) trait Filter: Debug + Send + Sync + 'static {
    type Element: Element;

    fn threshold(&self) -> Threshold;

    /// The places of a vector.
    fn places(dimensions: usize) -> usize;

    /// The first places of a vector by which most tiles are rejected, as [`Heads`](super::tile::Heads) have
    /// them; 0 where they are not looked at.
    fn head(&self) -> usize {
        0
    }

    /// The scale of a panel of these build vectors.
    fn panel_scale<'a>(&self, vectors: impl Iterator<Item = Vector<'a>>) -> f64;

    /// Writes a build item of a panel of this scale to `to`, each element to the next place of it.
    fn build<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        scale: f64,
        to: impl Iterator<Item = &'a mut Self::Element>,
    ) -> ProductBounds<Bound<Self>>;

    /// Writes a probe item likewise.
    fn probe<'a>(
        &self,
        vectors: &Vectors,
        item: ItemId,
        to: impl Iterator<Item = &'a mut Self::Element>,
    ) -> RowBounds<Bound<Self>>;

    /// The proofs of products of a row with panels of this scale.
    fn bounds_at(row: RowBounds<Bound<Self>>, scale: f64) -> ProductBounds<Bound<Self>>;
}
