//! The rows of a job.

use std::fmt::Debug;
use std::ops::Range;

use crate::engine::ItemId;
use crate::gpu::Pod;
use crate::memory::Reservation;
use crate::offload::tiles::left::TileUnit;

/// The arrays of a plan that kernels read beside its units: which columns a row admits, and whatever a
/// kind says of its strips.
pub trait PlanArrays: Debug + Default + Send + Sync + 'static {
    type Unit: TileUnit + Pod + Debug + Send;

    /// The bytes allocated.
    fn size_in_bytes(&self) -> usize;

    /// The first row of the strip of a unit.
    fn first_row(&self, unit: &Self::Unit) -> u32;

    /// The stages that the units list by their places; none where units name stages themselves.
    fn listed(&self) -> &[u32] {
        &[]
    }
}

/// Rows to be tested, in strips.
#[derive(Debug, Default)]
pub struct TilePlan<A> {
    pub rows: Range<u32>,
    /// The probe items that are the rows or columns, and the item that is row 0.
    pub probes: Range<ItemId>,
    pub first_probe: ItemId,
    pub arrays: A,
    /// The memory of the plan itself.
    pub reservation: Option<Reservation>,
}
