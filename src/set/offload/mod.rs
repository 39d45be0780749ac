//! Joins that run wholly on devices: what signature tiles and filters by inverted index share.
//!
//! A [`DeviceFilter`] cuts the probe sets of a unit into jobs. A job is one work of a device, and
//! gives matches or their counts, and what it has left: the parts of it that found no room.
//!
//! ```text
//! cursor                              device (queue shared by all partitions)
//! unit ─► plan ─► jobs ─► submit ───► filter ─► decide ─► matches, what is left ─┐
//!                  ▲                                                             │
//!                  ├── what is left ◄──────────────────── inbox ◄────────────────┘
//!                  ├── smaller jobs ◄── too little memory ─┤
//!                  └── other device ◄── failure ───────────┤
//!   match buffer ◄─── deliveries ◄──── redo on the CPU ◄───┘ no device is left
//! ```
//!
//! The join on the CPU is prepared by a thread of its own, once it is needed ([`OnCpu`]).

mod cursor;
mod inbox;
mod late;
mod memory;
mod redo;
#[cfg(all(test, feature = "cuda"))]
mod tests;
mod unit;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use self::cursor::OffloadCursor;
pub(in crate::set) use self::inbox::Ticket;
pub(in crate::set) use self::late::OnCpu;
pub(in crate::set) use self::memory::{
    ALIGNMENT, Layout, TravelPlaces, TravellingSets, bytes_of, fetch,
};
pub(in crate::set) use self::unit::OpenUnit;
use crate::engine::{Cursor, Match, MatchNeed, PreparedJoin};
use crate::gpu::{DeviceWork, Usage};
use crate::set::device::abi::Found;
use crate::set::{DeviceJoin, JoinSpec, SetCollection, SetId, SetUnit};

/// A filter that runs wholly on the devices of a join, which decide its candidates too.
pub(in crate::set) trait DeviceFilter: Debug + Send + Sync + 'static {
    /// A work of a device.
    type Job: Debug + Send + 'static;
    /// What a device has left of a job.
    type Left: Debug + Send + 'static;
    /// What a cursor keeps from plan to plan.
    type Scratch: Default + Send;
    /// Which matches a job that no device has done would have given.
    type Undecided: Undecided;

    /// The sets that are to be planned for a range of probe sets.
    fn rows_of(&self, sets: Range<SetId>) -> Range<SetId>;

    /// The jobs for the first of the sets that are left of a unit. May give none while sets are left.
    ///
    /// # Errors
    ///
    /// Where memory for the plan is refused.
    fn plan(
        &self,
        scratch: &mut Self::Scratch,
        unit: &SetUnit,
        left: &mut Range<SetId>,
        reservation: &MemoryReservation,
    ) -> Result<Vec<Self::Job>>;

    /// Whether a device of the join, by its place, has what the works need.
    fn is_on(&self, place: usize) -> bool;

    /// The work of a job for such a device. Its answer goes to the ticket.
    fn work(&self, place: usize, job: Self::Job, ticket: TicketOf<Self>) -> Box<dyn DeviceWork>;

    /// The jobs for what is left of one, without probe sets that need no further match.
    fn again(&self, job: &Self::Job, left: Self::Left, unit: Option<&OpenUnit>) -> Vec<Self::Job>;

    /// Jobs that do the same in less memory of the device each; `None` where there are none.
    fn smaller(&self, job: &Self::Job) -> Option<Vec<Self::Job>>;

    /// What the CPU has to do for a job.
    fn undecided(&self, job: &Self::Job) -> Self::Undecided;

    /// The most matches that a work gives.
    fn most_matches(&self) -> u64;

    /// See [`PreparedJoin::range_unit`].
    fn range_unit(&self) -> u32;

    /// See [`PreparedJoin::least_range`].
    fn least_range(&self) -> u32;
}

/// A job that no device has done.
pub(in crate::set) trait Undecided: Send {
    /// The collection of the probe sets; `None`: the build sets.
    fn collection(&self) -> Option<Arc<SetCollection>>;

    /// The probe sets.
    fn probes(&self) -> Range<SetId>;

    /// Whether a match of theirs, as the CPU gives it, is one of the job's.
    fn holds(&self, found: &Match) -> bool;
}

/// The reply to a job of a filter.
pub(in crate::set) type TicketOf<F> = Ticket<<F as DeviceFilter>::Job, <F as DeviceFilter>::Left>;

/// What a device has done of a job.
#[derive(Debug, Default)]
pub(in crate::set) struct Outcome<L> {
    pub found: Found,
    pub matches: Vec<Match>,
    pub left: L,
    pub figures: Figures,
    pub usage: Usage,
}

/// What became of the pairs of a job, for the funnel.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::set) struct Figures {
    /// The kernel of the filter.
    pub kernel: &'static str,
    /// Pairs tested, or postings read.
    pub tested: u64,
    /// Pairs that passed the test of the filter, and those that passed every test.
    pub passed: u64,
    pub candidates: u64,
    /// Pairs whose tokens were compared.
    pub compared: u64,
}

/// What the cursors of a join share.
#[derive(Debug)]
pub(in crate::set) struct Offload<F> {
    pub build: Arc<SetCollection>,
    pub spec: JoinSpec,
    pub join: Arc<DeviceJoin>,
    pub filter: F,
    /// Does what devices fail to do.
    pub on_cpu: OnCpu,
}

impl<F> Offload<F> {
    /// Whether devices count matches in place of giving them.
    fn counts(&self) -> bool {
        self.spec.need == MatchNeed::Count
    }
}

/// A prepared join that runs wholly on devices.
#[derive(Debug)]
pub(in crate::set) struct PreparedOffload<F>(Arc<Offload<F>>);

impl<F: DeviceFilter> PreparedOffload<F> {
    pub(in crate::set) fn new(join: Offload<F>) -> Self {
        Self(Arc::new(join))
    }
}

impl<F: DeviceFilter> PreparedJoin for PreparedOffload<F> {
    fn open(&self, reservation: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let cursor = OffloadCursor::new(&self.0, reservation);
        let reserved = cursor.try_reserve();
        let has_room = |()| match self.0.join.demanded {
            true => Ok(()),
            // The rows of probe batches need memory, too.
            false => leaves_room(reservation, cursor.reserved()),
        };
        match reserved.and_then(has_room) {
            Ok(()) => Ok(Box::new(cursor)),
            Err(error) if self.0.join.demanded => Err(error),
            Err(error) => {
                drop(cursor);
                self.0.join.note_refusal(&error);
                Ok(Box::new(self.0.on_cpu.open(reservation)?))
            }
        }
    }

    fn range_unit(&self) -> u32 {
        self.0.filter.range_unit()
    }

    fn least_range(&self) -> u32 {
        self.0.filter.least_range()
    }
}

/// Fails unless the pool has as much memory left as has been `taken`.
fn leaves_room(reservation: &MemoryReservation, taken: usize) -> Result<()> {
    reservation.new_empty().try_grow(taken)
}
