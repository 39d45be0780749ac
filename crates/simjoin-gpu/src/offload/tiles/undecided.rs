//! Jobs of tiles that no device has done.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Collection, ItemId, Match};
use crate::offload::filter::Undecided;
use crate::offload::tiles::job::{TileJob, TileKind};
use crate::offload::tiles::plan::TilePlan;
use crate::offload::tiles::settings::TileForm;

/// A job whose tiles no device has decided.
pub(crate) struct UndecidedTiles<A> {
    plan: Arc<TilePlan<A>>,
    collection: Option<Arc<dyn Collection>>,
    same: bool,
    /// Pairs of items with themselves are the job's, too.
    meets_itself: bool,
    tile: TileForm,
    /// By the first row of a strip, the stages that are undecided. None: all pairs are.
    stages: Option<BTreeMap<u32, Vec<Range<u32>>>>,
}

impl<A> UndecidedTiles<A> {
    pub(super) fn new<K: TileKind<Arrays = A>>(job: &TileJob<K>) -> Self {
        let mut stages: BTreeMap<u32, Vec<Range<u32>>> = BTreeMap::new();
        for unit in &job.units {
            let first_row = K::first_row(&job.plan.arrays, unit);
            stages.entry(first_row).or_default().extend(job.stages_of(*unit));
        }
        Self {
            plan: Arc::clone(&job.plan),
            collection: job.rows.as_ref().map(K::collection),
            same: job.settings.same,
            meets_itself: K::MEETS_ITSELF,
            tile: job.tile(),
            stages: (!job.units.is_empty()).then_some(stages),
        }
    }
}

impl<A: Debug + Send + Sync + 'static> Undecided for UndecidedTiles<A> {
    fn collection(&self) -> Option<Arc<dyn Collection>> {
        self.collection.clone()
    }

    fn probes(&self) -> Range<ItemId> {
        self.plan.probes.clone()
    }

    fn holds(&self, found: &Match) -> bool {
        let Self { plan, tile, stages, .. } = self;
        let is_behind = tile.ends_with_itself && found.build > found.probe;
        if is_behind || !plan.probes.contains(&found.probe) {
            return false;
        }
        let (row, column) = match self.same {
            true => (found.build, found.probe),
            false => (found.probe - plan.first_probe, found.build),
        };
        if self.same && (row > column || row == column && !self.meets_itself) {
            return false;
        }
        let Some(stages) = stages else { return true };
        let strip = stages.range(..=row).next_back();
        let stage = column / tile.stage_items;
        plan.rows.contains(&row)
            && strip.is_some_and(|(first, stages)| {
                row - first < tile.strip_rows && stages.iter().any(|range| range.contains(&stage))
            })
    }
}
