//! Small sizes for tests.
//!
//! Searches and strategies begin to pay at sizes that take tests too long. The tests of this crate, and those
//! of crates above it that ask for it, reach every part with few rows. Answers do not depend on it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static SMALL: AtomicBool = AtomicBool::new(false);

/// Lets this process take parts for few rows, too, that pay for many.
pub fn for_tests() {
    SMALL.store(true, Relaxed);
}

/// A size: `small` for tests.
pub(crate) fn small_or(small: usize, usual: usize) -> usize {
    if is_for_tests() { small } else { usual }
}

/// Whether parts are taken for few rows, too.
pub fn is_for_tests() -> bool {
    cfg!(test) || SMALL.load(Relaxed)
}
