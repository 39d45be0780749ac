//! The tiles: the rows that each task joins with each other.
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

use crate::shuffle::grid::{Grid, GridPairs, Tile};
use crate::shuffle::histogram::Histogram;
use crate::shuffle::place::{BLOCK, PlacesOfTile};
use crate::shuffle::region::{Estimate, Region, WeighedTiles};
use crate::shuffle::triangle::{Grain, triangles_and_rectangles};
use crate::spec::Side;

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
    /// right with any histograms, provided that all senders use equal ones. For an input that is
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
