//! Joins in tiles of one family: how it cuts rows into jobs.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Collection, ItemId, Match, MatchOrder, Unit};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::filter::Itself;
use crate::offload::task::EachDevice;
use crate::offload::tiles::job::{ColumnsOf, TileJob, TileKind, Tiles};
use crate::offload::tiles::settings::TileSettings;

/// Cuts the rows of units into jobs of one kind.
pub(crate) trait TileFamily: Debug + Send + Sync + Sized + 'static {
    type Kind: TileKind;
    type Items: Collection;
    /// The matches of items with themselves:
    /// [`DeviceFilter::Itself`](crate::offload::DeviceFilter::Itself).
    type Itself: Itself;
    /// The memory that a cursor keeps from plan to plan, and from pair to pair that it decides.
    type Scratch: Default + Send;
    /// The data kept of rows that pass the pieces of the columns.
    type Moving: Send;

    /// The matches of the unit's items with themselves:
    /// [`DeviceFilter::itself`](crate::offload::DeviceFilter::itself).
    fn itself(&self, unit: &Unit<Self::Items>) -> Option<Self::Itself>;

    /// The rows that are to be planned for a range of probe items.
    fn rows_of(join: &TileJoin<Self>, items: Range<ItemId>) -> Range<ItemId>;

    /// The first of the rows that are left of a unit, as many as travel together past the pieces of the
    /// columns; `None` where the devices hold the columns.
    ///
    /// # Errors
    ///
    /// Where memory is refused.
    fn moving_rows(
        join: &TileJoin<Self>,
        unit: &Unit<Self::Items>,
        left: &Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Option<MovingRows<Self::Moving>>>;

    /// The columns of a piece.
    fn piece(join: &TileJoin<Self>, number: u32) -> Range<ItemId>;

    /// The tiles of the first rows of `left`, as many as make a job, which `left` then begins behind;
    /// `None` where no pair of these rows can match. The columns are those of the build side, or of the
    /// piece that the rows meet.
    ///
    /// # Errors
    ///
    /// Where memory is refused, or the family's function fails for a pair.
    fn tiles(
        join: &TileJoin<Self>,
        scratch: &mut Self::Scratch,
        unit: &Unit<Self::Items>,
        meeting: Option<&Meeting<'_, Self::Moving>>,
        left: &mut Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Option<Tiles<Self::Kind>>>;

    /// The columns that travel to rows, for all jobs with these.
    ///
    /// # Errors
    ///
    /// Where memory is refused.
    fn columns(
        join: &TileJoin<Self>,
        meeting: &Meeting<'_, Self::Moving>,
        reservation: &dyn Memory,
    ) -> Result<ColumnsOf<Self::Kind>>;

    /// The orders in which a pair matches: [`DeviceFilter::decide`](crate::offload::DeviceFilter::decide).
    fn decide(
        _join: &TileJoin<Self>,
        _scratch: &mut Self::Scratch,
        _unit: &Unit<Self::Items>,
        _pair: &mut Match,
    ) -> Result<Option<MatchOrder>> {
        Ok(Some(MatchOrder::All))
    }

    /// The number of ranges that a self-join is cut into, where `most` fill the devices.
    fn ranges(&self, most: u32) -> u32 {
        most
    }
}

/// A join whose build items are columns, on its devices or copied to them with each job.
#[derive(Debug)]
pub(crate) struct TileJoin<F: TileFamily> {
    pub build: Arc<F::Items>,
    pub settings: TileSettings<<F::Kind as TileKind>::Form>,
    /// The devices hold the probe items: these are the build items.
    pub resident: bool,
    pub devices: EachDevice<TileJob<F::Kind>>,
    pub family: F,
}

/// Rows on their way past the pieces of the columns that do not fit on a device.
#[derive(Debug)]
pub(crate) struct MovingRows<M> {
    pub rows: Range<ItemId>,
    /// The pieces that are ahead, by their numbers.
    pub pieces: Range<u32>,
    pub kept: M,
}

/// Rows at a piece of the columns.
#[derive(Debug)]
pub(crate) struct Meeting<'a, M> {
    pub rows: &'a MovingRows<M>,
    pub columns: Range<ItemId>,
}
