//! The neighbours of rows among the columns near them, by the function itself.

use super::lists::NeighbourLists;
use super::tiles::StripeGrid;
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::vector::metric::Metric;
use crate::vector::nearest::side::SideColumn;

/// The columns for which the function is computed at once.
const FOUR: usize = 4;

/// The neighbours of some rows.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// The number of each left vector, and of its neighbours.
    pub rows: Vec<(u32, u32)>,
    /// The numbers of right vectors, row by row, and the values of the function.
    pub columns: Vec<u32>,
    pub values: Vec<f64>,
}

/// The function with both sides, which decides pairs.
pub(super) struct Judge<'a> {
    pub metric: Metric,
    pub neighbours: usize,
    pub with_ties: bool,
    pub left: &'a SideColumn,
    pub right: &'a SideColumn,
}

impl Judge<'_> {
    /// Decides the rows of a stripe.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn decide(
        &self,
        grid: &StripeGrid<'_>,
        stripe: usize,
        lists: &mut NeighbourLists,
        cancel: &CancelFlag,
    ) -> Result<Decided> {
        let mut decided = Decided::default();
        let (mut buffer, mut buffers) = (vec![], [const { vec![] }; FOUR]);
        let start = stripe * grid.stripe;
        for row in 0..lists.limits().len() {
            cancel.check()?;
            let place = start + row;
            let of_row = f64::from(grid.rows.offs[place]);
            let off = |column: u32| of_row + f64::from(grid.columns.offs[column as usize]);
            let near = lists.take(row, grid.forms, off);
            let number = grid.rows.numbers[place];
            let x = self.left.vector(number, &mut buffer);
            let mut best = Vec::with_capacity(near.len());
            for four in near.chunks(FOUR) {
                let columns = four.iter().map(|near| grid.columns.numbers[near.column as usize]);
                // Of fewer than four columns the others count for nothing.
                let mut ys = [x; FOUR];
                for ((column, buffer), y) in columns.clone().zip(&mut buffers).zip(&mut ys) {
                    *y = self.right.vector(column, buffer);
                }
                let values = self.metric.numbers(ys.map(|y| [x, y]));
                let valued =
                    columns.zip(values).filter_map(|(column, value)| Some((value?, column)));
                best.extend(valued);
            }
            let count = self.best_of(&mut best);
            decided.rows.push((number, count as u32));
            decided.columns.extend(best[..count].iter().map(|(_, column)| *column));
            decided.values.extend(best[..count].iter().map(|(value, _)| *value));
        }
        Ok(decided)
    }

    /// Brings the neighbours to the front; how many they are.
    fn best_of(&self, pairs: &mut [(f64, u32)]) -> usize {
        if pairs.len() <= self.neighbours {
            return pairs.len();
        }
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let last = pairs[self.neighbours - 1].0;
        match self.with_ties {
            true => pairs.partition_point(|(value, _)| value.total_cmp(&last).is_le()),
            false => self.neighbours,
        }
    }
}
