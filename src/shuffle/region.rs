//! A part of all pairs of rows on the way to a [`Tile`]: its estimates, and where it is cut.

use std::ops::Range;

use crate::engine::{ANYWHERE, Axis};
use crate::shuffle::grid::{Grid, Tile};
use crate::shuffle::histogram::Histogram;
use crate::shuffle::place::{BLOCK, Place};
use crate::spec::Side;

/// The work to take a row up and for each of its elementary values (read, encoded, indexed, looked
/// up: 40 ns or so), where a pair of rows whose positions can match counts 1 (0.1 ns or less, as
/// most of them are never looked at).
pub(crate) const WORK_PER_ROW: f64 = 1000.0;
pub(crate) const WORK_PER_VALUE: f64 = 400.0;
/// The bytes of a row next to its elementary values, and of each value.
const BYTES_PER_ROW: f64 = 32.0;
const BYTES_PER_VALUE: f64 = 8.0;
/// The work that sending a byte makes: 2 ns.
const WORK_PER_BYTE: f64 = 20.0;
/// The last place of a position, as a distance from its first.
const LAST: Place = (1 << 32) - 1;

/// Rows of one class of keys and positions, spread evenly over their places.
#[derive(Debug, Clone)]
struct Cell {
    key: u32,
    places: Range<Place>,
    rows: f64,
    /// The positions that partners may have.
    partners: Option<(u32, u32)>,
}

impl Cell {
    /// The mean weight of the items.
    fn weight(&self, axis: &dyn Axis) -> f64 {
        let (least, greatest) = ((self.places.start >> 32) as u32, (self.places.end >> 32) as u32);
        let ends = [least, greatest.max(least)].map(|position| axis.weight(position) as f64);
        ends[0].midpoint(ends[1])
    }

    fn holds(&self, other: &Self) -> bool {
        self.key == other.key
            && self.places.start <= other.places.start
            && self.places.end >= other.places.end
    }

    /// The part of the cell below `heavy`, `heavy` with the rows at its places, and the part above.
    fn around(&self, heavy: Self) -> impl Iterator<Item = Self> {
        let below = self.within(&(self.places.start..heavy.places.start));
        let above = self.within(&(heavy.places.end..self.places.end));
        let there = self.within(&heavy.places).map_or(0.0, |cell| cell.rows);
        let heavy = Self { rows: heavy.rows + there, ..heavy };
        below.into_iter().chain([heavy]).chain(above)
    }

    /// The part of the cell in a range of places.
    fn within(&self, places: &Range<Place>) -> Option<Self> {
        let start = self.places.start.max(places.start);
        let end = self.places.end.min(places.end);
        if start >= end {
            return None;
        }
        let width = (self.places.end - self.places.start) as f64;
        let rows = self.rows * (end - start) as f64 / width;
        Some(Self { places: start..end, rows, ..self.clone() })
    }
}

/// The estimates of a region.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Estimate {
    pub work: f64,
    /// The bytes of the rows that are sent.
    pub bytes: f64,
}

impl Estimate {
    fn add(&mut self, other: Self) {
        self.work += other.work;
        self.bytes += other.bytes;
    }

    /// The work to send the rows.
    pub(crate) fn sending(&self) -> f64 {
        WORK_PER_BYTE * self.bytes
    }
}

/// Pairs of rows that lie in a tile.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    tile: Tile,
    /// Per side, by key and place.
    cells: [Vec<Cell>; 2],
}

/// Two parts of a region, each with its number of tasks.
type Cut = [(Region, usize); 2];

/// A triangle in two. Cut between classes of keys, nothing is left; cut across the axis, the
/// rectangle between them is.
pub(crate) struct TriangleCut {
    pub parts: [Region; 2],
    pub between: Option<Region>,
}

/// Tiles, each with its estimates.
pub(crate) type WeighedTiles = Vec<(Tile, Estimate)>;

impl Region {
    /// All pairs.
    pub(crate) fn whole(grid: &Grid<'_>, histograms: [&Histogram; 2]) -> Self {
        let cells = [Side::Left, Side::Right].map(|side| {
            let histogram = histograms[side as usize];
            let mut cells: Vec<Cell> = vec![];
            for (&(key, class, block), &rows) in &histogram.rows {
                let (least, greatest) = match histogram.resolution.positions(class) {
                    (_, greatest) if grid.is_anywhere(greatest) => (ANYWHERE, ANYWHERE),
                    positions => positions,
                };
                let of_class = u64::from(least) << 32..u64::from(greatest) << 32 | LAST;
                let (places, least, greatest) = match block {
                    0 => (of_class, least, greatest),
                    block => {
                        let position = (block >> 32) as u32;
                        (block..block.saturating_add(BLOCK), position, position)
                    }
                };
                let partners = grid.partners(side, least, greatest);
                let cell = Cell { key, places, rows: rows as f64, partners };
                // Of a class, the block of a heavy item follows the rest of the items.
                match cells.pop_if(|last| block > 0 && last.holds(&cell)) {
                    Some(rest) => cells.extend(rest.around(cell)),
                    None => cells.push(cell),
                }
            }
            cells
        });
        Self { tile: Tile::whole(), cells }
    }

    pub(crate) fn into_tile(self) -> Tile {
        self.tile
    }

    /// The cells of each key, per side.
    fn by_key(&self) -> impl Iterator<Item = (u32, [&[Cell]; 2])> {
        let mut rest = self.cells.each_ref().map(Vec::as_slice);
        std::iter::from_fn(move || {
            let key = rest.iter().filter_map(|cells| cells.first()).map(|cell| cell.key).min()?;
            let split =
                rest.map(|cells| cells.split_at(cells.partition_point(|cell| cell.key <= key)));
            rest = split.map(|(_, others)| others);
            Some((key, split.map(|(own, _)| own)))
        })
    }

    /// The estimates of joining the region.
    pub(crate) fn estimate(&self, grid: &Grid<'_>) -> Estimate {
        let mut all = Estimate::default();
        let is_sent = self.sends_all(grid);
        self.by_key().for_each(|(_, cells)| all.add(estimate(grid, cells, is_sent)));
        all
    }

    /// Per side, whether rows are sent that have no partner as far as is known.
    fn sends_all(&self, grid: &Grid<'_>) -> [bool; 2] {
        [Side::Left, Side::Right].map(|side| {
            let others = &self.tile.places[side.other() as usize];
            grid.visits_once[side as usize] || grid.is_anywhere((others.end >> 32) as u32)
        })
    }

    /// The estimates of joining the rows of the region with themselves. Both sides have the same
    /// rows: one copy of each is sent, and one of the two orders of a pair is decided.
    pub(crate) fn triangle_estimate(&self, grid: &Grid<'_>) -> Estimate {
        let Estimate { work, bytes } = self.estimate(grid);
        Estimate { work: work / 2.0, bytes: bytes / 2.0 }
    }

    /// Tiles of even work: one for each of `tasks` where there is enough to cut.
    pub(crate) fn into_tiles(self, grid: &Grid<'_>, tasks: usize) -> WeighedTiles {
        let mut tiles = vec![];
        // Depth first, the lower part first.
        let mut rest = vec![(self, tasks.max(1))];
        while let Some((region, tasks)) = rest.pop() {
            match region.cut(grid, tasks) {
                Some([(lower, of_lower), (upper, of_upper)]) => {
                    rest.push((upper, of_upper));
                    rest.push((lower, of_lower));
                }
                None => {
                    let estimate = region.estimate(grid);
                    tiles.push((region.into_tile(), estimate));
                }
            }
        }
        tiles
    }

    /// Two parts of a region that has the same rows on both sides, each with the same rows on both
    /// sides, and the rectangle between them, such that `share` tiles get even work; `None` where
    /// there is nothing to cut.
    pub(crate) fn cut_triangle(&self, grid: &Grid<'_>, share: f64) -> Option<TriangleCut> {
        let across = self.middle(grid, Side::Left, 0.5).map(|at| self.triangle_at(at));
        let tasks = (share.ceil() as usize).max(2);
        let by_keys = self.cut_keys(grid, tasks).map(|[(lower, of_lower), (upper, of_upper)]| {
            let parts = [&lower, &upper].map(|part| part.triangle_estimate(grid));
            let per_task = (parts[0].work / of_lower as f64).max(parts[1].work / of_upper as f64);
            let sending = (parts[0].sending() + parts[1].sending()) / tasks as f64;
            (TriangleCut { parts: [lower, upper], between: None }, per_task + sending)
        });
        let across = across.map(|cut| {
            let mut all = Estimate::default();
            cut.parts.iter().for_each(|part| all.add(part.triangle_estimate(grid)));
            cut.between.iter().for_each(|between| all.add(between.estimate(grid)));
            (cut, (all.work + all.sending()) / tasks as f64)
        });
        let cuts = by_keys.into_iter().chain(across);
        cuts.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(cut, _)| cut)
    }

    /// The rows below and those above a place, and the pairs of one below and one above.
    fn triangle_at(&self, at: Place) -> TriangleCut {
        let [lower, upper] = self.parts(Side::Left, at);
        let [within_lower, between] = lower.parts(Side::Right, at);
        let [_, within_upper] = upper.parts(Side::Right, at);
        TriangleCut { parts: [within_lower, within_upper], between: Some(between) }
    }

    /// Two parts of even work for each of `tasks`; `None` where there is nothing to cut.
    pub(crate) fn cut(&self, grid: &Grid<'_>, tasks: usize) -> Option<Cut> {
        if tasks <= 1 {
            return None;
        }
        // A cut across one axis repeats rows of the other side.
        let across = [Side::Left, Side::Right]
            .into_iter()
            .filter(|side| !grid.visits_once[side.other() as usize])
            .filter_map(|side| self.cut_places(grid, side, tasks));
        let cuts = self.cut_keys(grid, tasks).into_iter().chain(across);
        let scored = cuts.map(|cut| {
            let [lower, upper] = cut.each_ref().map(|(region, _)| region.estimate(grid));
            let per_task = (lower.work / cut[0].1 as f64).max(upper.work / cut[1].1 as f64);
            let sending = (lower.sending() + upper.sending()) / tasks as f64;
            (cut, per_task + sending)
        });
        scored.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(cut, _)| cut)
    }

    /// Between two classes of keys.
    fn cut_keys(&self, grid: &Grid<'_>, tasks: usize) -> Option<Cut> {
        let is_sent = self.sends_all(grid);
        let work: Vec<(u32, f64)> =
            self.by_key().map(|(key, cells)| (key, estimate(grid, cells, is_sent).work)).collect();
        let total: f64 = work.iter().map(|(_, work)| work).sum();
        let mut lower = 0.0;
        let mut best: Option<(f64, u32, usize)> = None;
        for pair in work.windows(2) {
            lower += pair[0].1;
            // As many tasks as the lower part's share of the work.
            let share = (lower / total * tasks as f64).round();
            let of_lower = (share as usize).clamp(1, tasks - 1);
            let upper = total - lower;
            let per_task = (lower / of_lower as f64).max(upper / (tasks - of_lower) as f64);
            if best.is_none_or(|(least, ..)| per_task < least) {
                best = Some((per_task, pair[1].0, of_lower));
            }
        }
        let (_, key, of_lower) = best?;
        let part = |keys: Range<u32>| {
            let of = |cells: &[Cell]| {
                cells.iter().filter(|cell| keys.contains(&cell.key)).cloned().collect()
            };
            Region {
                cells: [of(&self.cells[0]), of(&self.cells[1])],
                tile: Tile { keys: keys.clone(), ..self.tile.clone() },
            }
        };
        let (lower, upper) = (part(self.tile.keys.start..key), part(key..self.tile.keys.end));
        Some([(lower, of_lower), (upper, tasks - of_lower)])
    }

    /// Across the axis of `side`, half of the tasks below.
    fn cut_places(&self, grid: &Grid<'_>, side: Side, tasks: usize) -> Option<Cut> {
        let of_lower = tasks / 2;
        let at = self.middle(grid, side, of_lower as f64 / tasks as f64)?;
        let [lower, upper] = self.parts(side, at);
        Some([(lower, of_lower), (upper, tasks - of_lower)])
    }

    /// The place on the axis of `side` below which a `share` of the work lies. The work is taken
    /// to be that of the side's rows with their pairs, which the two parts share without a rest.
    fn middle(&self, grid: &Grid<'_>, side: Side, share: f64) -> Option<Place> {
        let work: Vec<(&Range<Place>, f64)> = self
            .by_key()
            .flat_map(|(_, cells)| {
                let others = Cumulated::of(cells[side.other() as usize]);
                let work = move |cell: &Cell| {
                    cell.rows
                        * (work_per_row(cell, grid.axis) + others.partners(cell).unwrap_or(0.0))
                };
                cells[side as usize].iter().map(move |cell| (&cell.places, work(cell)))
            })
            .collect();
        let wanted = share * work.iter().map(|(_, work)| work).sum::<f64>();
        let mut low = work.iter().map(|(places, _)| places.start).min()?;
        let mut high = work.iter().map(|(places, _)| places.end).max()?;
        while high - low > 1 {
            let middle = low.midpoint(high);
            let below: f64 = work.iter().map(|(places, work)| work * part(places, middle)).sum();
            match below < wanted {
                true => low = middle,
                false => high = middle,
            }
        }
        let places = &self.tile.places[side as usize];
        (places.start < high && high < places.end).then_some(high)
    }

    /// The parts below and above a place on the axis of `side`, without the rows of the other side
    /// that have no partner there.
    fn parts(&self, side: Side, at: Place) -> [Self; 2] {
        let places = &self.tile.places[side as usize];
        [places.start..at, at..places.end].map(|places| {
            let cells = self.cells[side as usize].iter();
            let own: Vec<Cell> = cells.filter_map(|cell| cell.within(&places)).collect();
            let least = own.iter().map(|cell| cell.places.start >> 32).min();
            let greatest = own.iter().map(|cell| cell.places.end >> 32).max();
            let positions = least.zip(greatest);
            let has_partners = |cell: &&Cell| {
                cell.partners.zip(positions).is_some_and(|(partners, (least, greatest))| {
                    u64::from(partners.0) <= greatest && u64::from(partners.1) >= least
                        || greatest >= u64::from(ANYWHERE)
                })
            };
            let others = self.cells[side.other() as usize].iter().filter(has_partners);
            let mut part = Self { tile: self.tile.clone(), cells: [vec![], vec![]] };
            part.cells[side.other() as usize] = others.cloned().collect();
            part.cells[side as usize] = own;
            part.tile.places[side as usize] = places;
            part
        })
    }
}

/// The work of taking up a row of the cell.
fn work_per_row(cell: &Cell, axis: &dyn Axis) -> f64 {
    WORK_PER_ROW + WORK_PER_VALUE * cell.weight(axis)
}

/// The part of `places` that is below `place`.
fn part(places: &Range<Place>, place: Place) -> f64 {
    let below = place.clamp(places.start, places.end) - places.start;
    below as f64 / (places.end - places.start) as f64
}

/// The estimates of joining the cells of one key. `is_sent` says, per side, whether rows without a
/// partner are sent as well.
fn estimate(grid: &Grid<'_>, cells: [&[Cell]; 2], is_sent: [bool; 2]) -> Estimate {
    let mut all = Estimate::default();
    for side in [Side::Left, Side::Right] {
        let others = Cumulated::of(cells[side.other() as usize]);
        for cell in cells[side as usize] {
            let Some(partners) = others.partners(cell) else { continue };
            // Rows without a partner are not sent, unless they are part of the answer, or rows that lie
            // anywhere would be their partners.
            if partners > 0.0 || is_sent[side as usize] {
                // The pairs once for both sides.
                all.work += cell.rows * (work_per_row(cell, grid.axis) + partners / 2.0);
                all.bytes += cell.rows * (BYTES_PER_ROW + BYTES_PER_VALUE * cell.weight(grid.axis));
            }
        }
    }
    all
}

/// The numbers of rows below places.
struct Cumulated<'a> {
    cells: &'a [Cell],
    before: Vec<f64>,
}

impl<'a> Cumulated<'a> {
    fn of(cells: &'a [Cell]) -> Self {
        let mut before = Vec::with_capacity(cells.len() + 1);
        before.push(0.0);
        let mut sum = 0.0;
        before.extend(cells.iter().map(|cell| {
            sum += cell.rows;
            sum
        }));
        Self { cells, before }
    }

    fn below(&self, place: Place) -> f64 {
        let whole = self.cells.partition_point(|cell| cell.places.end <= place);
        let split = self.cells.get(whole).map_or(0.0, |cell| cell.rows * part(&cell.places, place));
        self.before[whole] + split
    }

    /// The number of these rows that may match each row of a cell of the other side; `None` where none
    /// ever can.
    fn partners(&self, cell: &Cell) -> Option<f64> {
        let (least, greatest) = cell.partners?;
        let end = (u64::from(greatest) << 32).saturating_add(1 << 32);
        let anywhere = u64::from(ANYWHERE) << 32;
        // None of them is counted twice.
        let anywhere = match self.cells.last() {
            Some(last) if end <= anywhere && last.places.start >= anywhere => last.rows,
            _ => 0.0,
        };
        Some(self.below(end) - self.below(u64::from(least) << 32) + anywhere)
    }
}
