//! Random numbers that stay the same from one release of any crate to the next.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
/// 2014): small, and good enough for test data.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// One of the elements, of which there is at least one.
    pub fn pick<'a, T>(&mut self, elements: &'a [T]) -> &'a T {
        &elements[self.below(elements.len())]
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number of the normal distribution of deviation 1 (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.unit(), std::f64::consts::TAU * self.unit());
        (-2.0 * radius.ln()).sqrt() * angle.cos()
    }

    /// The sum of four small uniform numbers, of deviation 1: noise of which plenty is wanted.
    pub fn nearly_normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|piece| (bits >> (16 * piece)) & 0xFFFF).sum();
        (sum as f32 / 65_535.0 - 2.0) * 3.0_f32.sqrt()
    }
}
