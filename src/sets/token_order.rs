//! The total order of tokens that both sides share: rare tokens first.

use std::mem::size_of;

/// Maps token ids to ranks; rank 0 is the rarest token.
///
/// Any total order is correct. Rare first keeps the posting lists of prefixes short (Chaudhuri,
/// Ganti, Kaushik: "A primitive operator for similarity joins in data cleaning", ICDE 2006).
#[derive(Debug)]
pub struct TokenOrder {
    ranks: Vec<u32>,
}

impl TokenOrder {
    /// Orders tokens by ascending frequency, ties by id. `frequencies[id]` is the number of sets
    /// that hold the token.
    pub fn by_frequency(frequencies: &[u32]) -> Self {
        let mut ids: Vec<u32> = (0..frequencies.len() as u32).collect();
        ids.sort_unstable_by_key(|&id| (frequencies[id as usize], id));
        let mut ranks = vec![0; ids.len()];
        for (rank, id) in ids.into_iter().enumerate() {
            ranks[id as usize] = rank as u32;
        }
        Self { ranks }
    }

    /// The bytes needed while ordering `tokens` tokens, and those kept.
    pub fn footprint(tokens: usize) -> (usize, usize) {
        (2 * tokens * size_of::<u32>(), tokens * size_of::<u32>())
    }

    /// The rank of a known token id.
    #[inline]
    pub fn rank(&self, id: u32) -> Option<u32> {
        self.ranks.get(id as usize).copied()
    }

    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
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
    }
}
