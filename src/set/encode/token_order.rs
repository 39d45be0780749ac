//! The total order of tokens that both sides share: rare tokens first.

use std::mem::size_of;

/// Tokens in fewer sets than this are ordered by counting.
const COUNTED_FREQUENCIES: usize = 1 << 12;

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
    pub(crate) fn by_frequency(frequencies: &[u32]) -> Self {
        // Most tokens are rare: they are counted, the others sorted.
        let mut counts = vec![0_u32; COUNTED_FREQUENCIES];
        let mut frequent: Vec<u32> = vec![];
        for (id, &frequency) in frequencies.iter().enumerate() {
            match counts.get_mut(frequency as usize) {
                Some(count) => *count += 1,
                None => frequent.push(id as u32),
            }
        }
        frequent.sort_unstable_by_key(|&id| (frequencies[id as usize], id));
        let mut next = 0;
        for count in &mut counts {
            next += std::mem::replace(count, next);
        }
        let mut ranks: Vec<u32> = frequencies
            .iter()
            .map(|&frequency| match counts.get_mut(frequency as usize) {
                Some(rank) => {
                    *rank += 1;
                    *rank - 1
                }
                None => 0,
            })
            .collect();
        for (rank, id) in (next..).zip(frequent) {
            ranks[id as usize] = rank;
        }
        Self { ranks }
    }

    /// The bytes needed while ordering `tokens` tokens that stand in sets `uses` times.
    pub(crate) fn footprint(tokens: usize, uses: usize) -> usize {
        let frequent = tokens.min(uses / COUNTED_FREQUENCIES);
        (tokens + 2 * frequent + COUNTED_FREQUENCIES) * size_of::<u32>()
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
        let order = TokenOrder::by_frequency(&[5, 1, 3, 1]);
        let ranks: Vec<_> = (0..5).map(|id| order.rank(id)).collect();
        assert_eq!(ranks, [Some(3), Some(0), Some(2), Some(1), None]);
        let frequencies: Vec<u32> = (0..9000).map(|i| (i * 7) % 5000 * (i % 3)).collect();
        let mut expected: Vec<u32> = (0..9000).collect();
        expected.sort_by_key(|&id| frequencies[id as usize]);
        let ranks = TokenOrder::by_frequency(&frequencies).into_ranks();
        assert!(expected.iter().enumerate().all(|(rank, &id)| ranks[id as usize] == rank as u32));
    }
}
