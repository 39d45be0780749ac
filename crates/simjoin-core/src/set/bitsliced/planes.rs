//! Sums of a block that few tokens add to, bit by bit.

use crate::simd::{BITS, Line};

/// Lines of a column in a block: the columns of a block stay in a core's second cache.
pub(super) const STRIPS: usize = 4;
/// Build sets of a block.
pub(super) const BLOCK: u32 = (STRIPS * BITS) as u32;

/// For each set of a block a number, whose bits lie in planes: plane `p` holds bit `p` of all of them.
#[derive(Debug)]
pub(super) struct Planes {
    /// The strips of plane `p` begin at `p * STRIPS`.
    lines: Vec<Line>,
    /// The planes that may hold bits.
    used: usize,
}

impl Planes {
    /// The bytes of planes for numbers up to `most`.
    pub(super) fn footprint(most: usize) -> usize {
        planes_of(most) * STRIPS * size_of::<Line>()
    }

    /// Zeros that may grow up to `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { lines: vec![Line::EMPTY; planes_of(most) * STRIPS], used: 0 }
    }

    /// Makes all numbers zero.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.lines[..self.used * STRIPS].fill(Line::EMPTY);
        self.used = 0;
    }

    /// Adds one to the number of a set, by its place in the block.
    #[inline]
    pub(super) fn add(&mut self, set: usize) {
        let (strip, bit) = (set / BITS, set % BITS);
        for plane in 0.. {
            self.used = self.used.max(plane + 1);
            if !self.lines[plane * STRIPS + strip].flip(bit) {
                return;
            }
        }
    }

    /// The planes that may hold bits, from the lowest one on.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines[..self.used * STRIPS]
    }
}

/// The planes of numbers up to `most`.
pub(super) fn planes_of(most: usize) -> usize {
    (usize::BITS - most.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn numbers_are_counted_bit_by_bit() {
        let mut rng = StdRng::seed_from_u64(3);
        let most = 21;
        let mut planes = Planes::new(most);
        for _ in 0..20 {
            let mut counts = vec![0; BLOCK as usize];
            for _ in 0..rng.random_range(0..4 * BLOCK) {
                let set = rng.random_range(0..counts.len());
                if counts[set] < most {
                    counts[set] += 1;
                    planes.add(set);
                }
            }
            for (set, count) in counts.iter().enumerate() {
                let bits = planes.lines().chunks_exact(STRIPS).enumerate();
                let sum = bits.map(|(plane, strips)| {
                    usize::from(strips[set / BITS].has(set % BITS)) << plane
                });
                assert_eq!(sum.sum::<usize>(), *count);
            }
            planes.clear();
            assert!(planes.lines().is_empty());
        }
    }
}
