//! Counts and times the near duplicates among the lines of a file.
//!
//! `cargo run --release -p simjoin-core --example dedup_lines -- FILE [THRESHOLD] [THREADS]`
//!
//! Lines are compared by the Jaccard similarity of their runs of three characters.

use std::error::Error;
use std::time::Instant;

use simjoin_core::{Join, Measure};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("dedup_lines FILE [THRESHOLD] [THREADS]")?;
    let threshold = arguments.next().map_or(Ok(0.8), |text| text.parse())?;
    let threads = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let text = std::fs::read_to_string(file)?;
    let lines: Vec<&str> = text.lines().collect();
    let started = Instant::now();
    let pairs =
        Join::new(Measure::Jaccard, threshold).qgrams(3).threads(threads).self_join(&lines)?;
    println!("{} lines, {} pairs, {:.2?}", lines.len(), pairs.len(), started.elapsed());
    for pair in pairs.iter().take(3) {
        let (line, other) = (lines[pair.left as usize], lines[pair.right as usize]);
        println!("{:.3}  {line}\n       {other}", pair.score);
    }
    Ok(())
}
