//! Helpers that know nothing of joins: cancellation, threads, futures that are shared.

pub(crate) mod cancel;
pub(crate) mod once;
pub(crate) mod parallel;
