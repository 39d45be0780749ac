//! The boundary between the operator and the algorithms that find similar items.
//!
//! A [`Family`] (sets of tokens, vectors) makes *items* of rows: distinct values with the rows that
//! hold them ([`RowGroups`]). Its [`Matcher`] encodes the rows of a join (a [`RowMatcher`] encodes rows that
//! have one value each); its [`Strategy`]s find
//! matching items. The operator knows [`PreparedJoin`] and [`Cursor`] of them, and never an
//! item's content; strategies never see a row. An [`Axis`] says which rows may match from afar: it
//! serves the pieces of a join from disk and the tiles of a cluster. [`choose`] ranks strategies
//! and their placements.

mod any;
mod axis;
mod choose;
mod collection;
mod connections;
mod cursor;
mod distinct;
mod family;
mod kernel_times;
mod keys;
mod lookup;
mod matcher;
mod neighbours;
mod options;
mod places;
pub(crate) mod probing;
mod repeats;
mod row_encoder;
mod row_forms;
mod row_groups;
mod rows;
mod stored;
mod strategy;
mod worker;

use std::fmt::Debug;

use crate::error::Result;
use crate::memory::Memory;

pub use any::AnyMatcher;
pub use axis::PlaceReader;
pub use axis::{ANYWHERE, Axis, RowPlace};
pub use choose::{AnyChoice, Chosen};
pub use collection::collection;
pub use collection::{BuildEncoder, Encoded, EncodedPart, Growth, ProbeEncoder, Scratch};
pub use collection::{Collection, EncodeInput, FinishContext};
pub use connections::Connections;
pub use cursor::UnitQueue;
pub use cursor::{Cursor, MatchOrder, MatchRun, RowPairCounts};
pub use cursor::{ItemBounds, Match, MatchBuffer, ProbeUnit, Progress, Unit};
pub use distinct::Distinct;
pub use family::check_arguments;
pub use family::{Argument, Family, Origin};
pub use kernel_times::KernelTimes;
pub use keys::KeyDictionary;
pub use keys::{KeyConverter, KeyId, KeyRows, Keys};
pub use lookup::{Lookup, lookup_cursor};
pub use matcher::ItemPair;
pub use matcher::{Encoding, Matcher};
pub use neighbours::{ArgumentBatches, NeighbourRequest, NeighbourSide, PairCondition};
pub use neighbours::{NeighbourSearch, Neighbours, Round, Way, neighbours};
pub use options::listed;
pub use options::{DeviceChoice, GpuOptions, LayoutChoice, Ordinals, StrategyName};
pub use places::Place;
pub(crate) use places::places_by_row;
pub use repeats::ItemRows;
pub(crate) use row_encoder::{RowEncoder, RowMatcher};
pub use row_forms::RowPlaces;
pub use row_groups::{ItemId, RowGroups};
pub use rows::{Gathering, InputRow, ReadRows, RowContent, RowValues};
pub use stored::{Domain, StoredForm, StoredRows, Unload};
pub use strategy::{
    Cost, DeviceOpener, DevicePlace, Estimate, Nanos, Probes, SAMPLE_SHARE, StartTimes, Terms,
    WorkStep, required_place,
};
pub use strategy::{
    DeviceRequest, MatchNeed, MatchSpec, NearestPartners, Orders, Pairing, Placement,
    PrepareContext, ProbeRows, Strategy, StrategyInfo,
};
pub use worker::WorkerProgress;
pub use worker::{UnitCursor, Worker};

/// A build side ready to be probed by any number of partitions.
pub trait PreparedJoin: Debug + Send + Sync {
    /// A cursor for one partition. `reservation`, which outlives the cursor, is grown by what the
    /// cursor allocates.
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>>;

    /// The number of items of a self-join that are best probed together, at least 1: where there
    /// are plenty, ranges of probe items start at a multiple of it. A hint, never a promise.
    fn range_unit(&self) -> u32 {
        1
    }

    /// The most rows of another input that one partition should take at once, at least 1: as many as
    /// take some milliseconds, so that few rows are work for all partitions. A hint, too.
    fn probe_rows(&self) -> usize {
        usize::MAX
    }

    /// The fewest rows of another input that one partition should take at once, at least 1: for devices, as
    /// [`least_range`](Self::least_range). A hint, too.
    fn least_probe_rows(&self) -> usize {
        1
    }

    /// The fewest items of a self-join that are worth a range, at least 1, even where some partitions
    /// then get none: for devices, which all partitions share. A hint, too.
    fn least_range(&self) -> u32 {
        1
    }
}

/// The work done so far, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Funnel {
    /// Posting entries looked at.
    pub postings: u64,
    /// Distinct pairs that an index gives.
    pub prefix_pairs: u64,
    /// Pairs that passed all filters.
    pub candidates: u64,
    /// Candidates that were compared.
    pub verified: u64,
    /// Pairs of items that match.
    pub matches: u64,
    /// Nanoseconds of filtering.
    pub filter_nanos: u64,
    /// Nanoseconds of verification on the processor.
    pub verify_nanos: u64,
    /// The part of the work that a GPU did.
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
