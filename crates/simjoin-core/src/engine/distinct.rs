//! The distinct items of some rows, and the rows of each.

use std::mem::size_of;
use std::ops::Range;
use std::sync::atomic::Ordering;

use super::RowGroups;
use super::repeats::{ItemRows, Repeats};
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::counting_sort;
use crate::util::parallel::{Threads, collect, concat, filled, for_each, map, ranges};
use crate::util::scatter::{Scatter, shared};

/// Rows that a task takes on, at least.
const LEAST_ROWS: usize = 1 << 12;

/// The mark of an entry without a place.
const NONE: u32 = u32::MAX;

/// The distinct items, by the places of their first rows.
pub struct Distinct {
    /// By place, that of the first row with an equal item; [`NONE`] where there is no item. `None` where each
    /// row has an item of its own.
    first: Option<Scatter>,
    /// The places of rows without an item, ascending.
    without: Vec<u32>,
    /// The places of first rows, ascending.
    pub items: Vec<u32>,
    threads: Threads,
}

impl Distinct {
    /// A bound on the bytes that finding the items of `rows` rows takes, and their groups.
    pub fn footprint(rows: usize) -> usize {
        // First rows, items twice, offsets twice, rows and ranks; the hashes; the tables double. Groups take
        // less where there are no tables any more.
        rows * (7 * size_of::<u32>() + size_of::<u64>() + 4 * size_of::<(u64, u32)>()) + 256
    }

    /// Finds the rows with equal items on several threads.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub fn of(rows: &impl ItemRows, threads: Threads, cancel: &CancelFlag) -> Result<Self> {
        let count = rows.count();
        let Repeats { repeats, without } = Repeats::of(rows, threads, cancel)?;
        let is_plain = repeats.iter().all(Vec::is_empty) && without.iter().all(Vec::is_empty);
        if is_plain {
            let all = |places: Range<usize>| places.start as u32..places.end as u32;
            let items = collect(threads, count, LEAST_ROWS, cancel, all)?;
            return Ok(Self { first: None, without: vec![], items, threads });
        }
        let first = Scatter::of(count, threads, |place| place as u32)?;
        for_each(threads, repeats, |repeats| {
            cancel.check()?;
            repeats.iter().for_each(|&(place, item)| first.set(place as usize, item));
            Ok(())
        })?;
        for_each(threads, without.iter().collect(), |without: &Vec<u32>| {
            cancel.check()?;
            without.iter().for_each(|&place| first.set(place as usize, NONE));
            Ok(())
        })?;
        let without = concat(threads, &without, cancel)?;
        let items = map(threads, ranges(threads, count, LEAST_ROWS), |places| {
            cancel.check()?;
            let is_first = |&place: &usize| first.get(place) == place as u32;
            Ok(places.filter(is_first).map(|place| place as u32).collect::<Vec<u32>>())
        })?;
        let items = concat(threads, &items, cancel)?;
        Ok(Self { first: Some(first), without, items, threads })
    }

    /// The place of the first row with the item of the row at a place, where that has one.
    pub fn first_of(&self, place: u32) -> Option<u32> {
        let first = self.first.as_ref().map_or(place, |first| first.get(place as usize));
        Some(first).filter(|first| *first != NONE)
    }

    /// The rows of each item, where `items` are the places of [`Self::items`] in some order.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub fn groups(
        &self,
        rows: &impl ItemRows,
        items: &[u32],
        cancel: &CancelFlag,
    ) -> Result<RowGroups> {
        let (count, threads) = (rows.count(), self.threads);
        let number = |&place: &u32| rows.row_number(place);
        let numbers = |places: &[u32]| {
            let of = |range: Range<usize>| places[range].iter().map(number);
            collect(threads, places.len(), LEAST_ROWS, cancel, of)
        };
        let without = numbers(&self.without)?;
        if items.is_empty() {
            return Ok(RowGroups::new(vec![], vec![], without));
        }
        if items.len() + without.len() == count {
            let all = |range: Range<usize>| range.start as u32..range.end as u32;
            let offsets = collect(threads, items.len() + 1, LEAST_ROWS, cancel, all)?;
            return Ok(RowGroups::new(offsets, numbers(items)?, without));
        }
        let buckets = self.ranks(items, count, cancel)?;
        let sorted = counting_sort::sort(&buckets, items.len(), threads, cancel)?;
        drop(buckets);
        Ok(RowGroups::new(sorted.starts, numbers(&sorted.numbers)?, without))
    }

    /// By place, the rank of its item; [`NONE`] where there is no item.
    fn ranks(&self, items: &[u32], count: usize, cancel: &CancelFlag) -> Result<Vec<u32>> {
        let threads = self.threads;
        let mut of_first = filled(threads, count, NONE);
        let ranks = shared(&mut of_first);
        for_each(threads, ranges(threads, items.len(), LEAST_ROWS), |range| {
            cancel.check()?;
            let ranked = (range.start as u32..).zip(&items[range]);
            ranked.for_each(|(rank, &place)| ranks[place as usize].store(rank, Ordering::Relaxed));
            Ok(())
        })?;
        let rank = |place: usize| match self.first_of(place as u32) {
            Some(first) => of_first[first as usize],
            None => NONE,
        };
        collect(threads, count, LEAST_ROWS, cancel, |range| range.map(rank))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Rows with values, of which only some bits are hashed, and less of them for a sketch.
    struct Rows {
        values: Vec<Option<u64>>,
        hashed: u64,
        sketched: Option<u64>,
    }

    impl Rows {
        fn hash_of(&self, place: u32, bits: u64) -> Option<u64> {
            let value = self.values[place as usize]?;
            Some((value & bits).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(32))
        }
    }

    impl ItemRows for Rows {
        fn count(&self) -> usize {
            self.values.len()
        }

        fn row_number(&self, place: u32) -> u32 {
            3 * place + 1
        }

        fn hash(&self, place: u32) -> Option<u64> {
            self.hash_of(place, self.hashed)
        }

        fn sketch(&self, place: u32) -> Option<u64> {
            self.hash_of(place, self.sketched.unwrap_or(self.hashed))
        }

        fn has_sketches(&self) -> bool {
            self.sketched.is_some()
        }

        fn is_same(&self, a: u32, b: u32) -> bool {
            self.values[a as usize] == self.values[b as usize]
        }
    }

    #[test]
    fn items_and_their_rows_are_those_of_a_map() {
        let mut rng = StdRng::seed_from_u64(41);
        let cancel = CancelFlag::default();
        for round in 0..80_usize {
            let count = [0, 1, 40, 900][round % 4];
            let values = [1, 30, 1 << 40][rng.random_range(0..3)];
            let nothing = [0.0, 0.1, 1.0][rng.random_range(0..3)];
            let mut value = || (!rng.random_bool(nothing)).then(|| rng.random_range(0..values));
            let values: Vec<Option<u64>> = (0..count).map(|_| value()).collect();
            // Hashes and sketches that tell all values apart, some of them, or none.
            let hashed = [u64::MAX, u64::MAX, 7][round % 3];
            let sketched = [None, Some(0), Some(7), Some(u64::MAX)][rng.random_range(0..4)];
            let rows = Rows { values, hashed, sketched };
            let (mut firsts, mut items) = (HashMap::new(), vec![]);
            let mut expected: Vec<Vec<u32>> = vec![];
            let mut without = vec![];
            for (place, value) in (0..).zip(&rows.values) {
                match value {
                    None => without.push(rows.row_number(place)),
                    Some(value) => {
                        let item = *firsts.entry(value).or_insert(items.len());
                        if item == items.len() {
                            items.push(place);
                            expected.push(vec![]);
                        }
                        expected[item].push(rows.row_number(place));
                    }
                }
            }
            for threads in [1, 2, 7].map(Threads::small) {
                let distinct = Distinct::of(&rows, threads, &cancel).unwrap();
                assert_eq!(distinct.items, items);
                for (place, value) in (0..).zip(&rows.values) {
                    let first = value.as_ref().map(|value| items[firsts[value]]);
                    assert_eq!(distinct.first_of(place), first);
                }
                // In another order.
                let order: Vec<usize> = (0..items.len()).rev().collect();
                let ordered: Vec<u32> = order.iter().map(|&item| items[item]).collect();
                let groups = distinct.groups(&rows, &ordered, &cancel).unwrap();
                assert_eq!(groups.len() as usize, items.len());
                for (at, &item) in order.iter().enumerate() {
                    assert_eq!(groups.rows(at as u32), expected[item]);
                }
                assert_eq!(groups.rows_without_item(), without);
            }
        }
    }
}
