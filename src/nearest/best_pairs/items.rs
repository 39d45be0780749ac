//! The rows of a side that a one-to-one match may take, by item and by node.

use arrow::array::{Array, ArrayRef, DynComparator, RecordBatch, make_comparator};
use arrow::compute::{SortOptions, cast, concat, rank};
use arrow::datatypes::DataType;
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;
use hashbrown::HashTable;

use crate::nearest::pairs::{admitted, evaluate, is_true};
use crate::nearest::table::Table;

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
    /// By row, the place of its item.
    item_of: Vec<u32>,
    /// The place among `rows` of each item's first row, and the number of rows.
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
    const BYTES: usize = 6 * size_of::<u32>() + size_of::<u64>() + 2 * size_of::<(u64, u32)>() + 1;

    /// The items of the rows of `table` that pass the filter and have a node.
    ///
    /// # Errors
    ///
    /// The errors of expressions, and when memory is refused.
    pub(super) fn try_new(
        table: &Table,
        parts: &Parts<'_>,
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
            Some(alike) => item_numbers(table, alike, &memory)?,
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
        let items = item_of.iter().max().map_or(0, |last| *last as usize + 1);
        let mut starts = vec![0; items + 1];
        rows.iter().for_each(|row| starts[item_of[*row as usize] as usize + 1] += 1);
        (1..starts.len()).for_each(|item| starts[item] += starts[item - 1]);
        let next = starts[..items].to_vec();
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
            Ok(concat(&arrays)?)
        }
    }
}

/// By row, the number of its item: rows in which all `alike` expressions have equal values.
fn item_numbers(
    table: &Table,
    alike: &[&PhysicalExprRef],
    memory: &MemoryReservation,
) -> Result<Vec<u32>> {
    let columns = alike.iter().map(|e| column(table, memory, |batch| evaluate(e, batch)));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let comparators = columns.iter().map(|c| make_comparator(c, c, SortOptions::default()));
    let comparators: Result<Vec<DynComparator>, _> = comparators.collect();
    let mut hashes = vec![0; table.rows()];
    let hashed = create_hashes(&columns, REPARTITION_RANDOM_STATE.random_state(), &mut hashes);
    // Rows of types that are not compared here are items of their own.
    let (Ok(comparators), true) = (comparators, hashed.is_ok()) else {
        return Ok((0..table.rows() as u32).collect());
    };
    let is_same = |a: u32, b: u32| comparators.iter().all(|c| c(a as usize, b as usize).is_eq());
    // The first row of each item, and its number.
    let mut first: HashTable<(u64, u32, u32)> = HashTable::new();
    let mut items = 0;
    let numbers = (0..).zip(&hashes).map(|(row, hash)| {
        let found = first.find(*hash, |(other, first, _)| other == hash && is_same(*first, row));
        match found {
            Some((.., item)) => *item,
            None => {
                let item = items;
                items += 1;
                first.insert_unique(*hash, (*hash, row, item), |(hash, ..)| *hash);
                item
            }
        }
    });
    Ok(numbers.collect())
}
