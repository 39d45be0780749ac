//! Reads two slices, and prints which names of one are spelled almost as names of the other, and the
//! nearest point to each of some points.
//!
//! `cargo run -p simjoin-core --example slices`

use simjoin_core::{Join, Measure, Nearest, Result};

fn main() -> Result<()> {
    let left = ["Jane Doe", "John Roe", "Ada Lovelace"];
    let right = ["Jon Roe", "Ada Lovelance", "Jane Do", "J. Doe"];
    for pair in &Join::new(Measure::Levenshtein, 1.0).join(&left, &right)? {
        let (name, other) = (left[pair.left as usize], right[pair.right as usize]);
        println!("{name} ~ {other}: {} edit", pair.score);
    }
    let (points, places) = ([[0.0_f32, 0.0], [9.0, 9.0]], [[1.0_f32, 0.0], [8.0, 9.5]]);
    for pair in &Nearest::new(Measure::Euclidean, 1).join(&points, &places)? {
        let (point, place) = (points[pair.left as usize], places[pair.right as usize]);
        println!("{point:?} is nearest to {place:?}: {}", pair.score);
    }
    Ok(())
}
