//! Runs of sets with the same blocking key and size.

use std::mem::size_of;
use std::ops::Range;

use crate::engine::{ItemId, KeyId};

/// The id of a distinct set in its [`SetCollection`](super::SetCollection).
pub type SetId = ItemId;

/// Sets `start..` (up to the next run) that share a blocking key and a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub key: KeyId,
    pub size: u32,
    pub start: SetId,
}

/// The directory from (blocking key, size) to ranges of set ids.
#[derive(Debug, Default)]
pub struct Runs {
    runs: Vec<Run>,
    end: SetId,
    least_size: u32,
    greatest_size: u32,
}

impl Runs {
    /// Runs, given as (key, size, number of sets), ascending by (key, size) and none of them empty.
    pub fn of(runs: impl Iterator<Item = (KeyId, u32, u32)>) -> Self {
        let mut this = Self { least_size: u32::MAX, ..Self::default() };
        for (key, size, sets) in runs {
            let last = this.runs.last();
            debug_assert!(sets > 0 && last.is_none_or(|l| (l.key, l.size) < (key, size)));
            this.runs.push(Run { key, size, start: this.end });
            this.least_size = this.least_size.min(size);
            this.greatest_size = this.greatest_size.max(size);
            this.end += sets;
        }
        this
    }

    /// The ids of the sets with this key and a size in `least..=greatest`.
    pub fn sets(&self, key: KeyId, least: u32, greatest: u32) -> Range<SetId> {
        let start = self.runs.partition_point(|r| (r.key, r.size) < (key, least));
        let end =
            start + self.runs[start..].partition_point(|r| (r.key, r.size) <= (key, greatest));
        let id = |run: usize| self.runs.get(run).map_or(self.end, |r| r.start);
        id(start)..id(end)
    }

    /// All runs with their ranges of set ids.
    pub fn iter(&self) -> impl Iterator<Item = (Run, Range<SetId>)> + '_ {
        let ends = self.runs.iter().skip(1).map(|r| r.start).chain([self.end]);
        self.runs.iter().zip(ends).map(|(&run, end)| (run, run.start..end))
    }

    /// The runs with this key and a size in `least..=greatest`, with their ranges of set ids.
    pub fn of_key(
        &self,
        key: KeyId,
        least: u32,
        greatest: u32,
    ) -> impl Iterator<Item = (Run, Range<SetId>)> + '_ {
        let start = self.runs.partition_point(|r| (r.key, r.size) < (key, least));
        let end =
            start + self.runs[start..].partition_point(|r| (r.key, r.size) <= (key, greatest));
        (start..end).map(move |run| {
            let next = self.runs.get(run + 1).map_or(self.end, |r| r.start);
            (self.runs[run], self.runs[run].start..next)
        })
    }

    /// The run that holds `set`, and its range of ids.
    pub fn of_set(&self, set: SetId) -> Option<(Run, Range<SetId>)> {
        let next = self.runs.partition_point(|r| r.start <= set);
        let run = *self.runs.get(next.checked_sub(1)?)?;
        let end = self.runs.get(next).map_or(self.end, |r| r.start);
        (set < end).then_some((run, run.start..end))
    }

    /// The places of the runs of a key.
    pub fn places(&self, key: KeyId) -> Range<usize> {
        let start = self.runs.partition_point(|run| run.key < key);
        start..start + self.runs[start..].partition_point(|run| run.key == key)
    }

    /// The ids of the sets with this key.
    pub fn of_one_key(&self, key: KeyId) -> Range<SetId> {
        let places = self.places(key);
        self.start(places.start)..self.start(places.end)
    }

    /// The first set of a run at a place; behind the last run, the number of sets.
    pub fn start(&self, place: usize) -> SetId {
        self.runs.get(place).map_or(self.end, |run| run.start)
    }

    /// The runs at some places.
    pub fn at(&self, places: Range<usize>) -> &[Run] {
        &self.runs[places]
    }

    /// The smallest size of any set; `u32::MAX` when there is none.
    pub fn least_size(&self) -> u32 {
        if self.end == 0 { u32::MAX } else { self.least_size }
    }

    /// The greatest size of any set; 0 when there is none.
    pub fn greatest_size(&self) -> u32 {
        self.greatest_size
    }

    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn size_in_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_exactly_the_sets_of_key_and_sizes() {
        let sets = [(0, 2), (0, 2), (0, 5), (2, 1), (2, 3), (2, 3), (3, 9)];
        let counted =
            sets.chunk_by(|a, b| a == b).map(|run| (run[0].0, run[0].1, run.len() as u32));
        let runs = Runs::of(counted);
        for key in 0..5 {
            for least in 0..11 {
                for greatest in least..12 {
                    let expected: Vec<u32> = (0..sets.len())
                        .filter(|&i| sets[i].0 == key && (least..=greatest).contains(&sets[i].1))
                        .map(|i| i as u32)
                        .collect();
                    let found: Vec<u32> = runs.sets(key, least, greatest).collect();
                    assert_eq!(found, expected, "{key} {least}..={greatest}");
                }
            }
        }
        for (set, (key, size)) in sets.into_iter().enumerate() {
            let (run, range) = runs.of_set(set as u32).unwrap();
            assert_eq!((run.key, run.size), (key, size));
            assert!(range.contains(&(set as u32)));
        }
        assert_eq!(runs.of_set(7), None);
        assert_eq!((runs.least_size(), runs.greatest_size()), (1, 9));
        assert_eq!(Runs::of([].into_iter()).sets(0, 1, 9), 0..0);
    }
}
