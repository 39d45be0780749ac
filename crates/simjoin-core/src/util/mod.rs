//! Helpers that know nothing of joins: cancellation, values beside a collection, threads and the numbers that they share and sort,
//! samples, disjoint sets, checksums, times of short runs.

pub mod attached;
pub mod buffers;
pub mod cancel;
pub mod checksum;
pub mod counters;
pub(crate) mod counting_sort;
pub mod evenly;
pub mod fastest;
pub mod forest;
pub mod parallel;
pub mod per_process;
pub mod scatter;
pub mod size;
pub mod unpack;
