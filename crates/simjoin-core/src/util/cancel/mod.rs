//! Cancellation of work that runs outside a poll.

mod sort;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Result, exec_err};
pub(super) use sort::partition;
pub use sort::{select_nth_unstable_by, sort_unstable_by, sort_unstable_by_key};

/// Steps between two looks at the flag, in loops that do little in each: a fraction of a
/// millisecond.
const STEPS: usize = 1 << 16;

/// Tells long loops on other threads that their query was dropped.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Cancels the work of everyone who has this flag or a clone of it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once the work has been cancelled. Cheap enough for every few thousand steps.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return exec_err!("the similarity join was cancelled");
        }
        Ok(())
    }

    /// Looks at the flag in some steps of a loop that counts them.
    #[inline]
    pub fn check_at(&self, step: usize) -> Result<()> {
        if step.is_multiple_of(STEPS) { self.check() } else { Ok(()) }
    }

    /// A guard that cancels the work when it is dropped.
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// Cancels the work of a [`CancelFlag`] when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_guard_cancels() {
        let flag = CancelFlag::default();
        let guard = flag.on_drop();
        assert!(flag.check().is_ok());
        drop(guard);
        assert!(flag.check().is_err());
    }
}
