//! The places of vectors, their bounds, and the rows and panels that they lie in.

use std::fmt::Debug;

use super::layout::RowLayout;
use crate::simd::Simd;

/// The vectors of a panel.
pub(in crate::vector) const PANEL: usize = 16;

/// The type of a place of a vector, and of the bounds of products: a pair survives unless its
/// product is rejected by the sum of its two bounds.
pub(in crate::vector) trait Element:
    Debug + Copy + Send + Sync + 'static
{
    type Bound: Debug + Copy + Default + Send + Sync + 'static;

    const ZERO: Self;
    /// Rejects all pairs of a row, but those with vectors of [`Self::ALWAYS`].
    const NEVER: Self::Bound;
    /// Rejects none.
    const ALWAYS: Self::Bound;
    /// Accepts none.
    const UNSURE: Self::Bound;
    /// The bound of a vector of [`Self::ALWAYS`]: accepts all but those with vectors of [`Self::UNSURE`].
    const SURE: Self::Bound;

    /// The layout of rows whose products this form computes.
    fn layout(simd: Simd) -> RowLayout;

    /// Whether the survivor's product proves that the pair matches, by what accepts it.
    fn is_accepted(product: Self::Bound, accept: [Self::Bound; 2]) -> bool;

    /// A mask of the survivors of a row with a panel that [are accepted](Self::is_accepted), and of others.
    fn accepted(
        simd: Simd,
        products: &[Self::Bound; PANEL],
        of_row: Self::Bound,
        of_panel: &[Self::Bound; PANEL],
    ) -> u16;

    /// Does as [`products_of_panels`](super::products_of_panels) by the matrix unit of this form; whether it has one
    /// for these places.
    fn products_in_tiles(
        _: Simd,
        _: Rows<'_, Self>,
        _: Panels<'_, Self>,
        _: usize,
        _: &mut impl FnMut(usize, usize, u16, &[Self::Bound; PANEL]),
    ) -> bool {
        false
    }

    /// Returns the bound that rejects pairs of a row by its first places, where `tail` are the others and `reject`
    /// rejects by all.
    /// No bound of an element without heads rejects.
    fn head_of_row(_reject: Self::Bound, _tail: impl Iterator<Item = Self>) -> Self::Bound {
        Self::ALWAYS
    }

    /// Returns the bound that rejects pairs of a vector of a panel likewise.
    fn head_of_vector(_reject: Self::Bound, _tail: impl Iterator<Item = Self>) -> Self::Bound {
        Self::ALWAYS
    }

    /// The products of some rows with some panels, and masks of those that are not rejected; whether
    /// there are any. Without one, the products are left as they were.
    fn tile<const ROWS: usize, const PANELS: usize>(
        simd: Simd,
        rows: Rows<'_, Self>,
        panels: Panels<'_, Self>,
        heads: Option<Heads<'_, Self>>,
        products: &mut [[[Self::Bound; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool;
}

/// Rows of vectors in a [`RowLayout`], with what rejects their pairs.
#[derive(Debug, Clone, Copy)]
pub(in crate::vector) struct Rows<'a, E: Element> {
    /// The places of a vector.
    pub places: usize,
    /// The places of all rows, where [`Element::layout`] has them.
    pub numbers: &'a [E],
    /// The bound of each row.
    pub reject: &'a [E::Bound],
}

/// Panels at equal distances.
#[derive(Debug, Clone, Copy)]
pub(in crate::vector) struct Panels<'a, E: Element> {
    /// For each panel the places of its sixteen vectors, `stride` elements behind those of the last.
    pub numbers: &'a [E],
    pub stride: usize,
    /// The distance in panels from one to the next.
    pub step: usize,
    /// The bound of each vector.
    pub reject: &'a [E::Bound],
}

/// The first places of all vectors: where these reject all pairs of a tile, the others are not multiplied.
#[derive(Debug, Clone, Copy)]
pub(in crate::vector) struct Heads<'a, E: Element> {
    /// Their number, less than that of a vector's places.
    pub places: usize,
    /// Bounds that reject by them, by row and by vector, as [`Rows::reject`] and [`Panels::reject`] lie.
    pub of_rows: &'a [E::Bound],
    pub of_panels: &'a [E::Bound],
}
