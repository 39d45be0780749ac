//! Joins of vectors in tiles: rows and columns of jobs.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use simjoin_core::vector::boxes::Boxes;
use simjoin_core::vector::collection::Vectors;
use simjoin_core::vector::metric::{ArgumentOrder, Threshold};
use simjoin_core::vector::order::Reach;

use crate::engine::{ItemId, Match, MatchOrder, Pairing, PrepareContext, Unit};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::offload::tiles::{
    ColumnsOf, Meeting, MovingRows, TileFamily, TileJoin, Tiles, TravellingColumns,
};
use crate::vector::abi::OCTET;
use crate::vector::plan::{Plan, PlanLimits, Planned, PlannedVectors};
use crate::vector::travel::TravellingVectors;
use crate::vector::work::VectorTiles;

/// Tiles of vectors.
#[derive(Debug)]
pub(super) struct TilesOfVectors {
    pub threshold: Threshold,
    pub orders: ArgumentOrder,
    pub pairing: Pairing,
    pub tiling: PlanLimits,
    /// The pieces of a build side that does not fit on the devices.
    pub pieces: Option<Pieces>,
    /// The stages in reach of each other, where the vectors have boxes and are resident.
    pub reach: Option<OwnReach>,
}

/// The boxes of stages, with their memory.
#[derive(Debug)]
pub(super) struct OwnReach {
    reach: Reach,
    _memory: Reservation,
}

/// A build side that travels with the works, rows and columns, piece by piece.
#[derive(Debug)]
pub(super) struct Pieces {
    /// The columns of a work, in whole stages.
    pub columns: u32,
    /// By dimension, what is subtracted; none for products.
    pub centre: Arc<Vec<u64>>,
}

impl OwnReach {
    /// The boxes of the stages of some vectors, where these have boxes.
    ///
    /// # Errors
    ///
    /// Where memory is refused.
    pub(super) fn of(
        vectors: &Vectors,
        stage_columns: u32,
        context: PrepareContext<'_>,
    ) -> Result<Option<Self>> {
        let Some(boxes) = vectors.boxes() else { return Ok(None) };
        let memory = context.reservation.new_empty();
        memory.try_grow(Reach::bytes(boxes, vectors.len(), stage_columns))?;
        let reach = Reach::of(boxes, vectors.len(), stage_columns, context.threads);
        Ok(Some(Self { reach, _memory: memory }))
    }

    /// The boxes.
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }
}

impl TileFamily for TilesOfVectors {
    type Kind = VectorTiles;
    type Items = Vectors;
    /// Devices decide the pairs of vectors with themselves, too.
    type Itself = Infallible;
    type Scratch = ();
    /// The rows, as they travel to all pieces.
    type Moving = Arc<TravellingVectors>;

    fn itself(&self, _: &Unit<Vectors>) -> Option<Infallible> {
        None
    }

    fn rows_of(join: &TileJoin<Self>, items: Range<ItemId>) -> Range<ItemId> {
        if join.family.pairing == Pairing::All || items.is_empty() {
            return items;
        }
        let run = join.build.run_of(items.start);
        run.map_or(items.start, |run| run.items.start)..items.end
    }

    fn moving_rows(
        join: &TileJoin<Self>,
        unit: &Unit<Vectors>,
        left: &Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Option<MovingRows<Arc<TravellingVectors>>>> {
        let Self { tiling, pieces, .. } = &join.family;
        let Some(Pieces { columns, .. }) = pieces else { return Ok(None) };
        let rows = left.start..left.end.min(left.start.saturating_add(tiling.most_rows));
        // Rows that are columns of the same number have the numbers of their items.
        let before = if join.settings.same { left.start % OCTET } else { 0 };
        let kept = join.travelling(&unit.items, rows.start - before..rows.end, reservation)?;
        Ok(Some(MovingRows { rows, pieces: 0..join.build.len().div_ceil(*columns), kept }))
    }

    fn piece(join: &TileJoin<Self>, number: u32) -> Range<ItemId> {
        let columns = join.family.pieces.as_ref().map_or(0, |pieces| pieces.columns);
        let first = number * columns;
        first..join.build.len().min(first.saturating_add(columns))
    }

    fn tiles(
        join: &TileJoin<Self>,
        (): &mut (),
        unit: &Unit<Vectors>,
        meeting: Option<&Meeting<'_, Arc<TravellingVectors>>>,
        left: &mut Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Option<Tiles<VectorTiles>>> {
        let TileJoin { build, resident, family: Self { threshold, tiling, .. }, .. } = join;
        let (same, resident) = (join.settings.same, *resident);
        let all = 0..build.len();
        let first_probe = match meeting {
            _ if resident || same => Some(0),
            Some(meeting) => Some(meeting.rows.kept.items.start),
            None => None,
        };
        let probe = PlannedVectors {
            items: &unit.items,
            function: threshold.metric.function().name(),
            same,
            first_probe,
            columns: meeting.map_or(&all, |meeting| &meeting.columns),
            boxes: join.boxes(),
        };
        let planned = tiling.plan(build, probe, &unit.range, left)?;
        if threshold.is_void() {
            return Ok(None);
        }
        let (plan, units) = match planned {
            Planned::Tiles(_, units) if units.is_empty() => return Ok(None),
            Planned::Tiles(plan, units) => (plan, units),
            Planned::Rest(probes) => {
                let nothing = || Arc::new(TravellingVectors::nothing(&unit.items, reservation));
                let plan = Plan { probes, ..Plan::default() };
                return Ok(Some(Tiles { plan, units: vec![], rows: (!resident).then(nothing) }));
            }
        };
        let rows = match meeting {
            Some(meeting) => Some(Arc::clone(&meeting.rows.kept)),
            None if resident => None,
            None => {
                let items = plan.first_probe..plan.first_probe + plan.rows.end;
                Some(join.travelling(&unit.items, items, reservation)?)
            }
        };
        Ok(Some(Tiles { plan, units, rows }))
    }

    fn columns(
        join: &TileJoin<Self>,
        meeting: &Meeting<'_, Arc<TravellingVectors>>,
        reservation: &dyn Memory,
    ) -> Result<ColumnsOf<VectorTiles>> {
        let items = join.travelling(&join.build, meeting.columns.clone(), reservation)?;
        let centre = join.family.pieces.as_ref().map(|pieces| Arc::clone(&pieces.centre));
        Ok(TravellingColumns { items, beside: centre.unwrap_or_default() })
    }

    /// Decides a pair on the numbers as they were given.
    fn decide(
        join: &TileJoin<Self>,
        (): &mut (),
        unit: &Unit<Vectors>,
        pair: &mut Match,
    ) -> Result<Option<MatchOrder>> {
        let Self { threshold, orders, .. } = &join.family;
        let (x, y) = (unit.items.vector(pair.probe), join.build.vector(pair.build));
        Ok(threshold.decide(x, y, *orders)?.order())
    }
}

impl TileJoin<TilesOfVectors> {
    /// The boxes of rows and stages.
    fn boxes(&self) -> Option<(&Boxes, &Reach)> {
        self.build.boxes().zip(self.family.reach.as_ref().map(OwnReach::reach))
    }

    /// The vectors that some items travel as.
    fn travelling(
        &self,
        items: &Arc<Vectors>,
        range: Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Arc<TravellingVectors>> {
        let (dimensions, counts) = (self.family.tiling.dimensions, self.settings.counts);
        TravellingVectors::new(items, range, dimensions, counts, reservation).map(Arc::new)
    }
}
