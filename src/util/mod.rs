//! Helpers that know nothing of joins: cancellation, threads, futures that are shared.

pub mod cancel;
pub(crate) mod once;
pub(crate) mod parallel;
