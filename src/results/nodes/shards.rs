//! Tables of values, divided by hashes into shards that threads fill one at a time.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::hash::BuildHasher;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use super::{MOST_IDS, NO_ID, too_many_nodes};
use crate::util::cancel::{self, CancelFlag};

/// Shards of a table. Ids are dealt out to them in turn.
const SHARDS: usize = 64;

/// Keys of a shard, by their numbers in it.
pub(crate) trait ShardKeys: Default + Debug + Send + Sync {
    type Key<'a>: Copy;

    fn push(&mut self, key: Self::Key<'_>);
    fn get(&self, number: u32) -> Self::Key<'_>;
    fn count(&self) -> usize;
    fn equal(a: Self::Key<'_>, b: Self::Key<'_>) -> bool;
    fn hash(hasher: &FixedState, key: Self::Key<'_>) -> u64;
    /// Bytes that [`Self::reserve`] allocates.
    fn bytes_for(&self, keys: usize, bytes: usize) -> usize;
    /// Makes room for further keys of so many bytes beyond their fixed parts.
    fn reserve(&mut self, keys: usize, bytes: usize);
    /// Bytes of a key beyond its fixed part.
    fn size(key: Self::Key<'_>) -> usize;
    fn compare(a: Self::Key<'_>, b: Self::Key<'_>) -> Ordering;
}

impl ShardKeys for Vec<u64> {
    type Key<'a> = u64;

    fn push(&mut self, key: u64) {
        self.push(key);
    }

    fn get(&self, number: u32) -> u64 {
        self.as_slice().get(number as usize).copied().unwrap_or_default()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn equal(a: u64, b: u64) -> bool {
        a == b
    }

    fn hash(hasher: &FixedState, key: u64) -> u64 {
        hasher.hash_one(key)
    }

    fn bytes_for(&self, keys: usize, _: usize) -> usize {
        growth(self.len(), self.capacity(), keys) * size_of::<u64>()
    }

    fn reserve(&mut self, keys: usize, _: usize) {
        self.reserve(keys);
    }

    fn size(_: u64) -> usize {
        0
    }

    fn compare(a: u64, b: u64) -> Ordering {
        a.cmp(&b)
    }
}

/// Byte strings behind one another.
#[derive(Debug, Default)]
pub(crate) struct ByteKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ShardKeys for ByteKeys {
    type Key<'a> = &'a [u8];

    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let end = self.ends.get(number).copied().unwrap_or_default();
        self.bytes.get(start.unwrap_or_default()..end).unwrap_or_default()
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    fn equal(a: &[u8], b: &[u8]) -> bool {
        a == b
    }

    fn hash(hasher: &FixedState, key: &[u8]) -> u64 {
        hasher.hash_one(key)
    }

    fn bytes_for(&self, keys: usize, bytes: usize) -> usize {
        growth(self.bytes.len(), self.bytes.capacity(), bytes)
            + growth(self.ends.len(), self.ends.capacity(), keys) * size_of::<usize>()
    }

    fn reserve(&mut self, keys: usize, bytes: usize) {
        self.bytes.reserve(bytes);
        self.ends.reserve(keys);
    }

    fn size(key: &[u8]) -> usize {
        key.len()
    }

    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

/// Items by which a vector's capacity grows at most where `more` are added.
fn growth(len: usize, capacity: usize, more: usize) -> usize {
    match len + more > capacity {
        true => (len + more).max(2 * capacity).max(8) - capacity,
        false => 0,
    }
}

#[derive(Debug, Default)]
struct Shard<K> {
    table: HashTable<u32>,
    keys: K,
}

/// Distinct keys and their ids.
#[derive(Debug)]
pub(crate) struct Shards<K> {
    shards: Vec<Mutex<Shard<K>>>,
    hasher: FixedState,
}

impl<K: ShardKeys> Default for Shards<K> {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: FixedState::default() }
    }
}

impl<K: ShardKeys> Shards<K> {
    /// Ids, some of which may have no node.
    pub(crate) fn len(&self) -> u32 {
        let longest = self.shards.iter().map(|shard| shard.lock().keys.count()).max();
        (longest.unwrap_or_default() * SHARDS) as u32
    }

    /// The ids of the values of `rows` rows; new values get new ones.
    pub(crate) fn number<'a>(
        &self,
        rows: usize,
        is_null: impl Fn(usize) -> bool,
        value: impl Fn(usize) -> K::Key<'a>,
        ids: &mut Vec<u32>,
        reservation: &MemoryReservation,
    ) -> Result<()> {
        ids.clear();
        ids.resize(rows, NO_ID);
        let mut by_shard: Vec<Vec<(u64, u32)>> = vec![vec![]; SHARDS];
        for row in (0..rows).filter(|row| !is_null(*row)) {
            let hash = K::hash(&self.hasher, value(row));
            // Tables use the lowest and the highest bits.
            let shard = (hash >> 32) as usize % SHARDS;
            by_shard.get_mut(shard).into_iter().for_each(|of| of.push((hash, row as u32)));
        }
        for (number, (shard, rows)) in self.shards.iter().zip(&by_shard).enumerate() {
            if rows.is_empty() {
                continue;
            }
            let mut shard = shard.lock();
            let bytes: usize = rows.iter().map(|(_, row)| K::size(value(*row as usize))).sum();
            shard.make_room(rows.len(), bytes, &self.hasher, reservation)?;
            for (hash, row) in rows {
                let local = shard.number(*hash, value(*row as usize), &self.hasher);
                if u64::from(local) >= MOST_IDS / SHARDS as u64 {
                    return Err(too_many_nodes());
                }
                if let Some(id) = ids.get_mut(*row as usize) {
                    *id = local * SHARDS as u32 + number as u32;
                }
            }
        }
        Ok(())
    }

    fn with_key<R>(&self, id: u32, read: impl FnOnce(K::Key<'_>) -> R) -> Option<R> {
        if id == NO_ID {
            return None;
        }
        let shard = self.shards.get(id as usize % SHARDS)?.lock();
        let local = id / SHARDS as u32;
        ((local as usize) < shard.keys.count()).then(|| read(shard.keys.get(local)))
    }

    /// The ids of all keys, in the order of these.
    pub(crate) fn order(
        &self,
        reservation: &MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<Vec<u32>> {
        let shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        let count: usize = shards.iter().map(|shard| shard.keys.count()).sum();
        reservation.try_grow(count * size_of::<u32>())?;
        let mut ids = Vec::with_capacity(count);
        for (number, shard) in shards.iter().enumerate() {
            let of = (0..shard.keys.count()).map(|local| (local * SHARDS + number) as u32);
            ids.extend(of);
        }
        let keys: Vec<&K> = shards.iter().map(|shard| &shard.keys).collect();
        let key = |id: u32| keys.get(id as usize % SHARDS).map(|k| k.get(id / SHARDS as u32));
        cancel::sort_unstable_by(&mut ids, cancel, |a, b| match (key(*a), key(*b)) {
            (Some(a), Some(b)) => K::compare(a, b),
            _ => Ordering::Equal,
        })?;
        Ok(ids)
    }
}

impl Shards<Vec<u64>> {
    pub(crate) fn integer_at(&self, id: u32) -> Option<u64> {
        self.with_key(id, |key| key)
    }
}

impl Shards<ByteKeys> {
    /// Appends the bytes at an id; false where there are none.
    pub(crate) fn bytes_at(&self, id: u32, bytes: &mut Vec<u8>) -> bool {
        self.with_key(id, |key| bytes.extend_from_slice(key)).is_some()
    }
}

impl<K: ShardKeys> Shard<K> {
    fn make_room(
        &mut self,
        keys: usize,
        bytes: usize,
        hasher: &FixedState,
        reservation: &MemoryReservation,
    ) -> Result<()> {
        reservation.try_grow(self.keys.bytes_for(keys, bytes))?;
        ShardKeys::reserve(&mut self.keys, keys, bytes);
        let former = self.table.allocation_size();
        if self.table.len() + keys > self.table.capacity() {
            // A table of twice the capacity, beside the former one.
            let entries = (self.table.len() + keys).max(2 * self.table.capacity()).max(8);
            let most = 2 * entries.next_power_of_two() * (size_of::<u32>() + 1) + 64;
            reservation.try_grow(most)?;
            let Self { table, keys: held } = self;
            table.reserve(entries - table.len(), |number| K::hash(hasher, held.get(*number)));
            reservation.shrink(most + former - table.allocation_size().min(most + former));
        }
        Ok(())
    }

    fn number(&mut self, hash: u64, key: K::Key<'_>, hasher: &FixedState) -> u32 {
        let Self { table, keys } = self;
        if let Some(number) = table.find(hash, |number| K::equal(keys.get(*number), key)) {
            return *number;
        }
        let number = keys.count() as u32;
        keys.push(key);
        table.insert_unique(hash, number, |number| K::hash(hasher, keys.get(*number)));
        number
    }
}
