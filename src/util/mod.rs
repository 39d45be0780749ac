//! Helpers that know nothing of joins: cancellation, kinds of errors, threads and the numbers that they
//! share and sort, samples, shared futures, disjoint sets, checksums, the bytes of rows, streams as a
//! plan, times of short runs.

pub(crate) mod buffers;
pub(crate) mod cancel;
pub(crate) mod checksum;
pub(crate) mod counters;
pub(crate) mod counting_sort;
pub(crate) mod errors;
pub(crate) mod evenly;
pub(crate) mod fastest;
pub(crate) mod forest;
pub(crate) mod once;
pub(crate) mod one_input;
pub(crate) mod parallel;
pub(crate) mod per_process;
pub(crate) mod row_bytes;
pub(crate) mod scatter;
pub(crate) mod streams;
