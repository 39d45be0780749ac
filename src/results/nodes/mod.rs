//! Nodes: values of a column, numbered.
//!
//! A node has an id. Integers of a narrow range have the ids of their place in the range, so that
//! no table is looked at; other values are found in tables of hashes, divided into shards that many
//! threads fill at once.

mod shards;
mod values;

use arrow::compute::SortOptions;
use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;

use self::shards::{ByteKeys, Shards};
pub(crate) use self::values::{NodeColumn, NodeType, NodeValues, is_node_type};
use crate::util::cancel::CancelFlag;

/// The order of nodes, in which the NULLs inside of lists and rows come first. A sort, comparisons of rows in SQL
/// and the bytes of [`NodeValues::Rows`] have it.
pub(crate) const NODE_ORDER: SortOptions = SortOptions { descending: false, nulls_first: true };

/// The id of NULL.
pub(crate) const NO_ID: u32 = u32::MAX;

/// Ids of a range, at most.
const MOST_IDS: u64 = u32::MAX as u64 - 8;

/// Ranges of up to so many integers are ids, however few of them are nodes.
const ALWAYS_DENSE: u64 = 1 << 20;

/// Integers of a range for each node seen so far, at most, where the range is below
/// [`SPARSE_RANGE`]. The first batches of many nodes span nearly all of their range.
const RANGE_PER_NODE: u64 = 1 << 13;

/// Beyond so many integers, a range needs a node for each [`RANGE_PER_NODE_BEYOND`].
const SPARSE_RANGE: u64 = 1 << 28;
const RANGE_PER_NODE_BEYOND: u64 = 1 << 4;

/// The first range has this part of it as spare room at each end.
const SPARE_PART: u64 = 1 << 6;

/// The change of ids where a range of integers grows, or is given up.
#[derive(Debug)]
pub(crate) enum Change {
    /// There are `len` ids, and each has moved up by `by`.
    Moved { by: u32, len: u32 },
    /// There are `len` ids; the new one of each of the former, or [`NO_ID`].
    Renumbered { ids: Vec<u32>, len: u32 },
}

impl Change {
    /// Ids from now on.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Moved { len, .. } | Self::Renumbered { len, .. } => *len,
        }
    }

    /// The new id of a former one; [`NO_ID`] where it was no node.
    pub(crate) fn id_of(&self, former: u32) -> u32 {
        match self {
            Self::Moved { by, .. } => former + by,
            Self::Renumbered { ids, .. } => ids.get(former as usize).copied().unwrap_or(NO_ID),
        }
    }
}

/// An array with a value for each id, 0 where nothing is known.
pub(crate) trait PerNode {
    /// Bytes of an id.
    const BYTES: usize;

    /// Ids.
    fn len(&self) -> u32;

    /// Changes the ids.
    fn change(&mut self, change: &Change);

    /// Whether an id is that of a node.
    fn is_node(&self, id: u32) -> bool;
}

/// The ids of nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    numbering: Numbering,
    /// Values of the columns for which room was made, repeated ones included.
    seen: u64,
}

#[derive(Debug)]
enum Numbering {
    /// Integers from `base` on.
    Range {
        base: u64,
        len: u32,
    },
    Integers(Shards<Vec<u64>>),
    Rows(Shards<ByteKeys>),
}

impl Nodes {
    pub(crate) fn new(node_type: &NodeType) -> Self {
        let numbering = match node_type {
            NodeType::Integers(_) => Numbering::Range { base: 0, len: 0 },
            NodeType::Rows { .. } => Numbering::Rows(Shards::default()),
        };
        Self { numbering, seen: 0 }
    }

    /// The ids of the values of a column, [`NO_ID`] for NULL, and how many ids an array must
    /// have for them; `None` where they lie outside of the range: [`Self::make_room`] helps.
    ///
    /// # Errors
    ///
    /// A resource error where the tables cannot grow.
    pub(crate) fn number(
        &self,
        column: &NodeColumn,
        ids: &mut Vec<u32>,
        reservation: &MemoryReservation,
    ) -> Result<Option<u32>> {
        ids.clear();
        match (&self.numbering, &column.values) {
            (Numbering::Range { base, len }, NodeValues::Integers(values)) => {
                let is_outside = |value: &u64| value.wrapping_sub(*base) >= u64::from(*len);
                if column.nulls.is_none() {
                    if values.iter().any(is_outside) {
                        return Ok(None);
                    }
                    ids.extend(values.iter().map(|value| value.wrapping_sub(*base) as u32));
                    return Ok(Some(*len));
                }
                for (row, value) in values.iter().enumerate() {
                    match column.is_null(row) {
                        true => ids.push(NO_ID),
                        false if is_outside(value) => return Ok(None),
                        false => ids.push(value.wrapping_sub(*base) as u32),
                    }
                }
                Ok(Some(*len))
            }
            (Numbering::Integers(shards), NodeValues::Integers(values)) => {
                let value = |row: usize| values.get(row).copied().unwrap_or_default();
                shards.number(values.len(), |row| column.is_null(row), value, ids, reservation)?;
                Ok(Some(shards.len()))
            }
            (Numbering::Rows(shards), NodeValues::Rows(rows)) => {
                let value = |row: usize| rows.row(row).data();
                shards.number(
                    rows.num_rows(),
                    |row| column.is_null(row),
                    value,
                    ids,
                    reservation,
                )?;
                Ok(Some(shards.len()))
            }
            _ => datafusion::common::internal_err!("a column of pairs has changed its type"),
        }
    }

    /// Makes room in the arrays `per_node` for ids of columns, as [`Self::number`] has asked for, and
    /// reserves its bytes. Where a range would be too wide, its integers move to tables.
    ///
    /// # Errors
    ///
    /// A resource error where the memory is refused.
    pub(crate) fn make_room<S: PerNode>(
        &mut self,
        columns: &[&NodeColumn],
        needed: Option<u32>,
        per_node: &mut [S],
        reservation: &MemoryReservation,
    ) -> Result<Option<Change>> {
        let change = match needed {
            None => self.widen(columns, per_node, reservation)?,
            Some(needed) => lengthen(needed, per_node, reservation)?,
        };
        if let Some(change) = &change {
            per_node.iter_mut().for_each(|per_node| per_node.change(change));
        }
        Ok(change)
    }

    /// Widens the range for columns that lie outside of it.
    fn widen<S: PerNode>(
        &mut self,
        columns: &[&NodeColumn],
        per_node: &[S],
        reservation: &MemoryReservation,
    ) -> Result<Option<Change>> {
        let Numbering::Range { base, len } = self.numbering else { return Ok(None) };
        self.seen += columns.iter().map(|column| column.len() as u64).sum::<u64>();
        let Some((lo, hi)) = range_of(columns) else { return Ok(None) };
        let end = base + u64::from(len.saturating_sub(1));
        let (least, greatest) = match len {
            0 => (lo, hi),
            _ if base <= lo && hi <= end => return Ok(None),
            _ => (lo.min(base), hi.max(end)),
        };
        // Room to grow, at the ends that grow, where there is memory for it. The first batch of many
        // nodes lacks little of their range at both ends.
        let spare = if len == 0 { (hi - lo) / SPARE_PART } else { u64::from(len / 2) };
        let down = if len == 0 || least < base { spare } else { 0 };
        let up = if len == 0 || greatest > end { spare } else { 0 };
        let roomy = (least.saturating_sub(down), greatest.saturating_add(up));
        for (from, to) in [roomy, (least, greatest)] {
            let width = (to - from).saturating_add(1);
            let ids = usize::try_from(width).unwrap_or(usize::MAX);
            let bytes = (per_node.len() * S::BYTES).saturating_mul(ids);
            if self.is_narrow(width) && reservation.try_grow(bytes).is_ok() {
                reservation.shrink(per_node.len() * S::BYTES * len as usize);
                self.numbering = Numbering::Range { base: from, len: width as u32 };
                let by = if len > 0 { (base - from) as u32 } else { 0 };
                return Ok(Some(Change::Moved { by, len: width as u32 }));
            }
        }
        self.leave_range(base, len, per_node, reservation).map(Some)
    }

    fn is_narrow(&self, width: u64) -> bool {
        let per_node = if width <= SPARSE_RANGE { RANGE_PER_NODE } else { RANGE_PER_NODE_BEYOND };
        width <= MOST_IDS && width <= ALWAYS_DENSE.max(self.seen.saturating_mul(per_node))
    }

    fn leave_range<S: PerNode>(
        &mut self,
        base: u64,
        len: u32,
        per_node: &[S],
        reservation: &MemoryReservation,
    ) -> Result<Change> {
        let shards = Shards::<Vec<u64>>::default();
        // The new ids of all, and the former ones of nodes.
        let former = 2 * len as usize * size_of::<u32>();
        reservation.try_grow(former)?;
        let mut ids = vec![NO_ID; len as usize];
        let is_node = |id: &u32| per_node.iter().any(|per_node| per_node.is_node(*id));
        let nodes: Vec<u32> = (0..len).filter(is_node).collect();
        let mut new = vec![];
        for nodes in nodes.chunks(1 << 13) {
            let value = |at: usize| base + u64::from(nodes.get(at).copied().unwrap_or_default());
            shards.number(nodes.len(), |_| false, value, &mut new, reservation)?;
            for (id, new) in nodes.iter().zip(&new) {
                if let Some(place) = ids.get_mut(*id as usize) {
                    *place = *new;
                }
            }
        }
        let len_now = shards.len();
        reservation.try_grow(per_node.len() * S::BYTES * len_now as usize)?;
        reservation.shrink(per_node.len() * S::BYTES * len as usize + former);
        self.numbering = Numbering::Integers(shards);
        Ok(Change::Renumbered { ids, len: len_now })
    }

    /// The values at ids, NULL at [`NO_ID`].
    ///
    /// # Errors
    ///
    /// An Arrow error where rows cannot be read back.
    pub(crate) fn values_at(
        &self,
        node_type: &NodeType,
        ids: &[u32],
    ) -> Result<arrow::array::ArrayRef> {
        match &self.numbering {
            Numbering::Range { base, .. } => {
                let value = |id: &u32| (*id != NO_ID).then(|| base + u64::from(*id));
                node_type.integers(ids.iter().map(value))
            }
            Numbering::Integers(shards) => {
                node_type.integers(ids.iter().map(|id| shards.integer_at(*id)))
            }
            Numbering::Rows(shards) => node_type.rows(ids.len(), |place, bytes| {
                ids.get(place).is_some_and(|id| shards.bytes_at(*id, bytes))
            }),
        }
    }

    /// The ids of nodes in the order of their values; `None` where that is the order of ids.
    ///
    /// # Errors
    ///
    /// A resource error where memory for the order is refused.
    pub(crate) fn order(
        &self,
        reservation: &MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<Option<Vec<u32>>> {
        match &self.numbering {
            Numbering::Range { .. } => Ok(None),
            Numbering::Integers(shards) => shards.order(reservation, cancel).map(Some),
            Numbering::Rows(shards) => shards.order(reservation, cancel).map(Some),
        }
    }
}

/// Lengthens arrays to `needed` ids of a table, and half as many more.
fn lengthen<S: PerNode>(
    needed: u32,
    per_node: &[S],
    reservation: &MemoryReservation,
) -> Result<Option<Change>> {
    let former = per_node.first().map_or(0, PerNode::len);
    if needed <= former {
        return Ok(None);
    }
    let len = needed.max(former.saturating_add(former / 2));
    // The former array is there until the new one is filled.
    let bytes = per_node.len() * S::BYTES;
    reservation.try_grow(bytes * len as usize)?;
    reservation.shrink(bytes * former as usize);
    Ok(Some(Change::Moved { by: 0, len }))
}

/// The least and the greatest integer of columns.
fn range_of(columns: &[&NodeColumn]) -> Option<(u64, u64)> {
    let mut range = None;
    for column in columns {
        let NodeValues::Integers(values) = &column.values else { continue };
        for (row, value) in values.iter().enumerate() {
            if !column.is_null(row) {
                let (lo, hi) = range.unwrap_or((*value, *value));
                range = Some((lo.min(*value), hi.max(*value)));
            }
        }
    }
    range
}

/// The error for more nodes than ids can number.
fn too_many_nodes() -> datafusion::common::DataFusionError {
    resources_datafusion_err!("pairs have more than {MOST_IDS} distinct nodes, which are too many")
}
