//! Products of bytes in the tiles of a matrix unit.
//!
//! Two groups of sixteen rows and two panels are multiplied together: four tiles are loaded for four products,
//! whose sums stay in four tiles. A panel is a sequence of tiles already. The last tile of rows ends with zeros,
//! so that it does not matter what a tile of a panel holds in their place.

#![cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, unreachable_code, unused_variables, reason = "units of x86 processors")
)]

use std::ops::Range;

use super::element::{PANEL, Panels, Rows};
use super::layout::RowLayout;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::simd::Amx;
#[cfg(test)]
use crate::simd::Emulated;
use crate::simd::{Bytes, Matrix, MatrixUnit, Simd, TILE, kernels};

/// The elements of a tile.
const LEN: usize = TILE * TILE;

/// Rows, and panels, that are multiplied together.
const TOGETHER: usize = 2;

const _: () = assert!(PANEL == TILE && RowLayout::TILES.unit == TILE);

/// Products of a group with panels.
type Products = [[[i32; PANEL]; TOGETHER]; TILE];

/// Does as [`super::products_of_panels`] by the matrix unit of this form; whether it has one. `survivors` computes
/// no products.
pub(super) fn products_in_tiles(
    simd: Simd,
    rows: Rows<'_, i32>,
    panels: Panels<'_, i32>,
    count: usize,
    survivors: &mut impl FnMut(usize, usize, u16, &[i32; PANEL]),
) -> bool {
    match simd.matrix() {
        Matrix::Absent => return false,
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: the form proves that the unit is there.
        Matrix::Amx => unsafe { by_unit::<Amx>(simd, rows, panels, count, survivors) },
        #[cfg(test)]
        // SAFETY: the emulation needs nothing.
        Matrix::Emulated => unsafe { by_unit::<Emulated>(simd, rows, panels, count, survivors) },
    }
    true
}

/// The memory that is written between products.
#[repr(C, align(64))]
struct Scratch {
    products: [Products; TOGETHER],
    /// The last tiles of panels that end within one.
    tails: [[i32; LEN]; TOGETHER],
}

/// The tiles of a panel.
#[derive(Clone, Copy)]
struct PanelTiles {
    /// The first `whole` of them.
    start: *const i32,
    whole: usize,
    /// The one behind these.
    tail: *const i32,
}

impl PanelTiles {
    /// The place of a tile.
    #[inline(always)]
    fn at(self, tile: usize) -> *const i32 {
        if tile < self.whole { self.start.wrapping_add(tile * LEN) } else { self.tail }
    }
}

/// Panels that are multiplied together.
struct SomePanels<'a> {
    /// One or two; where there is one, it stands for the second, too.
    count: usize,
    tiles: [PanelTiles; TOGETHER],
    reject: [&'a [i32; PANEL]; TOGETHER],
    /// The first vector of each.
    vectors: [usize; TOGETHER],
}

impl<'a> SomePanels<'a> {
    /// The first panels of `next`. The last tiles of those that end within one are copied.
    fn of(
        panels: Panels<'a, i32>,
        places: usize,
        next: Range<usize>,
        tails: &mut [[i32; LEN]; TOGETHER],
    ) -> Self {
        let (count, whole) = (next.len().min(TOGETHER), places / TILE);
        let numbers: [usize; TOGETHER] = std::array::from_fn(|p| next.start + p.min(count - 1));
        let tiles = std::array::from_fn(|p| {
            let own = &panels.numbers[numbers[p] * panels.stride..];
            let rest = &own[whole * LEN..places * PANEL];
            tails[p][..rest.len()].copy_from_slice(rest);
            PanelTiles { start: own.as_ptr(), whole, tail: tails[p].as_ptr() }
        });
        let bounds = panels.reject.as_chunks::<PANEL>().0;
        let reject = numbers.map(|panel| &bounds[panel * panels.step]);
        Self { count, tiles, reject, vectors: numbers.map(|panel| panel * panels.step * PANEL) }
    }

    /// Compares the products of a group, whose first row is `first`, and gives those of rows that are not rejected.
    fn give(
        &self,
        simd: Simd,
        (first, of_rows): (usize, &[i32; TILE]),
        products: &mut Products,
        survivors: &mut impl FnMut(usize, usize, u16, &[i32; PANEL]),
    ) {
        let mut masks = [[0; TOGETHER]; TILE];
        let any = match self.count {
            1 => settle::<1>(simd, of_rows, self.reject, products, &mut masks),
            _ => settle::<2>(simd, of_rows, self.reject, products, &mut masks),
        };
        if !any {
            return;
        }
        for (row, (masks, products)) in (first..).zip(masks.iter().zip(&*products)) {
            for (vector, (mask, products)) in self.vectors.iter().zip(masks.iter().zip(products)) {
                if *mask != 0 {
                    survivors(row, *vector, *mask, products);
                }
            }
        }
    }
}

/// Does as [`products_in_tiles`] by a unit.
///
/// # Safety
///
/// The processor has the unit, and this process may use it.
unsafe fn by_unit<U: MatrixUnit>(
    simd: Simd,
    rows: Rows<'_, i32>,
    panels: Panels<'_, i32>,
    count: usize,
    survivors: &mut impl FnMut(usize, usize, u16, &[i32; PANEL]),
) {
    if count == 0 || rows.reject.is_empty() {
        return;
    }
    check(rows, panels, count);
    let (places, layout) = (rows.places, RowLayout::TILES);
    let tiles = places.div_ceil(TILE);
    let groups = rows.reject.as_chunks::<TILE>().0;
    let mut scratch = Scratch {
        products: [[[[0; PANEL]; TOGETHER]; TILE]; TOGETHER],
        tails: [[0; LEN]; TOGETHER],
    };
    let Scratch { products, tails } = &mut scratch;
    // SAFETY: the caller promises the unit.
    let mut unit = unsafe { U::begin() };
    for panel in (0..count).step_by(TOGETHER) {
        let some = SomePanels::of(panels, places, panel..count, tails);
        for first in (0..groups.len()).step_by(TOGETHER) {
            let own = TOGETHER.min(groups.len() - first);
            let of_rows: [*const i32; TOGETHER] = std::array::from_fn(|g| {
                let start = layout.start((first + g.min(own - 1)) * TILE, places);
                rows.numbers[start..].as_ptr()
            });
            let work = (&mut unit, of_rows, some.tiles, tiles, &mut *products);
            // SAFETY: there is a unit; every tile has been checked, and the products have a place for each sum.
            unsafe {
                match (own, some.count) {
                    (2, 2) => multiply::<U, 2, 2>(work),
                    (2, _) => multiply::<U, 2, 1>(work),
                    (_, 2) => multiply::<U, 1, 2>(work),
                    _ => multiply::<U, 1, 1>(work),
                }
            }
            for (group, products) in (first..first + own).zip(&mut *products) {
                some.give(simd, (group * TILE, &groups[group]), products, survivors);
            }
        }
    }
}

/// Fails where a tile would lie beyond what there is.
fn check(rows: Rows<'_, i32>, panels: Panels<'_, i32>, count: usize) {
    let (len, places) = (rows.reject.len(), rows.places);
    assert!(len.is_multiple_of(TILE));
    assert!(rows.numbers.len() >= RowLayout::TILES.len(len, places));
    assert!(panels.reject.len() >= ((count - 1) * panels.step + 1) * PANEL);
    assert!(panels.numbers.len() >= (count - 1) * panels.stride + places * PANEL);
}

/// The arguments of [`multiply`]: the unit, the rows' first tiles, the panels', how many each has, and where the
/// products go.
type Work<'a, U> = (
    &'a mut U,
    [*const i32; TOGETHER],
    [PanelTiles; TOGETHER],
    usize,
    &'a mut [Products; TOGETHER],
);

/// The products of some groups with some panels.
///
/// # Safety
///
/// The processor has the unit, and the tiles are readable.
#[inline(always)]
unsafe fn multiply<U: MatrixUnit, const GROUPS: usize, const PANELS: usize>(
    (unit, rows, panels, tiles, products): Work<'_, U>,
) {
    /// The stride of rows and of panels, and of products.
    const STRIDES: [usize; 2] = [TILE, TOGETHER * PANEL];
    // Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 panels.
    // SAFETY: the caller promises the unit and the tiles; products have the room.
    unsafe {
        unit.zero::<0>();
        if PANELS > 1 {
            unit.zero::<1>();
        }
        if GROUPS > 1 {
            unit.zero::<2>();
        }
        if GROUPS > 1 && PANELS > 1 {
            unit.zero::<3>();
        }
        for tile in 0..tiles {
            unit.load::<6>(panels[0].at(tile), STRIDES[0]);
            unit.load::<4>(rows[0].wrapping_add(tile * LEN), STRIDES[0]);
            unit.add_products::<0, 4, 6>();
            if PANELS > 1 {
                unit.load::<7>(panels[1].at(tile), STRIDES[0]);
                unit.add_products::<1, 4, 7>();
            }
            if GROUPS > 1 {
                unit.load::<5>(rows[1].wrapping_add(tile * LEN), STRIDES[0]);
                unit.add_products::<2, 5, 6>();
            }
            if GROUPS > 1 && PANELS > 1 {
                unit.add_products::<3, 5, 7>();
            }
        }
        let to = products.each_mut().map(|of_group| of_group.as_mut_ptr().cast::<i32>());
        unit.store::<0>(to[0], STRIDES[1]);
        if PANELS > 1 {
            unit.store::<1>(to[0].add(PANEL), STRIDES[1]);
        }
        if GROUPS > 1 {
            unit.store::<2>(to[1], STRIDES[1]);
        }
        if GROUPS > 1 && PANELS > 1 {
            unit.store::<3>(to[1].add(PANEL), STRIDES[1]);
        }
    }
}

kernels! {
    /// Adds bounds to the products of a group, and makes masks of those that are not rejected; whether there are
    /// any. Without one, the products are left as they were.
    fn settle[B: Bytes, const PANELS: usize](
        of_rows: &[i32; TILE],
        of_panels: [&[i32; PANEL]; TOGETHER],
        products: &mut Products,
        masks: &mut [[u16; TOGETHER]; TILE],
    ) -> bool {
        // SAFETY: the caller promises the instructions of the form; arrays have a place for each lane.
        unsafe {
            let bounds = of_panels.map(|of_panel| B::load(of_panel.as_ptr()));
            let mut all = B::splat(-1);
            for r in 0..TILE {
                let of_row = B::splat(of_rows[r]);
                for p in 0..PANELS {
                    let bound = B::add(of_row, bounds[p]);
                    all = B::and(all, B::add(B::load(products[r][p].as_ptr()), bound));
                }
            }
            if B::negative(all) == u16::MAX {
                return false;
            }
            for r in 0..TILE {
                let of_row = B::splat(of_rows[r]);
                for p in 0..PANELS {
                    let bound = B::add(of_row, bounds[p]);
                    let product = B::add(B::load(products[r][p].as_ptr()), bound);
                    masks[r][p] = !B::negative(product);
                    B::store(products[r][p].as_mut_ptr(), product);
                }
            }
            true
        }
    }
}
