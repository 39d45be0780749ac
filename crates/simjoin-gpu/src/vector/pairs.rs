//! All pairs, one by one in `f64`, for joins that find no memory for anything else.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use simjoin_core::vector::collection::{Vectors, check_lens};
use simjoin_core::vector::metric::Joining;

use crate::engine::{
    self, Collection, Funnel, ItemId, Match, MatchBuffer, MatchNeed, MatchOrder, Pairing,
    RowPairCounts, Worker, WorkerProgress,
};
use crate::error::Result;
use crate::tuning::Size;

/// Numbers compared between two looks at the clock.
const NUMBERS: Size = Size { usual: 1 << 16, small: 200 };

/// A unit on its way: its vectors from `probe` on are left.
#[derive(Debug)]
struct CurrentUnit {
    items: Arc<Vectors>,
    end: ItemId,
    probe: ItemId,
    /// The build items that the first of them has yet to meet; `None` before they are known.
    partners: Option<Range<ItemId>>,
}

/// Compares every probe vector with every build vector of its key. It prepares nothing, and takes no
/// memory that grows with the vectors.
#[derive(Debug)]
pub(super) struct PairWorker {
    build: Arc<Vectors>,
    join: Joining,
    unit: Option<CurrentUnit>,
    funnel: Funnel,
}

impl PairWorker {
    /// More than a cursor takes, whatever is fed to it.
    pub(super) const BYTES: usize = 4096;

    pub(super) fn new(build: Arc<Vectors>, join: Joining) -> Self {
        Self { build, join, unit: None, funnel: Funnel::default() }
    }

    /// The build items that a probe item meets.
    fn partners(&self, items: &Vectors, probe: ItemId) -> Result<Range<ItemId>> {
        let run = items.run_of(probe).and_then(|run| self.build.run(run.key));
        let Some(run) = run else { return Ok(0..0) };
        check_lens(
            self.join.threshold.metric.function().name(),
            items.dimensions(probe),
            run.lens,
        )?;
        if self.join.threshold.is_void() || !items.is_vector(probe) {
            return Ok(0..0);
        }
        Ok(match self.join.spec.pairing() {
            Pairing::All => run.items.clone(),
            Pairing::Unordered => run.items.start..run.items.end.min(probe + 1),
        })
    }

    /// Adds a match, or counts it where it holds in all orders.
    fn add(&mut self, items: &Vectors, order: MatchOrder, found: Match, matches: &mut MatchBuffer) {
        self.funnel.matches += 1;
        if self.join.spec.need != MatchNeed::Count || order != MatchOrder::All {
            return matches.push_in(order, found);
        }
        let (groups, pair) = ([items.groups(), self.build.groups()], [found.probe, found.build]);
        matches.count(RowPairCounts::of(self.join.spec.pairing(), groups, pair));
    }

    /// Works on a unit until it is done, the buffer is full, or some numbers are compared.
    fn compare(
        &mut self,
        unit: &mut CurrentUnit,
        matches: &mut MatchBuffer,
    ) -> Result<WorkerProgress> {
        let items = Arc::clone(&unit.items);
        let (mut work, most) = (0, self.join.spec.tuning.size(NUMBERS));
        while unit.probe < unit.end {
            let probe = unit.probe;
            let mut partners = match unit.partners.take() {
                Some(partners) => partners,
                None => self.partners(&items, probe)?,
            };
            while let Some(build) = partners.next() {
                if matches.is_full() || work > most {
                    unit.partners = Some(build..partners.end);
                    return Ok(if matches.is_full() {
                        WorkerProgress::Full
                    } else {
                        WorkerProgress::More
                    });
                }
                work += 8 + items.dimensions(probe) as usize;
                if !self.build.is_vector(build) {
                    continue;
                }
                self.funnel.verified += 1;
                let Joining { threshold, orders, .. } = self.join;
                let (x, y) = (items.vector(probe), self.build.vector(build));
                let Some(order) = threshold.decide(x, y, orders)?.order() else { continue };
                self.add(&items, order, Match { probe, build, detail: 0 }, matches);
                if self.join.spec.need == MatchNeed::Exists {
                    break;
                }
            }
            work += 8;
            unit.probe += 1;
        }
        Ok(WorkerProgress::Done)
    }
}

impl Worker for PairWorker {
    type Items = Vectors;

    fn begin(&mut self, unit: engine::Unit<Vectors>) -> Result<()> {
        let Range { start: probe, end } = unit.range;
        self.unit = Some(CurrentUnit { items: unit.items, end, probe, partners: None });
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        let Some(mut unit) = self.unit.take() else { return Ok(WorkerProgress::Done) };
        let started = Instant::now();
        let worked = self.compare(&mut unit, matches)?;
        self.funnel.verify_nanos += started.elapsed().as_nanos() as u64;
        if worked != WorkerProgress::Done {
            self.unit = Some(unit);
        }
        Ok(worked)
    }

    fn retire(&mut self, probe: ItemId) {
        if let Some(unit) = &mut self.unit
            && unit.probe == probe
        {
            unit.partners = Some(0..0);
        }
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}
