//! Rows whose items others have before them.
//!
//! Rows are shared out by a hash of their items, in shares that a processor's cache holds; a table for each
//! share knows the items that it has met. Threads take one share after the other.

use std::cell::Cell;

use hashbrown::HashTable;

use crate::error::Result;
use crate::tuning::{Size, Tuning};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, map, ranges};

/// Rows of a task, at least, and rows of a share, about.
const LEAST_ROWS: usize = 1 << 10;
const SHARE_ROWS: Size = Size { usual: 1 << 12, small: 1 << 4 };

/// Shares, at most: each task has a counter for each of them.
const MOST_SHARES: usize = 1 << 12;

/// The rows of an input, by their places 0, 1, … in an order that no thread decides.
pub trait ItemRows: Sync {
    /// The number of rows.
    fn count(&self) -> usize;

    /// The number of the row at a place, in the order of the input.
    fn row_number(&self, place: u32) -> u32;

    /// The hash of the row's item; `None` where it has none.
    fn hash(&self, place: u32) -> Option<u64>;

    /// A hash of a part of the row's item, which takes less time than [`Self::hash`]: equal items have equal
    /// ones; `None` where it has none.
    fn sketch(&self, place: u32) -> Option<u64> {
        self.hash(place)
    }

    /// Whether different items may often have equal sketches.
    fn has_sketches(&self) -> bool {
        false
    }

    /// Whether two rows with items have the same one.
    fn is_same(&self, a: u32, b: u32) -> bool;
}

/// A row with the bits of its hash by which it is looked up.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    bits: u32,
    place: u32,
}

/// Neighbouring rows in shares.
struct InShares {
    /// The entries in the order of the shares, places ascending in each.
    entries: Vec<Entry>,
    /// The end of the entries of each share.
    ends: Vec<u32>,
    /// The places of rows without an item.
    without: Vec<u32>,
}

/// The rows that are not the first ones of their items.
pub(super) struct Repeats {
    /// The places of rows with those of the first rows that have their items, in any order, in parts.
    pub repeats: Vec<Vec<(u32, u32)>>,
    /// The places of rows without an item, ascending, in parts.
    pub without: Vec<Vec<u32>>,
}

/// The number of shares: the power of two of them by which hashes are shared out.
fn shares(count: usize, tuning: Tuning) -> usize {
    (count / tuning.size(SHARE_ROWS)).clamp(1, MOST_SHARES).next_power_of_two()
}

#[inline]
fn share_of(hash: u64, shares: usize) -> usize {
    // Bits that entries do not keep.
    (hash >> 32) as usize & (shares - 1)
}

impl Repeats {
    /// Finds the rows with equal items on several threads.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(rows: &impl ItemRows, threads: Threads, cancel: &CancelFlag) -> Result<Self> {
        let (count, shares) = (rows.count(), shares(rows.count(), threads.tuning));
        let mut shared = share_out(count, shares, |row| rows.sketch(row), threads, cancel)?;
        if rows.has_sketches() && are_uneven(&shared, shares, count, threads.tuning) {
            drop(shared);
            shared = share_out(count, shares, |row| rows.hash(row), threads, cancel)?;
        }
        let repeats = map(threads, ranges(threads, shares, 1), |shares| {
            let (mut table, mut found) = (HashTable::new(), vec![]);
            for share in shares {
                repeats_of(share, &shared, rows, &mut table, &mut found, cancel)?;
                table.clear();
            }
            Ok(found)
        })?;
        let without = shared.into_iter().map(|part| part.without).collect();
        Ok(Self { repeats, without })
    }
}

/// Rows in shares by their hashes.
fn share_out(
    count: usize,
    shares: usize,
    hash: impl Fn(u32) -> Option<u64> + Sync,
    threads: Threads,
    cancel: &CancelFlag,
) -> Result<Vec<InShares>> {
    map(threads, ranges(threads, count, LEAST_ROWS), |places| {
        let (mut given, mut without) = (Vec::with_capacity(places.len()), vec![]);
        let mut ends = vec![0_u32; shares];
        for place in places.start as u32..places.end as u32 {
            cancel.check_at(place as usize)?;
            let Some(hash) = hash(place) else {
                without.push(place);
                continue;
            };
            let share = share_of(hash, shares);
            ends[share] += 1;
            given.push((share as u16, Entry { bits: hash as u32, place }));
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut entries = vec![Entry::default(); given.len()];
        for (share, entry) in given {
            let end = &mut ends[usize::from(share)];
            entries[*end as usize] = entry;
            *end += 1;
        }
        Ok(InShares { entries, ends, without })
    })
}

impl InShares {
    fn share(&self, share: usize) -> &[Entry] {
        let start = if share == 0 { 0 } else { self.ends[share - 1] };
        &self.entries[start as usize..self.ends[share] as usize]
    }
}

/// Whether a share has far more rows than the average: the thread that takes it would work longer than all
/// others.
fn are_uneven(shared: &[InShares], shares: usize, count: usize, tuning: Tuning) -> bool {
    let most = (0..shares).map(|share| shared.iter().map(|part| part.share(share).len()).sum());
    most.max().unwrap_or(0) > 4 * (count / shares) + tuning.size(SHARE_ROWS)
}

/// Adds the repeats of a share to `found`, by a table that is empty.
fn repeats_of(
    share: usize,
    shared: &[InShares],
    rows: &impl ItemRows,
    table: &mut HashTable<Entry>,
    found: &mut Vec<(u32, u32)>,
    cancel: &CancelFlag,
) -> Result<()> {
    let entries = || shared.iter().flat_map(|part| part.share(share)).copied();
    let start = found.len();
    let most = match rows.has_sketches() {
        true => 64 + 4 * shared.iter().map(|part| part.share(share).len()).sum::<usize>(),
        false => usize::MAX,
    };
    if !meet(entries(), most, rows, table, found, cancel)? {
        table.clear();
        found.truncate(start);
        let hashed = |entry: Entry| {
            let bits = rows.hash(entry.place).unwrap_or_default() as u32;
            Entry { bits, ..entry }
        };
        meet(entries().map(hashed), usize::MAX, rows, table, found, cancel)?;
    }
    Ok(())
}

/// Adds those rows to `found` that have the item of a row before them; whether no more than `most` pairs of
/// rows were compared in vain, or else only some rows have been met.
fn meet(
    entries: impl Iterator<Item = Entry>,
    most: usize,
    rows: &impl ItemRows,
    table: &mut HashTable<Entry>,
    found: &mut Vec<(u32, u32)>,
    cancel: &CancelFlag,
) -> Result<bool> {
    // Tables go by the first bits and the last ones.
    let hash = |entry: &Entry| u64::from(entry.bits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let in_vain = Cell::new(0_usize);
    for (step, entry) in entries.enumerate() {
        cancel.check_at(step)?;
        let is_same = |other: &Entry| {
            let is_same = other.bits == entry.bits && rows.is_same(other.place, entry.place);
            in_vain.set(in_vain.get() + usize::from(other.bits == entry.bits && !is_same));
            is_same
        };
        match table.find(hash(&entry), is_same) {
            Some(first) => found.push((entry.place, first.place)),
            None => {
                table.insert_unique(hash(&entry), entry, hash);
            }
        }
        if in_vain.get() > most {
            return Ok(false);
        }
    }
    Ok(true)
}
