//! All pairs, one by one in `f64`, for joins that find no memory for anything else.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::common::Result;

use crate::engine::{
    Collection, Cursor, Funnel, ItemId, Match, MatchBuffer, MatchNeed, MatchOrder, Pairing,
    ProbeUnit, Progress, RowPairCounts, UnitQueue,
};
use crate::vector::collection::{Vectors, check_lens};
use crate::vector::nested_loop::Joining;

/// The time of a poll; the operator allows 10 ms.
const SLICE: Duration = Duration::from_millis(4);
/// Numbers compared between two looks at the clock.
const WORK: usize = if cfg!(test) { 200 } else { 1 << 16 };

/// A unit on its way: its vectors from `probe` on are left.
#[derive(Debug)]
struct Unit {
    number: u32,
    items: Arc<Vectors>,
    end: ItemId,
    probe: ItemId,
    /// The build items that the first of them has yet to meet; `None` before they are known.
    partners: Option<Range<ItemId>>,
}

/// Compares every probe vector with every build vector of its key. It prepares nothing, and takes no
/// memory that grows with the vectors.
#[derive(Debug)]
pub(super) struct PairCursor {
    build: Arc<Vectors>,
    join: Joining,
    units: UnitQueue<ProbeUnit>,
    unit: Option<Unit>,
    funnel: Funnel,
}

impl PairCursor {
    /// More than a cursor takes, whatever is fed to it.
    pub(super) const BYTES: usize = 4096;

    pub(super) fn new(build: Arc<Vectors>, join: Joining) -> Self {
        Self { build, join, units: UnitQueue::default(), unit: None, funnel: Funnel::default() }
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
        let rows = u64::from(items.groups().row_count_of(found.probe));
        let others = u64::from(self.build.groups().row_count_of(found.build));
        let itself = self.join.spec.pairing() == Pairing::Unordered && found.probe == found.build;
        matches.count(match itself {
            true => RowPairCounts { squares: rows * rows, rows, cross: 0 },
            false => RowPairCounts { cross: rows * others, ..RowPairCounts::default() },
        });
    }

    /// Works on a unit until it is done, the buffer is full, or some numbers are compared; whether
    /// it is done.
    fn work(&mut self, unit: &mut Unit, matches: &mut MatchBuffer) -> Result<bool> {
        let items = Arc::clone(&unit.items);
        let mut work = 0;
        while unit.probe < unit.end {
            let probe = unit.probe;
            let mut partners = match unit.partners.take() {
                Some(partners) => partners,
                None => self.partners(&items, probe)?,
            };
            while let Some(build) = partners.next() {
                if matches.is_full() || work > WORK {
                    unit.partners = Some(build..partners.end);
                    return Ok(false);
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
        Ok(true)
    }
}

impl Cursor for PairCursor {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        self.units.push(unit);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        let mut unit = match self.unit.take() {
            Some(unit) => unit,
            None => {
                let Some(ProbeUnit { number, items, range }) = self.units.pop() else {
                    return Poll::Ready(Ok(self.units.progress()));
                };
                let Range { start: probe, end } = range;
                Unit { number, items: items.shared()?, end, probe, partners: None }
            }
        };
        matches.begin(unit.number);
        let started = Instant::now();
        let mut done = false;
        while !done && !matches.is_full() && started.elapsed() < SLICE {
            done = self.work(&mut unit, matches)?;
        }
        self.funnel.verify_nanos += started.elapsed().as_nanos() as u64;
        if done {
            matches.complete(unit.number);
            return Poll::Ready(Ok(Progress::Yield));
        }
        self.unit = Some(unit);
        let full = matches.is_full();
        Poll::Ready(Ok(if full { Progress::Full } else { Progress::Yield }))
    }

    fn retire(&mut self, number: u32, probe: ItemId) {
        if let Some(unit) = &mut self.unit
            && unit.number == number
            && unit.probe == probe
        {
            unit.partners = Some(0..0);
        }
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}
