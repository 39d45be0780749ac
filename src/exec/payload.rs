//! The columns of a side that output and residual read, kept row by row.

use std::collections::HashSet;
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch,
    UInt32Array,
};
use datafusion::arrow::compute::{concat, interleave, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err};

/// A column in one piece is at most this large, so that no 32-bit offset overflows.
const MAX_PIECE_BYTES: usize = 1 << 30;

/// Columns addressed by row number, in one piece or in the batches they came in.
#[derive(Debug, Default)]
pub(super) struct Payload {
    columns: Vec<Column>,
    rows: usize,
}

#[derive(Debug)]
enum Column {
    Whole(ArrayRef),
    /// `starts[i]` is the number of the first row of piece `i`.
    Pieces {
        pieces: Vec<ArrayRef>,
        starts: Arc<[u32]>,
    },
}

impl Payload {
    /// The columns `carried` of one batch.
    pub fn of_batch(batch: &RecordBatch, carried: &[usize]) -> Self {
        let columns = carried.iter().map(|&c| Column::Whole(ArrayRef::clone(batch.column(c))));
        Self { columns: columns.collect(), rows: batch.num_rows() }
    }

    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// The bytes held.
    pub fn size_in_bytes(&self) -> usize {
        self.columns
            .iter()
            .map(|column| match column {
                Column::Whole(array) => slice_bytes(array),
                Column::Pieces { pieces, .. } => pieces.iter().map(slice_bytes).sum(),
            })
            .sum()
    }

    /// The values of carried column `column` at `rows`; a NULL row number gives NULL.
    pub fn take(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        Ok(match &self.columns[column] {
            Column::Whole(array) => take(array, rows, None)?,
            Column::Pieces { pieces, starts } => {
                let arrays: Vec<&dyn Array> = pieces.iter().map(|p| p.as_ref()).collect();
                let places: Vec<(usize, usize)> = rows
                    .values()
                    .iter()
                    .map(|&row| {
                        let piece = starts.partition_point(|&s| s <= row) - 1;
                        (piece, (row - starts[piece]) as usize)
                    })
                    .collect();
                interleave(&arrays, &places)?
            }
        })
    }
}

/// Collects the payload of the build side.
#[derive(Debug, Default)]
pub(super) struct PayloadBuilder {
    pieces: Vec<Vec<ArrayRef>>,
    starts: Vec<u32>,
    rows: u32,
    /// The buffers held. Slices of one batch share them.
    buffers: HashSet<usize>,
    bytes: usize,
}

impl PayloadBuilder {
    pub fn new(columns: usize) -> Self {
        Self { pieces: vec![vec![]; columns], ..Self::default() }
    }

    /// Keeps the columns `carried` of a batch.
    pub fn push(&mut self, batch: &RecordBatch, carried: &[usize]) -> Result<()> {
        for (pieces, &column) in self.pieces.iter_mut().zip(carried) {
            let array = batch.column(column);
            self.bytes += new_buffer_bytes(&array.to_data(), &mut self.buffers);
            pieces.push(ArrayRef::clone(array));
        }
        self.starts.push(self.rows);
        let rows = u32::try_from(batch.num_rows()).ok();
        self.rows = rows.and_then(|rows| self.rows.checked_add(rows)).ok_or_else(|| {
            exec_datafusion_err!("a side of a similarity join holds at most {} rows", u32::MAX)
        })?;
        Ok(())
    }

    /// The bytes held.
    pub fn size_in_bytes(&self) -> usize {
        self.bytes + self.starts.capacity() * size_of::<u32>()
    }

    /// The bytes that [`Self::finish`] needs on top at a time: one column in one piece.
    pub fn finish_growth(&self) -> usize {
        self.pieces.iter().filter(|p| p.len() > 1).map(|p| column_bytes(p)).max().unwrap_or(0)
    }

    /// Joins the pieces of columns that are small enough.
    pub fn finish(self) -> Result<Payload> {
        let starts: Arc<[u32]> = self.starts.into();
        let columns = self.pieces.into_iter().map(|mut pieces| {
            if let [_] = pieces.as_slice() {
                return Ok(Column::Whole(pieces.remove(0)));
            }
            if pieces.is_empty() || column_bytes(&pieces) > MAX_PIECE_BYTES {
                return Ok(Column::Pieces { pieces, starts: starts.clone() });
            }
            let arrays: Vec<&dyn Array> = pieces.iter().map(|p| p.as_ref()).collect();
            Ok(Column::Whole(concat(&arrays)?))
        });
        Ok(Payload { columns: columns.collect::<Result<_>>()?, rows: self.rows as usize })
    }
}

fn column_bytes(pieces: &[ArrayRef]) -> usize {
    pieces.iter().map(slice_bytes).sum()
}

/// The bytes of a column's rows: of a slice, its share of the buffers.
fn slice_bytes(array: &ArrayRef) -> usize {
    fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> usize {
        let offsets = array.value_offsets();
        let (first, last) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
        size_of_val(offsets) + slice_bytes(&array.values().slice(first, last - first))
    }
    match array.data_type() {
        DataType::List(_) => list(array.as_list::<i32>()),
        DataType::LargeList(_) => list(array.as_list::<i64>()),
        _ => {
            let data = array.to_data();
            data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
        }
    }
}

/// The bytes of those buffers that `seen` does not hold yet.
fn new_buffer_bytes(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let mut bytes = 0;
    let nulls = data.nulls().map(|n| n.buffer());
    for buffer in data.buffers().iter().chain(nulls) {
        // Slices of a buffer share its allocation, which `data_ptr` names.
        if seen.insert(buffer.data_ptr().as_ptr() as usize) {
            bytes += buffer.capacity();
        }
    }
    bytes + data.child_data().iter().map(|c| new_buffer_bytes(c, seen)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, ListArray};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn slices_of_one_batch_are_counted_once() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
            (0..1000).map(|i| Some(vec![Some(i), Some(i + 1)])),
        );
        let whole = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
        let mut builder = PayloadBuilder::new(1);
        builder.push(&whole, &[0]).unwrap();
        let bytes = builder.bytes;
        for start in (0..1000).step_by(10) {
            builder.push(&whole.slice(start, 10), &[0]).unwrap();
        }
        assert_eq!(builder.bytes, bytes);
        let part = slice_bytes(&whole.slice(100, 10).column(0).clone());
        assert!((160..400).contains(&part), "{part}");
    }

    #[test]
    fn rows_are_found_in_pieces_as_in_one() {
        let array =
            |from: i64, to: i64| Arc::new(Int64Array::from_iter_values(from..to)) as ArrayRef;
        let pieces = vec![array(0, 3), array(3, 3), array(3, 8)];
        let in_pieces = Column::Pieces { pieces, starts: [0, 3, 3].into() };
        let payload = Payload { columns: vec![in_pieces, Column::Whole(array(0, 8))], rows: 8 };
        let rows = UInt32Array::from(vec![7, 0, 2, 3, 3, 4]);
        let (a, b) = (payload.take(0, &rows).unwrap(), payload.take(1, &rows).unwrap());
        assert_eq!(&a, &b);
        assert_eq!(a.as_primitive::<Int64Type>().values(), &[7, 0, 2, 3, 3, 4]);
    }
}
