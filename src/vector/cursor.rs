//! The way of one partition's vectors through the nested loop.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::bounds::Bounds;
use super::collection::{Vectors, check_lens};
use super::filter::{Bound, Filter};
use super::metric::Decision;
use super::nested_loop::Joining;
use super::order::{BLOCK_ITEMS, Extent};
use super::panels::{BuildPanels, SomePanels};
use super::second::Second;
use super::tile::{Element, PANEL, ROW_UNIT, Rows, place_in_rows, products};
use super::verify;
use crate::engine::{
    Cursor, Funnel, ItemId, Match, MatchBuffer, MatchNeed, Pairing, ProbeUnit, Progress,
    RowPairCounts, UnitQueue,
};

/// Probe vectors that meet a panel while it lies in the cache, at most.
pub(super) const BLOCK: usize = 8 * ROW_UNIT;

/// Panels that a block meets before its survivors are decided.
const PANELS: usize = 2;

/// Panels whose boxes are held against a block's at once.
const LISTED: usize = 1 << 12;
/// As many where there are few, or where memory is short.
const FEW_LISTED: usize = 1 << 7;

/// Fewer pairs are decided in `f64` at once.
const FEW_PAIRS: usize = 64;

/// About the bytes of a cursor, besides the vectors of its block.
pub(super) const CURSOR_BYTES: usize = BLOCK
    * (PANEL * PANELS * size_of::<Survivor>() + 2 * size_of::<Bounds>())
    + FEW_LISTED * size_of::<u32>()
    + 4096;

/// The time of a poll; the operator allows 10 ms.
const SLICE: Duration = Duration::from_millis(4);

/// Dimensions compared in `f64` between two looks at the clock.
const WORK: usize = 1 << 16;

/// A pair that its product did not reject.
#[derive(Debug, Clone, Copy)]
struct Survivor {
    probe: ItemId,
    build: ItemId,
    /// Whether its product accepts it.
    is_accepted: bool,
}

/// A unit on its way.
#[derive(Debug)]
struct Unit {
    number: u32,
    items: Arc<Vectors>,
    /// Those that no block has taken.
    rest: Range<ItemId>,
}

/// Probe vectors of one key and one length.
#[derive(Debug)]
struct Block<F: Filter> {
    items: Range<ItemId>,
    /// The build items of the key that they are compared with.
    partners: Range<ItemId>,
    dimensions: usize,
    numbers: Vec<F::Element>,
    /// By row, to a multiple of [`ROW_UNIT`].
    reject: Vec<Bound<F>>,
    accept: Vec<Bound<F>>,
    /// By row, whether no more matches are asked for.
    retired: Vec<bool>,
    /// The next panel, and the end.
    panels: Range<usize>,
    /// The box around the vectors; none where all panels are compared with them.
    extent: Option<Extent>,
    /// Panels before those above that are in reach of the vectors and have not been compared, the next
    /// one last.
    listed: Vec<u32>,
    /// For when products leave too many pairs open.
    second: Second,
}

impl<F: Filter> Block<F> {
    fn new() -> Self {
        Self {
            items: 0..0,
            partners: 0..0,
            dimensions: 0,
            numbers: vec![],
            reject: vec![],
            accept: vec![],
            retired: vec![],
            panels: 0..0,
            extent: None,
            listed: vec![],
            second: Second::default(),
        }
    }

    /// Rejects what follows of a row.
    fn retire(&mut self, row: usize) {
        if let (Some(retired), Some(reject)) = (self.retired.get_mut(row), self.reject.get_mut(row))
        {
            (*retired, *reject) = (true, F::Element::NEVER);
        }
        self.second.retire(row);
    }

    fn is_over(&self) -> bool {
        self.panels.is_empty() && self.listed.is_empty()
    }

    /// The number of the next panel, and as many panels from it on as are compared at once; `None`
    /// where all listed ones have been.
    fn next_panels<'a>(&mut self, side: &'a BuildPanels<F>) -> Option<(usize, SomePanels<'a, F>)> {
        if self.extent.is_none() {
            let panel = self.panels.start;
            let some = side.panels(panel, PANELS.min(self.panels.len()));
            self.panels.start += some.1;
            return Some((panel, some));
        }
        let panel = self.listed.pop()? as usize;
        let some = side.pair(panel, self.listed.last().map(|&other| other as usize));
        if some.1 > 1 {
            self.listed.pop();
        }
        Some((panel, some))
    }
}

/// See [`super::nested_loop::NestedLoop`].
#[derive(Debug)]
pub(super) struct NestedLoopCursor<F: Filter> {
    side: Arc<BuildPanels<F>>,
    join: Joining,
    units: UnitQueue<ProbeUnit>,
    unit: Option<Unit>,
    block: Block<F>,
    /// Panels that are listed at once, where they are more than a few.
    most_listed: usize,
    survivors: Vec<Survivor>,
    /// Those that have been decided.
    decided: usize,
    funnel: Funnel,
    reservation: MemoryReservation,
}

impl<F: Filter> NestedLoopCursor<F> {
    pub(super) fn new(
        side: Arc<BuildPanels<F>>,
        join: Joining,
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            side,
            join,
            units: UnitQueue::default(),
            unit: None,
            block: Block::new(),
            most_listed: 0,
            survivors: vec![],
            decided: 0,
            funnel: Funnel::default(),
            reservation,
        }
    }

    /// Takes up the next vectors of the unit; whether there were any.
    fn next_block(&mut self) -> Result<bool> {
        let Some(unit) = &mut self.unit else { return Ok(false) };
        let Unit { items, rest, .. } = unit;
        if rest.start >= rest.end {
            return Ok(false);
        }
        let first = rest.start;
        let dimensions = items.dimensions(first);
        let Some(run) = items.run_of(first) else { return Ok(false) };
        let is_alike = |item: &ItemId| items.dimensions(*item) == dimensions;
        let extent = match (&self.side.reach, self.side.vectors.boxes()) {
            (Some(_), Some(boxes)) if Arc::ptr_eq(items, &self.side.vectors) => Some(boxes),
            _ => None,
        };
        let len = match extent {
            Some(_) => BLOCK_ITEMS - first % BLOCK_ITEMS,
            None => BLOCK as ItemId,
        };
        let end = rest.end.min(run.items.end).min(first.saturating_add(len));
        let count = (first..end).take_while(is_alike).count();
        let key = run.key;
        rest.start = first + count as ItemId;
        self.block.items = first..rest.start;
        self.block.panels = 0..0;
        self.block.listed.clear();
        self.block.extent = extent.map(|boxes| boxes.extent(self.block.items.clone()));
        let Some(run) = self.side.vectors.run(key) else { return Ok(true) };
        check_lens(self.join.threshold.metric.function().name(), dimensions, run.lens)?;
        let mut partners = run.items.clone();
        if self.join.spec.pairing == Pairing::Unordered {
            // With themselves and those before them.
            partners.end = partners.end.min(self.block.items.end);
        }
        self.block.partners = partners;
        self.block.dimensions = dimensions as usize;
        if self.join.threshold.is_void() || self.block.partners.is_empty() {
            return Ok(true);
        }
        self.begin_block()?;
        Ok(true)
    }

    /// Converts the vectors of the block.
    fn begin_block(&mut self) -> Result<()> {
        let Some(Unit { items, .. }) = &self.unit else { return Ok(()) };
        let Block {
            items: range,
            partners,
            dimensions,
            numbers,
            reject,
            accept,
            retired,
            panels,
            second,
            ..
        } = &mut self.block;
        let (count, places) = (range.len(), F::places(*dimensions));
        let rows = count.next_multiple_of(ROW_UNIT);
        reject.clear();
        reject.resize(rows, F::Element::NEVER);
        accept.clear();
        accept.resize(rows, F::Element::UNSURE);
        retired.clear();
        retired.resize(rows, false);
        second.reset();
        if count * partners.len() <= FEW_PAIRS {
            for probe in range.clone() {
                let survivor = |build| Survivor { probe, build, is_accepted: false };
                let end = match self.join.spec.pairing {
                    Pairing::All => partners.end,
                    Pairing::Unordered => partners.end.min(probe + 1),
                };
                self.survivors.extend((partners.start..end).map(survivor));
            }
            return Ok(());
        }
        let len = rows * places;
        if len > numbers.capacity() {
            let more = (len - numbers.capacity()) * size_of::<F::Element>();
            self.reservation.try_grow(more)?;
            numbers.reserve_exact(len - numbers.len());
        }
        numbers.clear();
        numbers.resize(len, F::Element::ZERO);
        let filter = &self.side.filter;
        let scale = filter.probe_scale(range.clone().map(|item| items.vector(item)));
        for (row, item) in range.clone().enumerate() {
            let to = numbers[place_in_rows(row, places)..].iter_mut().step_by(ROW_UNIT);
            let bounds = filter.probe(items, item, scale, to);
            (reject[row], accept[row]) = (bounds.reject, bounds.accept);
        }
        *panels = partners.start as usize / PANEL..(partners.end as usize).div_ceil(PANEL);
        Ok(())
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

    /// Compares the block with the next panels.
    fn compare(&mut self) {
        if self.block.extent.is_some() && self.block.listed.is_empty() {
            self.list();
        }
        let Some((panel, (part, count))) = self.block.next_panels(&self.side) else { return };
        let Block { items, partners, dimensions, numbers, reject, accept, second, .. } =
            &mut self.block;
        let first = (panel * PANEL) as ItemId;
        let (simd, side) = (self.join.spec.simd, &self.side);
        let is_unordered = self.join.spec.pairing == Pairing::Unordered;
        let (survivors, mut open) = (&mut self.survivors, 0);
        let mut survivor = |row: usize, build: ItemId, is_accepted: bool| {
            let probe = items.start + row as ItemId;
            let is_pair =
                probe < items.end && partners.contains(&build) && (!is_unordered || build <= probe);
            if is_pair {
                survivors.push(Survivor { probe, build, is_accepted });
                open += u64::from(!is_accepted);
            }
        };
        let pairs = (count * PANEL * items.len()) as u64;
        self.funnel.prefix_pairs += pairs;
        if let (Some(frame), true) = (&side.second, second.is_on) {
            let last = side.vectors.len();
            let starts = (first..last).step_by(part.step * PANEL).take(count);
            let panels = starts.map(|start| start..last.min(start + PANEL as ItemId));
            second.products(frame, &side.vectors, panels, simd, survivor);
            return;
        }
        let rows = Rows { places: F::places(*dimensions), numbers, reject };
        products(simd, rows, part, count, |row, vector, product| {
            let build = first + vector as ItemId;
            // A panel's last places may be no items.
            let accept = [accept[row], side.accept(build)];
            survivor(row, build, F::Element::is_accepted(product, accept));
        });
        second.count(pairs, open);
        if let (Some(frame), Some(unit)) = (&side.second, &self.unit)
            && second.would_pay(*dimensions)
        {
            second.begin(frame, &unit.items, items.clone(), &self.reservation);
        }
    }

    /// Whether a survivor matches.
    fn is_match(&mut self, pair: Survivor, work: &mut usize) -> Result<Decision> {
        let Some(Unit { items, .. }) = &self.unit else { return Ok(Decision::Neither) };
        if pair.is_accepted {
            return Ok(Decision::Match);
        }
        let build = &self.side.vectors;
        if !items.is_vector(pair.probe) || !build.is_vector(pair.build) {
            return Ok(Decision::Neither);
        }
        self.funnel.verified += 1;
        *work += 8 + self.block.dimensions;
        let (x, y) = (items.vector(pair.probe), build.vector(pair.build));
        match verify::is_match(self.join.spec.simd, self.join.threshold, x, y) {
            Some(true) => return Ok(Decision::Match),
            Some(false) => return Ok(Decision::Neither),
            None => {}
        }
        self.join.threshold.decide(x, y, self.join.orders)
    }

    /// Decides survivors; why it stopped, unless all are decided.
    fn decide(&mut self, matches: &mut MatchBuffer) -> Result<Option<Progress>> {
        let mut counts = RowPairCounts::default();
        let mut work = 0;
        while let Some(&pair) = self.survivors.get(self.decided) {
            if matches.is_full() {
                return Ok(Some(Progress::Full));
            }
            if work > WORK {
                break;
            }
            self.decided += 1;
            work += 1;
            let row = (pair.probe - self.block.items.start) as usize;
            if self.block.retired[row] {
                continue;
            }
            self.funnel.candidates += 1;
            let decision = self.is_match(pair, &mut work)?;
            let Some(detail) = decision.detail() else { continue };
            self.funnel.matches += 1;
            match self.join.spec.need {
                MatchNeed::Count if decision == Decision::Match => self.count(pair, &mut counts),
                need => {
                    let Survivor { probe, build, .. } = pair;
                    matches.push(Match { probe, build, detail });
                    if need == MatchNeed::Exists {
                        self.block.retire(row);
                    }
                }
            }
        }
        matches.count(counts);
        if self.decided < self.survivors.len() {
            return Ok(Some(Progress::Yield));
        }
        self.survivors.clear();
        self.decided = 0;
        Ok(None)
    }

    /// Counts the pairs of rows of two items that match.
    fn count(&self, pair: Survivor, counts: &mut RowPairCounts) {
        let Some(Unit { items, .. }) = &self.unit else { return };
        let Survivor { probe, build, .. } = pair;
        count_rows(self.join.spec.pairing, [items, &self.side.vectors], [probe, build], counts);
    }
}

/// Counts the pairs of rows of a probe and a build item that match.
pub(super) fn count_rows(
    pairing: Pairing,
    [items, build]: [&Vectors; 2],
    pair: [ItemId; 2],
    counts: &mut RowPairCounts,
) {
    use crate::engine::Collection;
    let rows = u64::from(items.groups().row_count_of(pair[0]));
    if pairing == Pairing::Unordered && pair[0] == pair[1] {
        counts.squares += rows * rows;
        counts.rows += rows;
    } else {
        counts.cross += rows * u64::from(build.groups().row_count_of(pair[1]));
    }
}

impl<F: Filter> Cursor for NestedLoopCursor<F> {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        self.units.push(unit);
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, _: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        if self.reservation.size() == 0 {
            self.reservation.try_grow(CURSOR_BYTES)?;
        }
        if self.unit.is_none() {
            let Some(ProbeUnit { number, items, range }) = self.units.pop() else {
                return Poll::Ready(Ok(self.units.progress()));
            };
            self.unit = Some(Unit { number, items: items.shared()?, rest: range });
        }
        let number = self.unit.as_ref().map_or(0, |unit| unit.number);
        matches.begin(number);
        let started = Instant::now();
        loop {
            let decided = self.decide(matches)?;
            match decided {
                Some(Progress::Full) => return Poll::Ready(Ok(Progress::Full)),
                _ if started.elapsed() > SLICE => return Poll::Ready(Ok(Progress::Yield)),
                Some(_) => continue,
                None => {}
            }
            if !self.block.is_over() {
                self.compare();
            } else if !self.next_block()? {
                self.unit = None;
                matches.complete(number);
                return Poll::Ready(Ok(Progress::Yield));
            }
        }
    }

    fn retire(&mut self, number: u32, probe: ItemId) {
        let is_open = self.unit.as_ref().is_some_and(|unit| unit.number == number);
        if is_open && self.block.items.contains(&probe) {
            self.block.retire((probe - self.block.items.start) as usize);
        }
    }

    fn funnel(&self) -> Funnel {
        self.funnel
    }
}
