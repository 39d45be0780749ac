//! Putting the tokens of a set in ascending order.

use std::mem::size_of;

/// Sets of fewer tokens are sorted by comparisons.
const LEAST_TOKENS: usize = 24;
/// Universes whose marks the second level of a processor's cache holds, and which few sets are too
/// small for.
const MOST_TOKENS: u32 = 1 << 20;
/// Tokens of a word.
const BITS: usize = u64::BITS as usize;
/// Tokens of a word that are read without looking how many there are.
const READ_AHEAD: usize = 4;

/// Sorts tokens by marking each one in an array of bits, and reading the marks in order.
/// A second array has a bit for each word of the first one, so that a set costs what its tokens cost
/// and a word for every 4,096 tokens of the universe.
#[derive(Debug)]
pub(super) struct Ascending {
    universe: u32,
    /// All zero between sets.
    marks: Vec<u64>,
    marked_words: Vec<u64>,
    sorted: Vec<u32>,
    /// The fewest tokens of a set for which looking through `marked_words` pays.
    least: usize,
}

impl Ascending {
    /// For sets of tokens below `universe`, with marks where these pay, or without.
    pub(super) fn new(universe: u32, with_marks: bool) -> Self {
        let with_marks = with_marks && universe <= MOST_TOKENS;
        let words = if with_marks { (universe as usize).div_ceil(BITS) } else { 0 };
        let marked_words = vec![0; words.div_ceil(BITS)];
        let least = match with_marks {
            true => LEAST_TOKENS.max(marked_words.len()),
            false => usize::MAX,
        };
        Self { universe, marks: vec![0; words], marked_words, sorted: vec![], least }
    }

    /// The tokens that it sorts are below this.
    pub(super) fn universe(&self) -> u32 {
        self.universe
    }

    /// The bytes of the marks, where these pay.
    pub(super) fn footprint(universe: u32) -> usize {
        if universe > MOST_TOKENS {
            return 0;
        }
        let words = (universe as usize).div_ceil(BITS);
        (words + words.div_ceil(BITS)) * size_of::<u64>()
    }

    /// Puts different tokens in order, in front of what is left where some are repeated. How many
    /// there are.
    pub(super) fn sort(&mut self, tokens: &mut [u32]) -> usize {
        if tokens.len() < self.least {
            tokens.sort_unstable();
            return drop_repeats(tokens);
        }
        for &token in tokens.iter() {
            let word = token as usize / BITS;
            self.marks[word] |= 1 << (token as usize % BITS);
            self.marked_words[word / BITS] |= 1 << (word % BITS);
        }
        // Room for what is read ahead.
        self.sorted.resize(tokens.len() + BITS, 0);
        let mut len = 0;
        for (i, marked) in self.marked_words.iter_mut().enumerate() {
            let mut words = std::mem::take(marked);
            while words != 0 {
                let word = i * BITS + words.trailing_zeros() as usize;
                words &= words - 1;
                let mut marks = std::mem::take(&mut self.marks[word]);
                let first = (word * BITS) as u32;
                let count = marks.count_ones() as usize;
                let places = &mut self.sorted[len..len + BITS];
                let (ahead, rest) = places.split_at_mut(READ_AHEAD);
                let mut next = |place: &mut u32| {
                    *place = first + marks.trailing_zeros();
                    marks &= marks.wrapping_sub(1);
                };
                ahead.iter_mut().for_each(&mut next);
                rest[..count.saturating_sub(READ_AHEAD)].iter_mut().for_each(next);
                len += count;
            }
        }
        tokens[..len].copy_from_slice(&self.sorted[..len]);
        len
    }

    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        (self.marks.capacity() + self.marked_words.capacity()) * size_of::<u64>()
            + self.sorted.capacity() * size_of::<u32>()
    }
}

/// Moves the different ones of some ascending tokens to the front; how many there are.
fn drop_repeats(tokens: &mut [u32]) -> usize {
    let mut len = 0;
    for i in 0..tokens.len() {
        if len == 0 || tokens[len - 1] != tokens[i] {
            tokens[len] = tokens[i];
            len += 1;
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::index::sample;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn tokens_ascend_whatever_their_number() {
        let mut rng = StdRng::seed_from_u64(3);
        for universe in [1, 24, 63, 64, 65, 4096, 4097, 100_000, MOST_TOKENS + 1] {
            let mut sorters = [true, false].map(|marks| Ascending::new(universe, marks));
            for _ in 0..40 {
                let most =
                    (universe as usize).min(*[30, 300, 5000].get(rng.random_range(0..3)).unwrap());
                let count = rng.random_range(0..=most);
                let tokens: Vec<u32> = sample(&mut rng, universe as usize, count)
                    .into_iter()
                    .map(|t| t as u32)
                    .collect();
                let mut expected = tokens.clone();
                expected.sort_unstable();
                // Some of them twice.
                let repeated = rng.random_range(0..=count);
                let tokens = [&tokens, &tokens[..repeated]].concat();
                for sorter in &mut sorters {
                    let mut sorted = tokens.clone();
                    assert_eq!(sorter.sort(&mut sorted), count);
                    assert_eq!(sorted[..count], expected);
                }
            }
            let bytes = (sorters[0].marks.len() + sorters[0].marked_words.len()) * 8;
            assert_eq!(bytes, Ascending::footprint(universe));
        }
    }
}
