//! The build side, which all partitions share once it is built.

pub(crate) mod parts;
pub(crate) mod schedule;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::memory_pool::MemoryReservation;
use tokio::sync::Notify;

use crate::engine::{Collection, KeyDictionary, PreparedJoin, ProbeEncoder};
use crate::exec::build_side::parts::Leftovers;
use crate::exec::build_side::schedule::{Ranges, SpareSlices};
use crate::exec::rows::payload::Payload;
use crate::exec::rows::ranks::{NonNullRows, Ranks};
use crate::exec::rows::visited::Visited;
use crate::tuning::Tuning;
use crate::util::forest::Forest;
use crate::util::parallel::Threads;

/// The rows of the build side, encoded; no strategy has been prepared for them yet.
#[derive(Debug)]
pub(crate) struct BuildRows {
    pub items: Arc<dyn Collection>,
    pub encoder: Arc<dyn ProbeEncoder>,
    pub key_ids: KeyDictionary,
    pub payload: Arc<Payload>,
    /// The bytes of a payload row on average.
    pub row_bytes: usize,
    /// Ranks of the compared column, for [`JoinLayout::row_order`].
    ///
    /// [`JoinLayout::row_order`]: crate::exec::layout::JoinLayout::row_order
    pub ranks: Option<Ranks>,
    /// For each column that is counted, `None` where every row counts.
    pub partners: Vec<Option<NonNullRows>>,
    /// The marks of items (or rows, by place) that have a match, where they are asked for.
    pub visited: Option<Visited>,
    /// The items that matches have connected, where the answer is what connects.
    pub connected: Option<Connected>,
    /// The bytes of all of it.
    pub held: usize,
}

/// The items that matches have connected.
#[derive(Debug)]
pub(crate) struct Connected {
    pub forest: Arc<Forest>,
    /// The items whose rows the output connects.
    pub given: Visited,
}

impl Connected {
    /// The bytes for `items` items.
    pub(crate) fn footprint(items: u32) -> usize {
        Forest::footprint(items) + Visited::footprint(items as usize)
    }

    pub(crate) fn new(items: u32) -> Self {
        Self { forest: Arc::new(Forest::new(items)), given: Visited::new(items as usize) }
    }
}

/// The build side, ready to be probed. It has the fields of its [`BuildRows`].
#[derive(Debug)]
pub(crate) struct BuildSide {
    rows: BuildRows,
    pub prepared: Arc<dyn PreparedJoin>,
    /// The partitions that probe it, and those of them that have not finished.
    pub partitions: usize,
    pub tuning: Tuning,
    unfinished: AtomicUsize,
    /// Workers that find no memory for a single row.
    pub shortage: Shortage,
    /// For self-joins: the probe items that no partition has taken.
    pub ranges: Ranges,
    /// For joins of two inputs: probe rows that no partition has taken.
    pub spare: SpareSlices,
    /// Parts of the probe side for which a partition found no memory.
    pub leftovers: Leftovers,
    /// The bytes that a partition keeps as long as it probes: its cursor, its scratch space, and a
    /// small batch.
    pub partition_bytes: usize,
    /// The memory of the rows and of the prepared join.
    reservation: MemoryReservation,
}

impl Deref for BuildSide {
    type Target = BuildRows;

    fn deref(&self) -> &BuildRows {
        &self.rows
    }
}

impl BuildSide {
    /// A build side that `partitions` partitions will probe, in `ranges` if it is both sides. Each
    /// keeps `partition_bytes`.
    pub(crate) fn new(
        rows: BuildRows,
        prepared: Arc<dyn PreparedJoin>,
        ranges: Ranges,
        (partitions, partition_bytes): (Threads, usize),
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            rows,
            prepared,
            partitions: partitions.count(),
            tuning: partitions.tuning,
            unfinished: AtomicUsize::new(partitions.count()),
            shortage: Shortage::default(),
            ranges,
            spare: SpareSlices::default(),
            leftovers: Leftovers::new(partitions.count()),
            partition_bytes,
            reservation,
        }
    }

    /// The rows, with the reservation for them alone.
    pub(crate) fn into_rows(self) -> (BuildRows, MemoryReservation) {
        let Self { rows, prepared, reservation, .. } = self;
        drop(prepared);
        reservation.resize(rows.held);
        (rows, reservation)
    }

    /// Whether all workers that have not finished wait for memory.
    pub(crate) fn all_are_short(&self) -> bool {
        self.shortage.short.load(Ordering::Acquire) >= self.unfinished.load(Ordering::Acquire)
    }

    /// Whether one partition alone has not finished.
    pub(crate) fn has_one_partition_left(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) <= 1
    }

    /// Notes that a probe partition has seen all its rows. Returns whether it was the last
    /// partition.
    pub(crate) fn finish_partition(&self) -> bool {
        self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// The wait of the workers that probe a build side for each other's memory.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    /// The number of workers that wait. They hold no batch.
    pub short: AtomicUsize,
    /// A worker has given memory back.
    pub freed: Notify,
    /// One waiting worker at a time tries again.
    pub permit: tokio::sync::Mutex<()>,
}
