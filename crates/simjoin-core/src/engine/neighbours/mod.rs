//! The nearest rows of rows, found at once instead of by joins with bounds.

mod by_strategies;
mod sides;

use std::fmt::Debug;
use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::{Argument, DeviceChoice, GpuOptions, KeyRows, Origin, StrategyName};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::predicate::Predicate;
use crate::simd::Simd;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

pub(super) use self::by_strategies::by_strategies;

/// The argument of the function for the rows of a side, which lie in batches.
pub trait ArgumentBatches: Debug + Send + Sync {
    /// The type of the argument.
    fn data_type(&self) -> &DataType;

    /// The values that it is made of.
    fn origin(&self) -> Option<&Origin>;

    /// The rows of each batch.
    fn rows(&self) -> &[usize];

    /// The values of some rows of a batch; with `of_origin`, the values that they are made of.
    ///
    /// # Errors
    ///
    /// When they cannot be computed.
    fn values(&self, batch: usize, rows: Range<usize>, of_origin: bool) -> Result<ArrayRef>;

    /// Whether [`Self::values`] lie in memory already.
    fn is_stored(&self, of_origin: bool) -> bool;

    /// The blocking keys of the rows of a batch, where there are some: only rows of equal keys are neighbours.
    ///
    /// # Errors
    ///
    /// When they cannot be computed.
    fn keys(&self, _batch: usize) -> Result<Option<KeyRows>> {
        Ok(None)
    }
}

/// A side of a search for neighbours.
#[derive(Debug, Clone, Copy)]
pub struct NeighbourSide<'a> {
    /// The argument of the function.
    pub argument: &'a dyn ArgumentBatches,
    /// The numbers of the rows that take part, in rising order: places among all rows.
    pub rows: &'a [u32],
}

impl<'a> NeighbourSide<'a> {
    /// The argument as a family binds it.
    pub fn bound(&self) -> Argument<'a> {
        Argument { data_type: self.argument.data_type(), origin: self.argument.origin() }
    }
}

/// The question which right rows are nearest to each left row.
#[derive(Debug)]
pub struct NeighbourRequest<'a> {
    /// The function. A search may leave out what is beyond its bound; the caller holds the values against it.
    pub predicate: Predicate,
    /// The neighbours of a row.
    pub count: usize,
    /// Whether those in a tie with the last one are wanted, too.
    pub with_ties: bool,
    /// By place among the left rows, the least similar value of a neighbour that is needed: a row that has too few within
    /// it is served with those. Infinity, or of similarities its negative, where all are needed.
    pub bounds: Option<&'a [f64]>,
    /// The left and the right side.
    pub sides: [NeighbourSide<'a>; 2],
    /// Whether all rows of one side are both sides.
    pub itself: bool,
    /// The strategy that the session names, and the device that it asks for.
    pub strategy: StrategyName,
    pub device: DeviceChoice,
    /// The use of a GPU.
    pub gpu: GpuOptions,
    /// The threads of the CPU, and the form of its kernels.
    pub threads: Threads,
    pub simd: Simd,
    /// Grows by what the search keeps on the host.
    pub reservation: &'a dyn Memory,
    /// Ends the search early.
    pub cancel: &'a CancelFlag,
}

/// The neighbours of left rows. A left row that was served has its `count` nearest right rows, with all ties of
/// the last one where ties are wanted, or all right rows with a rank, or within its bound, where these are fewer.
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
    pub memory: Vec<Reservation>,
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
