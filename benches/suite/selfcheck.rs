//! What the suite does without a command: small checks of itself, in a few seconds.

use datafusion::common::{Result, exec_err};
use datafusion_simjoin::config::StrategyChoice;

use crate::data;
use crate::engine::{self, Point};
use crate::generate;
use crate::generate::collection::COLLECTIONS;
use crate::shuffle;

/// Generates a little of every collection and joins it, and holds sizes and strategies to what
/// they should be.
///
/// # Errors
///
/// When a check fails.
pub fn run() -> Result<()> {
    for collection in COLLECTIONS {
        let lists = generate::sample(collection, 3000, 7)?;
        if generate::sample(collection, 3000, 7)? != lists {
            return exec_err!("{} is not the same the second time", collection.name);
        }
        let sets = data::encode(collection.name, &lists, 2)?.sets;
        let rows = sets.row_count();
        let total: u64 = (0..sets.len())
            .map(|s| u64::from(sets.size(s)) * sets.groups().rows(s).len() as u64)
            .sum();
        let average = total as f64 / rows.max(1) as f64;
        let ratio = average / collection.average_size;
        if rows != 3000 || !(0.8..1.25).contains(&ratio) {
            return exec_err!("{}: {rows} sets of average size {average:.2}", collection.name);
        }
        let pairs = StrategyChoice::ON_CPU.into_iter().map(|strategy| {
            let point = Point { threads: 2, ..Point::jaccard(0.8, strategy) };
            Ok(engine::self_join(&sets, &point)?.row_pairs)
        });
        let pairs = pairs.collect::<Result<Vec<u64>>>()?;
        if pairs[0] == 0 || pairs.iter().any(|p| *p != pairs[0]) {
            return exec_err!("{}: the strategies count {pairs:?} pairs", collection.name);
        }
        println!("{}: average size {average:.2}, {} pairs at 0.8", collection.name, pairs[0]);
    }
    generate::draws::check()?;
    println!("draws: as many distinct values as published");
    shuffle::check()?;
    println!("shuffle: each pair meets in one task");
    Ok(())
}
