//! The grid that clusters run, on real sets: the product counts the rows and makes the tiles; here
//! each row is sent to them, and the work of each task is counted.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion_simjoin::internals::engine::{Axis, Family, RowPlace};
use datafusion_simjoin::internals::set::{Bounds, SetFamily};
use datafusion_simjoin::internals::shuffle::{
    Counter, Grid as Tiled, GridPairs, GridSpec, Histogram, Place, Tiling, place_of,
};
use datafusion_simjoin::spec::{Call, Predicate, Side as JoinSide};

use super::load::Load;
use super::rows::{Content, Input, Partners, Side, mix};

/// The parts of a self-join: rows of one tile with each other, and those of different places.
const PARTS: [GridPairs; 2] = [GridPairs::Within, GridPairs::Across];

/// The axis of set sizes, and what the product is told of a symmetric join.
fn spec(bounds: Bounds, tasks: usize) -> Result<(GridSpec, Arc<dyn Axis>)> {
    let call = Call { function: bounds.measure.function(), first: JoinSide::Left };
    let predicate = Predicate::new(call, bounds.threshold);
    let spec =
        GridSpec { predicate, tasks, visits_once: [false, false], pairs: GridPairs::default() };
    // No expression is read here.
    Ok((spec, SetFamily::default().axis(predicate)?))
}

/// The rows of each side, counted by the product.
pub struct Counts([Histogram; 2]);

impl Counts {
    /// Counts each row of both sides.
    pub fn new(input: &Input) -> Self {
        Self([&input.left, input.right()].map(|side| {
            let mut counter = Counter::new(false);
            for place in 0..side.len() {
                let rows = side.rows(place..place + 1).0 as usize;
                counter.add(&vec![row_place(&input.content, side, place); rows]);
            }
            counter.finish().with_heavy_items()
        }))
    }
}

fn row_place(content: &Content, side: &Side, place: usize) -> RowPlace {
    // The upper half, so that sets ascend on the axis as in `Side`.
    let hash = (content.hash(side.sets[place]) >> 32) as u32;
    RowPlace { position: side.size(place), kind: 0, hash, key_hash: 0 }
}

/// Rows of one set at one place of the product's axis.
#[derive(Debug, Clone, Copy)]
struct Item {
    place: Place,
    /// Place of the set in its [`Side`].
    set: usize,
    size: u32,
    rows: u64,
}

/// The rows of a side, ascending by place. Where the tiling divides items, each row has a place of
/// its own.
fn items(content: &Content, side: &Side, divides_items: bool) -> Vec<Item> {
    let mut items = vec![];
    for set in 0..side.len() {
        let shape = row_place(content, side, set);
        let rows = side.rows(set..set + 1).0;
        let item = Item { place: place_of(shape, 0), set, size: shape.position, rows };
        match divides_items {
            true => items.extend((0..rows).map(|row| {
                let row_hash = mix(content.hash(side.sets[set]) ^ mix(row));
                Item { place: place_of(shape, row_hash), rows: 1, ..item }
            })),
            false => items.push(item),
        }
    }
    items.sort_unstable_by_key(|item| (item.place, item.set));
    items
}

/// One tiling with the rows that it sends.
struct Part {
    spec: GridSpec,
    tiling: Tiling,
    /// Per side.
    items: [Vec<Item>; 2],
    /// Per tile and side, ranges of items.
    sent: Vec<[Vec<Range<usize>>; 2]>,
}

/// The product's tilings of a join: one of two sides, two of a self-join.
pub struct Grid<'a> {
    input: &'a Input,
    bounds: Bounds,
    axis: Arc<dyn Axis>,
    parts: Vec<Part>,
    tasks: usize,
}

impl<'a> Grid<'a> {
    /// The grid of `tasks` tasks. With `left_once` each left row visits one task, as in joins that
    /// preserve the rows of the left side.
    ///
    /// # Errors
    ///
    /// When the measure has no axis.
    pub fn plan(
        input: &'a Input,
        counts: &Counts,
        bounds: Bounds,
        tasks: usize,
        left_once: bool,
    ) -> Result<Self> {
        let (spec, axis) = spec(bounds, tasks)?;
        let kinds = if input.is_self_join() { &PARTS[..] } else { &[GridPairs::All] };
        let parts = kinds.iter().map(|&pairs| {
            let spec = GridSpec { pairs, visits_once: [left_once, false], ..spec };
            Part::new(input, counts, spec, axis.as_ref())
        });
        let parts = parts.collect();
        Ok(Self { input, bounds, axis, parts, tasks })
    }

    /// Whether rows with one set are sent different ways.
    pub fn divides_items(&self) -> bool {
        self.parts.iter().any(|part| part.tiling.divides_items.contains(&true))
    }

    /// The load of each task: the rows that it gets, and the pairs that it compares.
    pub fn loads(&self) -> Vec<Load> {
        let (x, y) = (&self.input.left, self.input.right());
        // Pairs of a self-join are limited to one order by the tiles.
        let partners = Partners::new(x, y, self.bounds, false);
        let mut loads = vec![Load::default(); self.tasks];
        for part in &self.parts {
            for (tile, &task) in part.tiling.tasks.iter().enumerate() {
                let load = &mut loads[task as usize];
                part.add_rows(tile, load);
                self.add_work(part, tile, &partners, load);
            }
        }
        loads
    }

    /// Adds the pairs of different sets of a tile.
    fn add_work(&self, part: &Part, tile: usize, partners: &Partners, load: &mut Load) {
        let (probe, build) = part.roles();
        let (probes, builds) = (part.sets(tile, probe), part.sets(tile, build));
        for place in probes.into_iter().flatten() {
            let of_size = partners.of(place);
            let (below, above) = (of_size.start..place.min(of_size.end), place + 1..of_size.end);
            let places = match part.spec.pairs {
                GridPairs::All => [of_size, 0..0],
                GridPairs::Within => [below, 0..0],
                GridPairs::Across => [below, above],
            };
            for places in places {
                for run in &builds {
                    let met = places.start.max(run.start)..places.end.min(run.end);
                    load.pairs += met.len() as u64;
                }
            }
        }
    }

    /// How many times two places meet in a task. `visit` gets their sets, and how often.
    ///
    /// # Errors
    ///
    /// The errors of `visit`.
    pub fn meetings(&self, mut visit: impl FnMut(usize, usize, usize) -> Result<()>) -> Result<()> {
        let routes: Vec<[Vec<Vec<u32>>; 2]> =
            self.parts.iter().map(|part| part.routes(self.axis.as_ref())).collect();
        let common = |a: &[u32], b: &[u32]| a.iter().filter(|tile| b.contains(tile)).count();
        let Some(Part { items: [left, right], .. }) = self.parts.first() else { return Ok(()) };
        for (i, a) in left.iter().enumerate() {
            for (j, b) in right.iter().enumerate() {
                let met = match routes.as_slice() {
                    [[near, _], [lower, upper]] => {
                        // A row is apart from itself nowhere, so that both orders count.
                        common(&near[i], &near[j])
                            + common(&lower[i], &upper[j])
                            + common(&lower[j], &upper[i])
                    }
                    [[left, right]] => common(&left[i], &right[j]),
                    _ => 0,
                };
                visit(a.set, b.set, met)?;
            }
        }
        Ok(())
    }

    /// The rows sent, row by row, and the greatest number of tasks that a left row visits.
    pub fn sent(&self) -> (u64, usize) {
        let (mut rows, mut greatest) = (0, 0);
        for part in &self.parts {
            let routes = part.routes(self.axis.as_ref());
            greatest = routes[0].iter().map(Vec::len).fold(greatest, usize::max);
            for (items, routes) in part.items.iter().zip(&routes) {
                rows += items.iter().zip(routes).map(|(i, r)| i.rows * r.len() as u64).sum::<u64>();
            }
        }
        (rows, greatest)
    }
}

impl Part {
    fn new(input: &Input, Counts(counts): &Counts, spec: GridSpec, axis: &dyn Axis) -> Self {
        let grid = Tiled { spec, axis };
        let tiling = Tiling::new(&grid, counts.each_ref());
        let sides = [(JoinSide::Left, &input.left), (JoinSide::Right, input.right())];
        let items = sides
            .map(|(side, rows)| items(&input.content, rows, tiling.divides_items[side as usize]));
        let mut sent = vec![[vec![], vec![]]; tiling.tiles.len()];
        for side in sides_sent(spec.pairs) {
            let items = &items[side as usize];
            for of_size in items.chunk_by(|a, b| a.size == b.size) {
                for (places, tile) in tiling.tiles(&grid, side, 0, of_size[0].size) {
                    let at = |place| items.partition_point(|item| item.place < place);
                    let size = u64::from(of_size[0].size) << 32;
                    let range = at(places.start.max(size))..at(places.end.min(size + (1 << 32)));
                    if range.is_empty() {
                        continue;
                    }
                    let ranges: &mut Vec<Range<usize>> = &mut sent[tile as usize][side as usize];
                    match ranges.last_mut() {
                        Some(last) if last.end == range.start => last.end = range.end,
                        _ => ranges.push(range),
                    }
                }
            }
        }
        Self { spec, tiling, items, sent }
    }

    /// The side that probes and the other one. In a self-join sets look up those of lower places,
    /// which are on the left.
    fn roles(&self) -> (JoinSide, JoinSide) {
        match self.spec.pairs {
            GridPairs::All => (JoinSide::Left, JoinSide::Right),
            GridPairs::Within => (JoinSide::Left, JoinSide::Left),
            GridPairs::Across => (JoinSide::Right, JoinSide::Left),
        }
    }

    fn add_rows(&self, tile: usize, load: &mut Load) {
        for (items, ranges) in self.items.iter().zip(&self.sent[tile]) {
            for item in ranges.iter().flat_map(|range| &items[range.clone()]) {
                load.add_rows((item.rows, item.rows * u64::from(item.size)));
            }
        }
    }

    /// The different sets that a tile gets of a side, as ranges of their places.
    fn sets(&self, tile: usize, side: JoinSide) -> Vec<Range<usize>> {
        let items = &self.items[side as usize];
        let ranges = self.sent[tile][side as usize].iter();
        let mut sets: Vec<usize> =
            ranges.flat_map(|range| &items[range.clone()]).map(|item| item.set).collect();
        sets.sort_unstable();
        let mut runs: Vec<Range<usize>> = vec![];
        for set in sets {
            match runs.last_mut() {
                Some(run) if run.end > set => {}
                Some(run) if run.end == set => run.end += 1,
                _ => runs.push(set..set + 1),
            }
        }
        runs
    }

    /// Per side, the tiles of each item, one by one as rows are sent.
    fn routes(&self, axis: &dyn Axis) -> [Vec<Vec<u32>>; 2] {
        let grid = Tiled { spec: self.spec, axis };
        let mut routes = [vec![], vec![]];
        for side in sides_sent(self.spec.pairs) {
            let route = |item: &Item| {
                let tiles = self.tiling.tiles(&grid, side, 0, item.size).into_iter();
                tiles.filter(|(places, _)| places.contains(&item.place)).map(|t| t.1).collect()
            };
            routes[side as usize] = self.items[side as usize].iter().map(route).collect();
        }
        routes
    }
}

/// The sides as which rows are sent.
fn sides_sent(pairs: GridPairs) -> impl Iterator<Item = JoinSide> {
    let sides = [JoinSide::Left, JoinSide::Right];
    sides.into_iter().take(if pairs == GridPairs::Within { 1 } else { 2 })
}
