//! The products of rows with some panels.

use super::element::{Element, Heads, PANEL, Panels, Rows};
use super::layout::RowLayout;
use crate::simd::{Form, Simd};

/// Gives each pair that a product does not reject to `survivor`, by row, vector and product.
pub(in crate::vector) fn products<E: Element>(
    simd: Simd,
    rows: Rows<'_, E>,
    panels: Panels<'_, E>,
    count: usize,
    mut survivor: impl FnMut(usize, usize, E::Bound),
) {
    products_of_panels(simd, rows, panels, count, |row, first, mask, products| {
        for_each_lane(mask, |lane| survivor(row, first + lane, products[lane]));
    });
}

/// The lanes of a mask, ascending.
#[inline(always)]
pub(in crate::vector) fn for_each_lane(mut mask: u16, mut give: impl FnMut(usize)) {
    while mask != 0 {
        give(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}

/// Gives the products of a row with the vectors of a panel to `survivors`, where one is not rejected: the row, the
/// first vector, a mask of those that are not rejected, and all. There are `count` panels, and rows to
/// the end of a group. `survivors` computes no products.
pub(in crate::vector) fn products_of_panels<E: Element>(
    simd: Simd,
    rows: Rows<'_, E>,
    panels: Panels<'_, E>,
    count: usize,
    survivors: impl FnMut(usize, usize, u16, &[E::Bound; PANEL]),
) {
    products_by_heads(simd, rows, panels, None, count, survivors);
}

/// Does as [`products_of_panels`], where the first places alone reject most tiles. A matrix unit multiplies all
/// places.
pub(in crate::vector) fn products_by_heads<E: Element>(
    simd: Simd,
    rows: Rows<'_, E>,
    panels: Panels<'_, E>,
    heads: Option<Heads<'_, E>>,
    count: usize,
    mut survivors: impl FnMut(usize, usize, u16, &[E::Bound; PANEL]),
) {
    if E::products_in_tiles(simd, rows, panels, count, &mut survivors) {
        return;
    }
    let wide = matches!(simd.form(), Form::Avx512);
    let mut panel = 0;
    while panel < count {
        let two = wide && panel + 1 < count;
        let part = Panels {
            numbers: &panels.numbers[panel * panels.stride..],
            reject: &panels.reject[panel * panels.step * PANEL..],
            ..panels
        };
        let first = panel * panels.step * PANEL;
        let heads = heads.map(|heads| Heads { of_panels: &heads.of_panels[first..], ..heads });
        match (wide, two) {
            (true, true) => of_panels::<E, 12, 2>(simd, rows, part, heads, first, &mut survivors),
            (true, false) => of_panels::<E, 12, 1>(simd, rows, part, heads, first, &mut survivors),
            (false, _) => of_panels::<E, 6, 1>(simd, rows, part, heads, first, &mut survivors),
        }
        panel += if two { 2 } else { 1 };
    }
}

fn of_panels<E: Element, const ROWS: usize, const PANELS: usize>(
    simd: Simd,
    rows: Rows<'_, E>,
    panels: Panels<'_, E>,
    heads: Option<Heads<'_, E>>,
    first: usize,
    survivors: &mut impl FnMut(usize, usize, u16, &[E::Bound; PANEL]),
) {
    let d = rows.places;
    let mut products = [[[E::Bound::default(); PANEL]; PANELS]; ROWS];
    let mut masks = [[0; PANELS]; ROWS];
    for row in (0..rows.reject.len()).step_by(ROWS) {
        let some = Rows {
            numbers: &rows.numbers[RowLayout::LANES.start(row, d)..],
            reject: &rows.reject[row..row + ROWS],
            ..rows
        };
        let heads = heads.map(|heads| Heads { of_rows: &heads.of_rows[row..row + ROWS], ..heads });
        if !E::tile::<ROWS, PANELS>(simd, some, panels, heads, &mut products, &mut masks) {
            continue;
        }
        for (i, (masks, products)) in masks.iter().zip(&products).enumerate() {
            for (p, (mask, products)) in masks.iter().zip(products).enumerate() {
                if *mask != 0 {
                    survivors(row + i, first + p * panels.step * PANEL, *mask, products);
                }
            }
        }
    }
}
