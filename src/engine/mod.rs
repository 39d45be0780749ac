//! The boundary between the operator and the algorithms that find similar items.
//!
//! A [`Family`] (sets of tokens, vectors) makes *items* of rows: distinct values with the rows that
//! hold them ([`RowGroups`]). Its [`Matcher`] encodes the rows of a join; its [`Strategy`]s find
//! matching items. The operator knows [`PreparedJoin`] and [`MatchCursor`] of them, and never an
//! item's content; strategies never see a row. An [`Axis`] says which rows may match from afar: it
//! serves the pieces of a join from disk and the tiles of a cluster. [`choose`] ranks strategies
//! and their placements.

mod axis;
mod choose;
mod collection;
mod family;
mod keys;
mod row_groups;
mod stored;
mod strategy;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::gpu::Layout;
use crate::set::{SetCollection, SetId};

pub use axis::{Axis, PlaceReader, RowPlace};
pub use choose::{Choice, admitted, choose};
pub use collection::{
    BuildEncoder, Collection, EncodeInput, Encoded, EncodedPart, FinishContext, Growth,
    ProbeEncoder, Scratch,
};
pub use family::{Families, Family, ItemPair, Matcher};
pub use keys::{KeyConverter, KeyDictionary, KeyId, KeyRows, Keys};
pub use row_groups::{ItemId, RowGroups};
pub use stored::{Domain, StoredForm, StoredRows, Unload};
pub use strategy::{
    Cost, DevicePlace, DeviceRequest, Evidence, MatchNeed, MatchSpec, Pairing, Placement,
    PrepareContext, Strategy, WorkStep,
};

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
    /// Time in kernels, by [`Layout::family`].
    pub kernel_nanos: [u64; Layout::FAMILIES.len()],
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
