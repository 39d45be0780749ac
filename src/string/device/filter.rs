//! Joins of texts in tiles: rows and columns of jobs.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

use crate::engine::{ItemId, Match, MatchNeed, MatchOrder, Unit};
use crate::offload::tiles::{ColumnsOf, Meeting, MovingRows, TileFamily, TileJoin, Tiles};
use crate::string::boxes::UNKNOWN;
use crate::string::collection::Strings;
use crate::string::decide::Decider;
use crate::string::device::packed::PackedTexts;
use crate::string::device::plan::Tiling;
use crate::string::device::work::{TextTiles, TravellingTexts};
use crate::string::join::StringJoin;
use crate::string::threshold::{Limits, Threshold};

/// Tiles of texts.
#[derive(Debug)]
pub(super) struct TilesOfTexts {
    pub join: StringJoin,
    pub tiling: Tiling,
    /// By element its bit in signatures.
    pub bits: Arc<Vec<u8>>,
    /// Idle space for pairs that kernels leave undecided.
    pub deciders: Deciders,
}

/// Space for deciding pairs, one for each thread that does.
#[derive(Default)]
pub(super) struct Deciders(Mutex<Vec<LimitedDecider>>);

/// Decides pairs of any lengths.
struct LimitedDecider {
    decider: Decider,
    /// By the lengths of a probe text and a build text: what a match allows.
    limits: HashMap<[u32; 2], Option<Limits>>,
}

impl LimitedDecider {
    /// The limits that are kept, at most.
    const MOST_LIMITS: usize = 1 << 14;

    fn new(threshold: Threshold, need: MatchNeed) -> Self {
        Self { decider: Decider::new(threshold, need), limits: HashMap::new() }
    }

    fn limits(&mut self, threshold: Threshold, lens: [u32; 2]) -> Option<Limits> {
        if self.limits.len() >= Self::MOST_LIMITS {
            self.limits.clear();
        }
        *self.limits.entry(lens).or_insert_with(|| threshold.limits(lens))
    }
}

impl fmt::Debug for Deciders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deciders").finish_non_exhaustive()
    }
}

impl TileFamily for TilesOfTexts {
    type Kind = TextTiles;
    type Items = Strings;
    /// Devices find the matches of texts with themselves, too.
    type Itself = Infallible;
    type Scratch = ();
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
        _: &MemoryReservation,
    ) -> Result<Option<MovingRows<()>>> {
        Ok(None)
    }

    fn piece(_: &TileJoin<Self>, _: u32) -> Range<ItemId> {
        0..0
    }

    fn tiles(
        join: &TileJoin<Self>,
        (): &mut (),
        unit: &Unit<Strings>,
        _: Option<&Meeting<'_, ()>>,
        left: &mut Range<ItemId>,
        reservation: &MemoryReservation,
    ) -> Result<Option<Tiles<TextTiles>>> {
        let Self { join: of_texts, tiling, bits, .. } = &join.family;
        let first_probe = if join.resident { 0 } else { left.start };
        let (plan, units) = tiling.plan(of_texts, &unit.items, first_probe, left)?;
        if units.is_empty() {
            return Ok(None);
        }
        let rows = match join.resident {
            true => None,
            false => {
                let (items, counts) = (plan.probes.clone(), join.settings.counts);
                Some(TravellingTexts {
                    collection: Arc::clone(&unit.items),
                    texts: Arc::new(PackedTexts::new(&unit.items, items, counts, 1, reservation)?),
                    bits: Arc::clone(bits),
                })
            }
        };
        Ok(Some(Tiles { plan, units, rows }))
    }

    fn columns(
        _: &TileJoin<Self>,
        _: &Meeting<'_, ()>,
        _: &MemoryReservation,
    ) -> Result<ColumnsOf<TextTiles>> {
        internal_err!("texts travel as columns")
    }

    /// On the scalars.
    fn decide(
        join: &TileJoin<Self>,
        unit: &Unit<Strings>,
        pair: &mut Match,
    ) -> Result<Option<MatchOrder>> {
        let Self { join: StringJoin { build, threshold, spec, .. }, deciders, .. } = &join.family;
        let (probe, build_item) = (pair.probe, pair.build);
        let runs = [unit.items.run_of(probe), build.run_of(build_item)];
        let [Some(of_probe), Some(of_build)] = runs else { return Ok(None) };
        let idle = deciders.0.lock().pop();
        let mut limited = idle.unwrap_or_else(|| LimitedDecider::new(*threshold, spec.need));
        let limits = limited.limits(*threshold, [of_probe.len, of_build.len]);
        let detail = limits.and_then(|limits| {
            let (decider, text) = (&mut limited.decider, unit.items.text(probe));
            decider.begin(text, unit.items.is_exact(probe));
            decider.decide(text, build, (build_item, UNKNOWN), limits, &mut 0)
        });
        deciders.0.lock().push(limited);
        Ok(detail.map(|detail| {
            pair.detail = detail;
            MatchOrder::All
        }))
    }
}
