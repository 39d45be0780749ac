//! Rows of the output, from neighbours.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};

use super::table::RowTable;
use crate::spec::{Order, OutputColumn, Side, value_array};
use crate::top::{ScoreKey, TopK, score_of};

/// Makes the rows of pairs.
#[derive(Debug)]
pub(super) struct PairOutput {
    /// The columns. Scores are those of the pairs.
    pub columns: Vec<OutputColumn>,
    /// The schema of `columns`.
    pub schema: SchemaRef,
    /// The direction in which scores are better.
    pub order: Order,
    /// Whether left rows without a neighbour are in the answer.
    pub is_outer: bool,
    pub left: Arc<RowTable>,
    pub right: Arc<RowTable>,
    /// The numbers of the rows of `right` among all right rows: pairs with others are left out.
    pub window: Range<u32>,
}

/// A row of the output: a left row, its neighbour and the score, `None` for a row without a neighbour.
type Row = (u32, Option<(u32, f64)>);

impl PairOutput {
    /// The bytes of a row, about.
    pub(super) fn row_bytes(&self) -> usize {
        self.left.row_bytes() + self.right.row_bytes()
    }

    /// The neighbours of the left rows `rows`, in their order, the best neighbour first, in batches of at
    /// most `batch_size` rows. `candidates` are the left rows that `best` knows, by their place there.
    pub(super) fn batches(
        &self,
        mut rows: Range<u32>,
        candidates: &[u32],
        best: &TopK,
        batch_size: usize,
    ) -> impl Iterator<Item = Result<RecordBatch>> {
        let (mut entries, mut next) = (vec![], candidates.partition_point(|row| *row < rows.start));
        let mut waiting: VecDeque<Row> = VecDeque::new();
        std::iter::from_fn(move || {
            while waiting.len() < batch_size {
                let Some(row) = rows.next() else { break };
                entries.clear();
                if candidates.get(next) == Some(&row) {
                    best.sorted(next as u32, &mut entries);
                    next += 1;
                }
                if entries.is_empty() && self.is_outer {
                    waiting.push_back((row, None));
                }
                let within = entries.iter().filter(|(_, partner)| self.window.contains(partner));
                waiting.extend(within.map(|(key, partner)| {
                    (row, Some((*partner - self.window.start, score_of(*key, self.order))))
                }));
            }
            let taken: Vec<_> = waiting.drain(..waiting.len().min(batch_size)).collect();
            (!taken.is_empty()).then(|| self.batch(&taken))
        })
    }

    /// The batch of some pairs: key of the score, left row, right row.
    pub(super) fn pairs(&self, pairs: &[(ScoreKey, u32, u32)]) -> Result<RecordBatch> {
        let row = |(key, left, right): &(ScoreKey, u32, u32)| -> Row {
            (*left, Some((*right, score_of(*key, self.order))))
        };
        self.batch(&pairs.iter().map(row).collect::<Vec<_>>())
    }

    fn batch(&self, rows: &[Row]) -> Result<RecordBatch> {
        let left: Vec<u32> = rows.iter().map(|(row, _)| *row).collect();
        let right: Vec<u32> = rows.iter().filter_map(|(_, pair)| Some(pair.as_ref()?.0)).collect();
        // The place among the right rows, NULL for a row without a neighbour.
        let mut paired = 0..right.len() as u32;
        let places: UInt32Array =
            rows.iter().map(|(_, pair)| pair.and_then(|_| paired.next())).collect();
        let padded = |column: ArrayRef| match right.len() == rows.len() {
            true => Ok::<_, datafusion::error::DataFusionError>(column),
            false if column.is_empty() => Ok(new_null_array(column.data_type(), rows.len())),
            false => Ok(take(&column, &places, None)?),
        };
        let columns =
            self.columns.iter().zip(self.schema.fields()).map(|(column, field)| match column {
                OutputColumn::Input(Side::Left, index) => self.left.column(*index, &left),
                OutputColumn::Input(Side::Right, index) => {
                    padded(self.right.column(*index, &right)?)
                }
                OutputColumn::Score(_) => {
                    let scores = rows.iter().filter_map(|(_, pair)| Some(pair.as_ref()?.1));
                    padded(value_array(scores.collect(), field.data_type())?)
                }
                OutputColumn::Count(_) => internal_err!("neighbours are not counted"),
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
