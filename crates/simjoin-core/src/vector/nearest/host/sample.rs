//! A limit for the neighbours of each row, from a sample of the columns.
//!
//! The products of a row with the sample keep the best column of each of some groups. The k best of these
//! are k columns, and the farthest of them bounds the k-th neighbour.

use super::forms::Forms;
use super::tiles::{NO_LIMIT, panel_reject, row_reject, square_distance};
use super::written::{BLOCK, Roles, Written};
use crate::error::Result;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::middle::spread;
use crate::vector::nearest::side::SideColumn;
use crate::vector::tile::{PANEL, Panels, Rows, products_of_panels};

/// A column of a group that has none.
const NONE: u32 = u32::MAX;

/// Some columns, in groups.
#[derive(Debug)]
pub(super) struct ColumnSample {
    columns: Written,
    reject: Vec<i32>,
    /// Groups of sixteen lanes: a panel belongs to one of them.
    groups: usize,
}

/// The distances that a sample gives for a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfRow {
    /// The distance within which it has its neighbours.
    pub limit: f64,
    /// Its distance from any column.
    pub usual: f64,
}

impl ColumnSample {
    /// The number of columns in a sample of `columns` columns, for this many neighbours.
    pub(super) fn size(columns: usize, neighbours: usize) -> usize {
        /// The part of the columns is √k by this, so that pairs with the sample and pairs within the limits
        /// take about the same time. A sample has `MOST` columns at most.
        const PART: f64 = 64.0;
        const MOST: usize = 1 << 14;
        let part = columns as f64 * (neighbours as f64).sqrt() / PART;
        let least = 4 * PANEL * Self::groups(neighbours);
        (part as usize).min(MOST).max(least).min(columns)
    }

    /// Groups enough that few have two of the nearest columns.
    fn groups(neighbours: usize) -> usize {
        const OF_NEIGHBOUR: usize = 8;
        (OF_NEIGHBOUR * neighbours).div_ceil(PANEL)
    }

    /// A sample of columns of these numbers; `None` where one has no form.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(
        side: &SideColumn,
        forms: &Forms,
        numbers: &[u32],
        neighbours: usize,
        work: (Threads, &CancelFlag),
    ) -> Result<Option<Self>> {
        let size = Self::size(numbers.len(), neighbours);
        let places = spread(0..numbers.len() as u32, size);
        let some = places.map(|place| numbers[place as usize]).collect();
        let roles = Roles { rows: false, panels: true };
        let columns = Written::of(side, forms, some, roles, work)?;
        Ok(columns.map(|columns| {
            let reject = panel_reject(&columns);
            Self { columns, reject, groups: Self::groups(neighbours) }
        }))
    }

    /// The distances that the sample gives for the rows of a block.
    pub(super) fn rows(
        &self,
        forms: &Forms,
        rows: &Written,
        neighbours: usize,
        simd: Simd,
    ) -> Vec<OfRow> {
        let (places, stride) = (forms.places(), forms.stride());
        let reject: Vec<i32> = (0..BLOCK)
            .map(|row| rows.sums.get(row).map_or(0, |sums| row_reject(*sums, NO_LIMIT, 0.0)))
            .collect();
        let lanes = self.groups * PANEL;
        let mut best = vec![(i32::MIN, NONE); BLOCK * lanes];
        let of_rows = Rows { places, numbers: &rows.rows, reject: &reject };
        let of_panels = Panels {
            numbers: &self.columns.panels,
            stride: places * PANEL,
            step: 1,
            reject: &self.reject,
        };
        let count = self.columns.len();
        let panels = count.div_ceil(PANEL);
        products_of_panels(simd, of_rows, of_panels, panels, |row, first, mask, products| {
            let group = first / PANEL % self.groups;
            let best = &mut best[row * lanes + group * PANEL..][..PANEL];
            for (lane, (best, product)) in best.iter_mut().zip(products).enumerate() {
                if mask & (1 << lane) != 0 && *product > best.0 {
                    *best = (*product, (first + lane) as u32);
                }
            }
        });
        let distance = |row: usize, column: usize| {
            let (x, y) = (rows.point(row, stride), self.columns.point(column, stride));
            let square = square_distance(simd, x, y);
            forms.most(square, f64::from(rows.offs[row]) + f64::from(self.columns.offs[column]))
        };
        let of_row = |row: usize| {
            let best = &mut best[row * lanes..(row + 1) * lanes];
            best.select_nth_unstable_by_key(neighbours - 1, |(product, _)| -i64::from(*product));
            let best = &best[..neighbours];
            let limit = match best.iter().any(|(_, column)| *column == NONE) {
                true => f64::INFINITY,
                false => {
                    let far = best.iter().map(|(_, column)| distance(row, *column as usize));
                    forms.limit(far.fold(0.0, f64::max))
                }
            };
            OfRow { limit, usual: distance(row, row * count / BLOCK) }
        };
        (0..rows.len()).map(of_row).collect()
    }
}
