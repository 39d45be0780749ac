//! The simulation's invariants, tried pair by pair on small collections.

use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use datafusion_simjoin::internals::set::{Bounds, Measure, Role};

use super::bands::Bands;
use super::broadcast::Broadcast;
use super::grid::{Grid, Shape};
use super::load::Load;
use super::postings::Lists;
use super::prefix::PrefixTokens;
use super::rows::{Input, Partners};
use super::tiling::Work;
use crate::data;
use crate::generate;
use crate::generate::collection::COLLECTIONS;

/// Rows of each collection.
const ROWS: u64 = 60;
const TASKS: &[usize] = &[1, 2, 7, 64];

/// Holds that each pair of sets that can match meets in exactly one task of each plan, and that
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
    let others = |place: usize| {
        partners.of(place).filter(|&other| !self_join || other < place).collect::<Vec<usize>>()
    };
    let pairs: usize = (0..input.left.len()).map(|place| others(place).len()).sum();
    let lists = Lists::new(input, bounds);
    let prefix = PrefixTokens::new(input, bounds, 100);
    let broadcast = Broadcast::new(input, bounds, &lists);
    let by_postings = Work::Postings(Arc::new(broadcast.rates(bounds)));
    let mut all_postings = vec![];
    for &tasks in TASKS {
        let loads = broadcast.loads(tasks);
        all_postings.push(sum(&loads).postings);
        if sum(&loads).pairs != pairs as u64 {
            return exec_err!("broadcast to {tasks}: {} pairs of {pairs}", sum(&loads).pairs);
        }
        for (shape, work) in [
            (Shape::Tiles, &Work::Pairs),
            (Shape::Tiles, &by_postings),
            (Shape::LeftBands, &Work::Pairs),
        ] {
            let grid = Grid::plan(input, bounds, tasks, shape, work);
            let routes = grid.routes(input, bounds);
            for place in 0..input.left.len() {
                // In a self-join rows with the same set meet as well.
                for other in partners.of(place) {
                    let meetings = common(&routes[0][place], &routes[1][other]);
                    if meetings != 1 {
                        return exec_err!("{shape:?} of {tasks}: a pair meets {meetings} times");
                    }
                }
                if shape == Shape::LeftBands && routes[0][place].len() > 1 {
                    return exec_err!("a left row visits {} bands", routes[0][place].len());
                }
            }
            let loads = grid.loads(input, bounds, &lists).0;
            all_postings.push(sum(&loads).postings);
            if sum(&loads).pairs != pairs as u64 {
                return exec_err!("{shape:?} of {tasks}: {} pairs of {pairs}", sum(&loads).pairs);
            }
            let rows: u64 = match self_join {
                true => (0..input.left.len())
                    .map(|place| {
                        let mut tasks = [&routes[0][place][..], &routes[1][place]].concat();
                        tasks.sort_unstable();
                        tasks.dedup();
                        tasks.len() as u64 * input.left.rows(place..place + 1).0
                    })
                    .sum(),
                false => [&input.left, input.right()]
                    .iter()
                    .zip(&routes)
                    .flat_map(|(side, routes)| {
                        routes.iter().enumerate().map(|(place, tasks)| {
                            tasks.len() as u64 * side.rows(place..place + 1).0
                        })
                    })
                    .sum(),
            };
            if sum(&loads).rows != rows {
                return exec_err!("{shape:?} of {tasks}: {} rows, {rows}", sum(&loads).rows);
            }
        }
        let routes = [&input.left, input.right()].map(|side| prefix.routes(side, tasks));
        for place in 0..input.left.len() {
            for other in others(place) {
                let tokens = [(&input.left, place), (input.right(), other)]
                    .map(|(side, place)| input.content.tokens(side.sets[place]));
                let (a, b) = (tokens[0].len() as u64, tokens[1].len() as u64);
                let overlap = common(tokens[0], tokens[1]) as u64;
                if bounds.measure.value_in_role(overlap, Role::First, a, b) < bounds.threshold {
                    continue;
                }
                let (left, right) =
                    (prefix.prefix(&input.left, place), prefix.prefix(input.right(), other));
                let smallest = left.iter().filter(|token| right.contains(token)).min();
                let emits = |task: &&usize| {
                    smallest.is_some_and(|&token| PrefixTokens::task(token, tasks) == **task)
                };
                let meetings = routes[0][place]
                    .iter()
                    .filter(|task| routes[1][other].contains(task))
                    .filter(emits)
                    .count();
                if meetings != 1 {
                    return exec_err!("prefixes to {tasks}: a pair is emitted {meetings} times");
                }
            }
        }
    }
    // Every posting is met in one task, whatever the plan.
    if all_postings.iter().any(|postings| (postings - all_postings[0]).abs() > 0.5) {
        return exec_err!("the plans meet {all_postings:?} postings");
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

fn common<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().filter(|value| b.contains(value)).count()
}
