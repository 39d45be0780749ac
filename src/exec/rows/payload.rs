//! The columns of a side that output and residual read, kept row by row.

use std::mem::size_of;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayData, ArrayRef, ArrowPrimitiveType, AsArray, MutableArrayData, PrimitiveArray,
    RecordBatch, UInt32Array, make_array, new_empty_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{DataType, Schema};
use arrow::downcast_primitive_array;
use datafusion::common::{Result, internal_err};

use crate::engine::{Collection, RowGroups};
use crate::operator::row_bytes::{range_bytes, slice_bytes, stored_bytes, widest_row};
use crate::util::buffers::SeenBuffers;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{self, Threads};

/// A column in one piece is at most this large, so that no 32-bit offset overflows.
const MAX_PIECE_BYTES: usize = 1 << 30;

/// Bytes copied between two looks at the cancellation flag: some milliseconds.
const UNCANCELLED_BYTES: usize = 32 << 20;

/// Columns addressed by the slots of rows in a collection ([`RowGroups::row_at`]).
///
/// The slot of a row is its *place* here. The rows of an item have neighbouring places. Columns of
/// fixed width are kept in that order, so that the values of an item lie side by side; the others
/// stay as they came and are looked up.
#[derive(Debug)]
pub(crate) struct Payload {
    columns: Vec<PayloadColumn>,
    items: Arc<dyn Collection>,
    rows: usize,
    widest: OnceLock<usize>,
    has_nulls: OnceLock<bool>,
}

#[derive(Debug)]
enum PayloadColumn {
    ByPlace(ArrayRef),
    ByRow {
        rows: ArrayRef,
        /// The values by place, from the first call of `Payload::by_place` on.
        places: OnceLock<ArrayRef>,
    },
    /// Too large for one piece. `starts[i]` is the number of the first row of piece `i`.
    Pieces {
        pieces: Vec<ArrayRef>,
        starts: Arc<[u32]>,
    },
}

impl Payload {
    /// The items of the rows.
    pub(crate) fn items(&self) -> &dyn Collection {
        self.items.as_ref()
    }

    /// The columns `carried` of one batch, whose rows `items` holds.
    pub(crate) fn of_batch(
        batch: &RecordBatch,
        carried: &[usize],
        items: Arc<dyn Collection>,
    ) -> Self {
        let columns = carried.iter().map(|&c| PayloadColumn::ByRow {
            rows: ArrayRef::clone(batch.column(c)),
            places: OnceLock::new(),
        });
        Self {
            columns: columns.collect(),
            items,
            rows: batch.num_rows(),
            widest: OnceLock::new(),
            has_nulls: OnceLock::new(),
        }
    }

    /// The bytes that the columns `carried` of a batch take at most as a payload.
    pub(crate) fn footprint(batch: &RecordBatch, carried: &[usize]) -> usize {
        let bytes = |&column: &usize| {
            let array = batch.column(column);
            slice_bytes(array) * if is_spread(array.data_type()) { 2 } else { 1 }
        };
        carried.iter().map(bytes).sum()
    }

    /// The bytes held.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.columns
            .iter()
            .map(|column| match column {
                PayloadColumn::ByPlace(array) => slice_bytes(array),
                PayloadColumn::ByRow { rows, places } => {
                    slice_bytes(rows) + places.get().map_or(0, slice_bytes)
                }
                PayloadColumn::Pieces { pieces, .. } => pieces.iter().map(slice_bytes).sum(),
            })
            .sum()
    }

    /// The bytes of a row on average.
    pub(crate) fn row_bytes(&self) -> usize {
        let bytes = |column: &PayloadColumn| match column {
            PayloadColumn::ByPlace(array) | PayloadColumn::ByRow { rows: array, .. } => {
                slice_bytes(array)
            }
            PayloadColumn::Pieces { pieces, .. } => pieces.iter().map(slice_bytes).sum(),
        };
        self.columns.iter().map(bytes).sum::<usize>() / self.rows.max(1)
    }

    /// A bound on the bytes of a row: the sum of those of the widest value of each column.
    pub(crate) fn widest_row(&self) -> usize {
        let widest = |column: &PayloadColumn| match column {
            PayloadColumn::ByPlace(array) | PayloadColumn::ByRow { rows: array, .. } => {
                widest_row(array)
            }
            PayloadColumn::Pieces { pieces, .. } => {
                pieces.iter().map(|piece| widest_row(piece)).max().unwrap_or(0)
            }
        };
        *self.widest.get_or_init(|| self.columns.iter().map(widest).sum())
    }

    /// The bytes of the row at a place.
    pub(crate) fn bytes_at(&self, place: u32) -> usize {
        let bytes = |array: &ArrayRef, row: u32| range_bytes(array, row as usize, row as usize + 1);
        let of_column = |column: &PayloadColumn| match column {
            PayloadColumn::ByPlace(array) => bytes(array, place),
            PayloadColumn::ByRow { rows, .. } => bytes(rows, self.items.groups().row_at(place)),
            PayloadColumn::Pieces { pieces, starts } => {
                let row = self.items.groups().row_at(place);
                let piece = starts.partition_point(|&start| start <= row) - 1;
                bytes(&pieces[piece], row - starts[piece])
            }
        };
        self.columns.iter().map(of_column).sum()
    }

    /// A column of fixed width in the order of the places, `None` for other columns.
    pub(crate) fn by_place(&self, column: usize) -> Result<Option<&ArrayRef>> {
        Ok(match &self.columns[column] {
            PayloadColumn::ByPlace(array) => Some(array),
            PayloadColumn::ByRow { rows, places } if is_spread(rows.data_type()) => {
                if let Some(places) = places.get() {
                    return Ok(Some(places));
                }
                // The rows of one batch: too little work to need cancelling.
                let made =
                    by_place(rows, self.items.groups(), Threads::ONE, &CancelFlag::default())?;
                Some(places.get_or_init(|| made))
            }
            PayloadColumn::ByRow { .. } | PayloadColumn::Pieces { .. } => None,
        })
    }

    /// Whether any of the columns has a NULL.
    pub(crate) fn has_nulls(&self) -> bool {
        *self.has_nulls.get_or_init(|| (0..self.columns.len()).any(|c| self.nulls(c).is_some()))
    }

    /// The places at which a carried column is NULL; `None` where there are none.
    pub(crate) fn nulls(&self, column: usize) -> Option<Nulls<'_>> {
        let of_array = |array: &ArrayRef| array.logical_nulls().filter(|n| n.null_count() > 0);
        let (by_place, nulls) = match &self.columns[column] {
            PayloadColumn::ByPlace(array) => (true, vec![of_array(array)]),
            PayloadColumn::ByRow { rows, .. } => (false, vec![of_array(rows)]),
            PayloadColumn::Pieces { pieces, .. } => (false, pieces.iter().map(of_array).collect()),
        };
        let starts = match &self.columns[column] {
            PayloadColumn::Pieces { starts, .. } => starts,
            _ => [0].as_slice(),
        };
        let groups = if by_place { None } else { Some(self.items.groups()) };
        nulls.iter().any(Option::is_some).then_some(Nulls { nulls, starts, groups })
    }

    /// The values of a carried column at some places.
    pub(crate) fn take(&self, column: usize, places: &UInt32Array) -> Result<ArrayRef> {
        let groups = self.items.groups();
        let rows = || places.values().iter().map(|&place| groups.row_at(place));
        Ok(match &self.columns[column] {
            PayloadColumn::ByPlace(array) => take(array, places, None)?,
            PayloadColumn::ByRow { rows: array, .. } => {
                take(array, &UInt32Array::from_iter_values(rows()), None)?
            }
            PayloadColumn::Pieces { pieces, starts } => {
                let arrays: Vec<&dyn Array> = pieces.iter().map(|p| p.as_ref()).collect();
                let positions: Vec<(usize, usize)> = rows()
                    .map(|row| {
                        let piece = starts.partition_point(|&s| s <= row) - 1;
                        (piece, (row - starts[piece]) as usize)
                    })
                    .collect();
                interleave(&arrays, &positions)?
            }
        })
    }
}

/// The places at which a column is NULL.
pub(crate) struct Nulls<'a> {
    /// The NULLs of each piece of the column.
    nulls: Vec<Option<NullBuffer>>,
    /// The number of the first row of each piece.
    starts: &'a [u32],
    /// The groups that give the row of each place, where the column is kept by row.
    groups: Option<&'a RowGroups>,
}

impl Nulls<'_> {
    /// Whether the row at a place is NULL.
    pub(crate) fn is_null(&self, place: u32) -> bool {
        let row = self.groups.map_or(place, |groups| groups.row_at(place));
        let piece = match self.starts {
            [_] => 0,
            starts => starts.partition_point(|&start| start <= row) - 1,
        };
        let nulls = self.nulls[piece].as_ref();
        nulls.is_some_and(|nulls| nulls.is_null((row - self.starts[piece]) as usize))
    }
}

/// Whether a column of this type is kept by place.
fn is_spread(data_type: &DataType) -> bool {
    data_type.is_primitive()
}

/// The values of `rows`, of fixed width, in the order of the places.
fn by_place(
    rows: &ArrayRef,
    groups: &RowGroups,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<ArrayRef> {
    let rows = rows.as_ref();
    downcast_primitive_array!(
        rows => primitives_by_place(rows, groups, threads, cancel),
        other => internal_err!("a column of type {other} is kept by row")
    )
}

fn primitives_by_place<T: ArrowPrimitiveType>(
    rows: &PrimitiveArray<T>,
    groups: &RowGroups,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<ArrayRef> {
    let of_rows = rows.values();
    let values = groups.gather(|row| of_rows[row as usize], threads, cancel)?;
    let nulls = rows.nulls().map(|nulls| {
        NullBuffer::from_iter(groups.rows_by_slot().map(|row| nulls.is_valid(row as usize)))
    });
    let array = PrimitiveArray::<T>::try_new(values.into(), nulls)?;
    Ok(Arc::new(array.with_data_type(rows.data_type().clone())))
}

/// Collects the payload of the build side, or a share of it.
#[derive(Debug, Default)]
pub(crate) struct PayloadBuilder {
    /// The types of the columns, which an input without batches has too.
    types: Vec<DataType>,
    pieces: Vec<Vec<ArrayRef>>,
    /// The first row of each piece, ascending.
    starts: Vec<u32>,
    rows: usize,
    seen: SeenBuffers,
    bytes: usize,
}

impl PayloadBuilder {
    /// A builder of the columns `carried` of batches of `schema`.
    pub(crate) fn new(schema: &Schema, carried: &[usize], seen: SeenBuffers) -> Self {
        let types: Vec<_> = carried.iter().map(|&c| schema.field(c).data_type().clone()).collect();
        Self { pieces: vec![vec![]; types.len()], types, seen, ..Self::default() }
    }

    /// Keeps the columns `carried` of a batch whose first row has the number `first_row`. Rows
    /// come in ascending order.
    pub(crate) fn push(&mut self, first_row: u32, batch: &RecordBatch, carried: &[usize]) {
        for (pieces, &column) in self.pieces.iter_mut().zip(carried) {
            let array = batch.column(column);
            self.bytes += self.seen.add(array);
            pieces.push(ArrayRef::clone(array));
        }
        self.starts.push(first_row);
        self.rows += batch.num_rows();
    }

    /// The batches added: the columns, with one array for each batch.
    pub(crate) fn pieces(&self) -> &[Vec<ArrayRef>] {
        &self.pieces
    }

    /// One builder of the batches that several builders have collected of one input.
    pub(crate) fn merged(mut shares: Vec<Self>) -> Self {
        if shares.len() <= 1 {
            return shares.pop().unwrap_or_default();
        }
        let mut order: Vec<(u32, usize, usize)> = vec![];
        for (share, builder) in shares.iter().enumerate() {
            order.extend(builder.starts.iter().enumerate().map(|(i, &start)| (start, share, i)));
        }
        order.sort_unstable();
        let column = |column: usize| {
            let piece = |&(_, share, i): &(u32, usize, usize)| {
                ArrayRef::clone(&shares[share].pieces[column][i])
            };
            order.iter().map(piece).collect()
        };
        Self {
            types: shares[0].types.clone(),
            pieces: (0..shares[0].pieces.len()).map(column).collect(),
            starts: order.iter().map(|&(start, ..)| start).collect(),
            rows: shares.iter().map(|share| share.rows).sum(),
            seen: shares[0].seen.clone(),
            bytes: shares.iter().map(|share| share.bytes).sum(),
        }
    }

    pub(crate) fn row_count(&self) -> usize {
        self.rows
    }

    /// The bytes held.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.bytes + self.starts.capacity() * size_of::<u32>()
    }

    /// The bytes that [`Self::finish`] needs on top: a column in one piece, its rows by place, and
    /// the order of the places.
    pub(crate) fn finish_growth(&self) -> usize {
        let columns = self
            .pieces
            .iter()
            .filter(|pieces| pieces.len() > 1 || pieces.iter().any(|p| is_spread(p.data_type())));
        match columns.map(|pieces| column_bytes(pieces)).max() {
            Some(largest) => 2 * largest + self.rows * size_of::<u32>(),
            None => 0,
        }
    }

    /// Joins the pieces of columns that are small enough, and orders columns of fixed width by
    /// place in `items`, which holds the same rows.
    pub(crate) fn finish(
        self,
        items: Arc<dyn Collection>,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Payload> {
        let starts: Arc<[u32]> = self.starts.into();
        let columns = self.pieces.into_iter().zip(&self.types).map(|(pieces, data_type)| {
            if column_bytes(&pieces) > MAX_PIECE_BYTES {
                return Ok(PayloadColumn::Pieces { pieces, starts: starts.clone() });
            }
            let rows = one_piece(pieces, data_type, threads, cancel)?;
            cancel.check()?;
            Ok(match is_spread(rows.data_type()) {
                true => PayloadColumn::ByPlace(by_place(&rows, items.groups(), threads, cancel)?),
                false => PayloadColumn::ByRow { rows, places: OnceLock::new() },
            })
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Payload {
            columns,
            items,
            rows: self.rows,
            widest: OnceLock::new(),
            has_nulls: OnceLock::new(),
        })
    }

    /// The type of the first column, where there is one.
    pub(crate) fn data_type(&self) -> Option<&DataType> {
        self.types.first()
    }

    /// The bytes of the values of the first column.
    pub(crate) fn first_column_bytes(&self) -> usize {
        self.pieces.iter().take(1).flatten().map(stored_bytes).sum()
    }

    /// The first column by row, in one piece, each of its pieces as `form` makes it; and the first row of each
    /// piece.
    ///
    /// # Errors
    ///
    /// Also where there is no column.
    pub(crate) fn into_rows(
        self,
        form: impl Fn(&ArrayRef) -> Result<ArrayRef>,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<(ArrayRef, Vec<u32>)> {
        let Some((pieces, data_type)) = self.pieces.into_iter().next().zip(self.types.first())
        else {
            return internal_err!("a payload without columns has no first one");
        };
        let empty = form(&new_empty_array(data_type))?;
        let pieces = pieces.iter().map(form).collect::<Result<_>>()?;
        Ok((one_piece(pieces, empty.data_type(), threads, cancel)?, self.starts))
    }
}

/// The pieces of a column as one array.
fn one_piece(
    mut pieces: Vec<ArrayRef>,
    data_type: &DataType,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<ArrayRef> {
    match pieces.as_slice() {
        [] => return Ok(new_empty_array(data_type)),
        [_] => return Ok(pieces.remove(0)),
        _ => {}
    }
    if data_type.is_primitive() && pieces.iter().all(|piece| piece.null_count() == 0) {
        let first = pieces[0].as_ref();
        return downcast_primitive_array!(
            first => primitives_of(first, &pieces, threads, cancel),
            other => internal_err!("a column of type {other} has no plain values")
        );
    }
    if column_bytes(&pieces) <= UNCANCELLED_BYTES {
        let arrays: Vec<&dyn Array> = pieces.iter().map(|p| p.as_ref()).collect();
        return Ok(concat(&arrays)?);
    }
    let data: Vec<ArrayData> = pieces.iter().map(|piece| piece.to_data()).collect();
    let rows = data.iter().map(ArrayData::len).sum();
    let mut whole = MutableArrayData::new(data.iter().collect(), false, rows);
    for (piece, data) in data.iter().enumerate() {
        cancel.check()?;
        whole.try_extend(piece, 0, data.len())?;
    }
    Ok(make_array(whole.freeze()))
}

/// The pieces of a column without NULLs, one of which is `first`, as one array.
fn primitives_of<T: ArrowPrimitiveType>(
    first: &PrimitiveArray<T>,
    pieces: &[ArrayRef],
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<ArrayRef> {
    let values = |piece: &ArrayRef| match piece.as_primitive_opt::<T>() {
        Some(piece) => Ok(piece.values().clone()),
        None => internal_err!("a column of type {} has {} values", T::DATA_TYPE, piece.data_type()),
    };
    let values = pieces.iter().map(values).collect::<Result<Vec<_>>>()?;
    let values = parallel::concat(threads, &values, cancel)?;
    let array = PrimitiveArray::<T>::try_new(values.into(), None)?;
    Ok(Arc::new(array.with_data_type(first.data_type().clone())))
}

fn column_bytes(pieces: &[ArrayRef]) -> usize {
    pieces.iter().map(slice_bytes).sum()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn slices_of_one_batch_are_counted_once() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
            (0..1000).map(|i| Some(vec![Some(i), Some(i + 1)])),
        );
        let whole = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]).unwrap();
        let seen = SeenBuffers::default();
        let mut builders = [1, 2].map(|_| PayloadBuilder::new(&whole.schema(), &[0], seen.clone()));
        builders[0].push(0, &whole, &[0]);
        let bytes = builders[0].bytes;
        for start in (0..1000).step_by(10) {
            builders[start / 10 % 2].push(1000 + start as u32, &whole.slice(start, 10), &[0]);
        }
        let merged = PayloadBuilder::merged(builders.into());
        assert_eq!((merged.bytes, merged.rows), (bytes, 2000));
        assert!(merged.starts.is_sorted() && merged.pieces[0].len() == 101);
        let part = slice_bytes(&whole.slice(100, 10).column(0).clone());
        assert!((160..400).contains(&part), "{part}");
    }

    #[test]
    fn rows_are_found_in_pieces_as_in_one() {
        let array =
            |from: i64, to: i64| Arc::new(Int64Array::from_iter_values(from..to)) as ArrayRef;
        let mut sets = crate::set::BuildEncoder::default();
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
            [9, 1, 9, 0, 5, 1, 0, 9].map(|t| (t > 0).then(|| vec![Some(t)])),
        );
        let input = crate::engine::EncodeInput { values: &lists, keys: None, filter: None };
        let pool: Arc<dyn datafusion::execution::memory_pool::MemoryPool> =
            Arc::new(datafusion::execution::memory_pool::UnboundedMemoryPool::default());
        let reservation =
            datafusion::execution::memory_pool::MemoryConsumer::new("test").register(&pool);
        sets.push(&input, &mut Default::default(), &reservation, 0).unwrap();
        let cancel = crate::util::cancel::CancelFlag::default();
        let (sets, _) = sets.finish(&reservation, 0, &|| {}, &cancel).unwrap();
        let sets = Arc::new(sets);
        let rows: Vec<i64> = sets.groups().rows_by_slot().map(i64::from).collect();
        let pieces = vec![array(0, 3), array(3, 3), array(3, 8)];
        let whole = || PayloadColumn::ByRow { rows: array(0, 8), places: OnceLock::new() };
        let payload = Payload {
            columns: vec![
                PayloadColumn::Pieces { pieces, starts: [0, 3, 3].into() },
                whole(),
                whole(),
            ],
            items: sets,
            rows: 8,
            widest: OnceLock::new(),
            has_nulls: OnceLock::new(),
        };
        let by_place = payload.by_place(1).unwrap().unwrap();
        assert_eq!(by_place.as_primitive::<Int64Type>().values(), &rows);
        let places = UInt32Array::from(vec![7, 0, 2, 3, 3, 4]);
        let expected: Vec<i64> = places.values().iter().map(|&p| rows[p as usize]).collect();
        for column in 0..3 {
            let found = payload.take(column, &places).unwrap();
            assert_eq!(found.as_primitive::<Int64Type>().values(), &expected, "{column}");
        }
    }
}
