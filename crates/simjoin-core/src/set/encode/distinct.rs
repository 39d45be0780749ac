//! Deduplication of sets while rows arrive.

use std::mem::size_of;

use crate::engine::KeyId;
use crate::error::{Result, exec_err};
use crate::set::encode::arena::{TokenArena, TokenRun};
use crate::set::measure::MAX_SET_SIZE;
use crate::set::runs::SetId;
use crate::values::dictionary::mix;
use crate::values::table::{Slot, Table};

/// Marks a row without a set.
pub(crate) const NO_SET: u32 = u32::MAX;

/// The distinct sets among the rows seen so far, in order of appearance.
///
/// Repeated rows are stored once: real collections repeat 28 to 69% of their rows.
#[derive(Debug, Default)]
pub struct DistinctSets {
    arena: TokenArena,
    runs: Vec<TokenRun>,
    keys: Sparse,
    unknown: Sparse,
    table: Table<SetSlot>,
    set_of_row: Vec<SetId>,
    /// The tokens of the longest set.
    longest: usize,
}

/// A set in a hash table of sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetSlot {
    pub hash: u32,
    pub set: SetId,
}

impl Slot for SetSlot {
    const FREE: Self = Self { hash: 0, set: NO_SET };

    #[inline]
    fn is_free(&self) -> bool {
        self.set == NO_SET
    }

    #[inline]
    fn hash(&self) -> u32 {
        self.hash
    }
}

/// A number for each set, which most collections leave at 0: nothing is stored until one is not.
#[derive(Debug, Default)]
struct Sparse(Vec<u32>);

impl Sparse {
    #[inline]
    fn get(&self, set: SetId) -> u32 {
        self.0.get(set as usize).copied().unwrap_or(0)
    }

    /// Sets are given their numbers in order.
    fn set(&mut self, set: SetId, value: u32) {
        if value != 0 {
            self.0.resize(set as usize, 0);
            self.0.push(value);
        }
    }
}

/// A hash of sets, whatever the order of their tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SetHash(u64);

impl SetHash {
    #[inline]
    pub(crate) fn add(&mut self, token: u32) {
        self.0 = self.0.wrapping_add(mix(u64::from(token)));
    }

    /// The hash of the tokens added, of a blocking key and a number of unknown tokens.
    #[inline]
    pub(crate) fn finish(self, key: KeyId, unknown: u32) -> u32 {
        (mix(self.0 ^ (u64::from(key) << 32 | u64::from(unknown))) >> 32) as u32
    }
}

impl DistinctSets {
    /// Adds a row without a set.
    pub(crate) fn push_setless(&mut self) -> Result<()> {
        self.push_row(NO_SET)
    }

    /// Adds a row with a set: distinct known tokens and a number of unknown ones. `is_same` tells
    /// whether stored tokens of the same number and hash are the same set.
    pub fn push(
        &mut self,
        key: KeyId,
        tokens: &[u32],
        unknown: u32,
        hash: u32,
        mut is_same: impl FnMut(&[u32]) -> bool,
    ) -> Result<()> {
        let found = self.table.find(hash, |slot| {
            slot.hash == hash && {
                let stored = self.tokens(slot.set);
                stored.len() == tokens.len()
                    && self.key(slot.set) == key
                    && self.unknown(slot.set) == unknown
                    && is_same(stored)
            }
        });
        let set = match found {
            Some(slot) => slot.set,
            None => {
                let Some(set) = u32::try_from(self.runs.len()).ok().filter(|&s| s < NO_SET) else {
                    return exec_err!("a side of a similarity join holds at most {NO_SET} sets");
                };
                self.runs.push(self.arena.push(tokens));
                self.longest = self.longest.max(tokens.len());
                self.keys.set(set, key);
                self.unknown.set(set, unknown);
                self.table.insert(SetSlot { hash, set });
                set
            }
        };
        self.push_row(set)
    }

    fn push_row(&mut self, set: SetId) -> Result<()> {
        if self.set_of_row.len() >= NO_SET as usize {
            return exec_err!("a side of a similarity join holds at most {NO_SET} rows");
        }
        self.set_of_row.push(set);
        Ok(())
    }

    /// The number of tokens of the longest set.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The number of sets.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// The number of tokens in all sets.
    pub fn token_count(&self) -> usize {
        self.arena.len()
    }

    /// The set of each row, [`NO_SET`] where it has none.
    pub(crate) fn set_of_row(&self) -> &[SetId] {
        &self.set_of_row
    }

    /// The known tokens of a set.
    #[inline]
    pub fn tokens(&self, set: SetId) -> &[u32] {
        self.arena.get(self.runs[set as usize])
    }

    #[inline]
    pub fn key(&self, set: SetId) -> KeyId {
        self.keys.get(set)
    }

    #[inline]
    pub fn unknown(&self, set: SetId) -> u32 {
        self.unknown.get(set)
    }

    /// Whether any set has a blocking key other than 0, and whether any has unknown tokens.
    pub fn has_keys(&self) -> bool {
        !self.keys.0.is_empty()
    }

    pub(crate) fn has_unknown(&self) -> bool {
        !self.unknown.0.is_empty()
    }

    /// The size of a set, unknown tokens included.
    #[inline]
    pub fn size(&self, set: SetId) -> u32 {
        self.runs[set as usize].len() + self.unknown.get(set)
    }

    /// The bytes of the tokens and of where they lie.
    pub(crate) fn token_bytes(&self) -> usize {
        self.arena.size_in_bytes() + self.runs.capacity() * size_of::<TokenRun>()
    }

    /// Frees tokens, keys and sizes, which are not read from here on.
    pub(crate) fn drop_tokens(&mut self) {
        self.arena = TokenArena::default();
        self.runs = vec![];
        self.keys = Sparse::default();
        self.unknown = Sparse::default();
    }

    /// Ends adding rows, and frees the buffers that only adding needs.
    pub fn close(&mut self) {
        self.table = Table::default();
    }

    /// Replaces the blocking keys by what `map` has for them.
    pub fn map_keys(&mut self, map: &[KeyId]) {
        if map.iter().enumerate().any(|(id, &to)| id as u32 != to) {
            // Sets without an entry have the key 0.
            self.keys.0.resize(self.runs.len(), 0);
            self.keys.0.iter_mut().for_each(|key| *key = map[*key as usize]);
        }
    }

    /// The stored tokens in pieces, each with the first of its sets and where in the piece their
    /// tokens end. Tokens may be changed in place.
    pub(crate) fn pieces_mut(&mut self) -> Vec<(SetId, &[TokenRun], &mut [u32])> {
        let mut pieces = vec![];
        let mut first = 0;
        let mut rest = self.runs.as_slice();
        for (number, piece) in self.arena.pieces_mut().enumerate() {
            let sets = rest.partition_point(|run| run.piece() <= number);
            let (runs, others) = rest.split_at(sets);
            pieces.push((first, runs, piece));
            first += sets as u32;
            rest = others;
        }
        pieces
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        let words = self.keys.0.capacity() + self.unknown.0.capacity() + self.set_of_row.capacity();
        words * size_of::<u32>()
            + self.arena.size_in_bytes()
            + self.runs.capacity() * size_of::<TokenRun>()
            + self.table.size_in_bytes()
    }

    /// The bytes by which [`Self::size_in_bytes`] may grow when `rows` rows with `tokens` tokens in
    /// all are added.
    pub fn growth(&self, rows: usize, tokens: usize) -> usize {
        let vec = |len: usize, capacity: usize, more: usize, width: usize| {
            if len + more <= capacity { 0 } else { (len + more).max(2 * capacity) * width }
        };
        let sets = self.runs.len();
        // Numbers that have stayed at 0 so far most likely do.
        let sparse = |s: &Sparse| match s.0.is_empty() && sets > 0 {
            true => 0,
            false => vec(sets, s.0.capacity(), rows, 4),
        };
        self.arena.growth(tokens)
            + sparse(&self.keys)
            + sparse(&self.unknown)
            + vec(sets, self.runs.capacity(), rows, size_of::<TokenRun>())
            + vec(self.set_of_row.len(), self.set_of_row.capacity(), rows, 4)
            + self.table.growth(rows)
    }
}

/// Refuses sets of too many tokens.
///
/// # Errors
///
/// Where a set has more tokens than a set may have.
pub(crate) fn check_size(tokens: usize) -> Result<()> {
    if tokens > MAX_SET_SIZE as usize {
        return exec_err!("a set of {tokens} tokens is too large for a similarity join");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_the_same_set_and_key_share_it() {
        let mut sets = DistinctSets::default();
        let mut push = |key: u32, tokens: &[u32], unknown: u32| {
            let mut hash = SetHash::default();
            tokens.iter().for_each(|&t| hash.add(t));
            let mut sorted = tokens.to_vec();
            sorted.sort_unstable();
            let is_same = |stored: &[u32]| {
                let mut stored = stored.to_vec();
                stored.sort_unstable();
                stored == sorted
            };
            sets.push(key, tokens, unknown, hash.finish(key, unknown), is_same).unwrap();
        };
        push(0, &[5, 3], 0);
        push(1, &[3, 5], 0);
        push(0, &[3, 5], 0);
        push(0, &[3, 5], 1);
        push(0, &[1], 0);
        sets.push_setless().unwrap();
        assert_eq!(sets.set_of_row(), [0, 1, 0, 2, 3, NO_SET]);
        assert_eq!((sets.tokens(0), sets.size(2), sets.key(1)), (&[5, 3][..], 3, 1));
        sets.map_keys(&[1, 0]);
        assert_eq!((0..4).map(|s| sets.key(s)).collect::<Vec<_>>(), [1, 0, 1, 1]);
    }

    #[test]
    fn pieces_hold_all_sets() {
        let mut sets = DistinctSets::default();
        for i in 0..3000_u32 {
            let tokens: Vec<u32> = (i..i + 1 + i % 500).collect();
            sets.push(0, &tokens, 0, i, |_| false).unwrap();
        }
        let mut next = 0;
        for (first, runs, tokens) in sets.pieces_mut() {
            assert_eq!(first, next);
            for run in runs {
                assert_eq!(tokens[run.range()][0], next);
                next += 1;
            }
        }
        assert_eq!(next, 3000);
    }
}
