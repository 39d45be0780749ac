//! Zipfian ranks in constant memory.

use super::random::Random;

/// Ranks `0..n` with probability proportional to `(rank + 1 + shift)^-exponent` (Zipf, and
/// Mandelbrot where the shift flattens the head).
///
/// Drawn by inverting the integral of the continuous density over `1/2..n + 1/2`, moved by the
/// shift; no table of the universe is kept.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    shift: f64,
    low: f64,
    span: f64,
}

impl Zipf {
    pub fn new(n: u64, exponent: f64, shift: f64) -> Self {
        let mut zipf = Self { n: n.max(1), exponent, shift, low: 0.0, span: 0.0 };
        zipf.low = zipf.integral(0.5);
        zipf.span = zipf.integral(zipf.n as f64 + 0.5) - zipf.low;
        zipf
    }

    pub fn len(&self) -> u64 {
        self.n
    }

    fn integral(&self, x: f64) -> f64 {
        let (x, power) = (x + self.shift, 1.0 - self.exponent);
        if power.abs() < 1e-9 { x.ln() } else { x.powf(power) / power }
    }

    /// The rank below which a share `share` of all draws falls.
    fn quantile(&self, share: f64) -> f64 {
        let (y, power) = (self.low + share * self.span, 1.0 - self.exponent);
        let x = if power.abs() < 1e-9 { y.exp() } else { (y * power).powf(1.0 / power) };
        x - self.shift
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        // Rank r stands for the stretch r + 1/2 .. r + 3/2.
        let x = self.quantile(random.unit()) - 0.5;
        (x.max(0.0) as u64).min(self.n - 1)
    }

    /// How many different ranks some number of draws is expected to meet.
    pub fn expected_distinct(&self, draws: f64) -> f64 {
        let share = |from: f64, to: f64| (self.integral(to) - self.integral(from)) / self.span;
        let (mut sum, mut from) = (0.0, 0u64);
        // Rank by rank at the head, then in stretches that grow with the rank.
        while from < self.n {
            let to = (from + 1 + from / 64).min(self.n);
            let each = share(from as f64 + 0.5, to as f64 + 0.5) / (to - from) as f64;
            sum += (to - from) as f64 * (1.0 - (-draws * each).exp());
            from = to;
        }
        sum
    }

    /// The distribution over a universe so large that `draws` draws meet about `distinct` ranks.
    pub fn with_distinct(distinct: u64, draws: f64, exponent: f64, shift: f64) -> Self {
        let meets = |n: u64| Self::new(n, exponent, shift).expected_distinct(draws);
        // Beyond 64 times as many, further ranks are hardly ever drawn.
        let (mut low, mut high) = (distinct, distinct.saturating_mul(64));
        if meets(high) < distinct as f64 {
            return Self::new(high, exponent, shift);
        }
        while low + low / 1000 + 1 < high {
            let middle = low + (high - low) / 2;
            if meets(middle) < distinct as f64 { low = middle } else { high = middle }
        }
        Self::new(high, exponent, shift)
    }
}
