//! Step 6: a strategy.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::Distance;
use super::encode::Values;
use crate::engine::{
    Collection, Cost, Cursor, DevicePlace, Estimate, Funnel, ItemId, Join, Match, MatchBuffer,
    MatchNeed, MatchSpec, Pairing, Placement, PrepareContext, PreparedJoin, ProbeUnit, Progress,
    Strategy, Terms, UnitQueue,
};

pub(super) static BISECTION: [&dyn Strategy; 1] = [&Bisection];

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

impl Join for NearJoin {}

impl Strategy for Bisection {
    fn name(&self) -> &'static str {
        "bisection"
    }

    fn runs_on(&self, placement: Placement) -> bool {
        placement == Placement::Cpu
    }

    fn estimate(&self, join: &mut dyn Join, _: &Terms<'_>) -> Result<Estimate> {
        let items = f64::from(join.of::<NearJoin>()?.build.groups().len());
        Ok(Estimate::new(Some(Cost::cpu(items * (items + 2.0).log2())), None, ()))
    }

    fn prepare(
        &self,
        join: &dyn Join,
        _: &Estimate,
        _: Option<&Arc<dyn DevicePlace>>,
        _: PrepareContext<'_>,
    ) -> Result<Arc<dyn PreparedJoin>> {
        Ok(Arc::new(join.of::<NearJoin>()?.clone()))
    }
}

impl PreparedJoin for NearJoin {
    fn open(&self, _: &MemoryReservation) -> Result<Box<dyn Cursor>> {
        let join = self.clone();
        Ok(Box::new(Bisecting { join, units: UnitQueue::default(), unit: None, matches: 0 }))
    }
}

struct Bisecting {
    join: NearJoin,
    units: UnitQueue<ProbeUnit>,
    unit: Option<Unit>,
    matches: u64,
}

/// A unit on its way.
struct Unit {
    number: u32,
    items: Arc<Values>,
    /// Those that have not been looked up.
    rest: Range<ItemId>,
    /// The item that was looked up last, and its partners that have not been given.
    probe: ItemId,
    partners: Range<ItemId>,
}

impl Bisecting {
    /// Takes up the next unit, if there is one.
    fn next_unit(&mut self) -> Result<bool> {
        let Some(ProbeUnit { number, items, range }) = self.units.pop() else { return Ok(false) };
        let items = items.shared()?;
        self.unit = Some(Unit { number, items, rest: range, probe: 0, partners: 0..0 });
        Ok(true)
    }

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

impl Cursor for Bisecting {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        self.units.push(unit);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        if self.unit.is_none() && !self.next_unit()? {
            return Poll::Ready(Ok(self.units.progress()));
        }
        let Some(mut unit) = self.unit.take() else { return Poll::Ready(Ok(Progress::Yield)) };
        matches.begin(unit.number);
        loop {
            for build in unit.partners.by_ref() {
                self.matches += 1;
                matches.push(Match { probe: unit.probe, build, detail: 0 });
                if matches.is_full() {
                    self.unit = Some(unit);
                    return Poll::Ready(Ok(Progress::Full));
                }
            }
            let Some(item) = unit.rest.next() else { break };
            unit.probe = item;
            unit.partners = self.partners(&unit, item);
        }
        matches.complete(unit.number);
        Poll::Ready(Ok(Progress::Yield))
    }

    fn retire(&mut self, number: u32, probe: ItemId) {
        if let Some(unit) = &mut self.unit
            && (unit.number, unit.probe) == (number, probe)
        {
            unit.partners = 0..0;
        }
    }

    fn funnel(&self) -> Funnel {
        Funnel { matches: self.matches, ..Funnel::default() }
    }
}
