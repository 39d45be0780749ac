//! Rows of a table that are told apart by some values alone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DynComparator, RecordBatch, make_comparator, new_null_array};
use arrow::compute::{SortOptions, cast, concat, rank};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{Result, internal_err, resources_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;

use super::pairs::{batch_of, evaluate};
use super::table::RowTable;
use crate::engine::{Distinct, ItemRows};
use crate::operator::errors::is_out_of_memory;
use crate::util::cancel::CancelFlag;
use crate::util::evenly::one_of_each;
use crate::util::parallel::Threads;

/// A column of all rows of a table. `memory` grows by its parts and by a copy.
pub(super) fn column(
    table: &RowTable,
    memory: &MemoryReservation,
    of_batch: impl Fn(&RecordBatch) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let arrays = table.batches().map(|(_, batch)| of_batch(batch)).collect::<Result<Vec<_>>>()?;
    let bytes: usize = arrays.iter().map(|array| array.get_array_memory_size()).sum();
    memory.try_grow(2 * bytes)?;
    match arrays.as_slice() {
        [] => internal_err!("a table without rows has no columns"),
        [array] => Ok(array.clone()),
        arrays => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            // Offsets of 32 bits may not suffice for all rows: the join as planned needs no such array.
            concat(&arrays).map_err(|e| resources_datafusion_err!("the rows of a side: {e}"))
        }
    }
}

/// Rows that are told apart by some columns.
struct Alike {
    hashes: Vec<u64>,
    comparators: Vec<DynComparator>,
}

impl Alike {
    /// The rows of a table by the values of expressions; an error where these cannot be compared.
    fn try_new(
        table: &RowTable,
        expressions: &[&PhysicalExprRef],
        memory: &MemoryReservation,
    ) -> Result<Self> {
        let columns = expressions.iter().map(|e| column(table, memory, |batch| evaluate(e, batch)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let comparators = columns.iter().map(|c| make_comparator(c, c, SortOptions::default()));
        let comparators = comparators.collect::<Result<_, _>>()?;
        let mut hashes = vec![0; table.rows()];
        create_hashes(&columns, REPARTITION_RANDOM_STATE.random_state(), &mut hashes)?;
        Ok(Self { hashes, comparators })
    }
}

impl ItemRows for Alike {
    fn count(&self) -> usize {
        self.hashes.len()
    }

    fn row_number(&self, place: u32) -> u32 {
        place
    }

    fn hash(&self, place: u32) -> Option<u64> {
        self.hashes.get(place as usize).copied()
    }

    fn is_same(&self, a: u32, b: u32) -> bool {
        self.comparators.iter().all(|compare| compare(a as usize, b as usize).is_eq())
    }
}

/// By row, the first row with equal values of some expressions.
pub(super) fn first_rows(
    table: &RowTable,
    expressions: &[&PhysicalExprRef],
    threads: Threads,
    memory: &MemoryReservation,
    cancel: &CancelFlag,
) -> Result<Vec<u32>> {
    let rows = 0..table.rows() as u32;
    let alike = match Alike::try_new(table, expressions, memory) {
        Ok(alike) => alike,
        Err(error) if is_out_of_memory(&error) => return Err(error),
        // Types that are not compared, or an expression that fails for a row that the filter leaves out.
        Err(_) => return Ok(rows.collect()),
    };
    memory.try_grow(Distinct::footprint(table.rows()))?;
    let distinct = Distinct::of(&alike, threads, cancel)?;
    Ok(rows.map(|row| distinct.first_of(row).unwrap_or(row)).collect())
}

/// Rows of a sample.
const SAMPLED: usize = 1 << 12;

/// About the number of pairs of rows of a table that are equal in some expressions, a row with itself among
/// them, by a sample of its rows: none where these are compared in no way.
pub(super) fn equal_pairs(table: &RowTable, expressions: &[&PhysicalExprRef]) -> f64 {
    let step = table.rows().div_ceil(SAMPLED).max(1);
    // Rows that repeat may do so at equal distances.
    let rows: Vec<u32> = one_of_each(table.rows(), step, 1).collect();
    let Ok(mut hashes) = hashes_of(table, &rows, expressions) else { return 0.0 };
    hashes.sort_unstable();
    let equal = hashes.chunk_by(|a, b| a == b).map(|equal| (equal.len() as f64).powi(2));
    // A row meets itself once, however many rows are left out.
    let others = equal.sum::<f64>() - rows.len() as f64;
    others * (step as f64).powi(2) + table.rows() as f64
}

/// The hashes of the values of expressions in some rows.
fn hashes_of(table: &RowTable, rows: &[u32], expressions: &[&PhysicalExprRef]) -> Result<Vec<u64>> {
    let read: Vec<usize> =
        expressions.iter().flat_map(|e| collect_columns(e)).map(|column| column.index()).collect();
    let fields = table.schema().fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let columns = fields.iter().enumerate().map(|(index, field)| match read.contains(&index) {
        true => table.column(index, rows),
        false => Ok(new_null_array(field.data_type(), rows.len())),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let batch = batch_of(&Arc::new(Schema::new(fields)), columns, rows.len())?;
    let values = expressions.iter().map(|e| evaluate(e, &batch)).collect::<Result<Vec<_>>>()?;
    let mut hashes = vec![0; rows.len()];
    create_hashes(&values, REPARTITION_RANDOM_STATE.random_state(), &mut hashes)?;
    Ok(hashes)
}

/// A column as [`rank`] takes it.
pub(super) fn rankable(column: ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Utf8View => cast(&column, &DataType::LargeUtf8)?,
        DataType::BinaryView => cast(&column, &DataType::LargeBinary)?,
        _ => column,
    })
}

/// The ranks of the rows of two tables by a column of each, among the values of both: equal values have equal
/// ones, NULL has 0. `None` where the columns are of different types, or of one that has no ranks.
///
/// # Errors
///
/// When memory is refused.
pub(super) fn common_ranks(
    tables: [&RowTable; 2],
    columns: [usize; 2],
    memory: &MemoryReservation,
) -> Result<Option<[Vec<u32>; 2]>> {
    let types = [0, 1].map(|side| tables[side].schema().field(columns[side]).data_type());
    if types[0] != types[1] {
        return Ok(None);
    }
    let held = memory.new_empty();
    let of = |side: usize| column(tables[side], &held, |b| Ok(b.column(columns[side]).clone()));
    let [left, right] = [of(0)?, of(1)?];
    let rows = left.len() + right.len();
    held.try_grow(left.get_array_memory_size() + right.get_array_memory_size())?;
    // Zeros of floats are equal.
    let both = concat(&[left.as_ref(), right.as_ref()]);
    let both = both.map_err(|e| resources_datafusion_err!("the rows of two sides: {e}"))?;
    let both = rankable(normalize_float_zero(&both))?;
    held.try_grow(both.get_array_memory_size() + rows * 24)?;
    memory.try_grow(rows * size_of::<u32>())?;
    let Ok(mut ranks) = rank(&both, Some(SortOptions { descending: false, nulls_first: true }))
    else {
        return Ok(None);
    };
    if let Some(nulls) = both.logical_nulls() {
        ranks.iter_mut().enumerate().filter(|(row, _)| nulls.is_null(*row)).for_each(
            |(_, rank)| {
                *rank = 0;
            },
        );
    }
    let of_right = ranks.split_off(left.len());
    Ok(Some([ranks, of_right]))
}
