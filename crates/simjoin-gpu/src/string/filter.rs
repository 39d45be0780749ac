//! Joins of texts in tiles: rows and columns of jobs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use simjoin_core::string::boxes::UNKNOWN;
use simjoin_core::string::collection::Strings;
use simjoin_core::string::decide::Decider;
use simjoin_core::string::join::StringJoin;
use simjoin_core::string::threshold::{AllowedDifferences, Threshold};

use crate::engine::{ItemId, Match, MatchNeed, MatchOrder, Unit};
use crate::error::{Result, internal_err};
use crate::memory::Memory;
use crate::offload::tiles::{ColumnsOf, Meeting, MovingRows, TileFamily, TileJoin, Tiles};
use crate::string::packed::PackedTexts;
use crate::string::plan::PlanLimits;
use crate::string::work::{TextTiles, TravellingTexts};
use crate::util::parallel::Threads;

/// Tiles of texts.
#[derive(Debug)]
pub(super) struct TilesOfTexts {
    pub join: StringJoin,
    pub tiling: PlanLimits,
    /// The bit of each element in signatures.
    pub bits: Arc<Vec<u8>>,
}

/// Decides pairs of any lengths that kernels leave undecided.
pub(super) struct LimitedDecider {
    decider: Decider,
    /// The limits of a match, by the lengths of a probe text and a build text.
    limits: HashMap<[u32; 2], Option<AllowedDifferences>>,
}

impl LimitedDecider {
    /// The limits that are kept, at most.
    const MOST_LIMITS: usize = 1 << 14;

    fn new(threshold: Threshold, need: MatchNeed) -> Self {
        Self { decider: Decider::new(threshold, need), limits: HashMap::new() }
    }

    fn limits(&mut self, threshold: Threshold, lens: [u32; 2]) -> Option<AllowedDifferences> {
        if self.limits.len() >= Self::MOST_LIMITS {
            self.limits.clear();
        }
        *self.limits.entry(lens).or_insert_with(|| threshold.limits(lens))
    }
}

/// The first rows of `left` that travel with one work, at least one.
fn rows_that_travel(items: &Strings, left: &Range<ItemId>) -> u32 {
    /// Rows, and codes of them.
    const MOST_ROWS: usize = 1 << 16;
    const MOST_CODES: usize = 1 << 24;
    let starts = &items.code_starts[left.start as usize..=left.end as usize];
    let rows = starts.partition_point(|start| start - starts[0] <= MOST_CODES).saturating_sub(1);
    rows.clamp(1, MOST_ROWS) as u32
}

impl TileFamily for TilesOfTexts {
    type Kind = TextTiles;
    type Items = Strings;
    /// Devices find the matches of texts with themselves, too.
    type Itself = Infallible;
    /// None before the first pair is decided.
    type Scratch = Option<LimitedDecider>;
    /// Columns do not travel.
    type Moving = ();

    fn itself(&self, _: &Unit<Strings>) -> Option<Infallible> {
        None
    }

    fn rows_of(_: &TileJoin<Self>, items: Range<ItemId>) -> Range<ItemId> {
        items
    }

    fn moving_rows(
        _: &TileJoin<Self>,
        _: &Unit<Strings>,
        _: &Range<ItemId>,
        _: &dyn Memory,
    ) -> Result<Option<MovingRows<()>>> {
        Ok(None)
    }

    fn piece(_: &TileJoin<Self>, _: u32) -> Range<ItemId> {
        0..0
    }

    fn tiles(
        join: &TileJoin<Self>,
        _: &mut Option<LimitedDecider>,
        unit: &Unit<Strings>,
        _: Option<&Meeting<'_, ()>>,
        left: &mut Range<ItemId>,
        reservation: &dyn Memory,
    ) -> Result<Option<Tiles<TextTiles>>> {
        let Self { join: of_texts, tiling, bits, .. } = &join.family;
        let first_probe = if join.resident { 0 } else { left.start };
        let most_rows = if join.resident { u32::MAX } else { rows_that_travel(&unit.items, left) };
        let (plan, units) = tiling.plan(of_texts, &unit.items, first_probe, (left, most_rows))?;
        if units.is_empty() {
            return Ok(None);
        }
        let rows = match join.resident {
            true => None,
            false => {
                let (items, counts) = (plan.probes.clone(), join.settings.counts);
                Some(TravellingTexts {
                    collection: Arc::clone(&unit.items),
                    texts: Arc::new(PackedTexts::new(
                        &unit.items,
                        items,
                        counts,
                        Threads::ONE,
                        reservation,
                    )?),
                    bits: Arc::clone(bits),
                })
            }
        };
        Ok(Some(Tiles { plan, units, rows }))
    }

    fn columns(
        _: &TileJoin<Self>,
        _: &Meeting<'_, ()>,
        _: &dyn Memory,
    ) -> Result<ColumnsOf<TextTiles>> {
        internal_err!("texts travel as columns")
    }

    /// Decides a pair on the scalars of both texts.
    fn decide(
        join: &TileJoin<Self>,
        decider: &mut Option<LimitedDecider>,
        unit: &Unit<Strings>,
        pair: &mut Match,
    ) -> Result<Option<MatchOrder>> {
        let StringJoin { build, threshold, spec, .. } = &join.family.join;
        let runs = [unit.items.run_of(pair.probe), build.run_of(pair.build)];
        let [Some(of_probe), Some(of_build)] = runs else { return Ok(None) };
        let limited = decider.get_or_insert_with(|| LimitedDecider::new(*threshold, spec.need));
        let limits = limited.limits(*threshold, [of_probe.len, of_build.len]);
        let Some(limits) = limits else { return Ok(None) };
        let (decider, text) = (&mut limited.decider, unit.items.text(pair.probe));
        decider.begin(&unit.items, pair.probe);
        let Some(detail) = decider.decide(text, build, (pair.build, UNKNOWN), limits, &mut 0)
        else {
            return Ok(None);
        };
        pair.detail = detail;
        Ok(Some(MatchOrder::All))
    }
}
