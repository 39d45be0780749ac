//! Work on several threads inside one blocking task.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::mem::MaybeUninit;
use std::ops::Range;

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::cancel::{self, CancelFlag, partition};
use super::per_process::PerProcess;
use crate::error::{Result, internal_err};
use crate::tuning::{Size, Tuning};

/// Steps (tokens, sets) for which another thread is worth waking.
const STEPS_PER_THREAD: Size = Size { usual: 1 << 14, small: 1 << 6 };

/// The threads that may work at once, and the sizes by which they share work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    count: usize,
    /// The sizes by which they share work.
    pub tuning: Tuning,
}

impl Threads {
    /// The calling thread alone.
    pub const ONE: Self = Self { count: 1, tuning: Tuning::USUAL };

    /// At least one thread.
    pub fn new(count: usize, tuning: Tuning) -> Self {
        Self { count: count.max(1), tuning }
    }

    /// At least one thread, by the sizes of the product.
    pub fn usual(count: usize) -> Self {
        Self::new(count, Tuning::USUAL)
    }

    /// Threads that share small work, for tests.
    pub fn small(count: usize) -> Self {
        Self::new(count, Tuning::small())
    }

    /// How many there are, at least 1.
    pub fn count(self) -> usize {
        self.count
    }

    /// The least work of a task, which is `least` or, of small sizes, 16.
    pub fn least(self, least: usize) -> usize {
        self.tuning.size(Size { usual: least, small: least.min(1 << 4) })
    }

    /// Half of them, and the others.
    pub fn halves(self) -> [Self; 2] {
        let half = self.at_most(self.count / 2);
        [half, Self::new(self.count - half.count, self.tuning)]
    }

    /// At most `count` of them, at least one.
    pub fn at_most(self, count: usize) -> Self {
        Self::new(self.count.min(count), self.tuning)
    }
}

/// Threads that wait for work, one for each core: starting threads takes longer than the shorter
/// phases of a join. `None` where the system gives no threads.
static POOL: PerProcess<Option<ThreadPool>> = PerProcess::new();

fn pool() -> Option<&'static ThreadPool> {
    let pool =
        || ThreadPoolBuilder::new().thread_name(|number| format!("simjoin-{number}")).build();
    let pool = POOL.get_or_try_make(|| Ok::<_, Infallible>(pool().ok()));
    pool.unwrap_or_else(|never| match never {}).as_ref()
}

/// The number of `threads` threads that pay for this many steps.
pub fn threads_for(threads: Threads, steps: usize) -> Threads {
    threads.at_most(steps / threads.tuning.size(STEPS_PER_THREAD))
}

/// Does `work` for every task on up to `threads` threads, this one among them, which take one after
/// the other. The first error ends the work, and is returned.
pub fn for_each<T: Send>(
    threads: Threads,
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let threads = threads.at_most(tasks.len()).count();
    let pool = if threads > 1 { pool() } else { None };
    let Some(pool) = pool else { return tasks.into_iter().try_for_each(work) };
    let queue = Mutex::new(tasks.into_iter());
    let result = Mutex::new(Ok(()));
    let worker = || {
        loop {
            let task = queue.lock().next();
            let Some(task) = task else { return };
            if let Err(error) = work(task) {
                *result.lock() = Err(error);
                // The others need not go on.
                queue.lock().by_ref().for_each(drop);
                return;
            }
        }
    };
    pool.in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| worker());
        }
        worker();
    });
    result.into_inner()
}

/// The results of `work` for every task, in the order of the tasks, made like [`for_each`].
pub fn map<T: Send, R: Send>(
    threads: Threads,
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut results: Vec<Option<R>> = tasks.iter().map(|_| None).collect();
    let places = tasks.into_iter().zip(&mut results).collect();
    for_each(threads, places, |(task, place)| {
        *place = Some(work(task)?);
        Ok(())
    })?;
    Ok(results.into_iter().flatten().collect())
}

/// `len` copies of `value`, written by as many of `threads` threads as pay: memory that a thread is
/// the first to touch costs more than a copy.
pub fn filled<T: Copy + Send + Sync>(threads: Threads, len: usize, value: T) -> Vec<T> {
    let mut items = Vec::with_capacity(len);
    let threads = threads_for(threads, len * size_of::<T>() / size_of::<u64>());
    let share = len.div_ceil(threads.count()).max(1);
    let parts = items.spare_capacity_mut()[..len].chunks_mut(share).collect();
    let filled = for_each(threads, parts, |part: &mut [MaybeUninit<T>]| {
        part.fill(MaybeUninit::new(value));
        Ok(())
    });
    if filled.is_ok() {
        // SAFETY: the capacity is `len` at least, and the parts are all of these items.
        unsafe { items.set_len(len) };
    }
    items.resize(len, value);
    items
}

/// Numbers written between two looks at the flag.
const CHECK_EVERY: usize = 1 << 16;

/// The places of `len` values that tasks of at least `least` places make.
pub fn ranges(threads: Threads, len: usize, least: usize) -> Vec<Range<usize>> {
    let share = steps_per_task(threads, len, least);
    (0..len).step_by(share).map(|start| start..len.min(start + share)).collect()
}

/// The values of the places `0..len`, of which each task writes at least `least`. `values` gives those of a
/// range of places, in their order.
///
/// # Errors
///
/// When the work is cancelled, and where a range has fewer values than places.
pub fn collect<T: Copy + Send, I: Iterator<Item = T>>(
    threads: Threads,
    len: usize,
    least: usize,
    cancel: &CancelFlag,
    values: impl Fn(Range<usize>) -> I + Sync,
) -> Result<Vec<T>> {
    let mut items = Vec::with_capacity(len);
    let places = items.spare_capacity_mut()[..len].chunks_mut(steps_per_task(threads, len, least));
    let tasks = ranges(threads, len, least).into_iter().zip(places).collect();
    for_each(threads, tasks, |(range, places): (_, &mut [MaybeUninit<T>])| {
        let mut values = values(range);
        for places in places.chunks_mut(CHECK_EVERY) {
            cancel.check()?;
            for place in places {
                let Some(value) = values.next() else {
                    return internal_err!("a place of a parallel loop has no value");
                };
                place.write(value);
            }
        }
        Ok(())
    })?;
    // SAFETY: the capacity is `len` at least, and the tasks wrote all of these items.
    unsafe { items.set_len(len) };
    Ok(items)
}

/// The values of all parts, one part behind the other, copied by as many of `threads` threads as pay.
///
/// # Errors
///
/// When the work is cancelled.
pub fn concat<T: Copy + Send + Sync>(
    threads: Threads,
    parts: &[impl AsRef<[T]>],
    cancel: &CancelFlag,
) -> Result<Vec<T>> {
    let len = parts.iter().map(|part| part.as_ref().len()).sum();
    let mut items = Vec::with_capacity(len);
    let mut rest = &mut items.spare_capacity_mut()[..len];
    let mut tasks = vec![];
    for part in parts.iter().flat_map(|part| part.as_ref().chunks(CHECK_EVERY)) {
        let (own, others) = rest.split_at_mut(part.len());
        tasks.push((part, own));
        rest = others;
    }
    for_each(threads_for(threads, len), tasks, |(part, own)| {
        cancel.check()?;
        own.write_copy_of_slice(part);
        Ok(())
    })?;
    // SAFETY: the capacity is `len` at least, and the tasks wrote all of these items.
    unsafe { items.set_len(len) };
    Ok(items)
}

/// Sorts `items`, equal ones in any order: threads partition them in two, then the parts.
///
/// # Errors
///
/// When the work is cancelled: then `items` are in any order.
pub fn sort_unstable_by<T: Copy + Send>(
    threads: Threads,
    items: &mut [T],
    cancel: &CancelFlag,
    compare: impl Fn(&T, &T) -> Ordering + Copy + Sync,
) -> Result<()> {
    /// The steps of sorting an item.
    const STEPS: usize = 1 << 4;
    let threads = threads_for(threads, STEPS * items.len());
    let most = match threads.count() {
        1 => items.len(),
        _ => steps_per_task(threads, items.len(), 1),
    };
    let (mut large, mut ready) = (vec![items], vec![]);
    while !large.is_empty() {
        ready.extend(large.extract_if(.., |part| part.len() <= most));
        let parts = map(threads, std::mem::take(&mut large), |part| {
            let (less, equal) = partition(part, cancel, compare)?;
            let (low, rest) = part.split_at_mut(less);
            Ok([low, &mut rest[equal..]])
        })?;
        large.extend(parts.into_iter().flatten());
    }
    for_each(threads, ready, |part| cancel::sort_unstable_by(part, cancel, compare))
}

/// The number of `steps` steps that a thread takes on at a time, so that the threads end together:
/// at least [`least`](Threads::least).
pub fn steps_per_task(threads: Threads, steps: usize, least: usize) -> usize {
    /// Tasks for each thread.
    const TASKS: usize = 4;
    match threads.count() {
        1 => steps.max(1),
        count => (steps / (TASKS * count)).max(threads.least(least)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::error::exec_err;

    #[test]
    fn all_copies_are_made() {
        for threads in [1, 3].map(Threads::small) {
            for len in [0, 1, 7, 1 << 12] {
                assert_eq!(filled(threads, len, 5_u32), vec![5; len]);
            }
        }
    }

    #[test]
    fn threads_collect_the_values_of_all_places() {
        let cancel = CancelFlag::default();
        for threads in [1, 2, 7].map(Threads::small) {
            for len in [0, 1, 63, 1000] {
                let squares = |range: Range<usize>| range.map(|i| i * i);
                let expected: Vec<usize> = squares(0..len).collect();
                assert_eq!(collect(threads, len, 10, &cancel, squares).unwrap(), expected);
                let parts = [0, len / 3, len / 3, len / 2, len].map(|end| expected[..end].to_vec());
                assert_eq!(concat(threads, &parts, &cancel).unwrap(), parts.concat());
            }
            let few = |range: Range<usize>| range.skip(1);
            assert!(collect(threads, 100, 10, &cancel, few).is_err());
        }
        drop(cancel.on_drop());
        assert!(collect(Threads::small(1), 1, 1, &cancel, |range| range).is_err());
    }

    #[test]
    fn threads_sort_like_one() {
        let cancel = CancelFlag::default();
        for (len, of) in [(0, 1), (1, 1), (500, 7), (3000, 2), (3000, 10_000)] {
            let items: Vec<usize> = (0..len).map(|i| i * 7919 % 10_007 % of).collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            for threads in [1, 2, 7].map(Threads::small) {
                let mut sorted = items.clone();
                sort_unstable_by(threads, &mut sorted, &cancel, usize::cmp).unwrap();
                assert_eq!(sorted, expected);
            }
        }
        drop(cancel.on_drop());
        assert!(sort_unstable_by(Threads::small(2), &mut [3, 1, 2], &cancel, i32::cmp).is_err());
    }

    #[test]
    fn every_task_is_done_once_and_errors_come_back() {
        for threads in [1, 2, 7].map(Threads::small) {
            let mut done = vec![0; 100];
            let sum = AtomicUsize::new(0);
            let tasks: Vec<(usize, &mut usize)> = done.iter_mut().enumerate().collect();
            for_each(threads, tasks, |(i, place)| {
                *place = i;
                sum.fetch_add(i, Relaxed);
                Ok(())
            })
            .unwrap();
            assert_eq!(done, (0..100).collect::<Vec<_>>());
            assert_eq!(sum.into_inner(), 4950);
            let squares = map(threads, (0..100).collect(), |i: usize| Ok(i * i)).unwrap();
            assert_eq!(squares, (0..100).map(|i| i * i).collect::<Vec<_>>());
            let result = for_each(threads, (0..50).collect(), |i: usize| match i {
                31 => exec_err!("thirty-one"),
                _ => Ok(()),
            });
            assert!(result.unwrap_err().to_string().contains("thirty-one"));
        }
    }
}
