//! From rows to items.

use arrow::array::{Array, ArrayRef};

use super::axis::NormAxis;
use super::collection::{Content, ReadRow, ReadRows, Vectors, hash_of};
use super::gather::VectorGathering;
use super::metric::{Metric, Threshold};
use super::numbers::{NumberColumn, NumberRow};
use super::order::OrderRequest;
use super::stored::stored;
use super::width::{Vector, VectorNumbers};
use crate::engine::{self, Axis, InputRow, KeyId, RowValues};
use crate::error::{Result, exec_err};
use crate::predicate::NanScore;

/// The vectors of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorValues {
    threshold: Threshold,
    pub axis: NormAxis,
    /// The numbers of the build side's vectors, for vectors that probe them.
    build_numbers: Option<usize>,
}

impl VectorValues {
    pub(super) fn new(threshold: Threshold, axis: NormAxis) -> Self {
        Self { threshold, axis, build_numbers: None }
    }
}

/// The value of a row: its content, the number of its dimensions, and its numbers.
pub(super) type Value<'a> = (Content, u32, Vector<'a>);

impl RowValues for VectorValues {
    type Column = NumberColumn;
    type Value<'a> = Value<'a>;
    type Row = ReadRow;
    type Content = VectorNumbers;
    type Items = Vectors;

    fn column(values: &dyn Array) -> Result<NumberColumn> {
        NumberColumn::try_new(values)
    }

    fn element_count(numbers: &NumberColumn) -> usize {
        numbers.element_count()
    }

    fn element_bytes(numbers: &NumberColumn) -> usize {
        if numbers.are_narrow() { size_of::<f32>() } else { size_of::<f64>() }
    }

    fn content(numbers: &NumberColumn, elements: usize) -> VectorNumbers {
        VectorNumbers::with_room(numbers.are_narrow(), elements)
    }

    #[inline]
    fn read(
        &self,
        numbers: &NumberColumn,
        row: InputRow,
        to: &mut VectorNumbers,
    ) -> Result<ReadRow> {
        let InputRow { index, number, key } = row;
        let none = ReadRow { row: number, key: 0, content: Content::None, len: 0, start: to.len() };
        let Some(key) = key else { return Ok(none) };
        let (content, len) = match numbers.row(index) {
            NumberRow::WithNull(len) if self.threshold.metric.measures_nulls() => {
                (Content::WithNull, len)
            }
            NumberRow::Null | NumberRow::WithNull(_) => (Content::None, 0),
            NumberRow::Vector(range)
                if self.threshold.nan == NanScore::Null && numbers.has_nan(range.clone()) =>
            {
                (Content::WithNan, range.len())
            }
            NumberRow::Vector(range) => {
                let len = range.len();
                numbers.add_to(range, to);
                (Content::Vector, len)
            }
        };
        let Ok(len) = u32::try_from(len) else {
            return exec_err!("a vector of {len} dimensions is too long for a join");
        };
        Ok(ReadRow { key, content, len, ..none })
    }

    fn key(row: &mut ReadRow) -> Option<&mut KeyId> {
        Some(&mut row.key)
    }

    #[inline]
    fn item<'a>(row: &ReadRow, numbers: &'a VectorNumbers) -> Option<(KeyId, Value<'a>)> {
        let value = (row.content, row.len, row.of(numbers));
        (row.content != Content::None).then_some((row.key, value))
    }

    fn len(row: &ReadRow) -> u32 {
        row.len
    }

    const LEN_IS_KIND: bool = true;

    #[inline]
    fn position(&self, (_, _, vector): Value<'_>) -> u32 {
        self.axis.position(vector)
    }

    fn kind((_, len, _): Value<'_>) -> u32 {
        len
    }

    #[inline]
    fn hash((content, _, vector): Value<'_>) -> u64 {
        hash_of(0, content, vector)
    }

    fn stored<'a>(values: impl Iterator<Item = Option<Value<'a>>>) -> ArrayRef {
        stored(values)
    }

    fn kinds(&self, values: &dyn Array) -> Option<Vec<u32>> {
        if !self.axis.has_anywhere() {
            return None;
        }
        let numbers = NumberColumn::try_new(values).ok()?;
        let len = |row: usize| match numbers.row(row) {
            NumberRow::Null => 0,
            NumberRow::WithNull(len) => len as u32,
            NumberRow::Vector(range) => range.len() as u32,
        };
        Some((0..numbers.len()).map(len).collect())
    }

    fn footprint(rows: usize, _: usize) -> usize {
        Vectors::footprint(rows)
    }

    /// Gathers the vectors; of a self-join in an order that serves the threshold, where one pays.
    fn gather(
        &self,
        read: Vec<engine::ReadRows<Self>>,
        how: engine::Gathering<'_>,
    ) -> Result<Vectors> {
        let parts = read.into_iter();
        let parts = parts.map(|part| ReadRows { rows: part.rows, numbers: part.content });
        let engine::Gathering { self_join, threads, cancel, reserve } = how;
        // Rows of another input have no order that could meet this one; of norms none is needed.
        let is_ordered = self_join || self.threshold.metric == Metric::InnerProduct;
        let order =
            (self.build_numbers.is_none() && is_ordered).then(|| OrderRequest::of(self.threshold));
        Vectors::gather(parts.collect(), VectorGathering { order, threads, cancel, reserve })
    }

    fn of_probes(&self, build: &Vectors) -> Self {
        Self { build_numbers: Some(build.number_count()), ..*self }
    }

    fn value_count(&self) -> usize {
        self.build_numbers.unwrap_or(0)
    }
}
