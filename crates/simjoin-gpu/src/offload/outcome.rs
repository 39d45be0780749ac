//! The outcome of a job on a device.

use crate::engine::{Match, RowPairCounts};
use crate::runtime::Usage;

/// The part of a job that a device has done.
#[derive(Debug, Default)]
pub struct Outcome<L> {
    pub counted: Counted,
    pub matches: Vec<Match>,
    /// Pairs that the host has to decide; they are not counted.
    pub undecided: Vec<Match>,
    pub left: L,
    pub counters: JobCounters,
    pub usage: Usage,
}

/// Matches that a device has counted without giving them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// Pairs of items.
    pub matches: u64,
    pub rows: RowPairCounts,
}

/// The numbers of pairs of a job, for the funnel.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobCounters {
    /// The kernel of the filter.
    pub kernel: &'static str,
    /// Pairs tested, or postings read.
    pub tested: u64,
    /// Pairs that passed the test of the filter, and those that passed every test.
    pub passed: u64,
    pub candidates: u64,
    /// Pairs whose items were compared.
    pub compared: u64,
}
