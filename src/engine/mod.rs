//! How matching sets are found: the boundary between the operator and its algorithms.
//!
//! The operator knows [`JoinStrategy`], [`PreparedJoin`] and [`MatchCursor`] only. They see
//! distinct sets, never rows: join types, residual filters, scores and the expansion of sets to
//! rows lie above. A strategy may produce candidates and verify them ([`FilterVerify`](crate::set::FilterVerify)), decide
//! pairs at once, or run wholly on a device.

pub(crate) mod choose;
pub(crate) mod kernel_times;
pub(crate) mod keys;

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::config::GpuOptions;
use crate::set::{Bounds, Role};
use crate::set::{CandidateChunk, DeviceJoin, Statistics, Verification};
use crate::set::{SetCollection, SetId};
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;

pub use choose::{Choice, choose};
pub use kernel_times::KernelTimes;
pub use keys::{KeyConverter, KeyDictionary, KeyRows, Keys};

/// Which pairs of sets a join looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Every probe set with every build set.
    All,
    /// The probe sets are the build sets, the measure is symmetric: every set with itself and
    /// with those before it in some order, so that each unordered pair is decided once. Either
    /// set of a pair may be given as the probe; [`MatchNeed::Exists`] has no meaning here.
    Unordered,
}

/// What the operator needs to know of the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchNeed {
    /// Whether a probe set has a match: one match for each probe set will do.
    Exists,
    /// How many pairs of rows match: matches as for [`MatchNeed::Pairs`], or, where that is
    /// cheaper, their [`RowPairCounts`].
    Count,
    /// Every matching pair; the overlap may be any lower bound that qualifies.
    Pairs,
    /// Every matching pair with its exact overlap.
    PairsWithOverlap,
}

/// The similarity join of two set collections.
#[derive(Debug, Clone, Copy)]
pub struct JoinSpec {
    pub bounds: Bounds,
    /// Which argument of the measure the probe sets are.
    pub probe_role: Role,
    pub pairing: Pairing,
    pub need: MatchNeed,
    /// At most this many candidates wait for verification.
    pub candidate_chunk: usize,
    /// The form of the vector kernels.
    pub simd: Simd,
    /// How a GPU is used, where one is.
    pub gpu: GpuOptions,
}

impl JoinSpec {
    /// About the bytes that the greediest strategy reserves when it prepares a join of so many
    /// build sets with so many tokens, and keeps.
    pub fn prepared_bytes(&self, sets: usize, tokens: usize) -> usize {
        /// Of a posting with a signature.
        const POSTING: usize = 24;
        /// Of a set in blocks of signatures of 512 bits, with what is held while they are made.
        const SIGNED_SET: usize = 2 * 64 + 40;
        let size = (tokens / sets.max(1)).clamp(1, 1 << 16) as u32;
        let least = self.bounds.size_range(self.probe_role, size).map_or(size, |range| range.0);
        let prefix = self.bounds.prefix_len(self.probe_role.other(), size, least).max(1);
        let postings = tokens / size as usize * prefix as usize;
        (postings * POSTING).max(sets * SIGNED_SET)
    }

    /// About the bytes that a cursor and its buffers reserve, with a match buffer of
    /// `match_buffer` pairs, besides what grows with the build side.
    pub fn cursor_bytes(&self, match_buffer: usize) -> usize {
        let matches = MatchBuffer::new(match_buffer).footprint();
        matches + CandidateChunk::footprint(self.candidate_chunk) + (256 << 10)
    }
}

/// What preparing a join may use.
#[derive(Debug, Clone, Copy)]
pub struct PrepareContext<'a> {
    /// Grown by what the prepared join allocates.
    pub reservation: &'a MemoryReservation,
    pub cancel: &'a CancelFlag,
    /// How many threads may work on it at once, at least 1.
    pub threads: usize,
    /// Where candidates are verified, if not on the CPU.
    pub device: Option<&'a Arc<DeviceJoin>>,
}

impl PrepareContext<'_> {
    pub(crate) fn verification(&self) -> Verification {
        match self.device {
            Some(_) => Verification::Device,
            None => Verification::Cpu,
        }
    }
}

/// An estimate of work, in nanoseconds of one core.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Cost(pub f64);

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            nanos if nanos < 1e6 => write!(f, "{:.0} µs", nanos / 1e3),
            nanos if nanos < 1e9 => write!(f, "{:.1} ms", nanos / 1e6),
            nanos => write!(f, "{:.1} s", nanos / 1e9),
        }
    }
}

/// An algorithm.
pub trait JoinStrategy: Debug + Send + Sync {
    /// The name in options and EXPLAIN.
    fn name(&self) -> &'static str;

    /// What a join of a build collection with these figures would cost.
    fn estimate(&self, statistics: &Statistics, spec: &JoinSpec) -> Cost;

    /// Builds what all probe partitions share (an index, signatures, a device copy).
    fn prepare(
        &self,
        build: Arc<SetCollection>,
        spec: JoinSpec,
        statistics: &Statistics,
        context: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>>;
}

/// A build side ready to be probed by any number of partitions.
pub trait PreparedJoin: Debug + Send + Sync {
    /// A cursor for one partition. `reservation`, which outlives the cursor, is grown by what the
    /// cursor allocates.
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn MatchCursor>>;

    /// How many sets of a self-join are best probed together, at least 1: where there are plenty,
    /// ranges of probe sets start at a multiple of it. A hint, never a promise.
    fn range_unit(&self) -> u32 {
        1
    }
}

/// A range of probe sets.
#[derive(Debug, Clone)]
pub struct ProbeSets {
    pub sets: Arc<SetCollection>,
    pub range: Range<SetId>,
}

/// A pair of similar sets. Kernels write it too (`Match` in `kernels/abi.cuh`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Match {
    pub probe: SetId,
    pub build: SetId,
    /// Exact if the spec needs it, otherwise a lower bound that qualifies.
    pub overlap: u32,
}

/// Pairs of rows behind matches that were counted without being given ([`MatchNeed::Count`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowPairCounts {
    /// Of matches of two sets: the sum of the products of their row counts.
    pub cross: u64,
    /// Of matches of a set with itself, where each unordered pair is decided once: the sum of the
    /// squares of its row count.
    pub squares: u64,
    /// The sum of that row count.
    pub rows: u64,
}

/// Matches on their way to the operator, never more than its capacity.
#[derive(Debug)]
pub struct MatchBuffer {
    matches: Vec<Match>,
    capacity: usize,
    counts: RowPairCounts,
}

impl MatchBuffer {
    /// A buffer for `capacity` matches (at least one).
    pub fn new(capacity: usize) -> Self {
        Self { matches: vec![], capacity: capacity.max(1), counts: RowPairCounts::default() }
    }

    pub fn is_full(&self) -> bool {
        self.matches.len() >= self.capacity
    }

    pub fn is_empty(&self) -> bool {
        self.matches.is_empty() && self.counts == RowPairCounts::default()
    }

    /// Adds a match; the caller has looked at [`Self::is_full`].
    #[inline]
    pub fn push(&mut self, found: Match) {
        debug_assert!(!self.is_full());
        self.matches.push(found);
    }

    /// Adds as many matches as there is room for; gives their number.
    pub fn extend(&mut self, found: &[Match]) -> usize {
        let count = found.len().min(self.capacity - self.matches.len());
        self.matches.extend_from_slice(&found[..count]);
        count
    }

    /// Adds matches that are counted only.
    pub fn count(&mut self, counts: RowPairCounts) {
        self.counts.cross += counts.cross;
        self.counts.squares += counts.squares;
        self.counts.rows += counts.rows;
    }

    pub fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// What was counted besides.
    pub fn counts(&self) -> RowPairCounts {
        self.counts
    }

    pub fn clear(&mut self) {
        self.matches.clear();
        self.counts = RowPairCounts::default();
    }

    /// The bytes that a full buffer takes.
    pub fn footprint(&self) -> usize {
        // A growing vector doubles.
        self.capacity.next_power_of_two() * size_of::<Match>()
    }
}

/// How far a cursor came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The match buffer is full; there is more.
    Full,
    /// The time slice is used up; there is more.
    Yield,
    /// All matches of the probe sets have been given.
    Done,
}

/// The work done so far, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Funnel {
    /// Posting entries looked at.
    pub postings: u64,
    /// Distinct pairs that share a prefix token and have admissible sizes.
    pub prefix_pairs: u64,
    /// Pairs that passed all filters.
    pub candidates: u64,
    /// Candidates whose overlap was computed.
    pub verified: u64,
    /// Pairs of sets that match.
    pub matches: u64,
    pub filter_nanos: u64,
    pub verify_nanos: u64,
    pub device: DeviceFunnel,
}

/// The part of the work that a GPU did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceFunnel {
    pub chunks: u64,
    pub candidates: u64,
    pub bytes_to: u64,
    pub bytes_from: u64,
    pub kernels: KernelTimes,
    pub copy_nanos: u64,
    /// Time that the filter waited for the device.
    pub wait_nanos: u64,
    /// Time that the device waited for candidates.
    pub idle_nanos: u64,
    /// Chunks that failed on the device and were verified on the CPU.
    pub failed_chunks: u64,
}

/// Gives the matches of probe sets, a bounded buffer at a time.
pub trait MatchCursor: Send {
    /// Starts with other probe sets; what was left of the former ones is dropped, but for late
    /// matches.
    fn start(&mut self, probe: ProbeSets) -> Result<()>;

    /// Whether [`Progress::Done`] may be said while matches are still on their way: they are given
    /// with those of later probe sets of the same collection, the last ones after a start (of an
    /// empty range, say) with which this is forbidden again. Set before [`MatchCursor::start`];
    /// forbidden at first.
    fn allow_late_matches(&mut self, _allowed: bool) {}

    /// Adds matches to the buffer, in any order, working 10 ms at most. `Pending` means that a
    /// device works and will wake the task.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        matches: &mut MatchBuffer,
    ) -> Poll<Result<Progress>>;

    /// No further match of this probe set is needed. More may still come.
    fn retire(&mut self, probe: SetId);

    /// The work done since the cursor was opened.
    fn funnel(&self) -> Funnel;
}
