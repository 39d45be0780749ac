//! Rows against columns, stripe by stripe.

use std::ops::Range;

use parking_lot::Mutex;

use super::forms::{ByteSums, Forms};
use super::lists::{NearColumn, NeighbourLists};
use super::written::{BLOCK, Written};
use crate::error::Result;
use crate::simd::{Floats, Simd, kernels};
use crate::tuning::Size;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, for_each};
use crate::vector::tile::{Element, PANEL, Panels, Rows, for_each_lane, products_of_panels};

/// The limit of a row that all columns may be neighbours of.
pub(super) const NO_LIMIT: f64 = f64::INFINITY;

/// Bounds of rows lie within this of 0: no product is farther, so that it rejects none.
pub(super) const MOST_BOUND: f64 = (1 << 28) as f64;

/// Pairs that a task keeps before it puts them into lists.
const KEPT: usize = 1 << 14;

/// The number that is added to the products of a row: the sum is below 0 for each column beyond `limit`, a
/// distance in the scale of bytes. `most_off` bounds the `off` of columns.
///
/// ‖q − p‖ is ‖X − Y‖ + off(x) + off(y) at most. Half of its square is ½‖q‖² + ½‖p‖² − q·p.
pub(super) fn row_reject(sums: ByteSums, limit: f64, most_off: f64) -> i32 {
    let far = (limit + f64::from(sums.off) + most_off) * (1.0 + 1e-9);
    let least = 0.5 * (f64::from(sums.square) - far * far);
    let bound = match least.is_finite() {
        true => (1.0 - least + least.abs() * 1e-9).ceil().clamp(-MOST_BOUND, MOST_BOUND),
        false => MOST_BOUND,
    };
    // The bytes of columns are greater by 128.
    bound as i32 - 128 * sums.sum
}

/// The numbers that are added to the products of columns, by place.
pub(super) fn panel_reject(columns: &Written) -> Vec<i32> {
    let count = columns.len();
    let of_place = |(place, sums): (usize, &ByteSums)| match place < count {
        true => -(sums.square / 2),
        false => i32::NEVER,
    };
    columns.sums.iter().enumerate().map(of_place).collect()
}

kernels! {
    /// The square of the distance of two points, of a multiple of sixteen places.
    pub(super) fn square_distance[F: Floats,](x: &[f32], y: &[f32]) -> f32 {
        let mut lanes = [0.0; 16];
        let places = x.len().min(y.len()) / 16;
        // SAFETY: the caller promises the instructions of the form; both have so many places.
        unsafe {
            let mut sums = [F::splat(0.0); 4];
            for place in 0..places {
                let at = place * 16;
                let apart = F::sub(F::load(x.as_ptr().add(at)), F::load(y.as_ptr().add(at)));
                sums[place % 4] = F::add_product(sums[place % 4], apart, apart);
            }
            let sum = F::add(F::add(sums[0], sums[1]), F::add(sums[2], sums[3]));
            F::store(lanes.as_mut_ptr(), sum);
        }
        lanes.iter().sum()
    }
}

/// Rows and columns that are compared.
pub(super) struct StripeGrid<'a> {
    pub forms: &'a Forms,
    pub rows: &'a Written,
    pub columns: &'a Written,
    /// Whether rows are columns, which meet once.
    pub itself: bool,
    /// The rows, and the columns, of a stripe; a multiple of [`BLOCK`].
    pub stripe: usize,
    /// The lists of each stripe of rows.
    pub lists: Vec<Mutex<NeighbourLists>>,
    pub panel_reject: Vec<i32>,
    /// A bound on the `off` of columns.
    pub most_off: f64,
    pub simd: Simd,
}

/// A stripe of rows and some of columns, one after the other.
struct StripeTask {
    rows: usize,
    columns: Range<usize>,
}

/// Pairs on their way into lists: the place of the row, and the column.
type Pairs = Vec<(u32, NearColumn)>;

impl StripeGrid<'_> {
    /// The vectors of a stripe that stays in the second cache with another one; fewer where threads would wait. `counts`
    /// are those of rows and columns.
    pub(super) fn stripe(forms: &Forms, counts: [usize; 2], threads: Threads) -> usize {
        const BYTES: Size = Size { usual: 1 << 20, small: 1 << 10 };
        /// Units for a thread, at least.
        const UNITS: usize = 4;
        let of_vector = 4 * (forms.places() + forms.stride());
        let mut blocks = (threads.tuning.size(BYTES) / of_vector / BLOCK).clamp(1, 16);
        let units = |blocks: usize| -> usize {
            counts.iter().map(|count| count.div_ceil(blocks * BLOCK)).product()
        };
        while blocks > 1 && threads.count() > 1 && units(blocks) < UNITS * threads.count() {
            blocks /= 2;
        }
        blocks * BLOCK
    }

    /// Compares all rows with all columns.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn run(&self, threads: Threads, cancel: &CancelFlag) -> Result<()> {
        for_each(threads, self.units(threads), |unit| {
            let mut pairs = [vec![], vec![]];
            for columns in unit.columns {
                cancel.check()?;
                self.meet(unit.rows, columns, &mut pairs)?;
            }
            Ok(())
        })
    }

    fn units(&self, threads: Threads) -> Vec<StripeTask> {
        /// Units for a thread, at least: so that all end together.
        const UNITS: usize = 16;
        let count = |written: &Written| written.len().div_ceil(self.stripe);
        let (rows, columns) = (count(self.rows), count(self.columns));
        let run = (rows * columns / (UNITS * threads.count())).clamp(1, 16);
        let mut units = vec![];
        for first in (0..columns).step_by(run) {
            for row in 0..rows {
                let start = if self.itself { first.max(row) } else { first };
                let end = columns.min(first + run);
                if start < end {
                    units.push(StripeTask { rows: row, columns: start..end });
                }
            }
        }
        units
    }

    /// The places of a stripe.
    fn places(&self, stripe: usize, of: &Written) -> Range<usize> {
        stripe * self.stripe..of.len().min((stripe + 1) * self.stripe)
    }

    /// Compares a stripe of rows with one of columns. Rows that are columns lie by falling limits, mostly.
    fn meet(&self, row: usize, column: usize, pairs: &mut [Pairs; 2]) -> Result<()> {
        let limits = |stripe: usize| self.lists[stripe].lock().limits().to_vec();
        let of_rows = limits(row);
        let of_columns = if self.itself { limits(column) } else { vec![] };
        let most = of_columns.iter().copied().fold(0.0, f64::max);
        let (rows, columns) = (self.places(row, self.rows), self.places(column, self.columns));
        let (places, stride) = (self.forms.places(), self.forms.stride());
        let panels = columns.start / PANEL..columns.end.div_ceil(PANEL);
        let of_panels = Panels {
            numbers: &self.columns.panels[panels.start * PANEL * places..],
            stride: PANEL * places,
            step: 1,
            reject: &self.panel_reject[panels.start * PANEL..],
        };
        let mut reject = [0; BLOCK];
        let mut done = Ok(());
        for block in rows.clone().step_by(BLOCK) {
            let len = BLOCK.min(rows.end - block);
            reject.fill(i32::NEVER);
            for (place, reject) in (block..block + len).zip(&mut reject) {
                let limit = of_rows[place - rows.start].max(most) * self.forms.to_bytes;
                *reject = row_reject(self.rows.sums[place], limit, self.most_off);
            }
            let layout = self.forms.layout;
            let count = layout.padded(len);
            let numbers =
                &self.rows.rows[layout.start(block, places)..][..layout.len(count, places)];
            let of_block = Rows { places, numbers, reject: &reject[..count] };
            products_of_panels(
                self.simd,
                of_block,
                of_panels,
                panels.len(),
                |at, first, mask, _| {
                    let x = block + at;
                    if x >= rows.end {
                        return;
                    }
                    let limit = of_rows[x - rows.start];
                    let (point, off) = (self.rows.point(x, stride), self.rows.offs[x]);
                    for_each_lane(mask, |lane| {
                        let y = columns.start + first + lane;
                        if y >= columns.end || (self.itself && y < x) {
                            return;
                        }
                        let of_column = self.columns.point(y, stride);
                        let square = square_distance(self.simd, point, of_column);
                        let off = f64::from(off) + f64::from(self.columns.offs[y]);
                        if self.forms.may_lie_within(square, off, limit) {
                            pairs[0].push((x as u32, NearColumn { square, column: y as u32 }));
                        }
                        let of_column = of_columns.get(y - columns.start).filter(|_| x != y);
                        if of_column.is_some_and(|l| self.forms.may_lie_within(square, off, *l)) {
                            pairs[1].push((y as u32, NearColumn { square, column: x as u32 }));
                        }
                    });
                    for (stripe, pairs) in [row, column].into_iter().zip(pairs.iter_mut()) {
                        if pairs.len() > KEPT && done.is_ok() {
                            done = self.put(stripe, pairs);
                        }
                        pairs.truncate(if done.is_ok() { usize::MAX } else { 0 });
                    }
                },
            );
        }
        done?;
        let [of_row, of_column] = pairs;
        self.put(row, of_row)?;
        self.put(column, of_column)
    }

    /// Puts pairs into the lists of a stripe of rows.
    fn put(&self, stripe: usize, pairs: &mut Pairs) -> Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let start = stripe * self.stripe;
        let mut lists = self.lists[stripe].lock();
        for (row, near) in pairs.drain(..) {
            let of_row = f64::from(self.rows.offs[row as usize]);
            let off = |column: u32| of_row + f64::from(self.columns.offs[column as usize]);
            lists.add(row as usize - start, near, self.forms, off)?;
        }
        Ok(())
    }
}
