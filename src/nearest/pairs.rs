//! Scores that are computed pair by pair.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::array::{Int64Array, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef, UInt64Type};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{Result, internal_datafusion_err, internal_err, plan_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;

use super::keys::RowsByKey;
use super::table::RowTable;
use super::tasks::all_of;
use crate::spec::{NearestJoin, Order, Residual, ResidualColumn, Side};
use crate::top::{ScoreKey, TopK, key_of, keyed};

/// Right rows that a left row meets at once.
const BLOCK: usize = 1 << 13;

/// Whether scores of this type are ranked.
///
/// # Errors
///
/// A plan error that names the types that are.
pub(super) fn check_type(data_type: &DataType) -> Result<()> {
    use DataType::*;
    match data_type {
        Float64 | Float32 | Float16 | UInt64 | Date32 | Date64 | Time32(_) | Time64(_) => Ok(()),
        Timestamp(..) | Duration(_) | Null => Ok(()),
        other if other.is_integer() => Ok(()),
        other => plan_err!(
            "NEAREST ranks by numbers, dates, times and durations, and the score is of type {other}; \
             cast it, for example to DOUBLE"
        ),
    }
}

/// The keys of scores; NULL where the score is, or is NaN, which does not rank.
pub(super) fn keys_of(scores: &ArrayRef, order: Order) -> Result<Int64Array> {
    let keys = match scores.data_type() {
        DataType::Float64 | DataType::Float32 | DataType::Float16 => {
            let scores = cast(scores, &DataType::Float64)?;
            let ranked = |score: f64| (!score.is_nan()).then(|| key_of(score, order));
            scores.as_primitive::<Float64Type>().unary_opt(ranked)
        }
        DataType::UInt64 => scores
            .as_primitive::<UInt64Type>()
            .unary(|score| keyed((score ^ (1 << 63)) as i64, order)),
        _ => {
            let scores = match scores.data_type() {
                // Casts go by the width of the type.
                DataType::Date32 | DataType::Time32(_) => cast(scores, &DataType::Int32)?,
                _ => Arc::clone(scores),
            };
            let scores = cast(&scores, &DataType::Int64)?;
            scores.as_primitive::<Int64Type>().unary(|score| keyed(score, order))
        }
    };
    Ok(keys)
}

/// The pairs of a join, computed one by one.
#[derive(Debug)]
pub(super) struct ComputedPairs {
    join: Arc<NearestJoin>,
    left: Arc<RowTable>,
    right: Arc<RowTable>,
    partners: RowsByKey,
}

impl ComputedPairs {
    /// The pairs of two tables. `memory` grows by the lists of right rows.
    ///
    /// # Errors
    ///
    /// The errors of evaluating keys and filters, and when memory is refused.
    pub(super) fn try_new(
        join: Arc<NearestJoin>,
        left: Arc<RowTable>,
        right: Arc<RowTable>,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let partners = RowsByKey::try_new(&join, &right, memory)?;
        Ok(Self { join, left, right, partners })
    }

    /// Offers `best` all pairs of the left rows `rows`, which are `slots` there. `threads` tasks share
    /// them.
    ///
    /// # Errors
    ///
    /// The errors of evaluating the condition and the score.
    pub(super) async fn offer(
        self: &Arc<Self>,
        rows: Arc<[u32]>,
        slots: Arc<[u32]>,
        best: &Arc<TopK>,
        threads: usize,
    ) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..threads.clamp(1, rows.len().max(1)) {
            let (pairs, next, best) = (Arc::clone(self), Arc::clone(&next), Arc::clone(best));
            let (rows, slots) = (Arc::clone(&rows), Arc::clone(&slots));
            tasks.spawn(async move {
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    let Some((row, slot)) = rows.get(at).zip(slots.get(at)) else {
                        return Ok::<_, datafusion::error::DataFusionError>(());
                    };
                    let partners = pairs.partners.of_left(&pairs.join, &pairs.left, *row)?;
                    for block in partners.chunks(BLOCK) {
                        let (partners, keys) = pairs.score(*row, block)?;
                        let ranked = partners.iter().zip(keys.iter());
                        best.offer(ranked.filter_map(|(partner, key)| {
                            key.map(|key: ScoreKey| (*slot, *partner, key))
                        }));
                        best.settle()?;
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
        all_of(tasks).await.map(drop)
    }

    /// The right rows of a block that are candidates of a left row, and the keys of their scores; NULL of
    /// scores that do not rank.
    fn score<'a>(&self, row: u32, block: &'a [u32]) -> Result<(Cow<'a, [u32]>, Int64Array)> {
        let Some(score) = &self.join.score else {
            return internal_err!("the search finds every neighbour");
        };
        let candidates = match &self.join.condition {
            None => Cow::Borrowed(block),
            Some(condition) => {
                let holds = self.evaluate(condition, row, block)?;
                let holds = as_boolean_array(&holds)?;
                let rows = block.iter().enumerate().filter(|(at, _)| is_true(holds, *at));
                Cow::Owned(rows.map(|(_, row)| *row).collect())
            }
        };
        let keys = keys_of(&self.evaluate(score, row, &candidates)?, self.join.order)?;
        Ok((candidates, keys))
    }

    /// The value of an expression for a left row with some right rows.
    fn evaluate(&self, expression: &Residual, row: u32, block: &[u32]) -> Result<ArrayRef> {
        let columns = expression.columns.iter().map(|column| match column {
            ResidualColumn::Input(Side::Left, index) => {
                let value = self.left.column(*index, &[row])?;
                Ok(take(&value, &UInt32Array::from(vec![0; block.len()]), None)?)
            }
            ResidualColumn::Input(Side::Right, index) => self.right.column(*index, block),
            ResidualColumn::Score(_) => {
                Err(internal_datafusion_err!("the score of a pair reads a score"))
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = batch_of(&expression.schema, columns, block.len())?;
        evaluate(&expression.expression, &batch)
    }
}

/// The rows of a batch that pass a filter; `None` where there is none.
pub(super) fn admitted(
    filter: Option<&PhysicalExprRef>,
    batch: &RecordBatch,
) -> Result<Option<BooleanArray>> {
    filter.map(|filter| Ok(as_boolean_array(&evaluate(filter, batch)?)?.clone())).transpose()
}

/// Whether a condition holds for a row: it does not where it is NULL.
pub(super) fn is_true(condition: &BooleanArray, row: usize) -> bool {
    condition.is_valid(row) && condition.value(row)
}

/// A batch of `rows` rows, which may have no columns.
pub(super) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The value of an expression for each row of a batch.
pub(super) fn evaluate(expression: &PhysicalExprRef, batch: &RecordBatch) -> Result<ArrayRef> {
    expression.evaluate(batch)?.into_array(batch.num_rows())
}
