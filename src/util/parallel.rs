//! Work on several threads inside one blocking task.

use std::convert::Infallible;
use std::mem::MaybeUninit;

use datafusion::common::Result;
use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::per_process::PerProcess;

/// Steps (tokens, sets) for which another thread is worth waking. Tests want many.
const STEPS_PER_THREAD: usize = if cfg!(test) { 1 << 6 } else { 1 << 14 };

/// Threads that wait for work, one for each core: starting threads takes longer than the shorter
/// phases of a join. `None` where the system gives no threads.
static POOL: PerProcess<Option<ThreadPool>> = PerProcess::new();

fn pool() -> Option<&'static ThreadPool> {
    let pool =
        || ThreadPoolBuilder::new().thread_name(|number| format!("simjoin-{number}")).build();
    let pool = POOL.get_or_try_make(|| Ok::<_, Infallible>(pool().ok()));
    pool.unwrap_or_else(|never| match never {}).as_ref()
}

/// How many of `threads` threads pay for this many steps.
pub(crate) fn threads_for(threads: usize, steps: usize) -> usize {
    threads.min(steps / STEPS_PER_THREAD).max(1)
}

/// Does `work` for every task on up to `threads` threads, this one among them, which take one after
/// the other. The first error ends the work, and is returned.
pub(crate) fn for_each<T: Send>(
    threads: usize,
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let threads = threads.min(tasks.len());
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
pub(crate) fn map<T: Send, R: Send>(
    threads: usize,
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
pub(crate) fn filled<T: Copy + Send + Sync>(threads: usize, len: usize, value: T) -> Vec<T> {
    let mut items = Vec::with_capacity(len);
    let threads = threads_for(threads, len * size_of::<T>() / size_of::<u64>());
    let share = len.div_ceil(threads).max(1);
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

/// How many of `steps` steps a thread takes on at a time, so that the threads end together: at
/// least `least`.
pub(crate) fn steps_per_task(threads: usize, steps: usize, least: usize) -> usize {
    /// Tasks for each thread.
    const TASKS: usize = 4;
    if threads <= 1 { steps.max(1) } else { (steps / (TASKS * threads)).max(least) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::common::exec_err;

    use super::*;

    #[test]
    fn all_copies_are_made() {
        for threads in [1, 3] {
            for len in [0, 1, 7, 1 << 12] {
                assert_eq!(filled(threads, len, 5_u32), vec![5; len]);
            }
        }
    }

    #[test]
    fn every_task_is_done_once_and_errors_come_back() {
        for threads in [1, 2, 7] {
            let mut done = vec![0; 100];
            let sum = AtomicUsize::new(0);
            let tasks: Vec<(usize, &mut usize)> = done.iter_mut().enumerate().collect();
            for_each(threads, tasks, |(i, place)| {
                *place = i;
                sum.fetch_add(i, Ordering::Relaxed);
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
