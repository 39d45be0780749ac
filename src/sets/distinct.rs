//! Deduplication of sets while rows arrive.

use std::hash::BuildHasher;
use std::mem::size_of;

use datafusion::common::{Result, exec_err};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::arena::{TokenArena, TokenRun};
use super::collection::{Parts, SetCollection, SetId};
use super::runs::{KeyId, Runs};
use crate::cancel::CancelFlag;

/// Marks a row without a set.
const NO_SET: u32 = u32::MAX;
/// Sets handled between two looks at the cancel flag.
const CHECK_EVERY: usize = 4096;

/// The distinct sets among the rows seen so far, in order of appearance.
///
/// Repeated rows are stored once: real collections repeat 28 to 69% of their rows.
#[derive(Debug, Default)]
pub(super) struct DistinctSets {
    arena: TokenArena,
    runs: Vec<TokenRun>,
    keys: Sparse,
    unknown: Sparse,
    /// (32 bits of the hash, set)
    table: HashTable<(u32, SetId)>,
    set_of_row: Vec<SetId>,
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

impl DistinctSets {
    /// Adds a row without a set.
    pub fn push_setless(&mut self) -> Result<()> {
        self.push_row(NO_SET)
    }

    /// Adds a row with a set: strictly ascending known tokens and a number of unknown ones.
    pub fn push(&mut self, key: KeyId, tokens: &[u32], unknown: u32) -> Result<()> {
        let hash = fold(FixedState::with_seed(u64::from(key)).hash_one((tokens, unknown)));
        let found = self.table.find(spread(hash), |&(h, set)| {
            h == hash && self.keys.get(set) == key && self.is_set(set, tokens, unknown)
        });
        let set = match found {
            Some(&(_, set)) => set,
            None => {
                let Some(set) = u32::try_from(self.runs.len()).ok().filter(|&s| s < NO_SET) else {
                    return exec_err!("a side of a similarity join holds at most {NO_SET} sets");
                };
                self.runs.push(self.arena.push(tokens));
                self.keys.set(set, key);
                self.unknown.set(set, unknown);
                self.table.insert_unique(spread(hash), (hash, set), |&(h, _)| spread(h));
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

    fn is_set(&self, set: SetId, tokens: &[u32], unknown: u32) -> bool {
        self.unknown.get(set) == unknown && self.tokens(set) == tokens
    }

    fn tokens(&self, set: SetId) -> &[u32] {
        self.arena.get(self.runs[set as usize])
    }

    fn size(&self, set: SetId) -> u32 {
        self.runs[set as usize].len() + self.unknown.get(set)
    }

    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        let words = self.keys.0.capacity() + self.unknown.0.capacity() + self.set_of_row.capacity();
        words * size_of::<u32>()
            + self.arena.size_in_bytes()
            + self.runs.capacity() * size_of::<TokenRun>()
            + self.table.allocation_size()
    }

    /// How many bytes [`Self::size_in_bytes`] may grow by when `rows` rows with `tokens` tokens
    /// in all are added.
    pub fn growth(&self, rows: usize, tokens: usize) -> usize {
        let vec = |len: usize, capacity: usize, more: usize, width: usize| {
            if len + more <= capacity { 0 } else { (len + more).max(2 * capacity) * width }
        };
        let table = match self.table.len() + rows > self.table.capacity() {
            true => {
                (self.table.len() + rows).next_power_of_two() * 2 * (size_of::<(u32, u32)>() + 1)
            }
            false => 0,
        };
        let sets = self.runs.len();
        // What has stayed at 0 so far most likely does.
        let sparse = |s: &Sparse| match s.0.is_empty() && sets > 0 {
            true => 0,
            false => vec(sets, s.0.capacity(), rows, 4),
        };
        self.arena.growth(tokens)
            + sparse(&self.keys)
            + sparse(&self.unknown)
            + vec(sets, self.runs.capacity(), rows, size_of::<TokenRun>())
            + vec(self.set_of_row.len(), self.set_of_row.capacity(), rows, 4)
            + table
    }

    /// In how many distinct sets each token stands, for tokens below `universe`.
    pub fn frequencies(&self, universe: u32) -> Vec<u32> {
        let mut frequencies = vec![0; universe as usize];
        for token in self.arena.iter() {
            frequencies[token as usize] += 1;
        }
        frequencies
    }

    /// Replaces every token and restores the ascending order within each set.
    pub fn map_tokens(&mut self, map: impl Fn(u32) -> u32, cancel: &CancelFlag) -> Result<()> {
        // The table hashes the old tokens; nothing is added from here on.
        self.table = HashTable::new();
        for (set, &run) in self.runs.iter().enumerate() {
            if set % CHECK_EVERY == 0 {
                cancel.check()?;
            }
            let tokens = self.arena.get_mut(run);
            tokens.iter_mut().for_each(|t| *t = map(*t));
            tokens.sort_unstable();
        }
        Ok(())
    }

    /// The bytes that [`Self::into_collection`] allocates on top of what is held.
    pub fn collection_growth(&self) -> usize {
        let (sets, rows) = (self.runs.len(), self.set_of_row.len());
        let collection = self.arena.len() * 4 + (sets + 1) * 8 + self.unknown.0.len() * 4;
        // First the order of the sets is on top, then, when the unordered sets are gone, the
        // offsets, a cursor and the position of each set, and the rows.
        let order = sets * 4;
        let grouping = (sets + 1) * 12 + rows * 4;
        let freed = self.arena.size_in_bytes() + self.runs.capacity() * size_of::<TokenRun>();
        collection + order.max((order + grouping).saturating_sub(freed))
    }

    /// Orders the sets by key, size and tokens.
    pub fn into_collection(mut self, universe: u32, cancel: &CancelFlag) -> Result<SetCollection> {
        self.table = HashTable::new();
        let order = self.sorted_sets(cancel)?;
        let mut parts = Parts { universe, ..Parts::default() };
        parts.runs = Runs::of(order.iter().map(|&s| (self.keys.get(s), self.size(s))));
        parts.tokens.reserve_exact(self.arena.len());
        parts.offsets.reserve_exact(order.len() + 1);
        parts.offsets.push(0);
        for (i, &set) in order.iter().enumerate() {
            if i % CHECK_EVERY == 0 {
                cancel.check()?;
            }
            parts.tokens.extend_from_slice(self.tokens(set));
            parts.offsets.push(parts.tokens.len() as u64);
        }
        if !self.unknown.0.is_empty() {
            parts.unknown = order.iter().map(|&s| self.unknown.get(s)).collect();
        }
        self.arena = TokenArena::default();
        self.runs = vec![];
        self.unknown = Sparse::default();
        self.keys = Sparse::default();
        // From the order of appearance to the final one.
        let mut position = vec![0; order.len()];
        for (i, &set) in order.iter().enumerate() {
            position[set as usize] = i as u32;
        }
        drop(order);
        (parts.row_offsets, parts.rows, parts.setless_rows) =
            group_rows(&self.set_of_row, &position, cancel)?;
        Ok(SetCollection::from_parts(parts))
    }

    fn sorted_sets(&self, cancel: &CancelFlag) -> Result<Vec<SetId>> {
        let mut order: Vec<SetId> = (0..self.runs.len() as u32).collect();
        order.sort_unstable_by_key(|&s| (self.keys.get(s), self.size(s), s));
        let key = |s: SetId| (self.keys.get(s), self.size(s));
        let mut rest = order.as_mut_slice();
        while let Some(&first) = rest.first() {
            cancel.check()?;
            let run = rest.partition_point(|&s| key(s) <= key(first));
            let (head, tail) = rest.split_at_mut(run);
            head.sort_unstable_by(|&a, &b| {
                self.tokens(a).cmp(self.tokens(b)).then_with(|| a.cmp(&b))
            });
            rest = tail;
        }
        Ok(order)
    }
}

/// The rows of each set (offsets and rows, ascending within a set) and those without one.
fn group_rows(
    set_of_row: &[SetId],
    position: &[SetId],
    cancel: &CancelFlag,
) -> Result<(Vec<u32>, Vec<u32>, Vec<u32>)> {
    let mut offsets = vec![0_u32; position.len() + 1];
    let mut setless = vec![];
    for (row, &set) in set_of_row.iter().enumerate() {
        match set {
            NO_SET => setless.push(row as u32),
            set => offsets[position[set as usize] as usize + 1] += 1,
        }
    }
    cancel.check()?;
    for i in 1..offsets.len() {
        offsets[i] += offsets[i - 1];
    }
    let mut rows = vec![0_u32; set_of_row.len() - setless.len()];
    let mut next = offsets.clone();
    for (row, &set) in set_of_row.iter().enumerate() {
        if set != NO_SET {
            let place = &mut next[position[set as usize] as usize];
            rows[*place as usize] = row as u32;
            *place += 1;
        }
    }
    Ok((offsets, rows, setless))
}

fn fold(hash: u64) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}

/// A table hash from 32 stored bits, with the high bits that the table tags entries by.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) ^ u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_the_same_set_and_key_are_grouped() {
        let mut sets = DistinctSets::default();
        sets.push(0, &[3, 5], 0).unwrap();
        sets.push(1, &[3, 5], 0).unwrap();
        sets.push_setless().unwrap();
        sets.push(0, &[3, 5], 0).unwrap();
        sets.push(0, &[3, 5], 1).unwrap();
        sets.push(0, &[1], 0).unwrap();
        sets.push(0, &[2, 9], 0).unwrap();
        let collection = sets.into_collection(10, &CancelFlag::default()).unwrap();
        let all: Vec<_> = (0..collection.len())
            .map(|s| (collection.tokens(s), collection.size(s), collection.rows(s)))
            .collect();
        let expected: [(&[u32], u32, &[u32]); 5] = [
            (&[1], 1, &[5]),
            (&[2, 9], 2, &[6]),
            (&[3, 5], 2, &[0, 3]),
            (&[3, 5], 3, &[4]),
            (&[3, 5], 2, &[1]),
        ];
        assert_eq!(all, expected);
        assert_eq!(collection.setless_rows(), [2]);
        assert_eq!(collection.runs().sets(0, 2, 2), 1..3);
        assert_eq!(collection.row_places(1..3), 1..4);
        assert_eq!(collection.rows_at(1..4), [6, 0, 3]);
    }

    #[test]
    fn a_cancelled_build_stops() {
        let mut sets = DistinctSets::default();
        sets.push(0, &[1], 0).unwrap();
        let cancel = CancelFlag::default();
        drop(cancel.on_drop());
        assert!(sets.into_collection(2, &cancel).is_err());
    }
}
