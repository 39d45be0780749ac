//! Token storage that grows without copying its tokens.

use std::ops::Range;

/// Tokens of a piece, except where one set alone is larger.
const PIECE_TOKENS: usize = 1 << 18;

/// Runs of tokens in pieces of a megabyte: unlike a doubling vector, it never holds its content
/// twice.
#[derive(Debug, Default)]
pub(crate) struct TokenArena {
    pieces: Vec<Vec<u32>>,
    len: usize,
}

/// Where a run of tokens lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenRun {
    piece: u32,
    start: u32,
    len: u32,
}

impl TokenRun {
    pub(crate) fn len(self) -> u32 {
        self.len
    }

    /// The number of its piece.
    pub(crate) fn piece(self) -> usize {
        self.piece as usize
    }

    /// The range of the run in its piece.
    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

impl TokenArena {
    /// Adds a run. The number of pieces and a run's length fit 32 bits: together they hold fewer
    /// than 2³² sets of fewer than 2³² tokens, and no piece is made for less than a megabyte.
    pub(crate) fn push(&mut self, tokens: &[u32]) -> TokenRun {
        let fits = |piece: &Vec<u32>| piece.capacity() - piece.len() >= tokens.len();
        if !self.pieces.last().is_some_and(fits) {
            self.pieces.push(Vec::with_capacity(tokens.len().max(self.next_capacity())));
        }
        let piece = self.pieces.len() - 1;
        let last = &mut self.pieces[piece];
        let run =
            TokenRun { piece: piece as u32, start: last.len() as u32, len: tokens.len() as u32 };
        last.extend_from_slice(tokens);
        self.len += tokens.len();
        run
    }

    /// Small collections, such as probe batches, start small.
    fn next_capacity(&self) -> usize {
        (2 * self.len).clamp(1 << 10, PIECE_TOKENS)
    }

    #[inline]
    pub(crate) fn get(&self, run: TokenRun) -> &[u32] {
        &self.pieces[run.piece as usize][run.range()]
    }

    /// The tokens of each piece. Runs lie in the pieces in the order in which they were added.
    pub(crate) fn pieces_mut(&mut self) -> impl Iterator<Item = &mut [u32]> {
        self.pieces.iter_mut().map(|piece| piece.as_mut_slice())
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes allocated.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.pieces.iter().map(|p| p.capacity() * size_of::<u32>()).sum()
    }

    /// The bytes that may be allocated when `tokens` tokens are added.
    pub(crate) fn growth(&self, tokens: usize) -> usize {
        let free = self.pieces.last().map_or(0, |p| p.capacity() - p.len());
        if tokens <= free {
            return 0;
        }
        // Ends of pieces stay unused where the next set does not fit.
        (tokens + self.next_capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stay_where_they_are_put() {
        let mut arena = TokenArena::default();
        let sizes = [3, 1 << 10, 0, PIECE_TOKENS + 1, 7, PIECE_TOKENS / 2, PIECE_TOKENS / 2 + 1];
        let runs: Vec<TokenRun> = sizes
            .iter()
            .enumerate()
            .map(|(i, &size)| {
                let before = arena.size_in_bytes();
                let growth = arena.growth(size);
                let run = arena.push(&vec![i as u32; size]);
                assert!(arena.size_in_bytes() - before <= growth.max(size * 4));
                run
            })
            .collect();
        for (i, run) in runs.iter().enumerate() {
            assert_eq!(arena.get(*run), vec![i as u32; sizes[i]]);
        }
        assert_eq!(arena.len(), sizes.iter().sum::<usize>());
        assert_eq!(arena.pieces_mut().map(|p| p.len()).sum::<usize>(), arena.len());
    }
}
