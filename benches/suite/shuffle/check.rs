//! The simulation's invariants, tried pair by pair on small collections.

use datafusion::common::{Result, exec_err};
use datafusion_simjoin::internals::set::{Bounds, Measure, Role};

use super::bands::Bands;
use super::grid::{Counts, Grid};
use super::load::Load;
use super::rows::{Input, Partners};
use crate::data;
use crate::generate;
use crate::generate::collection::COLLECTIONS;

/// Rows of each collection.
const ROWS: u64 = 60;
const TASKS: &[usize] = &[1, 2, 7, 64];

/// Holds that each pair of sets that can match meets in exactly one of the product's tiles, and that
/// loads are what the routes of rows say.
///
/// # Errors
///
/// When a pair meets in no task or in several, or a sum differs.
pub fn run() -> Result<()> {
    for collection in COLLECTIONS {
        let lists = generate::sample(collection, ROWS, 3)?;
        let sets = data::encode(collection.name, &lists, 1)?.sets;
        for input in [Input::self_join(&sets), Input::two_sided(&sets, |row| row % 3 == 0)] {
            for (measure, threshold) in [
                (Measure::Jaccard, 0.5),
                (Measure::Jaccard, 0.8),
                (Measure::Dice, 0.8),
                (Measure::Cosine, 0.95),
            ] {
                check(&input, Bounds::new(measure, threshold)).map_err(|error| {
                    error.context(format!("{} by {measure} at {threshold}", collection.name))
                })?;
            }
        }
    }
    bands()
}

fn check(input: &Input, bounds: Bounds) -> Result<()> {
    let self_join = input.is_self_join();
    let partners = Partners::new(&input.left, input.right(), bounds, self_join);
    let others =
        |place: usize| partners.of(place).filter(move |&other| !self_join || other < place);
    let pairs: usize = (0..input.left.len()).map(|place| others(place).count()).sum();
    let counts = Counts::new(input);
    for &tasks in TASKS {
        for left_once in [false, true].into_iter().take(if self_join { 1 } else { 2 }) {
            let grid = Grid::plan(input, &counts, bounds, tasks, left_once)?;
            tiles(&grid, &partners, pairs, left_once)
                .map_err(|error| error.context(format!("tiles of {tasks}")))?;
        }
    }
    Ok(())
}

/// Holds that rows which can match meet in one of the product's tiles, and that loads are what is
/// sent row by row.
fn tiles(grid: &Grid<'_>, partners: &Partners, pairs: usize, left_once: bool) -> Result<()> {
    grid.meetings(|left, right, met| match partners.of(left).contains(&right) {
        true if met != 1 => exec_err!("a pair meets {met} times"),
        _ => Ok(()),
    })?;
    let (rows, greatest) = grid.sent();
    if left_once && greatest > 1 {
        return exec_err!("a left row visits {greatest} tasks");
    }
    let of_tasks = sum(&grid.loads());
    if of_tasks.rows != rows {
        return exec_err!("the tasks get {} rows, of {rows} sent", of_tasks.rows);
    }
    // Sets whose rows part are compared more than once.
    let divided = grid.divides_items();
    if of_tasks.pairs < pairs as u64 || !divided && of_tasks.pairs > pairs as u64 {
        return exec_err!("{} pairs of {pairs}", of_tasks.pairs);
    }
    Ok(())
}

/// Bands, against rows that are dealt out one by one.
fn bands() -> Result<()> {
    let histogram = [(3, 700.0), (4, 1900.0), (5, 100.0), (7, 2000.0), (9, 1200.0), (40, 60.0)];
    for pieces in [1, 4, 9] {
        let bands = Bands::new(&histogram, pieces, false);
        let total: f64 = histogram.iter().map(|&(size, rows)| f64::from(size) * rows).sum();
        let mut dealt: Vec<(u32, usize)> = vec![];
        let mut tokens = 0.0;
        for (size, rows) in histogram {
            for _ in 0..rows as usize {
                let middle = tokens + f64::from(size) / 2.0;
                dealt.push((size, (middle / total * pieces as f64) as usize));
                tokens += f64::from(size);
            }
        }
        for (measure, threshold) in [(Measure::Jaccard, 0.5), (Measure::Cosine, 0.8)] {
            let bounds = Bounds::new(measure, threshold);
            for self_join in [false, true] {
                for (size, rows) in histogram {
                    let visits = |own: usize| {
                        let mut visited: Vec<usize> = dealt
                            .iter()
                            .filter(|d| bounds.sizes_can_match(Role::First, size, d.0))
                            .map(|d| d.1)
                            .filter(|&band| !self_join || band >= own)
                            .collect();
                        visited.dedup();
                        visited.len() as f64
                    };
                    let own = dealt.iter().filter(|d| d.0 == size);
                    let expected = own.map(|d| visits(d.1)).sum::<f64>() / rows;
                    let found = bands.visits(size, bounds, self_join);
                    if (found - expected).abs() > 0.02 * expected {
                        return exec_err!(
                            "{pieces} bands: sets of {size} visit {found}, not {expected}"
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

fn sum(loads: &[Load]) -> Load {
    let mut sum = Load::default();
    loads.iter().for_each(|load| sum.add(load));
    sum
}
