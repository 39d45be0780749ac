//! Joins of sets in signature tiles: rows and columns of jobs.

use std::ops::Range;
use std::sync::Arc;

use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::itself::SelfMatches;
use simjoin_core::set::join_spec::{JoinSpec, SetUnit};
use simjoin_core::set::runs::SetId;

use crate::engine::Pairing;
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::tiles::{
    ColumnsOf, Meeting, MovingRows, TileFamily, TileJoin, Tiles, TravellingColumns,
};
use crate::set::bitmap::abi::OCTET;
use crate::set::bitmap::pieces::Pieces;
use crate::set::bitmap::plan::{Overlaps, PlanLimits, PlannedSets};
use crate::set::bitmap::work::SignatureTiles;
use crate::set::offload::TravellingSets;

/// Tiles of sets.
#[derive(Debug)]
pub(super) struct TilesOfSets {
    pub spec: JoinSpec,
    pub tiling: PlanLimits,
    /// The pieces of a build side that does not fit on the devices.
    pub pieces: Option<Pieces>,
}

impl TileFamily for TilesOfSets {
    type Kind = SignatureTiles;
    type Items = SetCollection;
    type Itself = SelfMatches;
    type Scratch = Overlaps;
    /// The columns that the rows admit.
    type Moving = Range<SetId>;

    fn itself(&self, unit: &SetUnit) -> Option<SelfMatches> {
        SelfMatches::of(unit, &self.spec)
    }

    fn rows_of(join: &TileJoin<Self>, sets: Range<SetId>) -> Range<SetId> {
        let Self { spec, tiling, .. } = &join.family;
        tiling.rows_of(&join.build, spec, sets)
    }

    fn moving_rows(
        join: &TileJoin<Self>,
        unit: &SetUnit,
        left: &Range<SetId>,
        _: &dyn Memory,
    ) -> Result<Option<MovingRows<Range<SetId>>>> {
        let Self { spec, tiling, pieces } = &join.family;
        let Some(pieces) = pieces else { return Ok(None) };
        let (probe, columns) = (join.row_sets(unit), join.columns_of(unit));
        let rows = pieces.rows(probe, left);
        let columns = tiling.columns_of(&join.build, probe, spec, rows.clone(), columns);
        Ok(Some(MovingRows { rows, pieces: pieces.of(&columns), kept: columns }))
    }

    fn piece(join: &TileJoin<Self>, number: u32) -> Range<SetId> {
        join.family.pieces.as_ref().map_or(0..0, |pieces| pieces.get(number))
    }

    fn tiles(
        join: &TileJoin<Self>,
        overlaps: &mut Overlaps,
        unit: &SetUnit,
        meeting: Option<&Meeting<'_, Range<SetId>>>,
        left: &mut Range<SetId>,
        _: &dyn Memory,
    ) -> Result<Option<Tiles<SignatureTiles>>> {
        let TileJoin { build, settings, resident, family: Self { spec, tiling, .. }, .. } = join;
        let columns = meeting.map_or_else(|| join.columns_of(unit), admitted);
        let sets = join.row_sets(unit);
        let numbered = *resident || settings.same;
        let probe = PlannedSets { sets, numbered, travels: !resident };
        let (plan, units) = tiling.plan(build, probe, spec, (&unit.range, columns), left, overlaps);
        if units.is_empty() {
            return Ok(None);
        }
        let rows = match numbered {
            true => plan.rows.start - plan.rows.start % OCTET..plan.rows.end,
            false => plan.probes.clone(),
        };
        let rows = (!resident).then(|| TravellingSets::new(sets, rows, settings.counts));
        Ok(Some(Tiles { plan, units, rows }))
    }

    /// Columns in whole stages.
    fn columns(
        join: &TileJoin<Self>,
        meeting: &Meeting<'_, Range<SetId>>,
        _: &dyn Memory,
    ) -> Result<ColumnsOf<SignatureTiles>> {
        let PlanLimits { stage_sets, sizes, .. } = &join.family.tiling;
        let columns = admitted(meeting);
        let end = columns.end.next_multiple_of(*stage_sets).min(meeting.columns.end);
        let sets = columns.start / stage_sets * stage_sets..end;
        let items = TravellingSets::new(&join.build, sets, join.settings.counts);
        Ok(TravellingColumns { items, beside: Arc::clone(sizes) })
    }

    /// A job whose columns travel is worth the way.
    fn ranges(&self, most: u32) -> u32 {
        self.pieces.as_ref().map_or(most, |pieces| pieces.len().min(most))
    }
}

/// The columns of a piece that moving rows admit.
fn admitted(Meeting { rows, columns }: &Meeting<'_, Range<SetId>>) -> Range<SetId> {
    rows.kept.start.max(columns.start)..rows.kept.end.min(columns.end)
}

impl TileJoin<TilesOfSets> {
    /// The collection that the rows of a unit belong to.
    fn row_sets<'a>(&'a self, unit: &'a SetUnit) -> &'a Arc<SetCollection> {
        if self.settings.same { &self.build } else { &unit.items }
    }

    /// The sets that are columns for a unit.
    fn columns_of(&self, unit: &SetUnit) -> Range<SetId> {
        match self.family.spec.pairing {
            Pairing::All => 0..self.build.len(),
            Pairing::Unordered => unit.range.clone(),
        }
    }
}
