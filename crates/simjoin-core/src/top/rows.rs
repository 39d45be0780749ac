//! The best pairs of each left row.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

use super::key::{ScoreKey, score_of};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::predicate::Order;

/// A right row with the key of its score. Among rows of equal scores the one that comes first is better.
pub type Entry = (ScoreKey, u32);

/// A part of the left rows: a heap of at most `count` entries for each, the worst on top.
#[derive(Debug)]
struct HeapShard {
    keys: Vec<ScoreKey>,
    partners: Vec<u32>,
    counts: Vec<u32>,
    /// Per row, partners beyond `count` whose key is that of the worst entry.
    ties: HashMap<u32, Vec<u32>>,
}

/// The best pairs found so far, of each of a number of left rows. Any number of threads offer pairs.
#[derive(Debug)]
pub struct TopK {
    memory: Reservation,
    shards: Vec<Mutex<HeapShard>>,
    rows: usize,
    count: usize,
    with_ties: bool,
    /// The ties that are kept in all shards.
    ties: AtomicUsize,
}

/// Left rows of a shard.
const SHARD_ROWS: usize = 1 << 10;

impl TopK {
    /// The parts of the rows that are to have their entries within the bounds of two rounds.
    pub const MOST: [f64; 2] = [0.8, 0.95];

    /// The bytes of `rows` rows with `count` entries each.
    pub fn bytes(rows: usize, count: usize) -> usize {
        let entry = size_of::<ScoreKey>() + size_of::<u32>();
        rows.saturating_mul(count.saturating_mul(entry) + size_of::<u32>())
    }

    /// No pairs yet. `count`, at least 1, is the number of neighbours or that of the right rows.
    ///
    /// # Errors
    ///
    /// When `memory` is refused.
    pub fn try_new(
        rows: usize,
        count: usize,
        with_ties: bool,
        memory: Reservation,
    ) -> Result<Self> {
        memory.try_resize(Self::bytes(rows, count))?;
        let shard = |first: usize| {
            let rows = SHARD_ROWS.min(rows - first);
            Mutex::new(HeapShard {
                keys: vec![0; rows * count],
                partners: vec![0; rows * count],
                counts: vec![0; rows],
                ties: HashMap::new(),
            })
        };
        let shards = (0..rows).step_by(SHARD_ROWS).map(shard).collect();
        let ties = AtomicUsize::new(0);
        Ok(Self { memory, shards, rows, count, with_ties, ties })
    }

    /// Reserves the memory of ties, which grow.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub fn settle(&self) -> Result<()> {
        if !self.with_ties {
            return Ok(());
        }
        // A vector doubles as it grows.
        let ties = self.ties.load(Relaxed) * 2 * size_of::<u32>();
        self.memory.try_resize(Self::bytes(self.rows, self.count) + ties)
    }

    /// Offers pairs: left row, right row, key.
    pub fn offer(&self, pairs: impl Iterator<Item = (u32, u32, ScoreKey)>) {
        let mut held: Option<(usize, MutexGuard<'_, HeapShard>)> = None;
        let mut ties = 0isize;
        for (row, partner, key) in pairs {
            let (number, row) = (row as usize / SHARD_ROWS, row as usize % SHARD_ROWS);
            if held.as_ref().is_none_or(|(of, _)| *of != number) {
                drop(held.take());
                held = self.shards.get(number).map(|shard| (number, shard.lock()));
            }
            if let Some((_, shard)) = &mut held {
                ties += shard.offer(row, (key, partner), self.count, self.with_ties);
            }
        }
        drop(held);
        match usize::try_from(ties) {
            Ok(more) => self.ties.fetch_add(more, Relaxed),
            Err(_) => self.ties.fetch_sub(ties.unsigned_abs(), Relaxed),
        };
    }

    /// The most entries of a row, those in a tie with the worst apart.
    pub fn most_of_row(&self) -> usize {
        self.count
    }

    /// Whether a row has all its entries.
    pub fn is_full(&self, row: u32) -> bool {
        let shard = self.shards[row as usize / SHARD_ROWS].lock();
        shard.counts[row as usize % SHARD_ROWS] as usize == self.count
    }

    /// The key of the worst entry of a row.
    pub fn worst(&self, row: u32) -> Option<ScoreKey> {
        let shard = self.shards[row as usize / SHARD_ROWS].lock();
        let row = row as usize % SHARD_ROWS;
        (shard.counts[row] > 0).then(|| shard.keys[row * self.count])
    }

    /// The key of the worst entry that a row may still take; `None` where it lacks some.
    pub fn bound(&self, row: u32) -> Option<ScoreKey> {
        let shard = self.shards[row as usize / SHARD_ROWS].lock();
        let row = row as usize % SHARD_ROWS;
        (shard.counts[row] as usize == self.count).then(|| shard.keys[row * self.count])
    }

    /// Whether an entry of this key may change those of a row.
    pub fn takes(&self, row: u32, key: ScoreKey) -> bool {
        self.bound(row).is_none_or(|worst| key <= worst)
    }

    /// Whether a row has all its entries, none of them worse than `key`.
    pub fn is_full_within(&self, row: u32, key: ScoreKey) -> bool {
        self.is_full(row) && self.worst(row).is_some_and(|worst| worst <= key)
    }

    /// Scores within which four in five of the rows, and 19 in 20, have all their entries, the narrower one first.
    /// None where less than a quarter of them has: these are served first.
    pub fn bounds_of_most(&self, order: Order) -> Vec<f64> {
        let full = (0..self.rows as u32).filter(|row| self.is_full(*row));
        let mut worst: Vec<ScoreKey> = full.filter_map(|row| self.worst(row)).collect();
        if worst.len() * 4 < self.rows {
            return vec![];
        }
        worst.sort_unstable();
        let last = worst.len().saturating_sub(1);
        let place = |part: f64| ((self.rows as f64 * part) as usize).min(last);
        let bounds = Self::MOST.into_iter().filter_map(|part| worst.get(place(part)));
        let bounds = bounds.map(|key| score_of(*key, order));
        let mut bounds: Vec<f64> = bounds.filter(|bound| bound.is_finite()).collect();
        bounds.dedup();
        bounds
    }

    /// Offers the pairs that some rows have in `other`, which has the same left rows. Its right rows have numbers
    /// from `first` on.
    ///
    /// # Errors
    ///
    /// When memory for ties is refused.
    pub fn take_in(&self, other: &Self, rows: Range<u32>, first: u32) -> Result<()> {
        let mut entries = vec![];
        for row in rows {
            other.sorted(row, &mut entries);
            self.offer(entries.iter().map(|(key, partner)| (row, first + partner, *key)));
        }
        self.settle()
    }

    /// Forgets the pairs of a row.
    pub fn clear(&self, row: u32) {
        let mut shard = self.shards[row as usize / SHARD_ROWS].lock();
        let row = row as usize % SHARD_ROWS;
        shard.counts[row] = 0;
        let ties = shard.ties.remove(&(row as u32)).map_or(0, |ties| ties.len());
        self.ties.fetch_sub(ties, Relaxed);
    }

    /// The pairs of a row, the best one first.
    pub fn sorted(&self, row: u32, entries: &mut Vec<Entry>) {
        entries.clear();
        let Some(shard) = self.shards.get(row as usize / SHARD_ROWS) else { return };
        let shard = shard.lock();
        let row = row as usize % SHARD_ROWS;
        let of_row = row * self.count..row * self.count + shard.counts[row] as usize;
        entries.extend(of_row.map(|i| (shard.keys[i], shard.partners[i])));
        if let Some(ties) = shard.ties.get(&(row as u32))
            && let Some(worst) = entries.first().map(|(key, _)| *key)
        {
            entries.extend(ties.iter().map(|partner| (worst, *partner)));
        }
        entries.sort_unstable();
    }
}

impl HeapShard {
    /// Takes in a pair if it is among the best, and returns by how much the number of ties has grown.
    fn offer(&mut self, row: usize, entry: Entry, count: usize, with_ties: bool) -> isize {
        let first = row * count;
        let held = self.counts[row] as usize;
        let heap = first..first + count;
        let (keys, partners) = (&mut self.keys[heap.clone()], &mut self.partners[heap]);
        if held < count {
            (keys[held], partners[held]) = entry;
            self.counts[row] += 1;
            rise(keys, partners, held);
            return 0;
        }
        let worst = (keys[0], partners[0]);
        if entry.cmp(&worst) != Ordering::Less {
            let ties = with_ties && entry.0 == worst.0;
            if ties {
                self.ties.entry(row as u32).or_default().push(entry.1);
            }
            return isize::from(ties);
        }
        (keys[0], partners[0]) = entry;
        sink(keys, partners);
        if !with_ties {
            return 0;
        }
        if keys[0] == worst.0 {
            self.ties.entry(row as u32).or_default().push(worst.1);
            return 1;
        }
        self.ties.remove(&(row as u32)).map_or(0, |ties| -(ties.len() as isize))
    }
}

/// Moves the last entry of a heap up to its place.
fn rise(keys: &mut [ScoreKey], partners: &mut [u32], mut at: usize) {
    while at > 0 {
        let above = (at - 1) / 2;
        if (keys[above], partners[above]) >= (keys[at], partners[at]) {
            break;
        }
        keys.swap(above, at);
        partners.swap(above, at);
        at = above;
    }
}

/// Moves the top entry of a full heap down to its place.
fn sink(keys: &mut [ScoreKey], partners: &mut [u32]) {
    let mut at = 0;
    loop {
        let mut worst = at;
        for below in [2 * at + 1, 2 * at + 2] {
            if below < keys.len() && (keys[below], partners[below]) > (keys[worst], partners[worst])
            {
                worst = below;
            }
        }
        if worst == at {
            return;
        }
        keys.swap(at, worst);
        partners.swap(at, worst);
        at = worst;
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::memory::Budget;
    use crate::top::key_of;

    #[test]
    fn bounds_serve_the_parts_of_the_rows_that_they_are_for() {
        let pool = Budget::unlimited();
        // Of so many rows with two partners, so many lie within the bounds: a row above the part.
        for (with_two, served) in [(100, vec![81, 96]), (90, vec![81, 90]), (24, vec![])] {
            let best = TopK::try_new(100, 2, false, pool.reservation()).unwrap();
            for row in 0..100 {
                // The number of a row is the distance of its second partner.
                let distances = [0.0, f64::from(row)].map(|score| key_of(score, Order::Distance));
                let count = if row < with_two { 2 } else { 1 };
                best.offer((0..).zip(distances).take(count).map(|(right, key)| (row, right, key)));
            }
            let bounds = best.bounds_of_most(Order::Distance);
            let within = |bound: f64| (0..with_two).filter(|row| f64::from(*row) <= bound).count();
            let found: Vec<usize> = bounds.into_iter().map(within).collect();
            assert_eq!(found, served, "{with_two}");
        }
    }

    #[test]
    fn the_best_pairs_are_those_of_a_sorted_list() {
        let mut rng = StdRng::seed_from_u64(7);
        let pool = Budget::unlimited();
        for round in 0..400 {
            let (rows, count) = (rng.random_range(1..6), rng.random_range(1..7));
            let with_ties = rng.random_bool(0.5);
            let best = TopK::try_new(rows, count, with_ties, pool.reservation()).unwrap();
            let mut all: Vec<Vec<Entry>> = vec![vec![]; rows];
            for partner in 0..rng.random_range(0..60u32) {
                let row = rng.random_range(0..rows);
                let key = rng.random_range(-4..5);
                all[row].push((key, partner));
                best.offer(std::iter::once((row as u32, partner, key)));
                if rng.random_bool(0.02) {
                    best.clear(row as u32);
                    all[row].clear();
                }
            }
            let mut found = vec![];
            let mut ties = 0;
            for (row, expected) in all.iter_mut().enumerate() {
                expected.sort_unstable();
                let last = expected.get(count - 1).map(|(key, _)| *key);
                let kept = match last {
                    Some(key) if with_ties => expected.partition_point(|entry| entry.0 <= key),
                    _ => count.min(expected.len()),
                };
                expected.truncate(kept);
                ties += kept.saturating_sub(count);
                best.sorted(row as u32, &mut found);
                assert_eq!(&found, expected, "round {round}, row {row}");
                assert_eq!(best.is_full(row as u32), last.is_some());
                assert_eq!(best.worst(row as u32), expected.last().map(|(key, _)| *key));
            }
            best.settle().unwrap();
            assert_eq!(best.memory.size(), TopK::bytes(rows, count) + ties * 8);
            drop(best);
            assert_eq!(pool.taken(), 0);
        }
    }
}
