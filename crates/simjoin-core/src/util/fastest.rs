//! Times of short runs.

use std::hint::black_box;
use std::time::Instant;

/// The runs of a kernel. The fastest one counts: the others were interrupted.
const RUNS: usize = 7;

/// The nanoseconds of the fastest of some runs.
pub fn fastest<T>(mut run: impl FnMut() -> T) -> f64 {
    let nanos = (0..RUNS).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_nanos() as f64
    });
    nanos.fold(f64::INFINITY, f64::min)
}
