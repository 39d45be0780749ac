//! Inner products of rows of vectors with panels, compared as they are computed.
//!
//! A panel holds sixteen neighbouring vectors, place by place: a register takes one place of all of
//! them, which is one coordinate as an `f32`, or four as bytes. The kernel keeps the products of a few
//! rows with one or two panels in registers, as matrix multiplication does (Goto and van de Geijn,
//! "Anatomy of high-performance matrix multiplication", 2008), and its end is the comparison with both
//! bounds.

use std::fmt::Debug;

use crate::simd::{Bytes, Floats, Form, Simd, kernels};

/// The vectors of a panel.
pub(super) const PANEL: usize = 16;

/// The type of a place of a vector, and of the bounds of products: a pair survives unless its
/// product is rejected by the sum of its two bounds.
pub(super) trait Element: Debug + Copy + Send + Sync + 'static {
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

    /// Whether the survivor's product proves that the pair matches, by what accepts it.
    fn is_accepted(product: Self::Bound, accept: [Self::Bound; 2]) -> bool;

    /// A mask of the survivors of a row with a panel that [are accepted](Self::is_accepted), and of others.
    fn accepted(
        simd: Simd,
        products: &[Self::Bound; PANEL],
        of_row: Self::Bound,
        of_panel: &[Self::Bound; PANEL],
    ) -> u16;

    /// The products of some rows with some panels, and masks of those that are not rejected; whether
    /// there are any. Without one, the products are left as they were.
    fn tile<const ROWS: usize, const PANELS: usize>(
        simd: Simd,
        rows: Rows<'_, Self>,
        panels: Panels<'_, Self>,
        products: &mut [[[Self::Bound; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool;
}

/// Rows of vectors, packed in groups of [`ROW_UNIT`], with what rejects their pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a, E: Element> {
    /// The places of a vector.
    pub places: usize,
    /// For each group the places of its rows; see [`place_in_rows`].
    pub numbers: &'a [E],
    /// By row.
    pub reject: &'a [E::Bound],
}

/// Panels at equal distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panels<'a, E: Element> {
    /// For each panel the places of its sixteen vectors, `stride` elements behind those of the last.
    pub numbers: &'a [E],
    pub stride: usize,
    /// How many panels one lies behind the last.
    pub step: usize,
    /// By vector.
    pub reject: &'a [E::Bound],
}

/// Gives each pair that a product does not reject to `survivor`, by row, vector and product.
pub(super) fn products<E: Element>(
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
pub(super) fn for_each_lane(mut mask: u16, mut give: impl FnMut(usize)) {
    while mask != 0 {
        give(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}

/// Gives the products of a row with the vectors of a panel to `survivors`, where one is not rejected: the row, the
/// first vector, a mask of those that are not rejected, and all. There are `count` panels, and rows in a
/// multiple of [`ROW_UNIT`].
pub(super) fn products_of_panels<E: Element>(
    simd: Simd,
    rows: Rows<'_, E>,
    panels: Panels<'_, E>,
    count: usize,
    mut survivors: impl FnMut(usize, usize, u16, &[E::Bound; PANEL]),
) {
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
        match (wide, two) {
            (true, true) => of_panels::<E, 12, 2>(simd, rows, part, first, &mut survivors),
            (true, false) => of_panels::<E, 12, 1>(simd, rows, part, first, &mut survivors),
            (false, _) => of_panels::<E, 6, 1>(simd, rows, part, first, &mut survivors),
        }
        panel += if two { 2 } else { 1 };
    }
}

/// Rows come in multiples of this number: what a register tile broadcasts lies in one line of the
/// cache, whatever the length of the vectors.
pub(super) const ROW_UNIT: usize = 12;

/// Where a row of so many places begins; they follow each other in steps of [`ROW_UNIT`].
pub(super) fn place_in_rows(row: usize, places: usize) -> usize {
    let group = ROW_UNIT * places;
    row / ROW_UNIT * group + (row % ROW_UNIT).min(group)
}

fn of_panels<E: Element, const ROWS: usize, const PANELS: usize>(
    simd: Simd,
    rows: Rows<'_, E>,
    panels: Panels<'_, E>,
    first: usize,
    survivors: &mut impl FnMut(usize, usize, u16, &[E::Bound; PANEL]),
) {
    let d = rows.places;
    let mut products = [[[E::Bound::default(); PANEL]; PANELS]; ROWS];
    let mut masks = [[0; PANELS]; ROWS];
    for row in (0..rows.reject.len()).step_by(ROWS) {
        let some = Rows {
            numbers: &rows.numbers[place_in_rows(row, d)..],
            reject: &rows.reject[row..row + ROWS],
            ..rows
        };
        if !E::tile::<ROWS, PANELS>(simd, some, panels, &mut products, &mut masks) {
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

/// Fails where a tile would read beyond what there is.
#[inline(always)]
fn check<E: Element>(rows: Rows<'_, E>, panels: Panels<'_, E>, row_count: usize, count: usize) {
    let d = rows.places;
    assert!(rows.reject.len() >= row_count);
    assert!(d == 0 || rows.numbers.len() >= (d - 1) * ROW_UNIT + row_count);
    assert!(panels.reject.len() >= ((count - 1) * panels.step + 1) * PANEL);
    assert!(panels.numbers.len() >= (count - 1) * panels.stride + d * PANEL);
}

impl Element for f32 {
    type Bound = f32;

    const ZERO: Self = 0.0;
    const NEVER: Self = f32::INFINITY;
    const ALWAYS: Self = f32::NEG_INFINITY;
    const UNSURE: Self = f32::INFINITY;
    const SURE: Self = f32::NEG_INFINITY;

    fn is_accepted(product: f32, accept: [f32; 2]) -> bool {
        f64::from(product) > f64::from(accept[0]) + f64::from(accept[1])
    }

    fn accepted(simd: Simd, products: &[f32; PANEL], of_row: f32, of_panel: &[f32; PANEL]) -> u16 {
        accepted_floats(simd, products, of_row, of_panel)
    }

    /// A product is rejected that is less than the sum of both bounds.
    fn tile<const ROWS: usize, const PANELS: usize>(
        simd: Simd,
        rows: Rows<'_, f32>,
        panels: Panels<'_, f32>,
        products: &mut [[[f32; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool {
        tile_of_floats::<ROWS, PANELS>(simd, rows, panels, products, masks)
    }
}

kernels! {
    /// Bounds bear an addition in `f32`.
    fn accepted_floats[F: Floats,](
        products: &[f32; PANEL],
        of_row: f32,
        of_panel: &[f32; PANEL],
    ) -> u16 {
        // SAFETY: the caller promises the instructions of the form; the arrays have a float for each lane.
        unsafe {
            let sum = F::add(F::splat(of_row), F::load(of_panel.as_ptr()));
            F::less(sum, F::load(products.as_ptr()))
        }
    }
}

kernels! {
    fn tile_of_floats[F: Floats, const ROWS: usize, const PANELS: usize](
        rows: Rows<'_, f32>,
        panels: Panels<'_, f32>,
        products: &mut [[[f32; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool {
        check(rows, panels, ROWS, PANELS);
        let (x, y) = (rows.numbers.as_ptr(), panels.numbers.as_ptr());
        // SAFETY: the caller promises the instructions of the form; every place that is read has been
        // checked, and the products have one for each lane.
        unsafe {
            let mut sums = [[F::splat(0.0); PANELS]; ROWS];
            for k in 0..rows.places {
                let mut of_panels = [F::splat(0.0); PANELS];
                for p in 0..PANELS {
                    of_panels[p] = F::load(y.add(p * panels.stride + k * PANEL));
                }
                for r in 0..ROWS {
                    let number = F::splat(*x.add(k * ROW_UNIT + r));
                    for p in 0..PANELS {
                        sums[r][p] = F::add_product(sums[r][p], number, of_panels[p]);
                    }
                }
            }
            let mut any = 0;
            for p in 0..PANELS {
                let of_panel = F::load(panels.reject.as_ptr().add(p * panels.step * PANEL));
                for r in 0..ROWS {
                    let least = F::add(F::splat(rows.reject[r]), of_panel);
                    masks[r][p] = !F::less(sums[r][p], least);
                    any |= masks[r][p];
                }
            }
            if any == 0 {
                return false;
            }
            for r in 0..ROWS {
                for p in 0..PANELS {
                    F::store(products[r][p].as_mut_ptr(), sums[r][p]);
                }
            }
            true
        }
    }
}

/// Four coordinates as bytes, those of rows signed and those of panels unsigned.
///
/// Bounds are added to products, from which nothing overflows: products lie within 2²⁸ of 0, and so
/// does every bound but the two that outweigh the others.
impl Element for i32 {
    type Bound = i32;

    const ZERO: Self = 0;
    const NEVER: Self = -(1 << 29) - 1;
    const ALWAYS: Self = (1 << 29) + 1;
    const UNSURE: Self = i32::MAX;
    // Products of vectors of ALWAYS, as they are compared, lie between 0 and 2³⁰ + 2²⁸. Of others a pair
    // may stay open that has a great bound.
    const SURE: Self = 2 - (1 << 29) - (1 << 28);

    fn is_accepted(product: i32, accept: [i32; 2]) -> bool {
        i64::from(product) > i64::from(accept[0]) + i64::from(accept[1])
    }

    fn accepted(_: Simd, products: &[i32; PANEL], of_row: i32, of_panel: &[i32; PANEL]) -> u16 {
        let mut mask = 0;
        for (lane, (product, of_panel)) in products.iter().zip(of_panel).enumerate() {
            mask |= u16::from(Self::is_accepted(*product, [of_row, *of_panel])) << lane;
        }
        mask
    }

    /// A product is rejected that is below 0 with both bounds added, which it is given with.
    fn tile<const ROWS: usize, const PANELS: usize>(
        simd: Simd,
        rows: Rows<'_, i32>,
        panels: Panels<'_, i32>,
        products: &mut [[[i32; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool {
        tile_of_bytes::<ROWS, PANELS>(simd, rows, panels, products, masks)
    }
}

kernels! {
    fn tile_of_bytes[B: Bytes, const ROWS: usize, const PANELS: usize](
        rows: Rows<'_, i32>,
        panels: Panels<'_, i32>,
        products: &mut [[[i32; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool {
        check(rows, panels, ROWS, PANELS);
        let (x, y) = (rows.numbers.as_ptr(), panels.numbers.as_ptr());
        // SAFETY: as above.
        unsafe {
            let mut sums = [[B::splat(0); PANELS]; ROWS];
            for p in 0..PANELS {
                let of_panel = B::load(panels.reject.as_ptr().add(p * panels.step * PANEL));
                for r in 0..ROWS {
                    sums[r][p] = B::add(of_panel, B::splat(rows.reject[r]));
                }
            }
            for k in 0..rows.places {
                let mut of_panels = [B::splat(0); PANELS];
                for p in 0..PANELS {
                    of_panels[p] = B::load(y.add(p * panels.stride + k * PANEL));
                }
                for r in 0..ROWS {
                    let number = B::splat(*x.add(k * ROW_UNIT + r));
                    for p in 0..PANELS {
                        sums[r][p] = B::add_products(sums[r][p], of_panels[p], number);
                    }
                }
            }
            let mut all = sums[0][0];
            for r in 0..ROWS {
                for p in 0..PANELS {
                    all = B::and(all, sums[r][p]);
                }
            }
            if B::negative(all) == u16::MAX {
                return false;
            }
            for r in 0..ROWS {
                for p in 0..PANELS {
                    masks[r][p] = !B::negative(sums[r][p]);
                    B::store(products[r][p].as_mut_ptr(), sums[r][p]);
                }
            }
            true
        }
    }
}
