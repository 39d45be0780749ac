//! How many postings an admissible pair meets, by the sizes of its sets.

use std::ops::Range;

/// About the product of two factors, one for the size of each set. Small sets have frequent tokens
/// in their prefixes, large ones have many.
#[derive(Debug)]
pub struct Rates {
    /// By [`Rates::class`] of the size.
    factors: Vec<f64>,
}

impl Rates {
    const CLASSES: usize = 16 + 8 * 28;

    /// Sizes to 15 alone, then eight to an octave.
    fn class(size: u32) -> usize {
        match size {
            0..16 => size as usize,
            _ => 16 + (8.0 * (f64::from(size).log2() - 4.0)) as usize,
        }
    }

    /// From the size of each set, its admissible partners and the postings it meets among them:
    /// the factors that explain these sums, by alternating proportions.
    pub fn fit(sets: &[(u32, Range<usize>, f64)], partners: &[u32]) -> Self {
        /// Postings as expected that are added to each class: few of them say little.
        const PRIOR: f64 = 30.0;
        let (postings, pairs) = sets
            .iter()
            .fold((0.0, 0), |sum, (_, partners, met)| (sum.0 + met, sum.1 + partners.len()));
        let mean = f64::max(postings, 1.0) / pairs.max(1) as f64;
        let mut factors = vec![mean.sqrt(); Self::CLASSES];
        for _ in 0..12 {
            let mut sums = vec![0.0];
            for &size in partners {
                sums.push(sums[sums.len() - 1] + factors[Self::class(size)]);
            }
            let mut classes = vec![(PRIOR, PRIOR); Self::CLASSES];
            for (size, partners, met) in sets {
                let class = Self::class(*size);
                let expected = factors[class] * (sums[partners.end] - sums[partners.start]);
                classes[class].0 += met;
                classes[class].1 += expected;
            }
            for (factor, (met, expected)) in factors.iter_mut().zip(classes) {
                *factor *= (met / expected).sqrt();
            }
        }
        Self { factors }
    }

    /// The factor of a set of a size.
    pub fn of(&self, size: u32) -> f64 {
        self.factors[Self::class(size)]
    }
}
