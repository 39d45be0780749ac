//! The rows and the work of each task of a plan.

/// The rows and the work of one task.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    pub rows: u64,
    /// Tokens of these rows.
    pub tokens: u64,
    /// Pairs of different sets whose sizes can match: the work of a bitmap join.
    pub pairs: u64,
}

impl Load {
    /// Adds rows with their tokens.
    pub fn add_rows(&mut self, (rows, tokens): (u64, u64)) {
        self.rows += rows;
        self.tokens += tokens;
    }

    pub fn add(&mut self, other: &Load) {
        self.add_rows((other.rows, other.tokens));
        self.pairs += other.pairs;
    }

    /// Seconds of one core by the constants of [`nanos`]: encoding and a bitmap join.
    fn bitmap_seconds(&self) -> f64 {
        (self.tokens as f64 * nanos::ENCODE + self.pairs as f64 * nanos::PAIR) / 1e9
    }
}

/// Nanoseconds of one core of an AMD EPYC with AVX-512, from the raw figures in
/// benches/runs/2026-11-20-epyc-2cores.
mod nanos {
    /// Reading a token into an ordered collection (phases.csv, `encode`, integers: 28 to 111).
    pub const ENCODE: f64 = 55.0;
    /// Comparing the signatures of a pair (phases.csv, `filter`, bitmap: 0.24 to 0.58), the few
    /// verifications included.
    pub const PAIR: f64 = 0.3;
}

/// The loads of all tasks, put together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    pub sum: Load,
    pub rows: Spread,
    pub tokens: Spread,
    pub pairs: Spread,
    pub bitmap_seconds: Spread,
}

/// The greatest task and the mean of all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread {
    pub max: f64,
    pub mean: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64> + Clone, tasks: usize) -> Self {
        let max = values.clone().fold(0.0, f64::max);
        Self { max, mean: values.sum::<f64>() / tasks.max(1) as f64 }
    }

    /// How many times the mean the greatest is; 1 where there is nothing.
    pub fn skew(&self) -> f64 {
        if self.mean > 0.0 { self.max / self.mean } else { 1.0 }
    }
}

impl Summary {
    /// Tasks that get nothing are left out of `loads`, not of `tasks`.
    pub fn new(loads: &[Load], tasks: usize) -> Self {
        let mut sum = Load::default();
        loads.iter().for_each(|load| sum.add(load));
        let of = |value: fn(&Load) -> f64| Spread::of(loads.iter().map(value), tasks);
        Self {
            sum,
            rows: of(|l| l.rows as f64),
            tokens: of(|l| l.tokens as f64),
            pairs: of(|l| l.pairs as f64),
            bitmap_seconds: of(Load::bitmap_seconds),
        }
    }
}
