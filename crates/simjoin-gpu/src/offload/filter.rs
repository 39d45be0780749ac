//! Filters that run wholly on devices.

use std::convert::Infallible;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Collection, Funnel, ItemId, Match, MatchBuffer, MatchOrder, ProbeUnit, Unit};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::inbox::Ticket;
use crate::offload::unit::OpenUnit;
use crate::runtime::DeviceWork;

/// A filter that runs wholly on the devices of a join, which decide its candidates too.
pub trait DeviceFilter: Debug + Send + Sync + 'static {
    /// The probe items.
    type Items: Collection;
    /// The matches of the items of a unit with themselves, where no device looks for them.
    type Itself: Itself;
    /// A work of a device.
    type Job: Debug + Send + 'static;
    /// The part of a job that a device has left.
    type Left: Debug + Send + 'static;
    /// The memory that a cursor keeps from plan to plan, and from pair to pair that it decides.
    type Scratch: Default + Send;
    /// The test of which matches of the CPU belong to a job that no device has done.
    type Undecided: Undecided;

    /// Takes the memory that a cursor keeps from its first plan on.
    ///
    /// # Errors
    ///
    /// Where it is refused.
    fn open(&self, _scratch: &mut Self::Scratch, _reservation: &dyn Memory) -> Result<()> {
        Ok(())
    }

    /// Takes the memory for the plans of a unit, before the cursor takes the unit.
    ///
    /// # Errors
    ///
    /// Where it is refused.
    fn admit(&self, _scratch: &mut Self::Scratch, _unit: &ProbeUnit) -> Result<()> {
        Ok(())
    }

    /// The matches to be given for the items of a unit with themselves; `None` where there are none.
    fn itself(&self, unit: &Unit<Self::Items>) -> Option<Self::Itself>;

    /// The rows that are to be planned for a range of probe items.
    fn rows_of(&self, items: Range<ItemId>) -> Range<ItemId>;

    /// The jobs for the first of the rows that are left of a unit. May give none while rows are left.
    ///
    /// # Errors
    ///
    /// Where memory for the plan is refused, or the family's function fails for a pair.
    fn plan(
        &self,
        scratch: &mut Self::Scratch,
        unit: &Unit<Self::Items>,
        left: &mut Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Vec<Self::Job>>;

    /// Whether a device of the join, by its number, has what the works need.
    fn is_on(&self, device: usize) -> bool;

    /// Whether a device is to do a job. The CPU does the others.
    fn suits_devices(&self, _job: &Self::Job) -> bool {
        true
    }

    /// The work of a job for such a device. Its answer goes to the ticket.
    fn work(&self, device: usize, job: Self::Job, ticket: TicketOf<Self>) -> Box<dyn DeviceWork>;

    /// The jobs for what is left of one, without probe items that need no further match.
    fn again(&self, job: &Self::Job, left: Self::Left, unit: Option<&OpenUnit>) -> Vec<Self::Job>;

    /// Jobs that do the same in less memory of the device each; `None` where there are none.
    fn smaller(&self, job: &Self::Job) -> Option<Vec<Self::Job>>;

    /// The work that the CPU has to do for a job.
    fn undecided(&self, job: &Self::Job) -> OnHost<Self::Undecided>;

    /// Notes that a probe item of a unit needs no further match.
    fn retire(&self, _scratch: &mut Self::Scratch, _unit: u32, _probe: ItemId) {}

    /// Adds what plans have done.
    fn add_to(&self, _scratch: &Self::Scratch, _funnel: &mut Funnel) {}

    /// The orders in which a pair matches that the host decides; `None` where it does not match. Completes
    /// the detail of the match.
    ///
    /// # Errors
    ///
    /// Where the family's function fails.
    fn decide(
        &self,
        _scratch: &mut Self::Scratch,
        _unit: &Unit<Self::Items>,
        _pair: &mut Match,
    ) -> Result<Option<MatchOrder>> {
        Ok(Some(MatchOrder::All))
    }

    /// The most matches that a work gives, with pairs that it leaves undecided.
    fn most_matches(&self) -> u64;

    /// The bytes of host memory that a work takes, those of its matches included.
    fn host_bytes(&self) -> usize {
        self.most_matches() as usize * size_of::<Match>()
    }

    /// The items of a self-join that are best probed together:
    /// [`PreparedJoin::range_unit`](crate::engine::PreparedJoin::range_unit).
    fn range_unit(&self) -> u32 {
        1
    }

    /// The fewest items of a self-join that are worth a range:
    /// [`PreparedJoin::least_range`](crate::engine::PreparedJoin::least_range).
    fn least_range(&self) -> u32 {
        1
    }
}

/// The work of the CPU for a job that no device has done.
#[derive(Debug)]
pub enum OnHost<U> {
    /// Pairs that the family decides one by one.
    Pairs(Vec<Match>),
    /// Probe items that the CPU joins.
    Join(U),
}

/// Matches of items with themselves.
pub trait Itself: Send {
    /// Adds matches for a time slice, or until the buffer is full, and their number to `given`.
    /// Returns whether all are given.
    ///
    /// # Errors
    ///
    /// Where the family's function fails.
    fn give(&mut self, matches: &mut MatchBuffer, given: &mut u64) -> Result<bool>;
}

/// For filters whose devices look for them, too.
impl Itself for Infallible {
    fn give(&mut self, _: &mut MatchBuffer, _: &mut u64) -> Result<bool> {
        match *self {}
    }
}

/// A job that no device has done, for the CPU to do.
pub trait Undecided: Send {
    /// The collection of the probe items; `None`: the build items.
    fn collection(&self) -> Option<Arc<dyn Collection>>;

    /// The probe items.
    fn probes(&self) -> Range<ItemId>;

    /// Whether a match of the probe items, as the CPU gives it, belongs to the job.
    fn holds(&self, found: &Match) -> bool;
}

/// The type of filters whose jobs are pairs: no value of it exists.
impl Undecided for Infallible {
    fn collection(&self) -> Option<Arc<dyn Collection>> {
        match *self {}
    }

    fn probes(&self) -> Range<ItemId> {
        match *self {}
    }

    fn holds(&self, _: &Match) -> bool {
        match *self {}
    }
}

/// The reply to a job of a filter.
pub type TicketOf<F> = Ticket<<F as DeviceFilter>::Job, <F as DeviceFilter>::Left>;
