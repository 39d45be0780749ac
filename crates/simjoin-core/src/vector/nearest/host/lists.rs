//! The columns near each row, as they are found.

use super::forms::Forms;
use crate::error::{Result, exec_err};
use crate::memory::Reservation;

/// A column near a row, with the square of the distance of their points.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearColumn {
    pub square: f32,
    pub column: u32,
}

/// The columns near a row.
#[derive(Debug)]
struct NearColumns {
    near: Vec<NearColumn>,
    /// The list is thinned when it has this many columns.
    full: usize,
}

/// The lists of neighbouring rows.
#[derive(Debug)]
pub(super) struct NeighbourLists {
    neighbours: usize,
    /// By row, the distance beyond which no column is a neighbour.
    limits: Vec<f64>,
    lists: Vec<NearColumns>,
    memory: Reservation,
}

/// The columns that a list has room for at first.
fn room(neighbours: usize) -> usize {
    2 * neighbours + 16
}

/// The columns in a list that has been thinned, at most.
fn most(neighbours: usize) -> usize {
    16 * neighbours + 512
}

impl NeighbourLists {
    /// The bytes of the lists of a row.
    pub(super) fn bytes(neighbours: usize) -> usize {
        size_of::<NearColumns>() + size_of::<f64>() + room(neighbours) * size_of::<NearColumn>()
    }

    /// Lists without columns. `memory` holds the [bytes](Self::bytes) of each.
    pub(super) fn new(limits: Vec<f64>, neighbours: usize, memory: Reservation) -> Self {
        let list = |_: &f64| NearColumns { near: vec![], full: room(neighbours) };
        Self { neighbours, lists: limits.iter().map(list).collect(), limits, memory }
    }

    pub(super) fn limits(&self) -> &[f64] {
        &self.limits
    }

    /// Adds a column to the list of a row. `off` gives the `off` of the row and of a column together.
    ///
    /// # Errors
    ///
    /// When memory is refused, or more columns may be neighbours than a list is meant for.
    pub(super) fn add(
        &mut self,
        row: usize,
        near: NearColumn,
        forms: &Forms,
        off: impl Fn(u32) -> f64,
    ) -> Result<()> {
        let list = &mut self.lists[row];
        if list.near.capacity() == 0 {
            list.near.reserve_exact(room(self.neighbours));
        }
        list.near.push(near);
        if list.near.len() < list.full {
            return Ok(());
        }
        self.thin(row, forms, off);
        let list = &mut self.lists[row];
        let wanted = 2 * list.near.len();
        if wanted > list.full {
            if list.near.len() > most(self.neighbours) {
                return exec_err!("too many vectors are as near as the last neighbour");
            }
            self.memory.try_grow((wanted - list.full) * size_of::<NearColumn>())?;
            list.full = wanted;
            list.near.reserve_exact(wanted - list.near.len());
        }
        Ok(())
    }

    /// Takes out columns that are no neighbours of a row, which has others that are nearer.
    fn thin(&mut self, row: usize, forms: &Forms, off: impl Fn(u32) -> f64) {
        let NearColumns { near, .. } = &mut self.lists[row];
        if near.len() < self.neighbours {
            return;
        }
        let far = near.iter().map(|near| forms.most(near.square, off(near.column)));
        let mut far: Vec<f64> = far.collect();
        let (_, far, _) = far.select_nth_unstable_by(self.neighbours - 1, f64::total_cmp);
        let limit = forms.limit(*far).min(self.limits[row]);
        self.limits[row] = limit;
        near.retain(|near| forms.may_lie_within(near.square, off(near.column), limit));
    }

    /// The columns that may be neighbours of a row.
    pub(super) fn take(
        &mut self,
        row: usize,
        forms: &Forms,
        off: impl Fn(u32) -> f64,
    ) -> Vec<NearColumn> {
        self.thin(row, forms, off);
        std::mem::take(&mut self.lists[row].near)
    }
}
