//! Helpers that know nothing of joins: cancellation, threads, shared futures.

pub(crate) mod cancel;
pub(crate) mod once;
pub(crate) mod parallel;
