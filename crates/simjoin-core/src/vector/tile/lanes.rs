//! Products in vector registers.
//!
//! The kernel keeps the products of a few rows with one or two panels in registers, as matrix
//! multiplication does (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008),
//! and its end is the comparison with both bounds.

use super::element::{Element, Heads, PANEL, Panels, Rows};
use super::layout::RowLayout;
use super::matrix;
use crate::simd::{Bytes, Floats, Matrix, Simd, kernels};

/// The rows of a group.
const UNIT: usize = RowLayout::LANES.unit;

/// Fails where a tile would read beyond what there is.
#[inline(always)]
fn check<E: Element>(rows: Rows<'_, E>, panels: Panels<'_, E>, row_count: usize, count: usize) {
    let d = rows.places;
    assert!(rows.reject.len() >= row_count);
    assert!(d == 0 || rows.numbers.len() >= (d - 1) * UNIT + row_count);
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

    fn layout(_: Simd) -> RowLayout {
        RowLayout::LANES
    }

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
        _: Option<Heads<'_, f32>>,
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
                    let number = F::splat(*x.add(k * UNIT + r));
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

    fn layout(simd: Simd) -> RowLayout {
        if simd.matrix() == Matrix::Absent { RowLayout::LANES } else { RowLayout::TILES }
    }

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

    fn head_of_row(reject: i32, tail: impl Iterator<Item = i32>) -> i32 {
        let (mut double, mut sum) = (0, 0);
        for quad in tail {
            let quad = quad.to_ne_bytes().map(|byte| i32::from(byte as i8));
            double += square(quad);
            sum += quad.iter().sum::<i32>();
        }
        head_bound(reject, (double + 1) / 2 + 128 * sum)
    }

    fn head_of_vector(reject: i32, tail: impl Iterator<Item = i32>) -> i32 {
        let quads = tail.map(|quad| quad.to_ne_bytes().map(|byte| i32::from(byte) - 128));
        head_bound(reject, (quads.map(square).sum::<i32>() + 1) / 2)
    }

    fn products_in_tiles(
        simd: Simd,
        rows: Rows<'_, i32>,
        panels: Panels<'_, i32>,
        count: usize,
        survivors: &mut impl FnMut(usize, usize, u16, &[i32; PANEL]),
    ) -> bool {
        matrix::products_in_tiles(simd, rows, panels, count, survivors)
    }

    /// A product is rejected that is below 0 with both bounds added, which it is given with.
    fn tile<const ROWS: usize, const PANELS: usize>(
        simd: Simd,
        rows: Rows<'_, i32>,
        panels: Panels<'_, i32>,
        heads: Option<Heads<'_, i32>>,
        products: &mut [[[i32; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool {
        match heads {
            Some(heads) => {
                tile_of_bytes::<ROWS, PANELS, true>(simd, rows, panels, &heads, products, masks)
            }
            None => {
                const NONE: Heads<'_, i32> = Heads { places: 0, of_rows: &[], of_panels: &[] };
                tile_of_bytes::<ROWS, PANELS, false>(simd, rows, panels, &NONE, products, masks)
            }
        }
    }
}

/// Bounds lie within this of 0, but those of [`i32::NEVER`] and [`i32::ALWAYS`].
const MOST_BOUND: i32 = 1 << 28;

/// The bound of the head of a vector: `tail` is half of the square of the rest, with what the other's bytes are
/// greater by. A pair that the heads reject is rejected by all places: these add −½‖q − p‖², where q and p are
/// the rests of both.
fn head_bound(reject: i32, tail: i32) -> i32 {
    match reject.unsigned_abs() > MOST_BOUND.unsigned_abs() {
        true => reject,
        // Greater than the sum, a bound rejects less; lesser ones could outweigh ALWAYS.
        false => (reject + tail).max(-MOST_BOUND),
    }
}

/// The square of four coordinates.
fn square(integers: [i32; 4]) -> i32 {
    integers.iter().map(|q| q * q).sum()
}

/// Adds the products of a place.
///
/// # Safety
///
/// The processor runs the instructions of the form; the place is one of all rows and panels.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "arrays of registers: loops of fixed length unroll")]
unsafe fn multiply<B: Bytes, const ROWS: usize, const PANELS: usize>(
    sums: &mut [[B::Vector; PANELS]; ROWS],
    [x, y]: [*const i32; 2],
    stride: usize,
    k: usize,
) {
    // SAFETY: the caller promises the instructions, and that the places are there.
    unsafe {
        let mut of_panels = [B::splat(0); PANELS];
        for p in 0..PANELS {
            of_panels[p] = B::load(y.add(p * stride + k * PANEL));
        }
        for r in 0..ROWS {
            let number = B::splat(*x.add(k * UNIT + r));
            for p in 0..PANELS {
                sums[r][p] = B::add_products(sums[r][p], of_panels[p], number);
            }
        }
    }
}

/// Whether all products are below zero.
///
/// # Safety
///
/// The processor runs the instructions of the form.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "arrays of registers: loops of fixed length unroll")]
unsafe fn are_negative<B: Bytes, const ROWS: usize, const PANELS: usize>(
    sums: &[[B::Vector; PANELS]; ROWS],
) -> bool {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let mut all = sums[0][0];
        for r in 0..ROWS {
            for p in 0..PANELS {
                all = B::and(all, sums[r][p]);
            }
        }
        B::negative(all) == u16::MAX
    }
}

kernels! {
    fn tile_of_bytes[B: Bytes, const ROWS: usize, const PANELS: usize, const HEADS: bool](
        rows: Rows<'_, i32>,
        panels: Panels<'_, i32>,
        heads: &Heads<'_, i32>,
        products: &mut [[[i32; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool {
        check(rows, panels, ROWS, PANELS);
        let (of_rows, of_panels) = match HEADS {
            true => (heads.of_rows, heads.of_panels),
            false => (rows.reject, panels.reject),
        };
        let head = if HEADS { heads.places } else { 0 };
        if HEADS {
            assert!(head <= rows.places && of_rows.len() >= ROWS);
            assert!(of_panels.len() >= ((PANELS - 1) * panels.step + 1) * PANEL);
        }
        let places = [rows.numbers.as_ptr(), panels.numbers.as_ptr()];
        // SAFETY: as above.
        unsafe {
            let mut sums = [[B::splat(0); PANELS]; ROWS];
            for p in 0..PANELS {
                let of_panel = B::load(of_panels.as_ptr().add(p * panels.step * PANEL));
                for r in 0..ROWS {
                    sums[r][p] = B::add(of_panel, B::splat(of_rows[r]));
                }
            }
            if HEADS {
                for k in 0..head {
                    multiply::<B, ROWS, PANELS>(&mut sums, places, panels.stride, k);
                }
                if are_negative::<B, ROWS, PANELS>(&sums) {
                    return false;
                }
                for p in 0..PANELS {
                    let mut rest = [0; PANEL];
                    for lane in 0..PANEL {
                        let place = p * panels.step * PANEL + lane;
                        rest[lane] = panels.reject[place] - of_panels[place];
                    }
                    let rest = B::load(rest.as_ptr());
                    for r in 0..ROWS {
                        let both = B::add(rest, B::splat(rows.reject[r] - of_rows[r]));
                        sums[r][p] = B::add(sums[r][p], both);
                    }
                }
            }
            for k in head..rows.places {
                multiply::<B, ROWS, PANELS>(&mut sums, places, panels.stride, k);
            }
            if are_negative::<B, ROWS, PANELS>(&sums) {
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
