//! The rows that hold each item.

use std::mem::size_of;
use std::ops::Range;

use crate::error::Result;
use crate::util::cancel::{CancelFlag, sort_unstable_by_key};
use crate::util::parallel::{Threads, for_each, steps_per_task, threads_for};

/// The number of a distinct item in its [`Collection`](super::Collection).
pub type ItemId = u32;

/// From the distinct items of a collection to its rows.
///
/// An item is what a family compares: the set of a row, the vector of a row; rows with the same
/// blocking key and an equal value share it. Every row has a *slot*: the slots of the rows of an
/// item are neighbours, in the order of the items, and the rows without an item come last. A row
/// without an item (its argument or its key is NULL, a filter refuses it) matches nothing.
#[derive(Debug, Default)]
pub struct RowGroups {
    /// `offsets[i]..offsets[i + 1]` are the slots of the rows of item `i`. May be empty where there
    /// is no item.
    offsets: Vec<u32>,
    /// By slot, the number of the row in the order of the input.
    rows: Vec<u32>,
    without_item: Vec<u32>,
}

impl RowGroups {
    /// `offsets` has an entry for each item and one more, or none where there is no item.
    pub fn new(offsets: Vec<u32>, rows: Vec<u32>, without_item: Vec<u32>) -> Self {
        debug_assert_eq!(offsets.last().copied().unwrap_or(0) as usize, rows.len());
        Self { offsets, rows, without_item }
    }

    /// The number of distinct items.
    pub fn len(&self) -> u32 {
        self.offsets.len().saturating_sub(1) as u32
    }

    /// Whether no row has an item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of an item, by their numbers in the order of the input.
    #[inline]
    pub fn rows(&self, item: ItemId) -> &[u32] {
        let slots = self.slots(item..item + 1);
        &self.rows[slots.start as usize..slots.end as usize]
    }

    /// The number of rows of an item.
    #[inline]
    pub fn row_count_of(&self, item: ItemId) -> u32 {
        let i = item as usize;
        self.offsets[i + 1] - self.offsets[i]
    }

    /// The slots of the rows of some neighbouring items.
    #[inline]
    pub fn slots(&self, items: Range<ItemId>) -> Range<u32> {
        if self.offsets.is_empty() {
            return 0..0;
        }
        self.offsets[items.start as usize]..self.offsets[items.end as usize]
    }

    /// The rows in some slots, all of which have an item.
    pub fn rows_at(&self, slots: Range<u32>) -> &[u32] {
        &self.rows[slots.start as usize..slots.end as usize]
    }

    /// All rows in the order of their slots.
    pub fn rows_by_slot(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().chain(&self.without_item).copied()
    }

    /// `value` of every row, in the order of the slots.
    pub fn gather<T: Copy + Default + Send>(
        &self,
        value: impl Fn(u32) -> T + Sync,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Vec<T>> {
        /// Rows of a task, at least.
        const LEAST_ROWS: usize = 1 << 12;
        /// The steps of reading a row's value, which lies anywhere.
        const STEPS_PER_ROW: usize = 1 << 2;
        let slots = self.rows.len() + self.without_item.len();
        let threads = threads_for(threads, STEPS_PER_ROW * slots);
        let share = steps_per_task(threads, slots, LEAST_ROWS);
        let mut values = vec![T::default(); slots];
        let (of_items, others) = values.split_at_mut(self.rows.len());
        let with_item = of_items.chunks_mut(share).zip(self.rows.chunks(share));
        let without = others.chunks_mut(share).zip(self.without_item.chunks(share));
        for_each(threads, with_item.chain(without).collect(), |(values, rows)| {
            cancel.check()?;
            values.iter_mut().zip(rows).for_each(|(place, &row)| *place = value(row));
            Ok(())
        })?;
        Ok(values)
    }

    /// The row in a slot.
    #[inline]
    pub fn row_at(&self, slot: u32) -> u32 {
        let slot = slot as usize;
        match self.rows.get(slot) {
            Some(&row) => row,
            None => self.without_item[slot - self.rows.len()],
        }
    }

    /// The slots of the rows without an item.
    pub fn slots_without_item(&self) -> Range<u32> {
        let first = self.rows.len() as u32;
        first..first + self.without_item.len() as u32
    }

    /// The number of rows that have an item.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The rows without an item.
    #[cfg(test)]
    pub(crate) fn rows_without_item(&self) -> &[u32] {
        &self.without_item
    }

    /// Whether no two rows have the same item.
    pub fn has_no_repeats(&self) -> bool {
        self.rows.len() == self.len() as usize
    }

    /// Orders the rows of each item by `key`, ties by row.
    pub fn sort_rows_by_key(
        &mut self,
        key: impl Fn(u32) -> u32 + Copy + Sync,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<()> {
        /// Items of a task, at least.
        const LEAST_ITEMS: usize = 1 << 12;
        /// The steps of reading a row's key.
        const STEPS_PER_ROW: usize = 1 << 2;
        if self.has_no_repeats() {
            return Ok(());
        }
        let items = self.offsets.len().saturating_sub(1);
        let threads = threads_for(threads, STEPS_PER_ROW * self.rows.len());
        let share = steps_per_task(threads, items, LEAST_ITEMS);
        let mut tasks = vec![];
        let mut rest = self.rows.as_mut_slice();
        for first in (0..items).step_by(share) {
            let offsets = &self.offsets[first..=items.min(first + share)];
            let len = offsets[offsets.len() - 1] - offsets[0];
            let (own, others) = rest.split_at_mut(len as usize);
            tasks.push((offsets, own));
            rest = others;
        }
        for_each(threads, tasks, |(offsets, rows)| {
            let first = offsets[0];
            for (item, slots) in offsets.windows(2).enumerate() {
                cancel.check_at(item)?;
                let rows = &mut rows[(slots[0] - first) as usize..(slots[1] - first) as usize];
                if !rows.is_sorted_by_key(|&row| key(row)) {
                    sort_unstable_by_key(rows, cancel, |&row| (key(row), row))?;
                }
            }
            Ok(())
        })
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        let words = self.offsets.capacity() + self.rows.capacity() + self.without_item.capacity();
        words * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_gather_and_sort_like_one() {
        let cancel = CancelFlag::default();
        // Items of 0 to 6 rows, in scrambled order, and rows without an item.
        let mut offsets = vec![0_u32];
        (0..400_u32).for_each(|item| offsets.push(offsets[item as usize] + item * 13 % 7));
        let end = offsets[400];
        let count = end + 100;
        let row = |slot: u32| (slot * 7) % count;
        assert_ne!(count % 7, 0);
        let key = |row: u32| row * 31 % 17;
        for threads in [1, 2, 7].map(Threads::small) {
            let rows = (0..end).map(row).collect();
            let mut groups = RowGroups::new(offsets.clone(), rows, (end..count).map(row).collect());
            groups.sort_rows_by_key(key, threads, &cancel).unwrap();
            for item in 0..groups.len() {
                let mut expected: Vec<u32> = groups.slots(item..item + 1).map(row).collect();
                expected.sort_unstable_by_key(|&row| (key(row), row));
                if !groups.slots(item..item + 1).map(row).is_sorted_by_key(key) {
                    assert_eq!(groups.rows(item), expected, "item {item}");
                }
                assert!(groups.rows(item).is_sorted_by_key(|&row| key(row)));
            }
            let keys = groups.gather(key, threads, &cancel).unwrap();
            assert_eq!(keys, groups.rows_by_slot().map(key).collect::<Vec<_>>());
        }
    }
}
