//! Distributions of set sizes.

use super::random::Random;

/// The shape of a size distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Sizes of market baskets of one habit.
    Poisson,
    /// A long tail: the logarithm of the size is normal with this deviation.
    LogNormal { deviation: f64 },
    /// One size for this share of the sets, those of habit for the others.
    Mostly { size: usize, share: f64 },
}

/// Set sizes from 1 to a maximum with a given mean.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// `cumulative[i]` is the share of sizes up to `i + 1`.
    cumulative: Vec<f64>,
}

impl Sizes {
    /// The distribution of this shape whose mean, cut at `max`, is `mean`.
    pub fn new(shape: Shape, mean: f64, max: usize) -> Self {
        // The mean grows with the parameter: bisect.
        let (mut low, mut high) = (mean.ln() - 10.0, (max as f64).ln() + 10.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            let weights = weights(shape, middle, max);
            let total: f64 = weights.iter().sum();
            let moment: f64 = weights.iter().zip(1..).map(|(w, size)| w * f64::from(size)).sum();
            if moment / total < mean { low = middle } else { high = middle }
        }
        let mut cumulative = weights(shape, low, max);
        let total: f64 = cumulative.iter().sum();
        let mut sum = 0.0;
        for weight in &mut cumulative {
            sum += *weight / total;
            *weight = sum;
        }
        Self { cumulative }
    }

    pub fn draw(&self, random: &mut Random) -> usize {
        let share = random.unit();
        (self.cumulative.partition_point(|&c| c <= share) + 1).min(self.cumulative.len())
    }
}

/// The unnormalised share of each size for the logarithm `location` of the middle.
fn weights(shape: Shape, location: f64, max: usize) -> Vec<f64> {
    match shape {
        Shape::LogNormal { deviation } => (1..=max)
            .map(|size| {
                let z = ((size as f64).ln() - location) / deviation;
                (-z * z / 2.0).exp() / size as f64
            })
            .collect(),
        Shape::Mostly { size, share } => {
            let mut weights = weights(Shape::Poisson, location, max);
            let others: f64 = weights.iter().sum();
            if let Some(weight) = weights.get_mut(size - 1) {
                *weight += others * share / (1.0 - share);
            }
            weights
        }
        Shape::Poisson => {
            // In logarithms, so that no power overflows.
            let mut log_factorial = 0.0;
            (1..=max)
                .map(|size| {
                    log_factorial += (size as f64).ln();
                    (size as f64 * location - location.exp() - log_factorial).exp()
                })
                .collect()
        }
    }
}
