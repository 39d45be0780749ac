//! The rows of a side that a one-to-one match may take, by item and by node.

use arrow::array::Array;
use arrow::compute::{SortOptions, rank};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;

use crate::nearest::alike::{column, first_rows, rankable};
use crate::nearest::pairs::{admitted, is_true};
use crate::nearest::table::RowTable;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

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
pub(super) struct SideExpressions<'a> {
    /// The column with the node.
    pub node: usize,
    pub filter: Option<&'a PhysicalExprRef>,
    /// Columns in which the rows of an item are equal: they have the same partners with the same scores.
    pub alike: Vec<&'a PhysicalExprRef>,
    /// By row, the rank of its node, where the nodes of both sides are compared: among those of both.
    pub ranks: Option<Vec<u32>>,
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
pub(super) struct PartnerItems {
    /// By row, its item: the number of the first row of it.
    item_of: Vec<u32>,
    /// By item, the place among `rows` of its rows; behind all, their number. Most numbers are of no item.
    starts: Vec<u32>,
    /// The rows of each item, by their nodes.
    rows: Vec<u32>,
    /// By place among `rows`, a place that is not behind the next row that is not taken: itself at first.
    next: Vec<u32>,
    /// By row, the rank of its node.
    ranks: Vec<u32>,
    /// By rank of a node, whether it is taken.
    taken: Vec<bool>,
    _memory: MemoryReservation,
}

impl PartnerItems {
    /// The bytes that a row takes at most, besides copies of columns.
    const BYTES: usize = 6 * size_of::<u32>() + size_of::<u64>() + 1;

    /// The items of the rows of `table` that pass the filter and have a node.
    ///
    /// # Errors
    ///
    /// The errors of expressions, and when memory is refused.
    pub(super) fn try_new(
        table: &RowTable,
        parts: SideExpressions<'_>,
        threads: Threads,
        memory: MemoryReservation,
    ) -> Result<Self> {
        memory.try_grow(table.rows().saturating_mul(Self::BYTES))?;
        let nodes = column(table, &memory, |batch| Ok(batch.column(parts.node).clone()))?;
        let nulls = nodes.logical_nulls();
        let ranks = match parts.ranks {
            Some(ranks) => ranks,
            None => {
                let order = SortOptions { descending: false, nulls_first: false };
                rank(&rankable(nodes)?, Some(order))?
            }
        };
        let item_of = first_rows(table, &parts.alike, threads, &memory, &CancelFlag::default())?;
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
        let next = (0..rows.len() as u32).collect();
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
        self.free_from(self.starts[item], self.starts[item + 1])
    }

    /// The first row of an item that is not taken and whose node is greater than `node`, or as great where that
    /// will do.
    pub(super) fn above(&mut self, item: u32, node: u32, or_equal: bool) -> Option<Head> {
        let (start, end) = (self.starts[item as usize], self.starts[item as usize + 1]);
        let rows = &self.rows[start as usize..end as usize];
        let below = rows.partition_point(|row| {
            let own = self.ranks[*row as usize];
            own < node || own == node && !or_equal
        });
        self.free_from(start + below as u32, end)
    }

    /// The first row that is not taken between two places of an item.
    fn free_from(&mut self, start: u32, end: u32) -> Option<Head> {
        let mut place = start;
        while place < end {
            let row = self.rows[place as usize];
            let node = self.ranks[row as usize];
            if !self.taken[node as usize] {
                self.skip(start, place);
                return Some(Head { node, row });
            }
            place = self.next[place as usize].max(place + 1);
        }
        self.skip(start, end);
        None
    }

    /// Lets the places on the way from `place` to `to`, whose rows are taken, lead there.
    fn skip(&mut self, mut place: u32, to: u32) {
        while place < to {
            let next = &mut self.next[place as usize];
            place = std::mem::replace(next, to).max(place + 1);
        }
    }

    /// Takes a node, with all its rows.
    pub(super) fn take(&mut self, node: u32) {
        self.taken[node as usize] = true;
    }

    /// A row of each item that has one left, by number.
    pub(super) fn heads(&mut self) -> Vec<u32> {
        let items = 0..self.starts.len() as u32 - 1;
        let mut heads: Vec<u32> =
            items.filter_map(|item| self.head(item)).map(|head| head.row).collect();
        heads.sort_unstable();
        heads
    }
}
