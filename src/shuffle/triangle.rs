//! The tiles of a join of an input with itself, in which each pair of rows meets once.
//!
//! Both sides have one axis then, and of two rows the one with the lower place is the left one.
//! The pairs are a triangle, which is cut into two and the rectangle between them:
//!
//! ```text
//! right
//!   ▲ ┌────────┬──────/     The rows of a triangle are joined with themselves: one copy of each,
//!   │ │        │    /       each pair decided once, and each row meets itself there.
//!   │ │ left < │  /
//!   │ │ right  │/           A rectangle is cut further like those of any join, and a pair found
//!   │ ├────────/            in it stands for both orders.
//!   │ │      /
//!   │ │    /
//!   │ │  /
//!   └─┴/───────────────► left
//! ```
//!
//! The tasks compare half the pairs, and with P tasks and a share a of pairs whose positions match √(2·P·a)
//! copies of a row or so, where a square of two readings takes 2·√(P·a).

use crate::shuffle::grid::Grid;
use crate::shuffle::histogram::Histogram;
use crate::shuffle::region::{Region, TriangleCut, WeighedTiles};

/// Tiles for each task, about. Several of them make even tasks, and more copies of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grain {
    pub triangles: f64,
    pub rectangles: f64,
}

impl Grain {
    pub(crate) const COARSEST: Self = Self { triangles: 1.0, rectangles: 1.0 };

    /// Further grains to try. Where there are few tasks, small rectangles, which even out the work
    /// of the triangles, cost little.
    pub(crate) fn finer(tasks: usize) -> Vec<Self> {
        let grain = |triangles, rectangles| Self { triangles, rectangles };
        let mut finer = vec![grain(2.0, 2.0)];
        if tasks <= 32 {
            finer.extend([2.0, 3.0, 4.0, 6.0, 8.0].map(|rectangles| grain(1.0, rectangles)));
            finer.push(grain(2.0, 4.0));
        }
        finer
    }
}

/// The tiles whose rows are joined with themselves, and those of left rows with right ones.
pub(crate) fn triangles_and_rectangles(
    grid: &Grid<'_>,
    histogram: &Histogram,
    grain: Grain,
) -> [WeighedTiles; 2] {
    let (mut triangles, mut rectangles) = (vec![], vec![]);
    let shares = grain.triangles * grid.tasks.max(1) as f64;
    // Each with the number of triangles that its work would make.
    let mut rest = vec![(Region::whole(grid, [histogram; 2]), shares)];
    while let Some((triangle, share)) = rest.pop() {
        let cut = if share > 1.0 { triangle.cut_triangle(grid, share) } else { None };
        let Some(TriangleCut { parts, between }) = cut else {
            let estimate = triangle.triangle_estimate(grid);
            triangles.push((triangle.into_tile(), estimate));
            continue;
        };
        let work = parts.each_ref().map(|part| part.triangle_estimate(grid).work);
        let work_between = between.as_ref().map_or(0.0, |between| between.estimate(grid).work);
        let total = work.iter().sum::<f64>() + work_between;
        // Kept also where no work is expected: a histogram leaves no pair out.
        if let Some(between) = between {
            let share = share * work_between / total * grain.rectangles / grain.triangles;
            let tiles = share.round().max(1.0);
            rectangles.extend(between.into_tiles(grid, tiles as usize));
        }
        let [lower, upper] = parts;
        rest.push((upper, share * work[1] / total));
        rest.push((lower, share * work[0] / total));
    }
    [triangles, rectangles]
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::RowPlace;
    use crate::set::{Bounds, Measure, Role};
    use crate::shuffle::grid::{GridPairs, GridSpec};
    use crate::shuffle::place::KEY_CLASSES;
    use crate::shuffle::tests::{
        ROWS, axis, collections, histogram, numbered, pairs, shape, spec, tiles_of, work_of_row,
    };
    use crate::shuffle::tiling::Tiling;
    use crate::spec::Side;

    /// The tilings of rows near to each other, and of rows apart.
    fn tilings<'a>(grid: &Grid<'a>, histogram: &Histogram) -> [(Grid<'a>, Tiling); 2] {
        [GridPairs::Within, GridPairs::Across].map(|pairs| {
            let grid = Grid { spec: GridSpec { pairs, ..grid.spec }, axis: grid.axis };
            (grid, Tiling::new(&grid, [histogram, histogram]))
        })
    }

    #[test]
    fn rows_that_may_match_meet_once_in_one_order() {
        let mut rng = StdRng::seed_from_u64(29);
        let (mut near, mut apart) = (0, 0);
        for measure in Measure::ALL.into_iter().filter(|measure| measure.is_symmetric()) {
            for threshold in [0.3, 0.8, 1.0] {
                for which in 0..6 {
                    let mut rows = collections(&mut rng).swap_remove(which);
                    let keyed = rng.random_range(0..3) == 0;
                    let keys = [1, 2, 900][rng.random_range(0..3)];
                    for row in rows.iter_mut().filter(|_| keyed) {
                        row.key_hash = rng.random_range(0..keys) * 0x9E37;
                    }
                    let tasks = [1, 2, 3, 7, 16][rng.random_range(0..5)];
                    let spec = spec(measure, threshold, tasks, [false, false]);
                    let histogram = histogram(&rows, keyed);
                    let axis = axis(&spec);
                    let grid = Grid { spec, axis: &axis };
                    let [(within, once), (across, crossed)] = tilings(&grid, &histogram);
                    assert_eq!(once.divides_items, crossed.divides_items);
                    for tiling in [&once, &crossed] {
                        assert!(tiling.tasks.iter().all(|&task| (task as usize) < tasks));
                        assert_eq!(tiling.tasks.len(), tiling.tiles.len());
                    }
                    // Also rows that no histogram has counted.
                    rows.truncate(120);
                    rows.extend((0..30).map(|i| RowPlace {
                        position: 1 << (i % 20),
                        kind: 0,
                        hash: rng.random(),
                        key_hash: rng.random(),
                    }));
                    let rows = numbered(&rows);
                    let sent: Vec<[Vec<u32>; 3]> = rows
                        .iter()
                        .map(|row| {
                            let left = tiles_of(&crossed, &across, Side::Left, *row, keyed);
                            let right = tiles_of(&crossed, &across, Side::Right, *row, keyed);
                            [tiles_of(&once, &within, Side::Left, *row, keyed), left, right]
                        })
                        .collect();
                    let bounds = Bounds::new(measure, threshold);
                    let role = Role::of(spec.predicate.call, Side::Left);
                    let common = |a: &[u32], b: &[u32]| a.iter().filter(|t| b.contains(t)).count();
                    for (i, (a, [a_near, a_left, a_right])) in rows.iter().zip(&sent).enumerate() {
                        assert!(a_near.len() <= 1);
                        assert_eq!(common(a_left, a_right), 0, "a row is apart from itself");
                        for (b, [b_near, b_left, b_right]) in rows.iter().zip(&sent).skip(i) {
                            let class = |row: &RowPlace| row.key_hash % KEY_CLASSES;
                            let may_match =
                                bounds.sizes_can_match(role, a.0.position, b.0.position)
                                    && (!keyed || class(&a.0) == class(&b.0));
                            let met_near = common(a_near, b_near);
                            let met_apart = common(a_left, b_right) + common(b_left, a_right);
                            if may_match {
                                assert_eq!(met_near + met_apart, 1, "{spec:?} {a:?} {b:?}");
                                near += met_near;
                                apart += met_apart;
                            }
                        }
                    }
                }
            }
        }
        assert!(near > 10_000 && apart > 10_000, "{near} {apart}");
    }

    /// The greatest work of a task over the mean one, near and apart, and how many copies of a row
    /// are sent.
    fn balance(spec: &GridSpec, rows: &[RowPlace]) -> (f64, f64) {
        let histogram = histogram(rows, false);
        let mut loads = vec![0.0; spec.tasks];
        let mut sent = 0;
        let axis = axis(spec);
        for (grid, tiling) in tilings(&Grid { spec: *spec, axis: &axis }, &histogram) {
            let mut at = vec![[vec![], vec![]]; tiling.tiles.len()];
            for side in [Side::Left, Side::Right] {
                if grid.pairs == GridPairs::Within && side == Side::Right {
                    continue;
                }
                for row in numbered(rows) {
                    for tile in tiles_of(&tiling, &grid, side, row, false) {
                        at[tile as usize][side as usize].push(row.0);
                        sent += 1;
                    }
                }
            }
            for ([left, right], task) in at.iter().zip(&tiling.tasks) {
                let (right, part) = match grid.pairs {
                    GridPairs::Within => (left, 0.5),
                    _ => (right, 1.0),
                };
                let reading = left.iter().chain(right).map(work_of_row).sum::<u64>();
                let work = pairs(&grid, left, right, false) + reading;
                loads[*task as usize] += part * work as f64;
            }
        }
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        let most = loads.iter().copied().fold(0.0, f64::max);
        (most / mean, sent as f64 / rows.len() as f64)
    }

    #[test]
    fn tasks_have_even_work_and_few_copies() {
        let mut rng = StdRng::seed_from_u64(31);
        let heavy = shape(&mut rng, 30);
        let mut of_sizes = |size: &dyn Fn(&mut StdRng, u32) -> u32| -> Vec<RowPlace> {
            let row = |i| {
                let size = size(&mut rng, i);
                shape(&mut rng, size)
            };
            (0..ROWS as u32).map(row).collect()
        };
        let shapes: [(&str, Vec<RowPlace>); 4] = [
            ("zipf", of_sizes(&|rng, _| (3.0 / rng.random_range(0.02..1.0_f64)) as u32)),
            ("one size", of_sizes(&|_, _| 20)),
            ("two sizes", of_sizes(&|_, i| if i % 10 == 0 { 100 } else { 20 })),
            (
                "one set",
                of_sizes(&|_, _| 28)
                    .into_iter()
                    .take(ROWS / 10)
                    .chain(std::iter::repeat_n(heavy, ROWS))
                    .collect(),
            ),
        ];
        for (name, rows) in &shapes {
            for (tasks, threshold) in [(2, 0.8), (4, 0.8), (7, 0.5), (16, 0.8)] {
                let spec = spec(Measure::Jaccard, threshold, tasks, [false, false]);
                let (most, copies) = balance(&spec, rows);
                assert!(most < 1.4, "{name} {tasks} {threshold}: {most}");
                // All pairs of P tasks of two tiles: √(4·P), and a few small tiles.
                let bound = 1.0 + 1.2 * (4.0 * tasks as f64).sqrt();
                assert!(copies < bound, "{name} {tasks} {threshold}: {copies}");
            }
        }
    }
}
