//! The rows of a job.

use std::ops::Range;

use crate::engine::ItemId;
use crate::memory::Reservation;

/// Rows to be tested, in strips.
#[derive(Debug, Default)]
pub struct TilePlan<A> {
    pub rows: Range<u32>,
    /// The probe items that are the rows or columns, and the item that is row 0.
    pub probes: Range<ItemId>,
    pub first_probe: ItemId,
    /// The arrays that kernels read beside the units: which columns a row admits, and whatever a kind says
    /// of its strips.
    pub arrays: A,
    /// The stages that the units list by their places; none where units name stages themselves.
    pub listed: Vec<u32>,
    /// The memory of the plan itself.
    pub reservation: Option<Reservation>,
}
