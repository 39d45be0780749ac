//! The best of all pairs.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

use crate::memory::CountedVec;
use crate::top::ScoreKey;
use crate::tuning::{Size, Tuning};

/// A pair with the key of its score: key, left row, right row.
pub(super) type Pair = (ScoreKey, u32, u32);

/// Pairs beyond the number that are kept because they are as good as the last one.
const MOST_TIES: Size = Size { usual: 1 << 20, small: 1 << 6 };

/// Pairs that are taken in before the best are picked, at least.
const LEAST_HELD: Size = Size { usual: 1 << 10, small: 1 << 3 };

/// The pairs that are kept.
#[derive(Debug)]
struct KeptPairs {
    pairs: CountedVec<Pair>,
    /// The number of held pairs at which the best are picked.
    pick_at: usize,
    /// There are too many that are as good as the last one.
    overflown: bool,
}

/// The `count` best of all pairs that are offered, by any number of threads.
#[derive(Debug)]
pub(super) struct Top {
    count: usize,
    any_tie: bool,
    /// The key of the best score of all, where there is one.
    best: Option<ScoreKey>,
    kept: Mutex<KeptPairs>,
    /// A key that the last one of the best does not exceed.
    last: AtomicI64,
    /// Further pairs change nothing.
    done: AtomicBool,
    offered: AtomicUsize,
    tuning: Tuning,
}

/// The pairs of a [`Top`] that has met all pairs of a join.
#[derive(Debug)]
pub(super) enum Picked {
    /// Fewer than `count`.
    Few(CountedVec<Pair>),
    /// So many, with all that are as good as the last one unless any will do.
    Pairs(CountedVec<Pair>),
    /// The pairs whose key is this at most; they are too many to be kept.
    Within(ScoreKey),
}

impl Top {
    /// No pairs yet. No score is better than that of the key `best`.
    pub(super) fn new(
        count: usize,
        any_tie: bool,
        best: Option<ScoreKey>,
        memory: &MemoryReservation,
        tuning: Tuning,
    ) -> Self {
        Self {
            count: count.max(1),
            any_tie,
            best,
            kept: Mutex::new(KeptPairs {
                pairs: CountedVec::new(memory),
                pick_at: Self::pick_at(count.max(1), tuning),
                overflown: false,
            }),
            last: AtomicI64::new(ScoreKey::MAX),
            done: AtomicBool::new(false),
            offered: AtomicUsize::new(0),
            tuning,
        }
    }

    fn pick_at(kept: usize, tuning: Tuning) -> usize {
        kept.saturating_mul(2).saturating_add(tuning.size(LEAST_HELD))
    }

    /// Whether further pairs change nothing.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }

    /// The pairs offered so far.
    pub(super) fn offered(&self) -> usize {
        self.offered.load(Relaxed)
    }

    /// Offers pairs.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn offer(&self, pairs: impl Iterator<Item = Pair>) -> Result<()> {
        let last = self.last.load(Relaxed);
        let mut offered = 0;
        let pairs = pairs.inspect(|_| offered += 1);
        let good: Vec<Pair> = pairs.filter(|(key, ..)| *key <= last).collect();
        self.offered.fetch_add(offered, Relaxed);
        if good.is_empty() {
            return Ok(());
        }
        let mut kept = self.kept.lock();
        kept.pairs.try_extend(good.into_iter())?;
        if kept.pairs.len() >= kept.pick_at {
            self.pick(&mut kept);
            kept.pick_at = Self::pick_at(kept.pairs.len(), self.tuning);
        }
        Ok(())
    }

    /// Keeps the best alone.
    fn pick(&self, kept: &mut KeptPairs) {
        let pairs = &mut kept.pairs;
        if pairs.len() < self.count {
            return;
        }
        let (_, (last, ..), _) = pairs.select_nth_unstable(self.count - 1);
        let last = *last;
        match self.any_tie {
            true => pairs.truncate(self.count),
            false => pairs.retain(|(key, ..)| *key <= last),
        }
        self.last.store(last, Relaxed);
        let is_best = self.any_tie && self.best.is_some_and(|best| last <= best);
        // Threads stop then: what they have offered by that time is not all.
        kept.overflown |= pairs.len() - self.count > self.tuning.size(MOST_TIES);
        if is_best || kept.overflown {
            self.done.store(true, Relaxed);
        }
    }

    /// The best pairs, the best one first.
    pub(super) fn take(&self) -> Picked {
        let mut kept = self.kept.lock();
        self.pick(&mut kept);
        if kept.overflown {
            return Picked::Within(self.last.load(Relaxed));
        }
        let mut pairs = kept.pairs.take();
        pairs.sort_unstable();
        match pairs.len() < self.count {
            true => Picked::Few(pairs),
            false => Picked::Pairs(pairs),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn the_best_pairs_are_the_first_of_a_sorted_list() {
        let mut rng = StdRng::seed_from_u64(3);
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let [mut overflown, mut done] = [0; 2];
        for round in 0..600 {
            let (count, any_tie) = (rng.random_range(1..20), rng.random());
            let keys = [2, 10, 1000][round % 3];
            let best = Some(0).filter(|_| rng.random());
            let memory = MemoryConsumer::new("top").register(&pool);
            let top = Top::new(count, any_tie, best, &memory, Tuning::small());
            let mut all: Vec<Pair> = vec![];
            for _ in 0..rng.random_range(0..40) {
                let batch = (0..rng.random_range(0..20)).map(|_| {
                    (rng.random_range(0..keys), rng.random_range(0..9), rng.random_range(0..9))
                });
                let batch: Vec<Pair> = batch.collect();
                top.offer(batch.iter().copied()).unwrap();
                all.extend(batch);
                if top.is_done() {
                    break;
                }
            }
            assert_eq!(top.offered(), all.len());
            all.sort_unstable();
            let last = all.get(count - 1).map(|(key, ..)| *key);
            let is_done = top.is_done();
            done += usize::from(is_done && any_tie);
            match (top.take(), last) {
                (Picked::Few(pairs), None) => assert_eq!(pairs[..], all[..]),
                (Picked::Within(key), Some(last)) => {
                    assert!(!any_tie && key >= last);
                    overflown += 1;
                }
                (Picked::Pairs(pairs), Some(last)) if any_tie => {
                    let keys = |pairs: &[Pair]| pairs.iter().map(|p| p.0).collect::<Vec<_>>();
                    assert_eq!(keys(&pairs), keys(&all[..count]), "round {round}");
                    assert!(!is_done || last == 0);
                }
                (Picked::Pairs(pairs), Some(last)) => {
                    all.truncate(all.partition_point(|(key, ..)| *key <= last));
                    assert_eq!(pairs[..], all[..], "round {round}");
                }
                (other, _) => panic!("round {round}: {other:?} of {} pairs", all.len()),
            }
        }
        assert!(overflown > 10 && done > 10, "{overflown} {done}");
        assert_eq!(pool.reserved(), 0);
    }
}
