//! The suite without a command: small checks of itself, in a few seconds.

use datafusion::common::{Result, exec_err};
use datafusion_simjoin::config::{DeviceChoice, GpuOptions, StrategyName};
use datafusion_simjoin::internals::simd::Simd;

use crate::data;
use crate::engine::{self, Point, Request};
use crate::generate;
use crate::generate::collection::COLLECTIONS;
use crate::generate::points::{self, Points, VectorCollection};
use crate::partners::{Sample, Value};
use crate::shuffle;
use crate::vectors::{Encoded, Vectors};

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
        let pairs = engine::strategies_on_cpu().map(|strategy| {
            let point = Point { threads: 2, ..Point::jaccard(0.8, strategy) };
            Ok(engine::self_join(&sets, &point)?.row_pairs)
        });
        let pairs = pairs.collect::<Result<Vec<u64>>>()?;
        if pairs[0] == 0 || pairs.iter().any(|p| *p != pairs[0]) {
            return exec_err!("{}: the strategies count {pairs:?} pairs", collection.name);
        }
        println!("{}: average size {average:.2}, {} pairs at 0.8", collection.name, pairs[0]);
    }
    check_vectors()?;
    generate::draws::check()?;
    println!("draws: as many distinct values as published");
    shuffle::check()?;
    println!("shuffle: each pair meets in one task");
    Ok(())
}

/// Draws a few vectors of every collection and joins them: a row has as many partners as the threshold
/// was found for, and all threads and forms of the kernels count the same pairs.
fn check_vectors() -> Result<()> {
    for collection in points::COLLECTIONS {
        let collection = match collection.dimensions {
            0 => VectorCollection { dimensions: 40, ..*collection },
            _ => *collection,
        };
        let draw = || Points::new(&collection, 7).vectors(500);
        let lists = draw();
        let first = Points::new(&collection, 7).vectors(100);
        if *draw() != *lists || *first != *lists.slice(0, 100) {
            return exec_err!("{} is not the same the second time", collection.name);
        }
        let vectors =
            Vectors { name: collection.name.to_string(), lists: vec![lists], partners: 8.0 };
        for value in [Value::Distance, Value::Cosine, Value::Product] {
            let threshold = Sample::of(&vectors.lists, value)?.threshold(8.0);
            let encoded = Encoded::of(&vectors, value, threshold)?;
            let partners = Simd::available().iter().zip([1, 2, 3]).map(|(&simd, threads)| {
                let request = Request {
                    strategy: StrategyName::AUTO,
                    device: DeviceChoice::Cpu,
                    threads,
                    symmetric: true,
                    simd,
                    gpu: GpuOptions::default(),
                };
                Ok(encoded.partners(&encoded.self_join(&request)?))
            });
            let partners = partners.collect::<Result<Vec<f64>>>()?;
            // Whole numbers have many pairs at one distance; products are a few rows' for the most part.
            if !(7.0..9.5).contains(&partners[0]) || partners.iter().any(|p| *p != partners[0]) {
                return exec_err!("{} {value:?} {threshold}: {partners:?}", collection.name);
            }
            println!(
                "{}: {:.2} partners a row at {value:?} {threshold}",
                vectors.name, partners[0]
            );
        }
    }
    Ok(())
}
