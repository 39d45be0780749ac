//! Inner products of rows of vectors with panels, compared as they are computed.
//!
//! A panel holds sixteen neighbouring vectors, dimension by dimension: a register takes one
//! dimension of all of them. The kernel keeps the products of a few rows with one or two panels in
//! registers, as matrix multiplication does (Goto and van de Geijn, "Anatomy of high-performance
//! matrix multiplication", 2008), and its end is the comparison with both bounds.

use crate::simd::{Floats, Form, Simd, kernels};

/// The vectors of a panel.
pub(super) const PANEL: usize = 16;

/// Rows of vectors, packed in groups of [`ROW_UNIT`], with what rejects their pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    pub dimensions: usize,
    /// For each group the dimensions of its rows; see [`place_in_rows`].
    pub numbers: &'a [f32],
    /// By row.
    pub reject: &'a [f32],
}

/// Panels at equal distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panels<'a> {
    /// For each panel the dimensions of its sixteen vectors, `stride` numbers behind those of the last.
    pub numbers: &'a [f32],
    pub stride: usize,
    /// How many panels one lies behind the last.
    pub step: usize,
    /// By vector.
    pub reject: &'a [f32],
}

/// Gives each pair that a product does not reject to `survivor`, by row, vector and product.
/// There are `panels` panels, and rows in a multiple of [`row_unit`].
pub(super) fn products(
    simd: Simd,
    rows: Rows<'_>,
    panels: Panels<'_>,
    count: usize,
    mut survivor: impl FnMut(usize, usize, f32),
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
            (true, true) => of_panels::<12, 2>(simd, rows, part, first, &mut survivor),
            (true, false) => of_panels::<12, 1>(simd, rows, part, first, &mut survivor),
            (false, _) => of_panels::<6, 1>(simd, rows, part, first, &mut survivor),
        }
        panel += if two { 2 } else { 1 };
    }
}

/// Rows come in multiples of this number: what a register tile broadcasts lies in one line of the
/// cache, whatever the length of the vectors.
pub(super) const ROW_UNIT: usize = 12;

/// The place of a row's first number; the next ones follow in steps of [`ROW_UNIT`].
pub(super) fn place_in_rows(row: usize, dimensions: usize) -> usize {
    let group = ROW_UNIT * dimensions;
    row / ROW_UNIT * group + (row % ROW_UNIT).min(group)
}

fn of_panels<const ROWS: usize, const PANELS: usize>(
    simd: Simd,
    rows: Rows<'_>,
    panels: Panels<'_>,
    first: usize,
    survivor: &mut impl FnMut(usize, usize, f32),
) {
    let d = rows.dimensions;
    let mut products = [[[0.0; PANEL]; PANELS]; ROWS];
    let mut masks = [[0; PANELS]; ROWS];
    for row in (0..rows.reject.len()).step_by(ROWS) {
        let some = Rows {
            numbers: &rows.numbers[place_in_rows(row, d)..],
            reject: &rows.reject[row..row + ROWS],
            ..rows
        };
        if !tile::<ROWS, PANELS>(simd, some, panels, &mut products, &mut masks) {
            continue;
        }
        for (i, (masks, products)) in masks.iter().zip(&products).enumerate() {
            for (p, (mask, products)) in masks.iter().zip(products).enumerate() {
                let mut rest = *mask;
                while rest != 0 {
                    let lane = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    survivor(row + i, first + p * panels.step * PANEL + lane, products[lane]);
                }
            }
        }
    }
}

kernels! {
    /// The products of some rows with some panels, and masks of those that are not rejected; whether
    /// there are any. Without one, the products are left as they were.
    fn tile[F: Floats, const ROWS: usize, const PANELS: usize](
        rows: Rows<'_>,
        panels: Panels<'_>,
        products: &mut [[[f32; PANEL]; PANELS]; ROWS],
        masks: &mut [[u16; PANELS]; ROWS],
    ) -> bool {
        let d = rows.dimensions;
        assert!(rows.reject.len() >= ROWS);
        assert!(d == 0 || rows.numbers.len() >= (d - 1) * ROW_UNIT + ROWS);
        assert!(panels.reject.len() >= ((PANELS - 1) * panels.step + 1) * PANEL);
        assert!(panels.numbers.len() >= (PANELS - 1) * panels.stride + d * PANEL);
        let (x, y) = (rows.numbers.as_ptr(), panels.numbers.as_ptr());
        // SAFETY: the caller promises the instructions of the form; the assertions above cover every
        // place that is read, and the products have one for each lane.
        unsafe {
            let mut sums = [[F::splat(0.0); PANELS]; ROWS];
            for k in 0..d {
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
