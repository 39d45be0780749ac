//! The best pairs of each left row.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::{Mutex, MutexGuard};

use crate::spec::{Nearest, Order};

/// A score as an integer: the less, the better. Scores that differ in DataFusion's order of values have
/// different keys.
pub(super) type ScoreKey = i64;

/// The key of a score.
#[inline]
pub(super) fn key_of(score: f64, order: Order) -> ScoreKey {
    keyed(total(score), order)
}

/// The key of a score whose order is that of an integer.
#[inline]
pub(super) fn keyed(rank: i64, order: Order) -> ScoreKey {
    match order {
        Order::Distance => rank,
        Order::Similarity => !rank,
    }
}

/// The score behind a key.
pub(super) fn score_of(key: ScoreKey, order: Order) -> f64 {
    let total = keyed(key, order);
    f64::from_bits((total ^ (((total >> 63) as u64) >> 1) as i64) as u64)
}

/// The place of a float in the order of [`f64::total_cmp`].
#[inline]
fn total(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// A right row with the key of its score. Among rows of equal scores the one that comes first is better.
type Entry = (ScoreKey, u32);

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
pub(super) struct Best {
    memory: MemoryReservation,
    shards: Vec<Mutex<HeapShard>>,
    rows: usize,
    count: usize,
    with_ties: bool,
    /// The ties that are kept in all shards.
    ties: AtomicUsize,
}

/// Left rows of a shard.
const SHARD_ROWS: usize = 1 << 10;

impl Best {
    /// The bytes of `rows` rows with `count` entries each.
    pub(super) fn bytes(rows: usize, count: usize) -> usize {
        let entry = size_of::<ScoreKey>() + size_of::<u32>();
        rows.saturating_mul(count.saturating_mul(entry) + size_of::<u32>())
    }

    /// No pairs yet. `count`, at least 1, is the number of neighbours or that of the right rows.
    ///
    /// # Errors
    ///
    /// When `memory` is refused.
    pub(super) fn try_new(
        rows: usize,
        count: usize,
        nearest: Nearest,
        memory: MemoryReservation,
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
        Ok(Self { memory, shards, rows, count, with_ties: nearest.with_ties, ties })
    }

    /// Reserves the memory of ties, which grow.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub(super) fn settle(&self) -> Result<()> {
        if !self.with_ties {
            return Ok(());
        }
        // A vector doubles as it grows.
        let ties = self.ties.load(Relaxed) * 2 * size_of::<u32>();
        self.memory.try_resize(Self::bytes(self.rows, self.count) + ties)
    }

    /// Offers pairs: left row, right row, key.
    pub(super) fn offer(&self, pairs: impl Iterator<Item = (u32, u32, ScoreKey)>) {
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
    pub(super) fn most_of_row(&self) -> usize {
        self.count
    }

    /// Whether a row has all its entries.
    pub(super) fn is_full(&self, row: u32) -> bool {
        let shard = self.shards[row as usize / SHARD_ROWS].lock();
        shard.counts[row as usize % SHARD_ROWS] as usize == self.count
    }

    /// The key of the worst entry of a row.
    pub(super) fn worst(&self, row: u32) -> Option<ScoreKey> {
        let shard = self.shards[row as usize / SHARD_ROWS].lock();
        let row = row as usize % SHARD_ROWS;
        (shard.counts[row] > 0).then(|| shard.keys[row * self.count])
    }

    /// Whether a row has all its entries, none of them worse than `key`.
    pub(super) fn is_full_within(&self, row: u32, key: ScoreKey) -> bool {
        self.is_full(row) && self.worst(row).is_some_and(|worst| worst <= key)
    }

    /// Offers the pairs of `other`, which has the same left rows. Its right rows have numbers from `first` on.
    ///
    /// # Errors
    ///
    /// When memory for ties is refused.
    pub(super) async fn take_in(&self, other: &Self, first: u32) -> Result<()> {
        let mut entries = vec![];
        for start in (0..self.rows).step_by(SHARD_ROWS) {
            for row in start..self.rows.min(start + SHARD_ROWS) {
                let row = row as u32;
                other.sorted(row, &mut entries);
                self.offer(entries.iter().map(|(key, partner)| (row, first + partner, *key)));
            }
            self.settle()?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Forgets the pairs of a row.
    pub(super) fn clear(&self, row: u32) {
        let mut shard = self.shards[row as usize / SHARD_ROWS].lock();
        let row = row as usize % SHARD_ROWS;
        shard.counts[row] = 0;
        let ties = shard.ties.remove(&(row as u32)).map_or(0, |ties| ties.len());
        self.ties.fetch_sub(ties, Relaxed);
    }

    /// The pairs of a row, the best one first.
    pub(super) fn sorted(&self, row: u32, entries: &mut Vec<Entry>) {
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
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn keys_order_scores_as_total_cmp_does_and_give_them_back() {
        let mut scores = [0.0, -0.0, 1.0, -1.0, 0.3, f64::MAX, f64::MIN, 5e-324].to_vec();
        scores.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN]);
        for order in [Order::Distance, Order::Similarity] {
            for a in &scores {
                assert_eq!(score_of(key_of(*a, order), order).to_bits(), a.to_bits());
                for b in &scores {
                    let expected = match order {
                        Order::Distance => a.total_cmp(b),
                        Order::Similarity => b.total_cmp(a),
                    };
                    assert_eq!(key_of(*a, order).cmp(&key_of(*b, order)), expected, "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn the_best_pairs_are_those_of_a_sorted_list() {
        let mut rng = StdRng::seed_from_u64(7);
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        for round in 0..400 {
            let (rows, count) = (rng.random_range(1..6), rng.random_range(1..7));
            let with_ties = rng.random_bool(0.5);
            let nearest = Nearest { count: NonZeroUsize::new(count).unwrap(), with_ties };
            let memory = MemoryConsumer::new("best").register(&pool);
            let best = Best::try_new(rows, count, nearest, memory).unwrap();
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
            assert_eq!(best.memory.size(), Best::bytes(rows, count) + ties * 8);
            drop(best);
            assert_eq!(pool.reserved(), 0);
        }
    }
}
