//! Counters that several threads raise and lower.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::parallel::{Threads, filled, for_each, map, threads_for};
use crate::error::Result;
use crate::simd::prefetch;

/// Counters, one for each place. A thread reads the counts of other threads only after the parallel loop that
/// counted.
#[derive(Debug)]
pub struct Counters {
    counts: Vec<AtomicU32>,
    threads: Threads,
}

impl Counters {
    /// `len` counters of zero for up to `threads` threads.
    pub fn new(len: usize, threads: Threads) -> Self {
        let counts = filled(threads, len, 0_u32).into_iter().map(AtomicU32::new).collect();
        Self { counts, threads }
    }

    /// Brings a counter into the caches.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: usize) {
        prefetch(&self.counts[place]);
    }

    /// Raises a counter by one.
    #[inline(always)]
    pub fn raise(&self, place: usize) {
        let count = &self.counts[place];
        match self.threads.count() {
            // A thread on its own needs no exchange with others.
            1 => count.store(count.load(Relaxed) + 1, Relaxed),
            _ => _ = count.fetch_add(1, Relaxed),
        }
    }

    /// Raises a counter by `more`.
    #[inline]
    pub fn add(&self, place: usize, more: u32) {
        self.counts[place].fetch_add(more, Relaxed);
    }

    /// Lowers a counter, which is not zero, by one, and returns what is left.
    #[inline(always)]
    pub fn lower(&self, place: usize) -> u32 {
        let count = &self.counts[place];
        match self.threads.count() {
            1 => {
                let left = count.load(Relaxed) - 1;
                count.store(left, Relaxed);
                left
            }
            _ => count.fetch_sub(1, Relaxed) - 1,
        }
    }

    /// Adds to each counter all those before it, and returns the sum of all, which is below 2^32.
    pub(crate) fn accumulate(&mut self) -> Result<u32> {
        let threads = threads_for(self.threads, self.counts.len());
        let share = self.counts.len().div_ceil(threads.count()).max(1);
        let sums = map(threads, self.counts.chunks_mut(share).collect(), |part| {
            let mut sum = 0;
            for count in part {
                sum += *count.get_mut();
                *count.get_mut() = sum;
            }
            Ok(sum)
        })?;
        let before = sums.iter().scan(0, |sum, more| {
            let before = *sum;
            *sum += more;
            Some(before)
        });
        let parts = self.counts.chunks_mut(share).zip(before).skip(1).collect();
        for_each(threads, parts, |(part, before): (&mut [AtomicU32], u32)| {
            part.iter_mut().for_each(|count| *count.get_mut() += before);
            Ok(())
        })?;
        Ok(sums.iter().sum())
    }

    /// The counts.
    pub(crate) fn into_counts(self) -> Vec<u32> {
        self.counts.into_iter().map(AtomicU32::into_inner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_places_of_a_sort() {
        for threads in [1, 3].map(Threads::small) {
            for (len, buckets) in [(0, 0), (1, 1), (5_000, 700)] {
                let bucket_of = |number: usize| number * number % buckets;
                let mut counters = Counters::new(buckets, threads);
                let tasks = || (0..threads.count()).collect();
                let numbers = |task| (task..len).step_by(threads.count());
                for_each(threads, tasks(), |task| {
                    numbers(task).for_each(|number| counters.raise(bucket_of(number)));
                    Ok(())
                })
                .unwrap();
                assert_eq!(counters.accumulate().unwrap() as usize, len);
                let places = map(threads, tasks(), |task| {
                    let place = |number| (counters.lower(bucket_of(number)), number);
                    Ok(numbers(task).map(place).collect::<Vec<_>>())
                });
                let mut places = places.unwrap().concat();
                places.sort_unstable();
                assert!(places.iter().map(|(place, _)| *place).eq(0..len as u32));
                assert!(places.is_sorted_by_key(|(_, number)| bucket_of(*number)));
                let starts = counters.into_counts();
                for (bucket, start) in starts.iter().enumerate() {
                    let before = (0..len).filter(|number| bucket_of(*number) < bucket).count();
                    assert_eq!(*start as usize, before);
                }
            }
        }
    }
}
