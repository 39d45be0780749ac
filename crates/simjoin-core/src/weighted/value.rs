//! The values of pairs of rows, one by one: the oracle of the join.

use arrow::array::Array;

use super::column::WeightedColumn;
use super::measure::WeightedMeasure;
use super::rows::WeightedRows;
use crate::engine::RowContent;
use crate::error::Result;

/// Evaluates a measure for pairs of rows of two columns.
#[derive(Debug)]
pub struct PairValues {
    measure: WeightedMeasure,
    columns: [WeightedColumn; 2],
    rows: WeightedRows,
    /// By token id, the weight in the first set; 0 between two pairs.
    weights: Vec<u32>,
}

impl PairValues {
    /// The pairs of two arrays of weighted sets whose tokens are of one kind.
    ///
    /// # Errors
    ///
    /// An internal error for arrays of other types.
    pub fn try_new(measure: WeightedMeasure, [a, b]: [&dyn Array; 2]) -> Result<Self> {
        let columns = [WeightedColumn::try_new(a)?, WeightedColumn::try_new(b)?];
        Ok(Self { measure, columns, rows: WeightedRows::default(), weights: vec![] })
    }

    /// The value for two rows; `None` where one is NULL.
    ///
    /// # Errors
    ///
    /// Where sums of weights exceed 32 bits, or sums of their squares 64.
    pub fn of(&mut self, [a, b]: [usize; 2]) -> Result<Option<f64>> {
        let Self { measure, columns, rows, weights } = self;
        rows.truncate(0);
        let Some(of_a) = rows.read(&columns[0], a, *measure)? else { return Ok(None) };
        let end = rows.tokens.len();
        let Some(of_b) = rows.read(&columns[1], b, *measure)? else { return Ok(None) };
        weights.resize(rows.dictionary.len() as usize, 0);
        for (token, weight) in rows.tokens[..end].iter().zip(&rows.weights) {
            weights[*token as usize] = *weight;
        }
        let both = rows.tokens[end..].iter().zip(&rows.weights[end..]);
        let common =
            both.map(|(token, weight)| measure.common(weights[*token as usize], *weight)).sum();
        rows.tokens[..end].iter().for_each(|token| weights[*token as usize] = 0);
        Ok(Some(measure.value(common, of_a, of_b)))
    }
}
