//! The total order of tokens that both sides share: rare tokens first.

use std::mem::size_of;

use crate::error::Result;
use crate::util::parallel::{Threads, for_each, map, steps_per_task, threads_for};

/// Tokens in fewer sets than this are ordered by counting.
const COUNTED_FREQUENCIES: usize = 1 << 12;
/// Tokens of a task, at least.
const LEAST_TOKENS: usize = COUNTED_FREQUENCIES;

/// Maps token ids to ranks; rank 0 is the rarest token.
///
/// Any total order is correct. Rare first keeps the posting lists of prefixes short (Chaudhuri,
/// Ganti, Kaushik: "A primitive operator for similarity joins in data cleaning", ICDE 2006).
#[derive(Debug)]
pub(crate) struct TokenOrder {
    ranks: Vec<u32>,
}

impl TokenOrder {
    /// Orders tokens by ascending frequency, ties by id. `frequencies[id]` is the number of sets
    /// that hold the token.
    pub(crate) fn by_frequency(frequencies: &[u32], threads: Threads) -> Result<Self> {
        let threads = threads_for(threads, 2 * frequencies.len());
        let share = steps_per_task(threads, frequencies.len(), LEAST_TOKENS);
        // Most tokens are rare: they are counted, the others sorted.
        let counted = map(threads, frequencies.chunks(share).enumerate().collect(), |chunk| {
            let (task, chunk): (usize, &[u32]) = chunk;
            let mut counts = vec![0_u32; COUNTED_FREQUENCIES];
            let mut frequent: Vec<u32> = vec![];
            for (id, &frequency) in ((task * share) as u32..).zip(chunk) {
                match counts.get_mut(frequency as usize) {
                    Some(count) => *count += 1,
                    None => frequent.push(id),
                }
            }
            Ok((counts, frequent))
        })?;
        let (mut counts, frequent): (Vec<_>, Vec<_>) = counted.into_iter().unzip();
        let mut frequent = frequent.concat();
        frequent.sort_unstable_by_key(|&id| (frequencies[id as usize], id));
        // Counts become the first ranks.
        let mut next = 0;
        for frequency in 0..COUNTED_FREQUENCIES {
            for counts in &mut counts {
                next += std::mem::replace(&mut counts[frequency], next);
            }
        }
        let mut ranks = vec![0; frequencies.len()];
        let chunks = frequencies.chunks(share).zip(ranks.chunks_mut(share)).zip(counts);
        for_each(threads, chunks.collect(), |((frequencies, ranks), mut next)| {
            for (rank, &frequency) in ranks.iter_mut().zip(frequencies) {
                if let Some(next) = next.get_mut(frequency as usize) {
                    *rank = *next;
                    *next += 1;
                }
            }
            Ok(())
        })?;
        for (rank, id) in (next..).zip(frequent) {
            ranks[id as usize] = rank;
        }
        Ok(Self { ranks })
    }

    /// The frequencies of the last `most` tokens of the order, which ascend.
    pub(crate) fn last(&self, frequencies: &[u32], most: usize) -> Vec<u32> {
        let first = self.ranks.len().saturating_sub(most);
        let mut last = vec![0; self.ranks.len() - first];
        for (&rank, &frequency) in self.ranks.iter().zip(frequencies) {
            if let Some(place) = (rank as usize).checked_sub(first) {
                last[place] = frequency;
            }
        }
        last
    }

    /// The bytes needed while ordering `tokens` tokens that stand in sets `uses` times.
    pub(crate) fn footprint(tokens: usize, uses: usize) -> usize {
        let frequent = tokens.min(uses / COUNTED_FREQUENCIES);
        // Counters of several threads have as many places as there are tokens.
        let counters = COUNTED_FREQUENCIES * (tokens / LEAST_TOKENS + 1);
        (tokens + 2 * frequent + counters) * size_of::<u32>()
    }

    /// The ranks by token id.
    pub(crate) fn into_ranks(self) -> Vec<u32> {
        self.ranks
    }

    /// The rank of a known token id.
    #[cfg(test)]
    fn rank(&self, id: u32) -> Option<u32> {
        self.ranks.get(id as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_tokens_come_first_and_ties_keep_their_order() {
        let order = TokenOrder::by_frequency(&[5, 1, 3, 1], Threads::small(1)).unwrap();
        let ranks: Vec<_> = (0..5).map(|id| order.rank(id)).collect();
        assert_eq!(ranks, [Some(3), Some(0), Some(2), Some(1), None]);
        let frequencies: Vec<u32> = (0..9000).map(|i| (i * 7) % 5000 * (i % 3)).collect();
        let mut expected: Vec<u32> = (0..9000).collect();
        expected.sort_by_key(|&id| frequencies[id as usize]);
        let mut ascending = frequencies.clone();
        ascending.sort_unstable();
        for threads in [1, 2, 5].map(Threads::small) {
            let order = TokenOrder::by_frequency(&frequencies, threads).unwrap();
            for most in [0, 1, 700, 9000, 9001] {
                let last = &ascending[9000_usize.saturating_sub(most)..];
                assert_eq!(order.last(&frequencies, most), last);
            }
            let ranks = order.into_ranks();
            let mut ranked = expected.iter().enumerate();
            assert!(ranked.all(|(rank, &id)| ranks[id as usize] == rank as u32));
        }
    }
}
