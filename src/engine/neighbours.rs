//! The nearest rows of rows, found at once instead of by joins with bounds.

use arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;

use super::{DeviceChoice, GpuOptions};
use crate::simd::Simd;
use crate::spec::Predicate;
use crate::util::cancel::CancelFlag;

/// A side of a search for neighbours.
#[derive(Debug, Clone, Copy)]
pub struct NeighbourSide<'a> {
    /// The argument of the function.
    pub argument: &'a PhysicalExprRef,
    /// The rows, batch by batch.
    pub batches: &'a [RecordBatch],
    /// The numbers of the rows that take part, in rising order: places among all rows.
    pub rows: &'a [u32],
}

/// The question which right rows are nearest to each left row.
#[derive(Debug)]
pub struct NeighbourRequest<'a> {
    /// The function. Its bound counts for nothing.
    pub predicate: Predicate,
    /// The neighbours of a row.
    pub count: usize,
    /// Whether those in a tie with the last one are wanted, too.
    pub with_ties: bool,
    /// The left and the right side.
    pub sides: [NeighbourSide<'a>; 2],
    /// Whether all rows of one side are both sides.
    pub itself: bool,
    /// The device that the session asks for.
    pub device: DeviceChoice,
    /// The use of a GPU.
    pub gpu: GpuOptions,
    /// The threads of the CPU, and the form of its kernels.
    pub threads: usize,
    pub simd: Simd,
    /// Grows by what the search keeps on the host.
    pub reservation: &'a MemoryReservation,
    /// Ends the search early.
    pub cancel: &'a CancelFlag,
}

/// The neighbours of left rows. A left row that was served has `count` right rows, than which no other one is
/// nearer, and where ties are wanted all that are as near as the last of them; or fewer, where these are all that
/// rank as neighbours.
#[derive(Debug)]
pub struct Neighbours {
    /// By place among the left rows that took part: where its neighbours begin, and how many it has;
    /// [`Neighbours::NOT_SERVED`] where they were not found.
    pub starts: Vec<u32>,
    pub counts: Vec<u32>,
    /// The numbers of right rows, and the values of the function.
    pub partners: Vec<u32>,
    pub values: Vec<f64>,
    /// The device that found them, or the CPU.
    pub device: String,
    /// The memory of all of these.
    pub memory: Vec<MemoryReservation>,
}

impl Neighbours {
    /// The count of a left row that was not served.
    pub const NOT_SERVED: u32 = u32::MAX;

    /// The neighbours of the left row at a place, in no order; `None` where it was not served.
    pub fn of(&self, place: usize) -> Option<(&[u32], &[f64])> {
        let count = self.counts[place];
        let start = self.starts[place] as usize;
        let range = start..start + count as usize;
        (count != Self::NOT_SERVED).then(|| (&self.partners[range.clone()], &self.values[range]))
    }
}

/// The outcome of a search.
#[derive(Debug)]
pub enum NeighbourSearch {
    /// The neighbours of the rows that were served.
    Found(Neighbours),
    /// Nothing was found, and the reason where that is worth a remark.
    Declined(Option<String>),
}
