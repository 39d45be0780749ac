//! The rows of a side that a one-to-one match may take, by item and by node.

use arrow::array::{Array, ArrayRef, DynComparator, RecordBatch, make_comparator};
use arrow::compute::{SortOptions, cast, concat, rank};
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::{Result, internal_err, resources_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;

use crate::engine::{Distinct, ItemRows};
use crate::nearest::pairs::{admitted, evaluate, is_true};
use crate::nearest::table::Table;
use crate::util::cancel::CancelFlag;
use crate::util::errors::is_out_of_memory;

/// Whether nodes of a type are ranked here.
pub(super) fn has_ranks(data_type: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, LargeBinary, LargeUtf8, Timestamp, Utf8,
        Utf8View,
    };
    data_type.is_integer()
        || data_type.is_decimal()
        || matches!(data_type, Boolean | Date32 | Date64 | Timestamp(..))
        || matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// The parts of a join that its rows of one side are told by.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// The column with the node.
    pub node: usize,
    pub filter: Option<&'a PhysicalExprRef>,
    /// The argument and the keys, where rows in which these are equal have the same partners with the same
    /// scores.
    pub alike: Option<Vec<&'a PhysicalExprRef>>,
}

/// A row that is not taken, and the rank of its node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub node: u32,
    pub row: u32,
}

/// The rows of a side, each in an item: rows that have the same partners with the same scores.
///
/// Pairs of equal scores are taken in the order of their nodes. So among the rows of an item the one with the least node that is
/// not taken comes first, whatever the partner.
#[derive(Debug)]
pub(super) struct Items {
    /// By row, its item: the number of the first row of it.
    item_of: Vec<u32>,
    /// By item, the place among `rows` of its rows; behind all, their number. Most numbers are of no item.
    starts: Vec<u32>,
    /// The rows of each item, by their nodes.
    rows: Vec<u32>,
    /// By item, the place among `rows` before which all rows are taken.
    next: Vec<u32>,
    /// By row, the rank of its node.
    ranks: Vec<u32>,
    /// By rank of a node, whether it is taken.
    taken: Vec<bool>,
    _memory: MemoryReservation,
}

impl Items {
    /// The bytes that a row takes at most, besides copies of columns.
    const BYTES: usize = 6 * size_of::<u32>() + size_of::<u64>() + 1;

    /// The items of the rows of `table` that pass the filter and have a node.
    ///
    /// # Errors
    ///
    /// The errors of expressions, and when memory is refused.
    pub(super) fn try_new(
        table: &Table,
        parts: &Parts<'_>,
        threads: usize,
        memory: MemoryReservation,
    ) -> Result<Self> {
        memory.try_grow(table.rows().saturating_mul(Self::BYTES))?;
        let nodes = column(table, &memory, |batch| Ok(batch.column(parts.node).clone()))?;
        let nodes = match nodes.data_type() {
            DataType::Utf8View => cast(&nodes, &DataType::LargeUtf8)?,
            DataType::BinaryView => cast(&nodes, &DataType::LargeBinary)?,
            _ => nodes,
        };
        let order = SortOptions { descending: false, nulls_first: false };
        let ranks = rank(&nodes, Some(order))?;
        let item_of = match &parts.alike {
            Some(alike) => first_rows(table, alike, threads, &memory)?,
            None => (0..table.rows() as u32).collect(),
        };
        let nulls = nodes.logical_nulls();
        let mut rows: Vec<u32> = vec![];
        for (start, batch) in table.batches() {
            let filter = admitted(parts.filter, batch)?;
            let passing = (0..batch.num_rows()).filter(|row| {
                filter.as_ref().is_none_or(|filter| is_true(filter, *row))
                    && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(start as usize + row))
            });
            rows.extend(passing.map(|row| start + row as u32));
        }
        rows.sort_unstable_by_key(|row| {
            let place = *row as usize;
            (item_of[place], ranks[place], *row)
        });
        let mut starts = vec![0; table.rows() + 1];
        rows.iter().for_each(|row| starts[item_of[*row as usize] as usize + 1] += 1);
        (1..starts.len()).for_each(|item| starts[item] += starts[item - 1]);
        let next = starts[..table.rows()].to_vec();
        let taken = vec![false; ranks.iter().max().map_or(0, |last| *last as usize + 1)];
        // Columns are no longer held.
        memory.try_resize(table.rows().saturating_mul(Self::BYTES))?;
        Ok(Self { item_of, starts, rows, next, ranks, taken, _memory: memory })
    }

    /// The item of a row.
    pub(super) fn item_of(&self, row: u32) -> u32 {
        self.item_of[row as usize]
    }

    /// The first row of an item that is not taken.
    pub(super) fn head(&mut self, item: u32) -> Option<Head> {
        let item = item as usize;
        let end = self.starts[item + 1];
        let next = &mut self.next[item];
        while *next < end {
            let row = self.rows[*next as usize];
            let node = self.ranks[row as usize];
            if !self.taken[node as usize] {
                return Some(Head { node, row });
            }
            *next += 1;
        }
        None
    }

    /// Takes a node, with all its rows.
    pub(super) fn take(&mut self, node: u32) {
        self.taken[node as usize] = true;
    }

    /// A row of each item that has one left, by number.
    pub(super) fn heads(&mut self) -> Vec<u32> {
        let items = 0..self.next.len() as u32;
        let mut heads: Vec<u32> =
            items.filter_map(|item| self.head(item)).map(|head| head.row).collect();
        heads.sort_unstable();
        heads
    }
}

/// A column of all rows of a table. `memory` grows by its parts and by a copy.
fn column(
    table: &Table,
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
        table: &Table,
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
fn first_rows(
    table: &Table,
    expressions: &[&PhysicalExprRef],
    threads: usize,
    memory: &MemoryReservation,
) -> Result<Vec<u32>> {
    let rows = 0..table.rows() as u32;
    let alike = match Alike::try_new(table, expressions, memory) {
        Ok(alike) => alike,
        Err(error) if is_out_of_memory(&error) => return Err(error),
        // Types that are not compared, or an expression that fails for a row that the filter leaves out.
        Err(_) => return Ok(rows.collect()),
    };
    memory.try_grow(Distinct::footprint(table.rows()))?;
    let distinct = Distinct::of(&alike, threads, &CancelFlag::default())?;
    Ok(rows.map(|row| distinct.first_of(row).unwrap_or(row)).collect())
}
