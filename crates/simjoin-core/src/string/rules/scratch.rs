//! Space that serves one pair of strings after another.

use super::masks::Masks;
use super::queues::Queues;
use super::waves::Waves;

/// Space for the functions of this module; it grows with the longest string that it has served.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    pub(super) masks: Masks,
    /// The carries at the bottom of a row of blocks, one for each column.
    pub(super) carries: Vec<u8>,
    pub(super) queues: Queues,
    pub(super) waves: Waves,
}

/// The most bytes of a [`Scratch`] for each symbol of the longer string that has served distances by edits: carries
/// in a vector that may have doubled, the bytes of two strings, and four rows of waves that reach an eighth of the
/// string at each side, likewise.
pub(crate) const SCRATCH_OF_EDITS: usize = 2 + 2 * 4 + 2 * 4;

/// The most bytes of a [`Scratch`] for each symbol of the longer string that has served Jaro's functions: up to four
/// slots of a table, places and common symbols in vectors that may have doubled, and bits.
pub(crate) const SCRATCH_OF_JARO: usize = 4 * 12 + 2 * 4 + 2 * 4 + 1;

impl Scratch {
    /// Space that has served no pair yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use rand::prelude::*;

    use super::super::{Damerau, Edits, Indel, Levenshtein, jaro, jaro_winkler};
    use super::*;

    impl Scratch {
        /// The bytes that follow the strings.
        fn bytes(&self) -> usize {
            self.carries.capacity() + self.queues.bytes() + self.waves.bytes()
        }
    }

    /// A string of `len` symbols and one with some edits.
    fn strings(rng: &mut StdRng, len: usize, edits: usize, symbols: u32) -> [Vec<u32>; 2] {
        let a: Vec<u32> = (0..len).map(|_| rng.random_range(0..symbols)).collect();
        let mut b = a.clone();
        for _ in 0..edits {
            let at = rng.random_range(0..b.len());
            match rng.random_range(0..3) {
                0 => b[at] = symbols,
                1 => b.insert(at, symbols),
                _ => _ = b.remove(at),
            }
        }
        [a, b]
    }

    #[test]
    fn the_space_of_a_function_is_within_its_bound() {
        let never = &mut || false;
        let mut rng = StdRng::seed_from_u64(3);
        for (len, edits) in [(300, 3), (1000, 100), (5000, 300), (40_000, 20), (40_000, 2500)] {
            let [a, b] = strings(&mut rng, len, edits, if edits % 2 == 0 { 4 } else { 50_000 });
            let longest = a.len().max(b.len());
            let mut of_edits = Scratch::new();
            // Shorter strings first: vectors grow from what they were.
            for part in [3, 2, 1] {
                let [a, b] = [&a[..a.len() / part], &b[..b.len() / part]];
                let k = 3 * edits as u32;
                _ = Levenshtein::within(&mut of_edits, a, b, k, never);
                _ = Damerau::within(&mut of_edits, a, b, k, never);
                _ = Indel::within(&mut of_edits, a, b, k, never);
            }
            let most = SCRATCH_OF_EDITS * longest + 4096;
            assert!(of_edits.bytes() <= most, "{} of {most} for {len}", of_edits.bytes());
            let mut of_jaro = Scratch::new();
            for part in [3, 2, 1] {
                let [a, b] = [&a[..a.len() / part], &b[..b.len() / part]];
                _ = (jaro(&mut of_jaro, a, b), jaro_winkler(&mut of_jaro, b, a));
            }
            let most = SCRATCH_OF_JARO * longest + 4096;
            assert!(of_jaro.bytes() <= most, "{} of {most} for {len}", of_jaro.bytes());
        }
    }
}
