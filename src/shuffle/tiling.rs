//! Which task joins which rows with which.
//!
//! The rows of a side lie on an axis: by the position of their item, those of one position by a
//! hash of the item, and those with one item, of which there may be many, by a hash of the row. A
//! *tile* is an interval of either axis (and of classes of blocking keys). The tiles cover all
//! pairs of places and do not overlap, so that two rows meet in exactly one tile. A row is sent to
//! the tiles that it lies in and whose other side has positions which it can match:
//!
//! ```text
//! right position      the tiles of four tasks; pairs outside of the diagonal band cannot match:
//!   ▲ ┌───────┬──/─┐  corners of tiles outside the band receive no rows
//!   │ │    3  │/ 4/│
//!   │ ├────┬─/┼─/──┤
//!   │ │  1/│2/│/   │
//!   │ │  / │/ /    │
//!   └─┴─/──┴/─┴────┴─► left position
//! ```
//!
//! One tile is cut in two until there is one for each task: by the classes of keys, which repeats
//! no row, or across the axis of one side, which repeats rows of the other one; where the estimated
//! work comes out even, and as few bytes as possible are repeated. This is the decomposition of a
//! k-d tree (Bentley: "Multidimensional binary search trees", CACM 1975) over the join matrix
//! (Okcan, Riedewald: "Processing theta-joins using MapReduce", SIGMOD 2011). Where an input is
//! joined with itself, a `triangle` of the pairs suffices.

use std::ops::{Deref, Range};

use crate::engine::{ANYWHERE, Axis, RowPlace};
use crate::shuffle::histogram::{Histogram, KEY_CLASSES};
use crate::shuffle::region::{Estimate, Region};
use crate::shuffle::triangle::{Grain, WeighedTiles, triangles_and_rectangles};
use crate::spec::{Predicate, Side};

/// A place on the axis of a side: from above, 32 bits of the position of an item, 20 of its hash,
/// and 12 of a hash of the row, which tell rows with the same item apart.
pub type Place = u64;

/// The number of places that share an item, or items with similar hashes.
pub(crate) const BLOCK: Place = 1 << 12;

/// A tile, and the places on a side's axis whose rows are joined there.
pub(crate) type PlacesOfTile = (Range<Place>, u32);

/// Where the block of a row's item starts.
pub(crate) fn block_of(shape: RowPlace) -> Place {
    (u64::from(shape.position) << 32) + u64::from(shape.hash) / BLOCK * BLOCK
}

/// The place of a row; `row_hash` is the hash of all its columns.
pub fn place_of(shape: RowPlace, row_hash: u64) -> Place {
    block_of(shape) + row_hash % BLOCK
}

/// Which pairs of rows meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum GridPairs {
    /// Each left row meets each right row that it may match.
    #[default]
    All,
    /// Rows near to each other, of an input that is both sides. Each row is sent once, to be
    /// joined with the others of its tile, and with itself. The left side stands for both.
    Within,
    /// The other pairs of rows, in one order of the two, of an input that is both sides. Sent as
    /// left and as right rows to be joined with each other, each pair for both orders.
    Across,
}

/// The join, as far as senders of rows need to know it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridSpec {
    /// The condition of the join.
    pub predicate: Predicate,
    /// How many tasks share the work, at least 1.
    pub tasks: usize,
    /// Per side, whether each of its rows must be sent to exactly one task: where the answer lists
    /// rows of the side one by one.
    pub visits_once: [bool; 2],
    /// Which pairs of rows meet.
    pub pairs: GridPairs,
}

/// A join that is shared by tasks, and the axis on which its rows lie.
#[derive(Clone, Copy)]
pub struct Grid<'a> {
    /// The join.
    pub spec: GridSpec,
    /// The axis of its rows.
    pub axis: &'a dyn Axis,
}

impl Deref for Grid<'_> {
    type Target = GridSpec;

    fn deref(&self) -> &GridSpec {
        &self.spec
    }
}

impl Grid<'_> {
    /// The least and the greatest position that partners of rows of `side` may have, which lie between
    /// `least` and `greatest`; besides [`ANYWHERE`].
    pub(crate) fn partners(&self, side: Side, least: u32, greatest: u32) -> Option<(u32, u32)> {
        if self.is_anywhere(greatest) {
            return Some((0, u32::MAX));
        }
        let reach = self.axis.reach(side, least..greatest.saturating_add(1))?;
        let greatest = u32::try_from(reach.end.checked_sub(1)?).unwrap_or(u32::MAX);
        Some((u32::try_from(reach.start).ok()?, greatest))
    }

    /// Whether rows whose greatest position is this one may lie anywhere.
    pub(crate) fn is_anywhere(&self, greatest: u32) -> bool {
        greatest >= ANYWHERE && self.axis.has_anywhere()
    }
}

/// The rows that one task joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// Classes of blocking keys.
    pub keys: Range<u32>,
    /// Per side.
    pub places: [Range<Place>; 2],
}

impl Tile {
    /// All pairs of rows.
    pub(crate) fn whole() -> Self {
        Self { keys: 0..KEY_CLASSES, places: [0..Place::MAX, 0..Place::MAX] }
    }

    /// The positions of a side's items that lie in the tile, some of them at least.
    fn positions(&self, side: Side) -> (u32, u32) {
        let places = &self.places[side as usize];
        ((places.start >> 32) as u32, (places.end.saturating_sub(1) >> 32) as u32)
    }
}

/// The tiles of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiling {
    /// The tiles, each a range of places of either side.
    pub tiles: Vec<Tile>,
    /// The task of each tile.
    pub tasks: Vec<u32>,
    /// Per side, whether rows with one item go to different tiles.
    pub divides_items: [bool; 2],
}

impl Tiling {
    /// Tiles of even work for the rows that `histograms` (of the left and the right side) count.
    ///
    /// Equal histograms give equal tiles: every sender derives the tiling itself. The answer is
    /// right with any histograms, provided that all senders use equal ones. Of an input that is
    /// both sides, the left histogram counts.
    pub fn new(grid: &Grid<'_>, histograms: [&Histogram; 2]) -> Self {
        let divides = |tiles: &WeighedTiles, side: Side| {
            tiles.iter().any(|(tile, _)| !tile.places[side as usize].start.is_multiple_of(BLOCK))
        };
        if grid.pairs == GridPairs::All {
            let tiles = Region::whole(grid, histograms).into_tiles(grid, grid.tasks);
            let divides_items = [Side::Left, Side::Right].map(|side| divides(&tiles, side));
            let tasks = (0..).take(tiles.len()).collect();
            let tiles = tiles.into_iter().map(|(tile, _)| tile).collect();
            return Self { tiles, tasks, divides_items };
        }
        let dealt = |grain: Grain| {
            let tiles = triangles_and_rectangles(grid, histograms[0], grain);
            // An executor that runs a task of near rows also runs a task of rows apart, in some
            // order.
            let (tasks, most) = deal(tiles.iter().flatten(), grid.tasks);
            let sending: f64 = tiles.iter().flatten().map(|(_, tile)| tile.sending()).sum();
            (tiles, tasks, most + sending / grid.tasks.max(1) as f64)
        };
        let finer = Grain::finer(grid.tasks).into_iter().map(dealt);
        let ([within, across], mut tasks, _) =
            finer.fold(
                dealt(Grain::COARSEST),
                |best, other| {
                    if other.2 < best.2 { other } else { best }
                },
            );
        // All senders of the input have to agree on the place of a row.
        let divides_items = divides(&within, Side::Left)
            || divides(&across, Side::Left)
            || divides(&across, Side::Right);
        let tasks_across = tasks.split_off(within.len());
        let (tiles, tasks) = match grid.pairs {
            GridPairs::Within => (within, tasks),
            _ => (across, tasks_across),
        };
        let tiles = tiles.into_iter().map(|(tile, _)| tile).collect();
        Self { tiles, tasks, divides_items: [divides_items; 2] }
    }

    /// The tiles that the rows of `side` with an item of this position and key class may be sent
    /// to, with the places of the rows that each of these tiles gets.
    pub fn tiles(
        &self,
        grid: &Grid<'_>,
        side: Side,
        key_class: u32,
        position: u32,
    ) -> Vec<PlacesOfTile> {
        // Those that lie anywhere are partners in any case, whether a histogram knows of them or not.
        let partners = grid.partners(side, position, position);
        if partners.is_none() && !grid.axis.has_anywhere() {
            return vec![];
        }
        let first = u64::from(position) << 32;
        let last = first | u64::from(u32::MAX);
        (0..)
            .zip(&self.tiles)
            .filter(|(_, tile)| {
                let places = &tile.places[side as usize];
                let (other_least, other_greatest) = tile.positions(side.other());
                tile.keys.contains(&key_class)
                    && places.start <= last
                    && places.end > first
                    && (grid.is_anywhere(other_greatest)
                        || partners.is_some_and(|(least, greatest)| {
                            other_least <= greatest && other_greatest >= least
                        }))
            })
            .map(|(number, tile)| (tile.places[side as usize].clone(), number))
            .collect()
    }
}

/// A task for each tile, such that tasks have even work: the largest tile first, to the task with
/// the least. Also returns the work of the task that has most.
fn deal<'a>(tiles: impl Iterator<Item = &'a (Tile, Estimate)>, tasks: usize) -> (Vec<u32>, f64) {
    let mut by_work: Vec<(usize, f64)> = tiles.map(|(_, tile)| tile.work).enumerate().collect();
    by_work.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let mut loads = vec![0.0_f64; tasks.max(1)];
    let mut dealt = vec![0; by_work.len()];
    for (tile, work) in by_work {
        let least = (0_u32..).zip(&loads).min_by(|(_, a), (_, b)| a.total_cmp(b));
        let task = least.map_or(0, |(task, _)| task);
        loads[task as usize] += work;
        dealt[tile] = task;
    }
    (dealt, loads.into_iter().fold(0.0, f64::max))
}
