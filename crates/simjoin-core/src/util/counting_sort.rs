//! Numbers in the order of their buckets, by several threads.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::cancel::CancelFlag;
use super::parallel::{Threads, filled, for_each, map, ranges, threads_for};
use super::scatter::shared;
use crate::error::Result;

/// Numbers of a task, at least.
const LEAST: usize = 1 << 12;

/// Coarse buckets for each thread.
const COARSE_PER_THREAD: usize = 4;

/// Numbers in the order of their buckets.
#[derive(Debug)]
pub(crate) struct Sorted {
    /// The place of the first number of each bucket, and the end of the last bucket.
    pub starts: Vec<u32>,
    /// The numbers of each bucket, ascending.
    pub numbers: Vec<u32>,
}

/// Numbers by their buckets, with the threads that sort them.
struct Sorting<'a> {
    /// By number, its bucket.
    buckets: &'a [u32],
    /// The number of buckets.
    count: usize,
    threads: Threads,
    cancel: &'a CancelFlag,
}

/// The bytes of a counting sort of `numbers` numbers into `buckets` buckets, the result included.
pub(crate) fn footprint(numbers: usize, buckets: usize) -> usize {
    // The numbers, in the order of coarse buckets before, and counters.
    size_of::<u32>() * (3 * numbers + 2 * (buckets + 1)) + (1 << 10)
}

/// Sorts the numbers from 0 on by their buckets in `buckets` (a counting sort). Buckets are numbered below
/// `count`; numbers of other buckets are left out.
///
/// # Errors
///
/// When the work is cancelled.
pub(crate) fn sort(
    buckets: &[u32],
    count: usize,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Sorted> {
    let threads = threads_for(threads, 4 * buckets.len());
    Sorting { buckets, count, threads, cancel }.sorted()
}

impl Sorting<'_> {
    fn sorted(&self) -> Result<Sorted> {
        let tasks = ranges(self.threads, self.buckets.len(), LEAST);
        if tasks.len() <= 1 || self.count * tasks.len() <= self.buckets.len() / 8 {
            return self.by_width(tasks, 0);
        }
        // Buckets by the high bits of their numbers, each of which one thread then sorts.
        let coarse = self.count.div_ceil(COARSE_PER_THREAD * self.threads.count());
        let bits = coarse.next_power_of_two().ilog2();
        let by_coarse = self.by_width(tasks, bits)?;
        self.refined(&by_coarse, bits)
    }

    /// The numbers by their buckets without the last `bits` bits.
    fn by_width(&self, tasks: Vec<Range<usize>>, bits: u32) -> Result<Sorted> {
        let (buckets, count) = (self.buckets, self.count);
        let wide = count.div_ceil(1 << bits);
        let in_range = |range: &Range<usize>| {
            let numbers = (range.start as u32..).zip(&buckets[range.clone()]);
            numbers.filter(move |(_, bucket)| (**bucket as usize) < count)
        };
        let mut counts = map(self.threads, tasks.clone(), |range| {
            let mut counts = vec![0_u32; wide];
            for (number, &bucket) in in_range(&range) {
                self.cancel.check_at(number as usize)?;
                counts[bucket as usize >> bits] += 1;
            }
            Ok(counts)
        })?;
        // Counts become the places of the first numbers.
        let (mut next, mut starts) = (0, Vec::with_capacity(wide + 1));
        for bucket in 0..wide {
            self.cancel.check_at(bucket)?;
            starts.push(next);
            for counts in &mut counts {
                next += std::mem::replace(&mut counts[bucket], next);
            }
        }
        starts.push(next);
        let mut numbers = filled(self.threads, next as usize, 0_u32);
        let places = shared(&mut numbers);
        for_each(self.threads, tasks.into_iter().zip(counts).collect(), |(range, mut next)| {
            for (number, &bucket) in in_range(&range) {
                self.cancel.check_at(number as usize)?;
                let next = &mut next[bucket as usize >> bits];
                places[*next as usize].store(number, Ordering::Relaxed);
                *next += 1;
            }
            Ok(())
        })?;
        Ok(Sorted { starts, numbers })
    }

    /// The numbers of coarse buckets, each of 2 to the power of `bits` buckets, by their buckets.
    fn refined(&self, coarse: &Sorted, bits: u32) -> Result<Sorted> {
        let mut starts = filled(self.threads, self.count + 1, 0_u32);
        let mut numbers = filled(self.threads, coarse.numbers.len(), 0_u32);
        if let Some(end) = starts.last_mut() {
            *end = coarse.numbers.len() as u32;
        }
        let mut tasks = vec![];
        let mut rest = numbers.as_mut_slice();
        let of_coarse = starts[..self.count].chunks_mut(1 << bits);
        for (bounds, starts) in coarse.starts.windows(2).zip(of_coarse) {
            let (own, others) = rest.split_at_mut((bounds[1] - bounds[0]) as usize);
            tasks.push((bounds[0], starts, own));
            rest = others;
        }
        for_each(self.threads, tasks, |(start, starts, own)| {
            let given = &coarse.numbers[start as usize..start as usize + own.len()];
            let bucket = |number: u32| self.buckets[number as usize] as usize % (1 << bits);
            for (step, &number) in given.iter().enumerate() {
                self.cancel.check_at(step)?;
                starts[bucket(number)] += 1;
            }
            let mut next = start;
            for place in starts.iter_mut() {
                next += std::mem::replace(place, next);
            }
            for (step, &number) in given.iter().enumerate() {
                self.cancel.check_at(step)?;
                let next = &mut starts[bucket(number)];
                own[(*next - start) as usize] = number;
                *next += 1;
            }
            // Starts have become ends.
            starts.copy_within(..starts.len() - 1, 1);
            starts[0] = start;
            Ok(())
        })?;
        Ok(Sorted { starts, numbers })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn numbers_are_in_the_order_of_their_buckets() {
        let mut rng = StdRng::seed_from_u64(17);
        let cancel = CancelFlag::default();
        for round in 0..200 {
            let len = [0, 1, 40, 700, 5000][round % 5];
            let count = [1, 2, 9, 100, 900, 6000][rng.random_range(0..6)];
            // Some lie behind the last bucket, and in some rounds nearly all in one.
            let most = if round % 3 == 0 { 2 } else { count as u32 + rng.random_range(0..2) * 7 };
            let bucket = |rng: &mut StdRng| match rng.random_range(0..20) {
                0 => rng.random_range(0..count as u32),
                1 => u32::MAX,
                _ => rng.random_range(0..most),
            };
            let buckets: Vec<u32> = (0..len).map(|_| bucket(&mut rng)).collect();
            let mut expected: Vec<u32> = (0..len as u32).collect();
            expected.retain(|&number| (buckets[number as usize] as usize) < count);
            expected.sort_by_key(|&number| buckets[number as usize]);
            let starts = (0..=count as u32).map(|bucket| {
                expected.partition_point(|&number| buckets[number as usize] < bucket) as u32
            });
            let starts: Vec<u32> = starts.collect();
            for threads in [1, 2, 7].map(Threads::small) {
                let sorted = sort(&buckets, count, threads, &cancel).unwrap();
                assert_eq!(sorted.numbers, expected, "{len} into {count}");
                assert_eq!(sorted.starts, starts, "{len} into {count}");
            }
        }
        drop(cancel.on_drop());
        assert!(sort(&[0; 100], 3, Threads::small(2), &cancel).is_err());
    }
}
