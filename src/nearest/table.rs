//! The rows of a side, in memory, by number.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{interleave, interleave_record_batch, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::utils::memory::{RecordBatchMemoryCounter, get_record_batch_memory_size};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;

/// The rows of a side, or of a part of it. A row's number is its place among them.
#[derive(Debug)]
pub(super) struct RowTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The number of each batch's first row, and that of all rows.
    starts: Vec<usize>,
    /// The bytes of all batches.
    bytes: usize,
    _memory: Option<MemoryReservation>,
}

/// Rows on their way into a table.
#[derive(Debug)]
pub(super) struct TableBuilder {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
    counter: RecordBatchMemoryCounter,
    bytes: usize,
    memory: MemoryReservation,
}

impl TableBuilder {
    /// No rows yet. `memory`, which is empty, grows by those that follow.
    pub(super) fn new(schema: SchemaRef, memory: MemoryReservation) -> Self {
        let (batches, counter) = (vec![], RecordBatchMemoryCounter::new());
        Self { schema, batches, rows: 0, counter, bytes: 0, memory }
    }

    /// Adds a batch. Buffers that it shares with those before are counted once.
    ///
    /// # Errors
    ///
    /// When memory is refused: then the builder stays as it was, but takes no more of these buffers. And
    /// where there are too many rows for their numbers.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = self.rows + batch.num_rows();
        check_count(rows)?;
        let bytes = self.counter.count_batch(&batch);
        self.memory.try_grow(bytes)?;
        self.bytes += bytes;
        self.rows = rows;
        self.batches.push(batch);
        Ok(())
    }

    /// The rows so far.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of batches so far.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Leaves out all batches but the first `batches`. Their memory stays reserved.
    pub(super) fn truncate(&mut self, batches: usize) {
        self.batches.truncate(batches);
        self.rows = self.batches.iter().map(RecordBatch::num_rows).sum();
    }

    /// The batches, whose memory is held by the reservation.
    pub(super) fn into_batches(self) -> (Vec<RecordBatch>, MemoryReservation) {
        (self.batches, self.memory)
    }

    /// The table.
    pub(super) fn finish(self) -> RowTable {
        let Self { schema, batches, bytes, memory, .. } = self;
        RowTable { bytes, _memory: Some(memory), ..RowTable::of(schema, batches) }
    }
}

impl RowTable {
    /// The rows of some batches, of 2³² at most.
    pub(super) fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let batches: Vec<_> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        let ends = batches.iter().scan(0, |rows, batch| {
            *rows += batch.num_rows();
            Some(*rows)
        });
        let starts = std::iter::once(0).chain(ends).collect();
        let mut counter = RecordBatchMemoryCounter::new();
        let bytes = batches.iter().map(|batch| counter.count_batch(batch)).sum();
        Self { schema, batches, starts, bytes, _memory: None }
    }

    /// A table of neighbouring rows, which shares their buffers.
    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        let of_batch = |(start, batch): (&usize, &RecordBatch)| {
            let end = rows.end.min(start + batch.num_rows());
            let from = rows.start.max(*start);
            (from < end).then(|| batch.slice(from - start, end - from))
        };
        let batches = self.starts.iter().zip(&self.batches).filter_map(of_batch).collect();
        let bytes = self.row_bytes() * rows.len();
        Self { bytes, ..Self::of(Arc::clone(&self.schema), batches) }
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.starts.last().copied().unwrap_or_default()
    }

    /// The bytes of all rows.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of an average row.
    pub(super) fn row_bytes(&self) -> usize {
        self.bytes / self.rows().max(1)
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(super) fn schema_ref(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of columns, which is the index of the row numbers of a [`RowTable::source`].
    pub(super) fn columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// The batches, each with the number of its first row.
    pub(super) fn batches(&self) -> impl Iterator<Item = (u32, &RecordBatch)> {
        self.starts.iter().map(|start| *start as u32).zip(&self.batches)
    }

    /// The batch of a row, and the row's place there.
    fn place(&self, row: u32) -> (usize, usize) {
        let batch = self.starts.partition_point(|start| *start <= row as usize) - 1;
        (batch, row as usize - self.starts[batch])
    }

    /// A batch of one row.
    pub(super) fn row(&self, row: u32) -> RecordBatch {
        let (batch, place) = self.place(row);
        self.batches[batch].slice(place, 1)
    }

    /// The values of a column in some rows.
    pub(super) fn column(&self, column: usize, rows: &[u32]) -> Result<ArrayRef> {
        let columns: Vec<_> = self.batches.iter().map(|b| b.column(column).as_ref()).collect();
        let places: Vec<_> = rows.iter().map(|row| self.place(*row)).collect();
        match columns.as_slice() {
            [] => Ok(arrow::array::new_empty_array(self.schema.field(column).data_type())),
            columns => Ok(interleave(columns, &places)?),
        }
    }

    /// A table of some rows, in their order. `memory` grows by their copies.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn some(&self, rows: &[u32], memory: &MemoryReservation) -> Result<Self> {
        /// Rows of a batch.
        const ROWS: usize = 1 << 13;
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let mut copies = vec![];
        for rows in rows.chunks(ROWS) {
            let places: Vec<_> = rows.iter().map(|row| self.place(*row)).collect();
            let copy = match self.columns() {
                0 => self.batches[0].slice(0, 0),
                _ => interleave_record_batch(&batches, &places)?,
            };
            memory.try_grow(get_record_batch_memory_size(&copy))?;
            copies.push(copy);
        }
        Ok(Self::of(Arc::clone(&self.schema), copies))
    }

    /// Some rows as an input of a similarity join, all of them where `rows` is `None`: the columns of the
    /// side and the [`NUMBER`] of each row behind them. `memory` grows by copies and numbers.
    pub(super) fn source(
        &self,
        rows: Option<&[u32]>,
        memory: &MemoryReservation,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = numbered(&self.schema);
        memory.try_grow(rows.map_or(self.rows(), <[u32]>::len) * size_of::<u32>())?;
        let batches = match rows {
            None => self
                .batches()
                .map(|(start, batch)| {
                    let numbers = (0..batch.num_rows() as u32).map(|row| start + row);
                    with_numbers(batch, UInt32Array::from_iter_values(numbers), &schema)
                })
                .collect::<Result<Vec<_>>>()?,
            Some(rows) => self.copies(rows, &schema, memory)?,
        };
        Ok(MemorySourceConfig::try_new_exec(&[batches], schema, None)?)
    }

    /// Batches of some rows, whose numbers rise.
    fn copies(
        &self,
        mut rows: &[u32],
        schema: &SchemaRef,
        memory: &MemoryReservation,
    ) -> Result<Vec<RecordBatch>> {
        let mut copies = vec![];
        for (start, batch) in self.batches() {
            let end = start + batch.num_rows() as u32;
            let of_batch = &rows[..rows.partition_point(|row| *row < end)];
            rows = &rows[of_batch.len()..];
            if of_batch.is_empty() {
                continue;
            }
            let numbers = UInt32Array::from(of_batch.to_vec());
            let copy = if of_batch.len() == batch.num_rows() {
                batch.clone()
            } else {
                let places = UInt32Array::from_iter_values(of_batch.iter().map(|row| row - start));
                let columns = batch.columns().iter().map(|column| take(column, &places, None));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(of_batch.len()));
                let copy = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
                memory.try_grow(get_record_batch_memory_size(&copy))?;
                copy
            };
            copies.push(with_numbers(&copy, numbers, schema)?);
        }
        Ok(copies)
    }
}

/// Checks that rows have numbers of 32 bits.
///
/// # Errors
///
/// Where there are too many rows.
pub(super) fn check_count(rows: usize) -> Result<()> {
    match rows > u32::MAX as usize {
        true => exec_err!("NEAREST joins at most {} rows of a side, found {rows}", u32::MAX),
        false => Ok(()),
    }
}

/// The name of the column of row numbers, the last one of a [`RowTable::source`]. Columns go by index.
pub(super) const NUMBER: &str = "__simjoin_row";

fn numbered(schema: &Schema) -> SchemaRef {
    let number = Arc::new(Field::new(NUMBER, DataType::UInt32, false));
    let fields: Vec<_> = schema.fields().iter().cloned().chain([number]).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn with_numbers(
    batch: &RecordBatch,
    numbers: UInt32Array,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let numbers: ArrayRef = Arc::new(numbers);
    let columns = batch.columns().iter().cloned().chain([numbers]).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
