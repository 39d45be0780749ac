//! Helpers that know nothing of joins: cancellation, threads, shared futures.

pub mod cancel;
pub(crate) mod once;
pub(crate) mod parallel;
