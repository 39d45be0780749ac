//! The way of one partition's vectors through the nested loop.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::block::{Block, BlockSize};
use super::counts::{Counted, lanes_of};
use super::panels::BuildPanels;
use crate::engine::{
    self, Collection, Funnel, ItemId, Match, MatchBuffer, MatchNeed, Pairing, RowPairCounts,
    Worker, WorkerProgress,
};
use crate::error::Result;
use crate::memory::Reservation;
use crate::vector::collection::{Vectors, check_lens};
use crate::vector::filter::{Filter, ProductBounds, RowBounds};
use crate::vector::metric::{Decision, Joining, Metric};
use crate::vector::nan::ASKING_BYTES;
use crate::vector::tile::{Element, Heads, PANEL, Rows, for_each_lane, products_by_heads};
use crate::vector::verify::is_match;
use crate::vector::width::VectorPair;

/// Panels whose boxes are held against a block's at once.
const LISTED: usize = 1 << 12;
/// Panels held at once where there are few, or where memory is short.
const FEW_LISTED: usize = 1 << 7;

/// Fewer pairs are decided in `f64` at once.
const FEW_PAIRS: usize = 64;

/// Survivors that wait for others before they are decided, at most.
const WAITING: usize = 64;

/// Dimensions of pairs that are compared before survivors are decided and the clock is looked at, where few
/// survive: less than half a millisecond of products in `f32`.
const COMPARED: usize = 1 << 23;

/// About the bytes of a cursor, besides the vectors of its block.
pub const CURSOR_BYTES: usize =
    batch_bytes(BlockSize::LEAST) + FEW_LISTED * size_of::<u32>() + 4096;

/// A bound on the bytes that a batch takes, besides the vectors of its block.
const fn batch_bytes(batch: BlockSize) -> usize {
    (batch.pairs() + WAITING) * size_of::<Survivor>()
        + batch.rows * (2 * size_of::<ProductBounds>() + size_of::<RowBounds<f32>>())
}

/// Dimensions compared in `f64` between two looks at the clock.
const DIMENSIONS: usize = 1 << 16;

/// A pair that its product did not reject.
#[derive(Debug, Clone, Copy)]
struct Survivor {
    probe: ItemId,
    build: ItemId,
    /// Whether the pair matches, where that is known.
    known: Option<Decision>,
}

/// A unit on its way.
#[derive(Debug)]
struct CurrentUnit {
    items: Arc<Vectors>,
    /// The items that no block has taken.
    rest: Range<ItemId>,
}

/// Compares one partition's vectors with the panels of the build side.
#[derive(Debug)]
pub(super) struct NestedLoopWorker<F: Filter> {
    side: Arc<BuildPanels<F>>,
    join: Joining,
    unit: Option<CurrentUnit>,
    batch: BlockSize,
    block: Block<F>,
    /// Panels that are listed at once, where they are more than a few.
    most_listed: usize,
    survivors: Vec<Survivor>,
    /// Pairs that were counted as they were compared.
    counted: Counted,
    /// The number of survivors that have been decided, or are to be asked for.
    decided: usize,
    /// Survivors that only DataFusion's function decides, and the bytes that are reserved for them and for the function.
    asked: Vec<Survivor>,
    asking_bytes: usize,
    funnel: Funnel,
    reservation: Reservation,
}

impl<F: Filter> NestedLoopWorker<F> {
    /// A cursor that holds the memory of a block of a few of the widest vectors.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn try_new(
        side: Arc<BuildPanels<F>>,
        join: Joining,
        reservation: Reservation,
    ) -> Result<Self> {
        let widest = side.vectors.runs().iter().map(|run| run.lens[1]).max().unwrap_or(0);
        let layout = F::Element::layout(join.spec.simd);
        let numbers = layout.len(1, F::places(widest as usize));
        reservation.try_grow(CURSOR_BYTES + numbers * size_of::<F::Element>())?;
        let mut block = Block::new(layout);
        block.numbers.make_room(numbers);
        let best = BlockSize::of(layout);
        let more = batch_bytes(best).saturating_sub(batch_bytes(BlockSize::LEAST));
        let batch = if reservation.try_grow(more).is_ok() { best } else { BlockSize::LEAST };
        Ok(Self {
            side,
            join,
            unit: None,
            batch,
            block,
            most_listed: 0,
            survivors: vec![],
            counted: Counted::default(),
            decided: 0,
            asked: vec![],
            asking_bytes: 0,
            funnel: Funnel::default(),
            reservation,
        })
    }

    /// The vectors of so many dimensions that a block has room for, at most `count`: as many as
    /// memory allows, and a few in any case.
    fn make_room(&mut self, count: usize, dimensions: u32) -> Result<usize> {
        let (numbers, places) = (&mut self.block.numbers, F::places(dimensions as usize));
        let layout = self.block.layout;
        let needed = |count: usize| layout.len(count, places);
        let more = needed(count).saturating_sub(numbers.capacity());
        let count = match self.reservation.try_grow(more * size_of::<F::Element>()) {
            Ok(()) => count,
            Err(_) if needed(1) <= numbers.capacity() => {
                return Ok(count.min(numbers.capacity() / needed(1).max(1) * layout.unit));
            }
            Err(error) => return Err(error),
        };
        numbers.make_room(needed(count));
        Ok(count)
    }

    /// Takes up the next vectors of the unit; whether there were any.
    fn next_block(&mut self) -> Result<bool> {
        let side = Arc::clone(&self.side);
        let Some(unit) = &mut self.unit else { return Ok(false) };
        let CurrentUnit { items, rest, .. } = unit;
        if rest.start >= rest.end {
            return Ok(false);
        }
        let first = rest.start;
        let dimensions = items.dimensions(first);
        let Some(run) = items.run_of(first) else { return Ok(false) };
        let is_alike = |item: &ItemId| items.dimensions(*item) == dimensions;
        let extent = match (&side.reach, side.vectors.boxes()) {
            (Some(_), Some(boxes)) if Arc::ptr_eq(items, &side.vectors) => Some(boxes),
            _ => None,
        };
        let places = F::places(dimensions as usize);
        let end = match extent {
            Some(boxes) => self.batch.end_of(first, places, boxes),
            None => first.saturating_add(self.batch.rows_of(places) as ItemId),
        };
        let end = rest.end.min(run.items.end).min(end);
        let count = (first..end).take_while(is_alike).count();
        let key = run.key;
        let count = self.make_room(count, dimensions)?;
        let Some(CurrentUnit { rest, .. }) = &mut self.unit else { return Ok(false) };
        rest.start = first + count as ItemId;
        self.block.items = first..rest.start;
        self.block.panels = 0..0;
        self.block.listed.clear();
        self.block.extent = extent.map(|boxes| boxes.extent(self.block.items.clone()));
        let Some(run) = self.side.vectors.run(key) else { return Ok(true) };
        check_lens(self.join.threshold.metric.function().name(), dimensions, run.lens)?;
        let mut partners = run.items.clone();
        if self.join.spec.pairing() == Pairing::Unordered {
            // With themselves and those before them.
            partners.end = partners.end.min(self.block.items.end);
        }
        self.block.partners = partners;
        self.block.dimensions = dimensions as usize;
        if self.join.threshold.is_void() || self.block.partners.is_empty() {
            return Ok(true);
        }
        self.begin_block();
        Ok(true)
    }

    /// Converts the vectors of the block, or takes up its pairs where they are few.
    fn begin_block(&mut self) {
        let Some(CurrentUnit { items, .. }) = &self.unit else { return };
        self.block.clear();
        let Block { items: range, partners, .. } = &self.block;
        if range.len() * partners.len() > FEW_PAIRS {
            let has_norms = self.join.threshold.metric == Metric::InnerProduct;
            self.block.convert(items, &self.side.filter, has_norms);
            return;
        }
        for probe in range.clone() {
            let survivor = |build| Survivor { probe, build, known: None };
            let end = match self.join.spec.pairing() {
                Pairing::All => partners.end,
                Pairing::Unordered => partners.end.min(probe + 1),
            };
            self.survivors.extend((partners.start..end).map(survivor));
        }
    }

    /// Lists panels in reach of the block, of the next ones.
    fn list(&mut self) {
        // Of a few thousand vectors, few are listed in any case.
        if self.most_listed == 0 && self.block.panels.len() > 8 * FEW_LISTED {
            let more = self.reservation.try_grow(LISTED * size_of::<u32>());
            self.most_listed = if more.is_ok() { LISTED } else { FEW_LISTED };
        }
        let Block { panels, extent: Some(extent), listed, .. } = &mut self.block else { return };
        let Some(reach) = &self.side.reach else { return };
        let end = panels.end.min(panels.start + self.most_listed.max(FEW_LISTED));
        self.funnel.postings += (end - panels.start) as u64;
        reach.tiles(extent, panels.start as u32..end as u32, listed);
        listed.reverse();
        panels.start = end;
    }

    /// Passes over panels that no vector of the block reaches.
    fn pass(&mut self) {
        let Block { panels, extent: None, norm, .. } = &mut self.block else { return };
        while panels.start < panels.end && self.side.is_out_of_reach(panels.start, *norm) {
            panels.start += 1;
        }
    }

    /// Compares the block with the next panels, until some pairs survive.
    fn compare_some(&mut self) {
        let pairs = COMPARED / self.block.dimensions.max(1);
        let end = self.funnel.prefix_pairs + pairs as u64;
        while !self.block.is_over() && self.survivors.len() <= WAITING {
            self.compare();
            if self.funnel.prefix_pairs >= end {
                break;
            }
        }
    }

    /// Compares the block with the next panels.
    fn compare(&mut self) {
        self.pass();
        if self.block.extent.is_some() && self.block.listed.is_empty() {
            self.list();
        }
        let Some((panel, (part, count))) = self.block.next_panels(&self.side, self.batch.panels)
        else {
            return;
        };
        let scale = self.side.scale(panel);
        if scale != self.block.scale {
            self.block.set_scale(scale);
        }
        let Block {
            items, partners, dimensions, numbers, reject, accept, heads, head, second, ..
        } = &mut self.block;
        let heads = Heads { places: *head, of_rows: heads, of_panels: self.side.heads(panel) };
        let heads = (heads.places > 0).then_some(heads);
        let first = (panel * PANEL) as ItemId;
        let (spec, side) = (&self.join.spec, &self.side);
        let is_unordered = spec.pairing() == Pairing::Unordered;
        let (survivors, mut open) = (&mut self.survivors, 0);
        let mut survivor = |row: usize, build: ItemId, is_accepted: bool| {
            let probe = items.start + row as ItemId;
            let is_pair =
                probe < items.end && partners.contains(&build) && (!is_unordered || build <= probe);
            if is_pair {
                let known = is_accepted.then_some(Decision::Match);
                survivors.push(Survivor { probe, build, known });
                open += u64::from(!is_accepted);
            }
        };
        let pairs = (count * PANEL * items.len()) as u64;
        self.funnel.prefix_pairs += pairs;
        if second.is_on {
            let last = side.vectors.len();
            let starts = (first..last).step_by(part.step * PANEL).take(count);
            let panels = starts.map(|start| start..last.min(start + PANEL as ItemId));
            second.products(&side.vectors, panels, spec.simd, survivor);
            return;
        }
        let rows = Rows { places: F::places(*dimensions), numbers, reject };
        let (unit, counted) = (&self.unit, &mut self.counted);
        let counts = spec.need == MatchNeed::Count;
        products_by_heads(
            spec.simd,
            rows,
            part,
            heads,
            count,
            |row, vector, mut mask, products| {
                let build = first + vector as ItemId;
                let of_row = accept[row];
                // A panel's last places may be no items.
                let of_panel = side.accepts(build);
                if let (true, Some(of_panel), Some(unit)) = (counts, of_panel.as_array(), unit) {
                    let probe = items.start + row as ItemId;
                    // Not the pair of a vector with itself.
                    let end = if is_unordered { partners.end.min(probe) } else { partners.end };
                    let pairs =
                        lanes_of(build, partners.start..if probe < items.end { end } else { 0 });
                    let sure =
                        F::Element::accepted(spec.simd, products, of_row, of_panel) & mask & pairs;
                    counted.add(probe, build, sure, [&unit.items, &side.vectors]);
                    mask &= !sure;
                }
                for_each_lane(mask, |lane| {
                    let accept = [of_row, of_panel[lane]];
                    survivor(
                        row,
                        build + lane as ItemId,
                        F::Element::is_accepted(products[lane], accept),
                    );
                });
            },
        );
        second.count(pairs, open);
        let dimensions = *dimensions;
        if let (Some(frame), Some(unit)) = (&side.second, &self.unit)
            && self.block.second.would_pay(dimensions)
        {
            let (items, retired) = (self.block.items.clone(), &self.block.retired);
            self.block.second.begin(frame, &unit.items, items, retired, &self.reservation);
        }
    }

    /// Whether a survivor matches; `None` where the function has to be asked.
    fn is_match(&mut self, pair: Survivor, work: &mut usize) -> Option<Decision> {
        if pair.known.is_some() {
            return pair.known;
        }
        let Some(CurrentUnit { items, .. }) = &self.unit else { return Some(Decision::Neither) };
        let build = &self.side.vectors;
        if !items.is_vector(pair.probe) || !build.is_vector(pair.build) {
            return Some(Decision::Neither);
        }
        self.funnel.verified += 1;
        *work += 8 + self.block.dimensions;
        let (x, y) = (items.vector(pair.probe), build.vector(pair.build));
        match is_match(self.join.spec.simd, self.join.threshold, x, y) {
            Some(true) => Some(Decision::Match),
            Some(false) => Some(Decision::Neither),
            None => self.join.threshold.decide_alone(x, y),
        }
    }

    /// Asks the function for what is left: those are survivors again.
    fn ask(&mut self) -> Result<()> {
        let Some(CurrentUnit { items, .. }) = &self.unit else { return Ok(()) };
        let build = &self.side.vectors;
        self.survivors.clear();
        self.decided = 0;
        let most = self.asked.capacity() * size_of::<Survivor>() + ASKING_BYTES;
        if most > self.asking_bytes && self.reservation.try_grow(most - self.asking_bytes).is_ok() {
            self.asking_bytes = most;
        }
        // Without memory for more, one by one.
        let at_once = if most > self.asking_bytes { 1 } else { self.asked.len() };
        for some in self.asked.chunks(at_once.max(1)) {
            let vectors =
                some.iter().map(|pair| [items.vector(pair.probe), build.vector(pair.build)]);
            let pairs: Vec<VectorPair<'_>> = vectors.collect();
            let decisions = self.join.threshold.ask(&pairs, self.join.orders)?;
            let known = some.iter().zip(decisions);
            self.survivors
                .extend(known.map(|(pair, known)| Survivor { known: Some(known), ..*pair }));
        }
        self.asked.clear();
        Ok(())
    }

    /// Decides survivors; why it stopped, unless all are decided.
    fn decide(&mut self, matches: &mut MatchBuffer) -> Result<Option<WorkerProgress>> {
        let Counted { pairs, rows: mut counts } = std::mem::take(&mut self.counted);
        self.funnel.candidates += pairs;
        self.funnel.matches += pairs;
        let mut work = 0;
        while let Some(&pair) = self.survivors.get(self.decided) {
            if matches.is_full() {
                matches.count(counts);
                return Ok(Some(WorkerProgress::Full));
            }
            if work > DIMENSIONS {
                break;
            }
            self.decided += 1;
            work += 1;
            let row = (pair.probe - self.block.items.start) as usize;
            if self.block.retired[row] {
                continue;
            }
            let Some(decision) = self.is_match(pair, &mut work) else {
                self.asked.push(pair);
                continue;
            };
            self.funnel.candidates += 1;
            let Some(order) = decision.order() else { continue };
            self.funnel.matches += 1;
            match self.join.spec.need {
                MatchNeed::Count if decision == Decision::Match => self.count(pair, &mut counts),
                need => {
                    let Survivor { probe, build, .. } = pair;
                    matches.push_in(order, Match { probe, build, detail: 0 });
                    if need == MatchNeed::Exists {
                        self.block.retire(row);
                    }
                }
            }
        }
        matches.count(counts);
        if self.decided < self.survivors.len() {
            return Ok(Some(WorkerProgress::More));
        }
        if !self.asked.is_empty() {
            self.ask()?;
            return Ok(Some(WorkerProgress::More));
        }
        self.survivors.clear();
        self.decided = 0;
        Ok(None)
    }

    /// Counts the pairs of rows of two items that match.
    fn count(&self, pair: Survivor, counts: &mut RowPairCounts) {
        let Some(CurrentUnit { items, .. }) = &self.unit else { return };
        let groups = [items.groups(), self.side.vectors.groups()];
        *counts += RowPairCounts::of(self.join.spec.pairing(), groups, [pair.probe, pair.build]);
    }
}

impl<F: Filter> Worker for NestedLoopWorker<F> {
    type Items = Vectors;

    fn begin(&mut self, unit: engine::Unit<Vectors>) -> Result<()> {
        self.unit = Some(CurrentUnit { items: unit.items, rest: unit.range });
        Ok(())
    }

    fn work(&mut self, matches: &mut MatchBuffer) -> Result<WorkerProgress> {
        let begun = (!self.survivors.is_empty()).then(Instant::now);
        let stopped = self.decide(matches)?;
        if let Some(begun) = begun {
            self.funnel.verify_nanos += begun.elapsed().as_nanos() as u64;
        }
        if let Some(stopped) = stopped {
            return Ok(stopped);
        }
        if !self.block.is_over() {
            self.compare_some();
        } else if !self.next_block()? {
            self.unit = None;
            return Ok(WorkerProgress::Done);
        }
        Ok(WorkerProgress::More)
    }

    fn retire(&mut self, probe: ItemId) {
        if self.block.items.contains(&probe) {
            self.block.retire((probe - self.block.items.start) as usize);
        }
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}
