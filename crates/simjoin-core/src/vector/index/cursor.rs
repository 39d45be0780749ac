//! The way of one partition's vectors through an index.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use super::boxes::{FANOUT, PANEL};
use super::built::VectorIndex;
use super::visit::{PAUSE, PanelHit, Visit, go_on};
use crate::engine::{
    self, Collection, Funnel, ItemId, Match, MatchBuffer, MatchNeed, MatchSpec, Pairing,
    RowPairCounts, Worker, WorkerProgress,
};
use crate::error::Result;
use crate::memory::Reservation;
use crate::vector::bounds::{Frame, Rounded};
use crate::vector::boxes::LANES;
use crate::vector::collection::{Vectors, check_lens};
use crate::vector::metric::{ArgumentOrder, Decision, Joining, Threshold};
use crate::vector::verify::is_match;

/// About the bytes of a cursor, besides the order of a unit's items and a point.
pub(in crate::vector) const CURSOR_BYTES: usize =
    2 * (PAUSE + FANOUT) * size_of::<PanelHit>() + size_of::<ProbeVector>() + 4096;

/// Steps between two looks at the clock.
const STEPS: usize = 1 << 10;

/// A unit on its way.
#[derive(Debug)]
struct CurrentUnit {
    items: Arc<Vectors>,
    /// The items that have not been taken up, as places of `order`, or by number where that is empty.
    rest: Range<usize>,
    /// The items by their rank, which lets neighbours follow each other.
    order: Vec<ItemId>,
}

/// A probe vector on its way.
#[derive(Debug)]
struct ProbeVector {
    item: ItemId,
    /// Its rank, where each unordered pair is decided once.
    own: Option<u32>,
    rounded: Rounded,
    visit: Option<Visit>,
    /// The ranks of partners that the function alone decides.
    others: Range<u32>,
    /// The hit that is being decided, with its undecided places.
    hit: usize,
    near: u16,
}

/// Finds the partners of one partition's vectors in an index.
#[derive(Debug)]
pub(super) struct IndexWorker {
    index: Arc<VectorIndex>,
    threshold: Threshold,
    orders: ArgumentOrder,
    spec: MatchSpec,
    unit: Option<CurrentUnit>,
    probe: Option<ProbeVector>,
    /// The probe vector, rounded, and room for its image.
    point: Vec<f32>,
    image: [f32; LANES],
    hits: Vec<PanelHit>,
    counts: RowPairCounts,
    funnel: Funnel,
    /// The frame of the index, with the threshold of the join.
    frame: Frame,
    reservation: Reservation,
}

impl IndexWorker {
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn try_new(
        index: Arc<VectorIndex>,
        joining: Joining,
        reservation: Reservation,
    ) -> Result<Self> {
        let Joining { threshold, orders, spec } = joining;
        let widest = index.vectors.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0);
        reservation.try_grow(CURSOR_BYTES + widest as usize * size_of::<f32>())?;
        Ok(Self {
            frame: index.frame.within(threshold),
            index,
            threshold,
            orders,
            spec,
            unit: None,
            probe: None,
            point: Vec::with_capacity(widest as usize),
            image: [0.0; LANES],
            hits: vec![],
            counts: RowPairCounts::default(),
            funnel: Funnel::default(),
            reservation,
        })
    }

    /// Takes up the next vector of the unit; whether there was one.
    fn next_probe(&mut self) -> Result<bool> {
        let Some(unit) = &mut self.unit else { return Ok(false) };
        let Some(place) = unit.rest.next() else { return Ok(false) };
        let item = unit.order.get(place).copied().unwrap_or(place as ItemId);
        let Some(run) = unit.items.run_of(item) else { return Ok(true) };
        let Some(run) = self.index.vectors.run(run.key) else { return Ok(true) };
        let dimensions = unit.items.dimensions(item);
        check_lens(self.threshold.metric.function().name(), dimensions, run.lens)?;
        if self.threshold.is_void() || !unit.items.is_vector(item) {
            return Ok(true);
        }
        let d = dimensions as usize;
        if d > self.point.capacity() {
            let missing = d - self.point.capacity();
            self.reservation.try_grow(missing * size_of::<f32>())?;
            self.point.reserve_exact(d - self.point.len());
        }
        self.point.clear();
        self.point.resize(d, 0.0);
        let rounded = self.frame.point(&unit.items, item, self.point.iter_mut());
        if rounded == Rounded::Never {
            return Ok(true);
        }
        let own = (self.spec.pairing() == Pairing::Unordered).then(|| self.index.rank(item));
        let partners = self.index.partners(&self.frame, run, rounded, own);
        let visit = partners.tree.map(|(placed, _)| {
            let last = own.map_or(u32::MAX, |own| (own - placed.first_rank) / PANEL as u32);
            Visit::new(&placed.tree(), last, self.spec.need == MatchNeed::Count)
        });
        let others = partners.others;
        self.hits.clear();
        self.probe = Some(ProbeVector { item, own, rounded, visit, others, hit: 0, near: 0 });
        Ok(true)
    }

    /// Goes on with the visit of the probe vector; whether it goes on.
    fn visit(&mut self) -> bool {
        let (Some(unit), Some(probe)) = (&self.unit, &mut self.probe) else { return false };
        let Some(visit) = probe.visit.as_mut().filter(|visit| !visit.is_over()) else {
            return false;
        };
        let run = unit.items.run_of(probe.item);
        let run = run.and_then(|run| self.index.vectors.run(run.key));
        let partners =
            run.map(|run| self.index.partners(&self.frame, run, probe.rounded, probe.own));
        let Some((placed, limits)) = partners.and_then(|partners| partners.tree) else {
            return false;
        };
        let before = (visit.nodes, visit.panels);
        self.hits.clear();
        (probe.hit, probe.near) = (0, 0);
        let simd = self.spec.simd;
        let visitor = placed.visitor(simd, &self.point, &mut self.image);
        go_on(simd, &placed.tree(), visitor, limits, visit, &mut self.hits);
        // Hits name ranks from here on.
        let first = placed.first_rank;
        let (end, own) = (first + placed.points, probe.own.unwrap_or(u32::MAX));
        for hit in &mut self.hits {
            hit.panel = first + hit.panel * PANEL as u32;
            if hit.whole > 0 {
                hit.whole *= PANEL as u32;
                continue;
            }
            let lanes = end.min(own.saturating_add(1)).saturating_sub(hit.panel);
            hit.near &= if lanes >= 16 { u16::MAX } else { (1 << lanes) - 1 };
        }
        probe.near = self.hits.first().map_or(0, |hit| hit.near);
        self.funnel.postings += (visit.nodes - before.0) * FANOUT as u64;
        self.funnel.prefix_pairs += (visit.panels - before.1) * PANEL as u64;
        self.count_whole(end);
        true
    }

    /// Counts the partners of whole boxes, whose ranks lie before `end`: those up to the own rank, where
    /// each unordered pair is decided once.
    fn count_whole(&mut self, end: u32) {
        let (Some(unit), Some(probe)) = (&self.unit, &self.probe) else { return };
        let vectors = &self.index.vectors;
        let (groups, rows) = (vectors.groups(), unit.items.groups().row_count_of(probe.item));
        for hit in self.hits.iter().filter(|hit| hit.whole > 0) {
            let last = end.min(hit.panel.saturating_add(hit.whole));
            let before = last.min(probe.own.unwrap_or(last));
            let ranks = hit.panel..before.max(hit.panel);
            let others = match groups.has_no_repeats() {
                true => ranks.len() as u64,
                false => {
                    let items = ranks.clone().filter_map(|rank| self.index.item(rank));
                    items.map(|item| u64::from(groups.row_count_of(item))).sum()
                }
            };
            self.counts.cross += u64::from(rows) * others;
            let mut pairs = ranks.len() as u64;
            if probe.own.is_some_and(|own| (hit.panel..last).contains(&own)) {
                let itself = [probe.item; 2];
                self.counts += RowPairCounts::of(self.spec.pairing(), [groups; 2], itself);
                pairs += 1;
            }
            self.funnel.candidates += pairs;
            self.funnel.matches += pairs;
        }
    }

    /// The next partner of the probe vector that has been found, and whether it is sure to match.
    fn next_partner(&mut self) -> Option<(u32, bool)> {
        let probe = self.probe.as_mut()?;
        while let Some(hit) = self.hits.get(probe.hit) {
            if probe.near != 0 {
                let lane = probe.near.trailing_zeros();
                probe.near &= probe.near - 1;
                let next = match probe.near {
                    0 => self
                        .hits
                        .get(probe.hit + 1)
                        .map(|hit| hit.panel + hit.near.trailing_zeros()),
                    near => Some(hit.panel + near.trailing_zeros()),
                };
                if let Some(next) = next.and_then(|rank| self.index.item(rank)) {
                    self.index.vectors.prefetch(next);
                }
                return Some((hit.panel + lane, hit.sure >> lane & 1 == 1));
            }
            probe.hit += 1;
            probe.near = self.hits.get(probe.hit).map_or(0, |hit| hit.near);
        }
        None
    }

    /// Decides a pair and gives it out; whether the probe vector needs no more.
    fn decide(&mut self, rank: u32, is_sure: bool, matches: &mut MatchBuffer) -> Result<bool> {
        let (Some(unit), Some(probe)) = (&self.unit, &self.probe) else { return Ok(true) };
        let Some(build) = self.index.item(rank) else { return Ok(false) };
        let vectors = &self.index.vectors;
        self.funnel.candidates += 1;
        let decision = if is_sure {
            Decision::Match
        } else if vectors.is_vector(build) {
            self.funnel.verified += 1;
            let (x, y) = (unit.items.vector(probe.item), vectors.vector(build));
            match is_match(self.spec.simd, self.threshold, x, y) {
                Some(true) => Decision::Match,
                Some(false) => Decision::Neither,
                None => self.threshold.decide(x, y, self.orders)?,
            }
        } else {
            Decision::Neither
        };
        let Some(order) = decision.order() else { return Ok(false) };
        self.funnel.matches += 1;
        if self.spec.need == MatchNeed::Count && decision == Decision::Match {
            let groups = [unit.items.groups(), vectors.groups()];
            self.counts += RowPairCounts::of(self.spec.pairing(), groups, [probe.item, build]);
        } else {
            matches.push_in(order, Match { probe: probe.item, build, detail: 0 });
        }
        Ok(self.spec.need == MatchNeed::Exists)
    }

    /// Works for some steps.
    fn advance(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        let mut steps = 0;
        while steps < STEPS {
            steps += 1;
            if self.probe.is_none() {
                if !self.next_probe()? {
                    return Ok(WorkerProgress::Done);
                }
                continue;
            }
            if matches.is_full() {
                return Ok(WorkerProgress::Full);
            }
            let partner = match self.next_partner() {
                Some(partner) => partner,
                None if self.visit() => continue,
                None => match self.probe.as_mut().and_then(|probe| probe.others.next()) {
                    Some(rank) => (rank, false),
                    None => {
                        self.probe = None;
                        continue;
                    }
                },
            };
            steps += self.point.len() / 64;
            if self.decide(partner.0, partner.1, matches)? {
                self.probe = None;
            }
        }
        Ok(WorkerProgress::More)
    }
}

impl Worker for IndexWorker {
    type Items = Vectors;

    fn begin(&mut self, unit: engine::Unit<Vectors>) -> Result<()> {
        let engine::Unit { items, range, .. } = unit;
        let (mut order, mut rest) = (vec![], range.start as usize..range.end as usize);
        if self.spec.pairing() == Pairing::Unordered {
            // Without memory for it, the order is as good as any.
            let bytes = range.len() * size_of::<ItemId>();
            if self.reservation.try_grow(bytes).is_ok() {
                order = range.collect();
                order.sort_unstable_by_key(|&item| self.index.rank(item));
                rest = 0..order.len();
            }
        }
        self.unit = Some(CurrentUnit { items, rest, order });
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        let worked = self.advance(matches);
        matches.count(std::mem::take(&mut self.counts));
        if let Ok(WorkerProgress::Done) = worked
            && let Some(unit) = self.unit.take()
        {
            self.reservation.shrink(unit.order.len() * size_of::<ItemId>());
        }
        worked
    }

    fn retire(&mut self, probe: ItemId) {
        if self.probe.as_ref().is_some_and(|own| own.item == probe) {
            self.probe = None;
        }
    }

    /// Pairs are decided one by one, as they are found: no time is that of verification.
    fn funnel(&self) -> Funnel {
        self.funnel
    }
}
