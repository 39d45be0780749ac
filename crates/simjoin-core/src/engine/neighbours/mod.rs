//! The nearest rows of rows.
//!
//! ```text
//! sides ─► the family: at once? ─► neighbours
//!   │            │ rows that it does not serve
//!   ▼            ▼
//! items of both sides ─► a strategy that finds nearest partners ─────► neighbours
//!   │            │ there is none that is better
//!   │            ▼
//!   └──► join by the bound of the round ─► the best of each item ────► neighbours
//!                        ▲                     │ items with fewer than k
//!                        └── a wider bound ────┘
//!
//! sides.rs      the items of the sides, read once
//! rounds.rs     the searches of the left rows that are left
//! bounds.rs     the bounds of the joins
//! search.rs     a join of left items with the right items
//! nearest.rs    the nearest partners of each left item, while a join finds them
//! served.rs     the left rows that have all that they need then
//! condition.rs  a condition that decides pairs of rows
//! ```

mod bounds;
mod condition;
mod nearest;
mod rounds;
mod search;
mod served;
mod sides;

use std::fmt::{self, Debug};
use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

pub use self::condition::PairCondition;
use self::condition::{meeting, mostly_holds};
use self::rounds::find_by_items;
use super::{Argument, DeviceChoice, Family, GpuOptions, KeyRows, Origin, StrategyName};
use crate::error::Result;
use crate::memory::{CountedVec, Memory, Reservation, copies};
use crate::predicate::Predicate;
use crate::simd::Simd;
use crate::util::attached::Attached;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

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

    /// Whether rows have blocking keys.
    fn has_keys(&self) -> bool;

    /// The blocking keys of the rows of a batch, where there are some: only rows of equal keys are neighbours.
    ///
    /// # Errors
    ///
    /// When they cannot be computed.
    fn keys(&self, batch: usize) -> Result<Option<KeyRows>>;
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
#[derive(Debug, Clone, Copy)]
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
    /// The condition that a pair of rows has to meet, besides.
    pub condition: Option<&'a dyn PairCondition>,
    /// The left and the right side.
    pub sides: [NeighbourSide<'a>; 2],
    /// Whether all rows of one side are both sides.
    pub itself: bool,
    /// The forms of the left rows, for searches of the same rows among other right rows.
    pub kept: Option<&'a Attached>,
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
    pub partners: CountedVec<u32>,
    pub values: CountedVec<f64>,
    /// The searches that were made, in their order.
    pub rounds: Vec<Round>,
    /// The memory of `starts` and `counts`.
    _memory: Reservation,
}

/// The way in which neighbours were looked for.
#[derive(Debug, Clone)]
pub enum Way {
    /// A join with this bound.
    Bound(f64),
    /// A search at once, by this device.
    AtOnce(String),
    /// A search at once that found nothing, and why.
    Declined(String),
    /// Scores of pairs, one by one.
    Pairs,
}

/// A search that has ended.
#[derive(Debug, Clone)]
pub struct Round {
    pub way: Way,
    /// The left rows that took part.
    pub rows: usize,
    /// The rows among them that have their neighbours since.
    pub served: usize,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound(bound) if (1e-3..1e6).contains(&bound.abs()) => write!(f, "{bound:.4}"),
            Self::Bound(bound) => write!(f, "{bound:.0e}"),
            Self::AtOnce(device) => write!(f, "at once, {device}"),
            Self::Declined(why) => write!(f, "at once ({why})"),
            Self::Pairs => write!(f, "all pairs"),
        }
    }
}

impl Neighbours {
    /// The count of a left row that was not served.
    pub const NOT_SERVED: u32 = u32::MAX;

    /// No neighbours yet of any left row of a request.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub fn none(request: &NeighbourRequest<'_>) -> Result<Self> {
        let rows = request.sides[0].rows.len();
        let memory = request.reservation.new_empty();
        Ok(Self {
            starts: copies(&memory, rows, 0)?,
            counts: copies(&memory, rows, Self::NOT_SERVED)?,
            partners: CountedVec::new(&memory),
            values: CountedVec::new(&memory),
            rounds: vec![],
            _memory: memory,
        })
    }

    /// The numbers of the left rows that are not served.
    fn not_served(&self, request: &NeighbourRequest<'_>) -> Vec<u32> {
        let numbered = self.counts.iter().zip(request.sides[0].rows);
        let others = numbered.filter(|(count, _)| **count == Self::NOT_SERVED);
        others.map(|(_, row)| *row).collect()
    }

    /// The neighbours of the left row at a place, in no order; `None` where it was not served.
    pub fn of(&self, place: usize) -> Option<(&[u32], &[f64])> {
        let count = self.counts[place];
        let start = self.starts[place] as usize;
        let range = start..start + count as usize;
        (count != Self::NOT_SERVED).then(|| (&self.partners[range.clone()], &self.values[range]))
    }
}

/// The outcome of a search at once.
#[derive(Debug)]
pub enum NeighbourSearch {
    /// The neighbours of the rows that were served.
    Found(Neighbours),
    /// Nothing was found, and the reason where that is worth a remark.
    Declined(Option<String>),
}

/// The nearest right rows of all left rows of a request. It takes as long as it takes: the caller is no task.
///
/// # Errors
///
/// When a device that is demanded cannot be used, or no strategy has the name that is asked for; when memory is refused,
/// the work is cancelled, or an argument has no value.
pub fn neighbours(family: &dyn Family, request: &NeighbourRequest<'_>) -> Result<Neighbours> {
    let mut found = match request.condition {
        None => without_condition(family, request)?,
        // Of a neighbour more, it rejects one mostly: the row itself.
        Some(condition) if mostly_holds(condition, request) => {
            let count = request.count.saturating_add(1);
            let asked = NeighbourRequest { count, condition: None, ..*request };
            meeting(condition, request, without_condition(family, &asked)?, count)?
        }
        Some(_) => Neighbours::none(request)?,
    };
    let others = found.not_served(request);
    if !others.is_empty() {
        find_by_items(family, request, others, &mut found)?;
    }
    Ok(found)
}

/// The neighbours that the family finds at once, and those of the other rows.
fn without_condition(family: &dyn Family, request: &NeighbourRequest<'_>) -> Result<Neighbours> {
    let knows_keys = family.knows_keys() || !request.sides[0].argument.has_keys();
    let at_once = match knows_keys {
        true => family.neighbours(request)?,
        false => NeighbourSearch::Declined(None),
    };
    let mut found = match at_once {
        NeighbourSearch::Found(found) => found,
        NeighbourSearch::Declined(why) => {
            let mut none = Neighbours::none(request)?;
            let rows = request.sides[0].rows.len();
            none.rounds.extend(why.map(|why| Round { way: Way::Declined(why), rows, served: 0 }));
            none
        }
    };
    let others = found.not_served(request);
    if !others.is_empty() {
        find_by_items(family, request, others, &mut found)?;
    }
    Ok(found)
}
