//! What is known of build rows by their places: ranks of a column, and which of them count.

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::compute::rank;
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;

use super::payload::Payload;
use crate::sets::SetCollection;

/// Dense ranks of a column, 0 for NULL.
#[derive(Debug)]
pub(super) struct Ranks {
    /// Ascending within the rows of a set.
    pub by_place: Vec<u32>,
    /// No two rows are equal and none is NULL.
    pub distinct: bool,
}

impl Ranks {
    /// Ranks the rows by `column`, and orders those of each set by rank.
    pub fn of_rows(column: Option<ArrayRef>, sets: &mut SetCollection) -> Result<Self> {
        let Some(column) = column else {
            return Ok(Self { by_place: vec![], distinct: true });
        };
        let values = normalize_float_zero(&column);
        let mut by_row = rank(&values, None)?;
        if let Some(nulls) = values.logical_nulls() {
            for (row, rank) in by_row.iter_mut().enumerate() {
                if nulls.is_null(row) {
                    *rank = 0;
                }
            }
        }
        // Rows that are equal share a rank, so that n distinct rows have the ranks 1..=n.
        let mut seen = vec![false; by_row.len() + 1];
        let distinct =
            by_row.iter().all(|&r| r != 0 && !std::mem::replace(&mut seen[r as usize], true));
        sets.sort_rows_by_key(|row| by_row[row as usize]);
        let by_place = sets.rows_by_place().map(|row| by_row[row as usize]).collect();
        Ok(Self { by_place, distinct })
    }

    /// The bytes needed while ranking this many rows: ranking sorts values with their rows.
    pub fn footprint(rows: usize) -> usize {
        rows * (2 * size_of::<u32>() + size_of::<(u64, u32)>() + size_of::<bool>())
    }
}

/// Which build rows count as partners: those in which a column is not NULL.
#[derive(Debug)]
pub(super) struct Partners {
    /// By set, how many of its rows do.
    pub of_set: Vec<u32>,
    /// By place, whether the row does.
    pub at_place: Vec<bool>,
}

impl Partners {
    /// `None` when the column has no NULL.
    pub fn of_column(
        sets: &SetCollection,
        payload: &Payload,
        column: usize,
    ) -> Result<Option<Self>> {
        let places = UInt32Array::from_iter_values(0..sets.row_count() as u32);
        let values = payload.take(column, &places)?;
        let Some(nulls) = values.logical_nulls().filter(|n| n.null_count() > 0) else {
            return Ok(None);
        };
        let at_place: Vec<bool> = nulls.iter().collect();
        let of_set = (0..sets.len()).map(|set| {
            let places = sets.row_places(set..set + 1);
            at_place[places.start as usize..places.end as usize].iter().filter(|&&p| p).count()
        });
        Ok(Some(Self { of_set: of_set.map(|count| count as u32).collect(), at_place }))
    }

    pub fn footprint(sets: &SetCollection) -> usize {
        sets.len() as usize * size_of::<u32>() + sets.row_count()
    }
}
