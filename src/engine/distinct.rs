//! The distinct items of some rows, and the rows of each.

use std::mem::size_of;
use std::num::NonZeroU64;
use std::ops::Range;

use datafusion::common::Result;
use hashbrown::HashTable;

use super::RowGroups;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{map, steps_per_task};
use crate::util::scatter::Scatter;

/// Rows that a task takes on, at least. Tests want many tasks.
const LEAST_ROWS: usize = if cfg!(test) { 1 << 4 } else { 1 << 10 };

/// A hash in eight bytes beside the hash that is missing.
fn filled(hash: u64) -> NonZeroU64 {
    NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN)
}

/// Not a place.
const NONE: u32 = u32::MAX;

/// Where a row lies: its number, its part, and its index there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub row: u32,
    pub part: u32,
    pub index: u32,
}

/// Neighbouring rows of the input that lie one behind the other in a part.
struct Stretch {
    row: u32,
    part: u32,
    indexes: Range<u32>,
}

/// Where the rows of several parts lie, in the order of the input; a part gives the ascending numbers of
/// its rows.
///
/// # Errors
///
/// When the work is cancelled.
pub(crate) fn places_by_row<R: Iterator<Item = u32>>(
    parts: impl Iterator<Item = R>,
    cancel: &CancelFlag,
) -> Result<Vec<Place>> {
    let (mut stretches, mut count): (Vec<Stretch>, usize) = (vec![], 0);
    for (part, rows) in (0..).zip(parts) {
        let mut next = None;
        for (index, row) in (0..).zip(rows) {
            cancel.check_at(index as usize)?;
            if next != Some(row) {
                stretches.push(Stretch { row, part, indexes: index..index });
            }
            if let Some(last) = stretches.last_mut() {
                last.indexes.end = index + 1;
            }
            next = row.checked_add(1);
            count += 1;
        }
    }
    stretches.sort_unstable_by_key(|stretch| stretch.row);
    let mut places = Vec::with_capacity(count);
    for Stretch { row, part, indexes } in stretches {
        cancel.check()?;
        let indexes = (row..).zip(indexes);
        places.extend(indexes.map(|(row, index)| Place { row, part, index }));
    }
    Ok(places)
}

/// The rows of an input, by their places 0, 1, … in an order that no thread decides.
pub(crate) trait ItemRows: Sync {
    /// The number of rows.
    fn count(&self) -> usize;

    /// The number of the row at a place, in the order of the input.
    fn row_number(&self, place: u32) -> u32;

    /// The hash of the row's item; `None` where it has none.
    fn hash(&self, place: u32) -> Option<u64>;

    /// Whether two rows with items of one hash have the same one.
    fn is_same(&self, a: u32, b: u32) -> bool;
}

/// The distinct items, by the places of their first rows.
pub(crate) struct Distinct {
    /// By place, that of the first row with an equal item; [`NONE`] where there is no item.
    first: Scatter,
    /// The places of first rows, ascending.
    pub items: Vec<u32>,
}

impl Distinct {
    /// A bound on the bytes that finding the items of `rows` rows takes, and their groups.
    pub(crate) fn footprint(rows: usize) -> usize {
        // First rows, items twice, offsets twice, rows and ranks; the hashes; the tables double.
        rows * (7 * size_of::<u32>() + size_of::<u64>() + 4 * size_of::<(u64, u32)>()) + 256
    }

    /// Finds the rows with equal items on several threads.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(crate) fn of(rows: &impl ItemRows, threads: usize, cancel: &CancelFlag) -> Result<Self> {
        let count = rows.count();
        let share = steps_per_task(threads, count, LEAST_ROWS);
        let ranges = || (0..count).step_by(share).map(|start| start..count.min(start + share));
        let hashes = map(threads, ranges().collect(), |places| {
            cancel.check()?;
            Ok(places.map(|place| rows.hash(place as u32).map(filled)).collect::<Vec<_>>())
        })?;
        let first = Scatter::new(count, threads)?;
        let shares = threads as u64;
        map(threads, (0..shares).collect(), |share| {
            let mut table: HashTable<(u64, u32)> = HashTable::new();
            for (place, hash) in (0..).zip(hashes.iter().flatten()) {
                cancel.check_at(place as usize)?;
                let Some(hash) = hash.map(NonZeroU64::get) else {
                    if share == 0 {
                        first.set(place as usize, NONE);
                    }
                    continue;
                };
                // Bits that the table makes no use of.
                if shares > 1 && u64::from((hash >> 25) as u32) % shares != share {
                    continue;
                }
                let is_same =
                    |&(other, item): &(u64, u32)| other == hash && rows.is_same(item, place);
                let item = match table.find(hash, is_same) {
                    Some(&(_, item)) => item,
                    None => {
                        table.insert_unique(hash, (hash, place), |&(hash, _)| hash);
                        place
                    }
                };
                first.set(place as usize, item);
            }
            Ok(())
        })?;
        let items = map(threads, ranges().collect(), |places| {
            let is_first = |&place: &usize| first.get(place) == place as u32;
            Ok(places.filter(is_first).map(|place| place as u32).collect::<Vec<u32>>())
        })?;
        Ok(Self { first, items: items.concat() })
    }

    /// The place of the first row with the item of the row at a place, where that has one.
    pub(crate) fn first_of(&self, place: u32) -> Option<u32> {
        Some(self.first.get(place as usize)).filter(|first| *first != NONE)
    }

    /// The rows of each item, where `items` are the places of [`Self::items`] in some order.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(crate) fn groups(
        &self,
        rows: &impl ItemRows,
        items: &[u32],
        cancel: &CancelFlag,
    ) -> Result<RowGroups> {
        let count = rows.count();
        let without = (0..count).filter(|&place| self.first.get(place) == NONE);
        let without: Vec<u32> = without.map(|place| rows.row_number(place as u32)).collect();
        if items.is_empty() {
            return Ok(RowGroups::new(vec![], vec![], without));
        }
        if items.len() + without.len() == count {
            let numbers = items.iter().map(|&place| rows.row_number(place)).collect();
            return Ok(RowGroups::new((0..=items.len() as u32).collect(), numbers, without));
        }
        let mut ranks = vec![0_u32; count];
        (0..).zip(items).for_each(|(rank, &place)| ranks[place as usize] = rank);
        let mut offsets = vec![0_u32; items.len() + 1];
        let item_of = |place: usize| match self.first.get(place) {
            NONE => None,
            first => Some(ranks[first as usize] as usize),
        };
        (0..count).filter_map(item_of).for_each(|item| offsets[item + 1] += 1);
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        let mut next = offsets.clone();
        let mut numbers = vec![0_u32; count - without.len()];
        for place in 0..count {
            cancel.check_at(place)?;
            let Some(item) = item_of(place) else { continue };
            numbers[next[item] as usize] = rows.row_number(place as u32);
            next[item] += 1;
        }
        Ok(RowGroups::new(offsets, numbers, without))
    }
}
