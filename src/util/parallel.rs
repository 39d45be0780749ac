//! Work on several threads inside one blocking task.

use std::panic::resume_unwind;
use std::thread;

use datafusion::common::Result;
use parking_lot::Mutex;

/// Steps (tokens, sets) for which another thread is worth starting. Tests want many.
const STEPS_PER_THREAD: usize = if cfg!(test) { 1 << 6 } else { 1 << 16 };

/// How many of `threads` threads pay for this many steps.
pub(crate) fn threads_for(threads: usize, steps: usize) -> usize {
    threads.min(steps / STEPS_PER_THREAD).max(1)
}

/// Does `work` for every task on up to `threads` threads, which take one after the other. The
/// first error of each thread ends its share; one of these errors is returned.
pub(crate) fn for_each<T: Send>(
    threads: usize,
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let threads = threads.min(tasks.len());
    if threads <= 1 {
        return tasks.into_iter().try_for_each(work);
    }
    let queue = Mutex::new(tasks.into_iter());
    let worker = || {
        loop {
            let task = queue.lock().next();
            match task {
                Some(task) => work(task)?,
                None => return Ok(()),
            }
        }
    };
    thread::scope(|scope| {
        // Where no thread can be had, the others do the work.
        let others: Vec<_> = (1..threads)
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, worker).ok())
            .collect();
        let mut result = worker();
        for other in others {
            match other.join() {
                Ok(others) => result = result.and(others),
                Err(panic) => resume_unwind(panic),
            }
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::common::exec_err;

    use super::*;

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
            let result = for_each(threads, (0..50).collect(), |i: usize| match i {
                31 => exec_err!("thirty-one"),
                _ => Ok(()),
            });
            assert!(result.unwrap_err().to_string().contains("thirty-one"));
        }
    }
}
