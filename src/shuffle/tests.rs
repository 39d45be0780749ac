//! Where rows are sent.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::engine::{ANYWHERE, Axis, RowPlace};
use crate::set::axis::SizeAxis;
use crate::set::{Bounds, Measure, Role};
use crate::shuffle::grid::{Grid, GridPairs, GridSpec};
use crate::shuffle::histogram::{Counter, Histogram};
use crate::shuffle::place::{KEY_CLASSES, place_of};
use crate::shuffle::region::{WORK_PER_ROW, WORK_PER_VALUE};
use crate::shuffle::send::values_of_tasks;
use crate::shuffle::tiling::Tiling;
use crate::spec::{Call, Predicate, Side};

pub(crate) fn spec(
    measure: Measure,
    threshold: f64,
    tasks: usize,
    visits_once: [bool; 2],
) -> GridSpec {
    let call = Call { function: measure.function(), first: Side::Left };
    let predicate = Predicate::new(call, threshold);
    GridSpec { predicate, tasks, visits_once, pairs: GridPairs::All }
}

pub(crate) fn axis(spec: &GridSpec) -> SizeAxis {
    SizeAxis::try_new(spec.predicate).unwrap()
}

/// So many that comparing them takes longer than reading them.
pub(crate) const ROWS: usize = 40_000;

pub(crate) fn shape(rng: &mut StdRng, size: u32) -> RowPlace {
    RowPlace { position: size, kind: 0, hash: rng.random(), key_hash: 0 }
}

/// The rows, each with the hash of its content.
pub(crate) fn numbered(rows: &[RowPlace]) -> Vec<(RowPlace, u64)> {
    (0_u64..).map(|i| (i * 0x9E37_79B9) >> 7).zip(rows).map(|(hash, row)| (*row, hash)).collect()
}

pub(crate) fn histogram(rows: &[RowPlace], keyed: bool) -> Histogram {
    let mut counter = Counter::new(keyed);
    counter.add(rows);
    counter.finish().with_heavy_items()
}

/// The tiles that a row is sent to.
pub(crate) fn tiles_of(
    tiling: &Tiling,
    grid: &Grid<'_>,
    side: Side,
    (row, row_hash): (RowPlace, u64),
    keyed: bool,
) -> Vec<u32> {
    let key = Histogram::new(keyed).key_class(row);
    let place = place_of(row, row_hash);
    let tiles = tiling.tiles(grid, side, key, row.position).into_iter();
    tiles.filter(|(places, _)| places.contains(&place)).map(|(_, tile)| tile).collect()
}

/// Rows of every shape: many sizes, one size, few rows, large sets.
pub(crate) fn collections(rng: &mut StdRng) -> Vec<Vec<RowPlace>> {
    let skewed = |rng: &mut StdRng| {
        let octave = rng.random_range(0..8_u32);
        let size = rng.random_range(1..=1 << octave);
        shape(rng, size)
    };
    vec![
        (0..400).map(|_| skewed(rng)).collect(),
        (0..300).map(|_| shape(rng, 7)).collect(),
        (0..90).map(|i| shape(rng, if i % 3 == 0 { 1_000_000 } else { 900_000 + i })).collect(),
        vec![],
        (0..5).map(|i| shape(rng, 40 + i)).collect(),
        vec![shape(rng, 9); 200],
    ]
}

#[test]
fn rows_that_may_match_meet_in_exactly_one_task() {
    let mut rng = StdRng::seed_from_u64(5);
    let mut met = 0;
    for measure in Measure::ALL {
        for threshold in [0.3, 0.8, 1.0] {
            for visits_once in [[false, false], [true, false], [false, true]] {
                let tasks = [1, 2, 3, 7, 16][rng.random_range(0..5)];
                let all = collections(&mut rng);
                let (left, right) = (&all[rng.random_range(0..6)], &all[rng.random_range(0..6)]);
                let keyed = rng.random_range(0..3) == 0;
                let with_keys = |rng: &mut StdRng, rows: &[RowPlace]| -> Vec<RowPlace> {
                    let key_hash = rng.random::<u32>();
                    let keys = [1, 2, 900][rng.random_range(0..3)];
                    let key = |rng: &mut StdRng| key_hash.wrapping_mul(rng.random_range(0..keys));
                    rows.iter().map(|row| RowPlace { key_hash: key(rng), ..*row }).collect()
                };
                let [left, right] = [left, right].map(|rows| match keyed {
                    true => with_keys(&mut rng, rows),
                    false => rows.clone(),
                });
                let spec = spec(measure, threshold, tasks, visits_once);
                let histograms = [histogram(&left, keyed), histogram(&right, keyed)];
                let axis = axis(&spec);
                let grid = Grid { spec, axis: &axis };
                let tiling = Tiling::new(&grid, histograms.each_ref());
                assert!((1..=tasks).contains(&tiling.tiles.len()));
                // Also rows that no histogram has counted.
                let mut rows = [left, right];
                for rows in &mut rows {
                    rows.truncate(120);
                    rows.extend((0..30).map(|i| RowPlace {
                        position: 1 << (i % 20),
                        kind: 0,
                        hash: rng.random(),
                        key_hash: rng.random(),
                    }));
                }
                let rows = rows.map(|rows| numbered(&rows));
                let bounds = Bounds::new(measure, threshold);
                let sent = [Side::Left, Side::Right].map(|side| {
                    let rows = rows[side as usize].iter();
                    let tasks = |row: &_| tiles_of(&tiling, &grid, side, *row, keyed);
                    rows.map(tasks).collect::<Vec<_>>()
                });
                for side in [Side::Left, Side::Right] {
                    for ((row, _), tasks) in rows[side as usize].iter().zip(&sent[side as usize]) {
                        let may_match = grid.partners(side, row.position, row.position).is_some();
                        if visits_once[side as usize] && may_match {
                            assert_eq!(tasks.len(), 1, "{spec:?} {side} {row:?}");
                        }
                    }
                }
                for ((l, _), of_left) in rows[0].iter().zip(&sent[0]) {
                    for ((r, _), of_right) in rows[1].iter().zip(&sent[1]) {
                        let class = |row: &RowPlace| row.key_hash % KEY_CLASSES;
                        let role = Role::of(spec.predicate.call, Side::Left);
                        let may_match = bounds.sizes_can_match(role, l.position, r.position)
                            && (!keyed || class(l) == class(r));
                        let common = of_left.iter().filter(|task| of_right.contains(task)).count();
                        if may_match {
                            met += 1;
                            assert_eq!(common, 1, "{spec:?} {l:?} {r:?} {tiling:?}");
                        }
                    }
                }
            }
        }
    }
    assert!(met > 10_000, "{met}");
}

/// Numbers that match within a distance, some of which lie anywhere.
#[derive(Debug)]
struct Line(u32);

impl Axis for Line {
    fn reach(&self, _: Side, positions: Range<u32>) -> Option<Range<u64>> {
        let Self(reach) = *self;
        let greatest = u64::from(positions.end) + u64::from(reach);
        Some(u64::from(positions.start.saturating_sub(reach).max(1))..greatest)
    }

    fn has_anywhere(&self) -> bool {
        true
    }

    fn weight(&self, _: u32) -> u64 {
        100
    }
}

/// Rows that lie anywhere meet all rows, each once, whether the histograms know of them or not.
#[test]
fn rows_that_lie_anywhere_meet_all_in_exactly_one_task() {
    let mut rng = StdRng::seed_from_u64(11);
    let (mut met, mut all) = (0, 0);
    for round in 0..60 {
        let tasks = [1, 2, 3, 7, 16][round % 5];
        let keyed = round % 4 == 3;
        let line = Line([0, 5, 300][round % 3]);
        let visits_once = [[false, false], [true, false], [false, true]][round / 5 % 3];
        let mut rows = |count: usize, share: f64| -> Vec<RowPlace> {
            let mut row = || RowPlace {
                position: match rng.random_bool(share) {
                    true => ANYWHERE,
                    false => 1 + 1000 * rng.random_range(0..20_u32) + rng.random_range(0..30_u32),
                },
                kind: 3,
                hash: rng.random(),
                key_hash: if keyed { rng.random_range(0..5) * 0x9E37 } else { 0 },
            };
            (0..count).map(|_| row()).collect()
        };
        let known = if round % 2 == 0 { 0.05 } else { 0.0 };
        let counted = [rows(400, known), rows(300, known)];
        let both = [rows(120, 0.05), rows(90, 0.05)].map(|rows| numbered(&rows));
        let histograms = counted.each_ref().map(|rows| histogram(rows, keyed));
        let may_match = |a: &RowPlace, b: &RowPlace| {
            let is_near = a.position.abs_diff(b.position) <= line.0;
            let alike = a.key_hash % KEY_CLASSES == b.key_hash % KEY_CLASSES;
            alike && (is_near || a.position == ANYWHERE || b.position == ANYWHERE)
        };
        let common = |a: &[u32], b: &[u32]| a.iter().filter(|t| b.contains(t)).count();
        let mut spec = spec(Measure::Jaccard, 0.5, tasks, visits_once);
        let grid = Grid { spec, axis: &line };
        let tiling = Tiling::new(&grid, histograms.each_ref());
        let sent = [Side::Left, Side::Right].map(|side| {
            let rows = both[side as usize].iter();
            rows.map(|row| tiles_of(&tiling, &grid, side, *row, keyed)).collect::<Vec<_>>()
        });
        for side in [Side::Left, Side::Right] {
            let once = visits_once[side as usize];
            assert!(sent[side as usize].iter().all(|tiles| !once || tiles.len() == 1));
        }
        for ((l, _), of_left) in both[0].iter().zip(&sent[0]) {
            for ((r, _), of_right) in both[1].iter().zip(&sent[1]) {
                let common = common(of_left, of_right);
                met += common;
                all += 1;
                assert!(!may_match(l, r) || common == 1, "{round} {l:?} {r:?} {tiling:?}");
            }
        }
        // The rows of one side with themselves.
        spec.visits_once = [false, false];
        let [within, across] = [GridPairs::Within, GridPairs::Across].map(|pairs| {
            let grid = Grid { spec: GridSpec { pairs, ..spec }, axis: &line };
            let tiling = Tiling::new(&grid, [&histograms[0]; 2]);
            [Side::Left, Side::Right].map(|side| {
                let rows = both[0].iter();
                rows.map(|row| tiles_of(&tiling, &grid, side, *row, keyed)).collect::<Vec<_>>()
            })
        });
        for (i, (a, _)) in both[0].iter().enumerate() {
            for (j, (b, _)) in both[0].iter().enumerate().skip(i) {
                let near = common(&within[0][i], &within[0][j]);
                let apart =
                    common(&across[0][i], &across[1][j]) + common(&across[0][j], &across[1][i]);
                assert!(!may_match(a, b) || near + apart == 1, "{round} {a:?} {b:?}");
            }
        }
    }
    assert!(met < all * 3 / 4, "{met} of {all}");
}

/// The work of each task, pairs of rows that it compares and what each row takes, and the rows
/// that are sent.
fn loads(
    tiling: &Tiling,
    grid: &Grid<'_>,
    rows: [&[RowPlace]; 2],
    keyed: bool,
) -> (Vec<u64>, usize) {
    let mut at = vec![[vec![], vec![]]; grid.tasks];
    let mut sent = 0;
    for side in [Side::Left, Side::Right] {
        for row in numbered(rows[side as usize]) {
            for task in tiles_of(tiling, grid, side, row, keyed) {
                at[task as usize][side as usize].push(row.0);
                sent += 1;
            }
        }
    }
    let work = |[left, right]: &[Vec<RowPlace>; 2]| {
        let rows = left.iter().chain(right).map(work_of_row).sum::<u64>();
        pairs(grid, left, right, keyed) + rows
    };
    (at.iter().map(work).collect(), sent)
}

/// The work of taking a row up.
pub(crate) fn work_of_row(row: &RowPlace) -> u64 {
    WORK_PER_ROW as u64 + WORK_PER_VALUE as u64 * u64::from(row.position)
}

/// The pairs of rows that may match.
pub(crate) fn pairs(spec: &GridSpec, left: &[RowPlace], right: &[RowPlace], keyed: bool) -> u64 {
    let bounds = Bounds::of(&spec.predicate).unwrap();
    let role = Role::of(spec.predicate.call, Side::Left);
    let alike = |rows: &[RowPlace]| {
        let mut counts = BTreeMap::new();
        for row in rows {
            *counts.entry((if keyed { row.key_hash } else { 0 }, row.position)).or_insert(0_u64) +=
                1;
        }
        counts
    };
    let (left, right) = (alike(left), alike(right));
    let all = left.iter().flat_map(|l| right.iter().map(move |r| (l, r)));
    let may_match = |((key, size), _): &(&(u32, u32), &u64), (other_key, other): &(u32, u32)| {
        key == other_key && bounds.sizes_can_match(role, *size, *other)
    };
    all.filter(|(l, (r, _))| may_match(l, r)).map(|((_, l), (_, r))| l * r).sum()
}

/// The greatest load over the mean one, and the replication factor.
fn balance(spec: &GridSpec, rows: [&[RowPlace]; 2], keyed: bool) -> (f64, f64) {
    let histograms = rows.map(|rows| histogram(rows, keyed));
    let axis = axis(spec);
    let grid = Grid { spec: *spec, axis: &axis };
    let tiling = Tiling::new(&grid, histograms.each_ref());
    let (loads, sent) = loads(&tiling, &grid, rows, keyed);
    let mean = loads.iter().sum::<u64>() as f64 / loads.len() as f64;
    let most = loads.iter().copied().max().unwrap_or(0) as f64;
    (most / mean, sent as f64 / (rows[0].len() + rows[1].len()) as f64)
}

#[test]
fn tasks_have_even_work_whatever_the_sizes_are() {
    let mut rng = StdRng::seed_from_u64(11);
    let zipf = |rng: &mut StdRng| (3.0 / rng.random_range(0.02..1.0_f64)) as u32;
    let sizes: [(&str, Vec<u32>); 3] = [
        ("zipf", (0..ROWS).map(|_| zipf(&mut rng)).collect()),
        ("one size", vec![20; ROWS]),
        ("two sizes", (0..ROWS).map(|i| if i % 10 == 0 { 100 } else { 20 }).collect()),
    ];
    for (name, sizes) in sizes {
        let rows: Vec<RowPlace> = sizes.iter().map(|&size| shape(&mut rng, size)).collect();
        for visits_once in [[false, false], [true, false], [false, true]] {
            for (tasks, threshold) in [(2, 0.8), (4, 0.8), (7, 0.5), (16, 0.8)] {
                let spec = spec(Measure::Jaccard, threshold, tasks, visits_once);
                let (most, replication) = balance(&spec, [&rows, &rows], false);
                assert!(most < 1.6, "{name} {spec:?}: {most}");
                let once = visits_once.contains(&true);
                let bound = if once { (1.0 + tasks as f64) / 2.0 } else { (tasks as f64).sqrt() };
                assert!(replication <= bound * 1.2, "{name} {spec:?}: {replication}");
            }
        }
    }
}

/// However many rows have one item.
#[test]
fn an_item_that_many_rows_have_is_divided() {
    let mut rng = StdRng::seed_from_u64(17);
    let [heavy, other] = [30, 25].map(|size| shape(&mut rng, size));
    for part in [0.3, 0.9, 1.0] {
        let rows: Vec<RowPlace> = (0..ROWS)
            .map(|i| match rng.random_bool(part) {
                true if i % 4 == 0 => other,
                true => heavy,
                false => {
                    let size = rng.random_range(2..90);
                    shape(&mut rng, size)
                }
            })
            .collect();
        for visits_once in [[false, false], [true, false]] {
            let spec = spec(Measure::Jaccard, 0.8, 8, visits_once);
            let (most, _) = balance(&spec, [&rows, &rows], false);
            assert!(most < 1.4, "{part} {spec:?}: {most}");
        }
    }
}

#[test]
fn keys_share_the_work_and_a_heavy_one_is_cut() {
    let mut rng = StdRng::seed_from_u64(3);
    for heavy in [0.0, 0.5, 1.0] {
        let rows: Vec<RowPlace> = (0..3000)
            .map(|_| {
                let key = if rng.random_bool(heavy) { 0 } else { rng.random_range(0..200_u32) };
                let size = rng.random_range(3..30);
                RowPlace { key_hash: key.wrapping_mul(0x9E37_79B9), ..shape(&mut rng, size) }
            })
            .collect();
        let spec = spec(Measure::Jaccard, 0.5, 8, [false, false]);
        let (most, replication) = balance(&spec, [&rows, &rows], true);
        assert!(most < 1.7, "{heavy}: {most}");
        assert!(replication < if heavy == 0.0 { 1.3 } else { 3.4 }, "{heavy}: {replication}");
    }
}

#[test]
fn rows_that_both_visit_once_are_told_apart_by_keys_alone() {
    let mut rng = StdRng::seed_from_u64(3);
    let rows: Vec<RowPlace> =
        (0..1000).map(|i| RowPlace { key_hash: i % 50, ..shape(&mut rng, 5) }).collect();
    let spec = spec(Measure::Jaccard, 0.5, 5, [true, true]);
    let (most, replication) = balance(&spec, [&rows, &rows], true);
    assert!(most < 1.3, "{most}");
    assert_eq!(replication, 1.0);
}

#[test]
fn the_value_of_a_tile_hashes_into_the_partition_of_its_task() {
    let mut rng = StdRng::seed_from_u64(13);
    for tasks in [1, 2, 7, 16, 200] {
        let wanted: Vec<u32> = (0..3 * tasks).map(|_| rng.random_range(0..tasks as u32)).collect();
        let values = values_of_tasks(&wanted, tasks).unwrap();
        assert_eq!(values.len(), wanted.len());
        let distinct: HashSet<&u32> = values.iter().collect();
        assert_eq!(distinct.len(), wanted.len());
        // As the engine's shuffle does it.
        let schema = Arc::new(Schema::new(vec![Field::new("tile", DataType::UInt32, false)]));
        let column = Arc::new(Column::new("tile", 0)) as Arc<dyn PhysicalExpr>;
        let mut partitioner =
            BatchPartitioner::new_hash_partitioner(vec![column], tasks, Time::default()).unwrap();
        let array = Arc::new(UInt32Array::from(values.clone())) as ArrayRef;
        let mut seen = 0;
        partitioner
            .partition(RecordBatch::try_new(schema, vec![array]).unwrap(), |partition, batch| {
                for value in batch.column(0).as_primitive::<UInt32Type>().values() {
                    let tile = values.iter().position(|v| v == value).unwrap();
                    assert_eq!(wanted[tile] as usize, partition);
                    seen += 1;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, wanted.len());
    }
}

/// Every partition makes the tiles by itself, so that it has to be quick. The time is that of a
/// busy machine, hundreds of times what it takes.
#[test]
fn tiles_of_many_tasks_are_soon_made() {
    let mut rng = StdRng::seed_from_u64(2);
    let rows: Vec<RowPlace> = (0..20_000)
        .map(|_| {
            let octave = rng.random_range(0.0..14.0_f64);
            RowPlace { key_hash: rng.random(), ..shape(&mut rng, octave.exp2() as u32) }
        })
        .collect();
    for (keyed, visits_once) in
        [(false, [false, false]), (true, [false; 2]), (false, [true, false])]
    {
        let spec = spec(Measure::Jaccard, 0.5, 256, visits_once);
        let histogram = histogram(&rows, keyed);
        let started = std::time::Instant::now();
        let axis = axis(&spec);
        let grid = Grid { spec, axis: &axis };
        let tiling = Tiling::new(&grid, [&histogram, &histogram]);
        assert_eq!(tiling.tiles.len(), 256);
        if visits_once == [false, false] {
            for pairs in [GridPairs::Within, GridPairs::Across] {
                let once = Grid { spec: GridSpec { pairs, ..spec }, ..grid };
                assert!(!Tiling::new(&once, [&histogram, &histogram]).tiles.is_empty());
            }
        }
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
