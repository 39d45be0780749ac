//! Step 6: a strategy.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::Distance;
use super::encode::Values;
use crate::engine::{
    self, Collection, Cost, Cursor, Estimate, Funnel, ItemId, Join, Match, MatchBuffer, MatchNeed,
    MatchSpec, NoDevices, Pairing, Placement, PrepareContext, PreparedJoin, Strategy, Terms,
    UnitCursor, Work, Worker,
};

pub(super) static BISECTION: &[&dyn Strategy<NearJoin>] = &[&Bisection];

/// Looks the partners of a probe item up among the build items, which are sorted.
#[derive(Debug)]
struct Bisection;

/// A build side and what is asked of it.
#[derive(Debug, Clone)]
pub(super) struct NearJoin {
    pub build: Arc<Values>,
    pub distance: Distance,
    pub spec: MatchSpec,
}

impl Join for NearJoin {
    type Devices = NoDevices;
}

impl Strategy<NearJoin> for Bisection {
    fn name(&self) -> &'static str {
        "bisection"
    }

    fn runs_on(&self, placement: Placement) -> bool {
        placement == Placement::Cpu
    }

    fn estimate(&self, join: &mut NearJoin, _: &Terms<'_>) -> Result<Estimate> {
        let items = f64::from(join.build.groups().len());
        Ok(Estimate::new(Some(Cost::cpu(items * (items + 2.0).log2())), None, ()))
    }

    fn prepare(
        &self,
        join: &NearJoin,
        _: &Estimate,
        _: Option<&Arc<NoDevices>>,
        _: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(join.clone()))
    }
}

impl PreparedJoin for NearJoin {
    fn open(&self, _: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let join = self.clone();
        Ok(Box::new(UnitCursor::new(Bisecting { join, unit: None, matches: 0 })))
    }
}

struct Bisecting {
    join: NearJoin,
    unit: Option<Unit>,
    matches: u64,
}

/// A unit on its way.
struct Unit {
    items: Arc<Values>,
    /// Those that have not been looked up.
    rest: Range<ItemId>,
    /// The item that was looked up last, and its partners that have not been given.
    probe: ItemId,
    partners: Range<ItemId>,
}

impl Bisecting {
    /// The partners of an item of the unit.
    fn partners(&self, unit: &Unit, item: ItemId) -> Range<ItemId> {
        let NearJoin { distance, spec, .. } = self.join;
        let Some(range) = distance.partners(unit.items.value(item)) else { return 0..0 };
        let mut partners = self.join.build.within(unit.items.key(item), &range);
        match (spec.pairing(), spec.need) {
            // With itself and those before it.
            (Pairing::Unordered, _) => partners.end = partners.end.min(item + 1),
            (Pairing::All, MatchNeed::Exists) => {
                partners.end = partners.end.min(partners.start + 1);
            }
            (Pairing::All, _) => {}
        }
        partners
    }
}

impl Worker for Bisecting {
    type Items = Values;

    fn begin(&mut self, unit: engine::Unit<Values>) -> Result<()> {
        let engine::Unit { items, range, .. } = unit;
        self.unit = Some(Unit { items, rest: range, probe: 0, partners: 0..0 });
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<Work> {
        let Some(mut unit) = self.unit.take() else { return Ok(Work::Done) };
        loop {
            for build in unit.partners.by_ref() {
                self.matches += 1;
                matches.push(Match { probe: unit.probe, build, detail: 0 });
                if matches.is_full() {
                    self.unit = Some(unit);
                    return Ok(Work::Full);
                }
            }
            let Some(item) = unit.rest.next() else { return Ok(Work::Done) };
            unit.probe = item;
            unit.partners = self.partners(&unit, item);
        }
    }

    fn retire(&mut self, probe: ItemId) {
        if let Some(unit) = self.unit.as_mut().filter(|unit| unit.probe == probe) {
            unit.partners = 0..0;
        }
    }

    fn funnel(&self) -> Funnel {
        Funnel { matches: self.matches, ..Funnel::default() }
    }
}
