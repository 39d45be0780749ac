//! Values of which each process makes its own, such as threads: a child of `fork` has none of its
//! parent's.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that the process makes when it first asks for it. No value is ever freed: its threads may
/// run until the process ends, and in a child there is nothing of it to free.
pub struct PerProcess<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    /// The number of the process that made the value.
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value of this process, which `make` makes if there is none yet.
    ///
    /// # Errors
    ///
    /// The error of `make`.
    pub fn get_or_try_make<E>(
        &'static self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&'static T, E> {
        let process = std::process::id();
        let known = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer is null or that of a value that is never freed.
        if let Some(known) = unsafe { known.as_ref() }.filter(|known| known.process == process) {
            return Ok(&known.value);
        }
        let made = Box::into_raw(Box::new(Made { process, value: make()? }));
        match self.0.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => Ok(unsafe { &(*made).value }),
            Err(first) => {
                // SAFETY: another thread of this process was first, so that nobody else has `made`;
                // its value is never freed.
                unsafe {
                    drop(Box::from_raw(made));
                    Ok(&(*first).value)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_process_share_the_first_value() {
        static VALUE: PerProcess<usize> = PerProcess::new();
        assert_eq!(VALUE.get_or_try_make(|| Err("none yet")), Err("none yet"));
        let found: Vec<&usize> = std::thread::scope(|scope| {
            let make = |n: usize| move || VALUE.get_or_try_make(|| Ok::<_, ()>(n)).unwrap();
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(make(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|value| std::ptr::eq(*value, found[0])));
    }
}
