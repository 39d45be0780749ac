//! Neighbours that the family of the measure finds at once.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use super::best::Ranking;
use crate::engine::{
    ArgumentBatches, GpuOptions, NeighbourRequest, NeighbourSearch, NeighbourSide, Origin,
};
use crate::error::{Result, internal_err};
use crate::library::collect::Collected;
use crate::library::search::{PairSearch, SideRows};
use crate::simd::Simd;

/// Rows of a batch, which a thread reads.
const BATCH: usize = 1 << 13;

/// The column of a side, as a family reads it.
#[derive(Debug)]
struct Batches {
    array: ArrayRef,
    data_type: DataType,
    origin: Option<Origin>,
    rows: Vec<usize>,
}

impl Batches {
    fn try_new(search: &PairSearch<'_>, rows: &SideRows) -> Result<Self> {
        let tokenizer = search.options.tokenizer()?;
        let (data_type, origin) = search.measure.argument(rows.array.data_type(), tokenizer);
        let batches = (0..rows.len()).step_by(BATCH).map(|start| BATCH.min(rows.len() - start));
        Ok(Self { array: rows.array.clone(), data_type, origin, rows: batches.collect() })
    }
}

impl ArgumentBatches for Batches {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    fn rows(&self) -> &[usize] {
        &self.rows
    }

    fn values(&self, batch: usize, rows: Range<usize>, of_origin: bool) -> Result<ArrayRef> {
        match of_origin == self.origin.is_some() {
            true => Ok(self.array.slice(batch * BATCH + rows.start, rows.len())),
            false => internal_err!("a column of {} is read as another", self.array.data_type()),
        }
    }

    fn is_stored(&self, _: bool) -> bool {
        true
    }
}

/// The rows of a column that are not NULL.
pub(super) fn rows_with_value(array: &dyn Array) -> Vec<u32> {
    let nulls = array.logical_nulls();
    let has_value = |row: &u32| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row as usize));
    (0..array.len() as u32).filter(has_value).collect()
}

/// Adds the nearest rows of left rows that the family serves; the left rows that it does not.
///
/// # Errors
///
/// When memory for the answer is refused, or the search was cancelled.
pub(super) fn find_at_once(
    search: &PairSearch<'_>,
    ranking: Ranking,
    answer: &mut Collected,
) -> Result<Vec<u32>> {
    let rows = search.sides.each_ref().map(|rows| rows_with_value(&rows.array));
    let rights = if search.itself { &rows[0] } else { &rows[1] };
    if rights.is_empty() || rows[0].is_empty() {
        return Ok(rows.into_iter().next().unwrap_or_default());
    }
    let [left, right] = [0, 1].map(|side| Batches::try_new(search, &search.sides[side]));
    let (left, right) = (left?, right?);
    let memory = search.memory.reservation();
    let found = search.measure.family(search.options.devices).neighbours(&NeighbourRequest {
        predicate: search.predicate,
        count: ranking.count.min(rights.len()),
        with_ties: ranking.with_ties,
        bounds: None,
        sides: [
            NeighbourSide { argument: &left, rows: &rows[0] },
            NeighbourSide { argument: &right, rows: rights },
        ],
        itself: search.itself,
        strategy: search.strategy,
        device: search.options.device,
        gpu: GpuOptions::default(),
        threads: search.options.threads(),
        simd: Simd::detect(),
        reservation: &memory,
        cancel: &search.options.cancel,
    })?;
    search.options.cancel.check()?;
    let [lefts, _] = rows;
    let NeighbourSearch::Found(neighbours) = found else { return Ok(lefts) };
    let mut others = vec![];
    let mut buffer = vec![];
    for (place, left) in lefts.into_iter().enumerate() {
        let Some((partners, values)) = neighbours.of(place) else {
            others.push(left);
            continue;
        };
        buffer.clear();
        let pairs = values.iter().copied().zip(partners.iter().copied());
        // Every row within the bound is there, or the nearest ones are.
        let near = pairs.filter(|(value, _)| search.predicate.admits(*value));
        buffer.extend(near.map(|(value, right)| (ranking.key(value), right)));
        ranking.settle(left, &mut buffer, answer)?;
    }
    Ok(others)
}
