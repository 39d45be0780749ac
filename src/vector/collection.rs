//! The distinct vectors of some rows.

use std::hash::{BuildHasher, Hasher};
use std::mem::size_of;
use std::ops::Range;

use datafusion::common::{Result, exec_err};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::device::VectorCopies;
use crate::engine::{Collection, ItemId, KeyId, RowGroups};
use crate::util::cancel::{CancelFlag, sort_unstable_by_key};

/// What a row is joined by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing: it matches nothing.
    None,
    /// A list with a NULL element, which matches nothing and must have the others' length.
    WithNull,
    Vector,
}

/// A row that has been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadRow {
    /// Its number in the order of the input.
    pub row: u32,
    pub key: KeyId,
    pub content: Content,
    /// The number of dimensions.
    pub len: u32,
    /// The place of its first number, where it is a vector.
    pub start: usize,
}

/// Rows that have been read, with their numbers.
#[derive(Debug, Default)]
pub(super) struct ReadRows {
    pub rows: Vec<ReadRow>,
    pub numbers: Vec<f64>,
}

impl ReadRows {
    pub(super) fn vector(&self, row: &ReadRow) -> &[f64] {
        match row.content {
            Content::Vector => &self.numbers[row.start..row.start + row.len as usize],
            _ => &[],
        }
    }

    pub(super) fn size_in_bytes(&self) -> usize {
        Self::footprint(self.rows.capacity(), self.numbers.capacity())
    }

    pub(super) fn footprint(rows: usize, numbers: usize) -> usize {
        rows * size_of::<ReadRow>() + numbers * size_of::<f64>()
    }
}

/// Items of one blocking key.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub key: KeyId,
    pub items: Range<ItemId>,
    /// The least and the greatest number of dimensions.
    pub lens: [u32; 2],
}

/// The distinct vectors of each blocking key, by the key and the order of their first rows. Vectors
/// are equal when their bits are.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    contents: Vec<Content>,
    lens: Vec<u32>,
    /// By item, the place of its first number, and the end of the last.
    starts: Vec<usize>,
    numbers: Vec<f64>,
    runs: Vec<Run>,
    groups: RowGroups,
    /// On devices.
    copies: VectorCopies,
}

/// The same in every process.
pub(super) fn hash_of(key: KeyId, content: Content, vector: &[f64]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u64(u64::from(key) << 2 | content as u64);
    vector.iter().for_each(|number| hasher.write_u64(number.to_bits()));
    hasher.finish()
}

fn is_equal(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// A row on its way into a collection: the number of its part, and its place there.
#[derive(Debug, Clone, Copy)]
struct Place {
    row: u32,
    part: u32,
    index: u32,
    /// Its item in the order of first rows; [`NO_ITEM`] where it has none.
    item: u32,
}

const NO_ITEM: u32 = u32::MAX;

impl Vectors {
    /// The collection of rows that were read in several parts, whose numbers differ.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of(parts: &[&ReadRows], cancel: &CancelFlag) -> Result<Self> {
        let mut places = Vec::with_capacity(parts.iter().map(|part| part.rows.len()).sum());
        for (part, rows) in (0..).zip(parts) {
            let place =
                |(index, row): (u32, &ReadRow)| Place { row: row.row, part, index, item: NO_ITEM };
            places.extend((0..).zip(&rows.rows).map(place));
        }
        sort_unstable_by_key(&mut places, cancel, |place| place.row)?;
        let read = |place: &Place| &parts[place.part as usize].rows[place.index as usize];
        let vector = |place: &Place| parts[place.part as usize].vector(read(place));
        // By item, the place of its first row.
        let mut firsts: Vec<u32> = vec![];
        let mut table: HashTable<(u64, u32)> = HashTable::new();
        for i in 0..places.len() {
            cancel.check_at(i)?;
            let (row, numbers) = (read(&places[i]), vector(&places[i]));
            if row.content == Content::None {
                continue;
            }
            let hash = hash_of(row.key, row.content, numbers);
            let is_same = |&(other_hash, item): &(u64, u32)| {
                let other = &places[firsts[item as usize] as usize];
                let of_other = read(other);
                other_hash == hash
                    && (of_other.key, of_other.content, of_other.len)
                        == (row.key, row.content, row.len)
                    && is_equal(vector(other), numbers)
            };
            let found = table.find(hash, is_same).map(|&(_, item)| item);
            places[i].item = found.unwrap_or_else(|| {
                let item = firsts.len() as u32;
                firsts.push(i as u32);
                table.insert_unique(hash, (hash, item), |&(hash, _)| hash);
                item
            });
        }
        drop(table);
        let mut order: Vec<u32> = (0..firsts.len() as u32).collect();
        let first = |item: u32| read(&places[firsts[item as usize] as usize]);
        sort_unstable_by_key(&mut order, cancel, |&item| (first(item).key, item))?;
        let mut vectors = Self::default();
        vectors.reserve(order.iter().map(|&item| first(item)));
        for (step, &item) in order.iter().enumerate() {
            cancel.check_at(step)?;
            vectors.push(first(item), vector(&places[firsts[item as usize] as usize]));
        }
        vectors.groups = groups(&places, &order, cancel)?;
        Ok(vectors)
    }

    fn reserve<'a>(&mut self, items: impl ExactSizeIterator<Item = &'a ReadRow> + Clone) {
        let count = items.len();
        let numbers = items.filter(|row| row.content == Content::Vector);
        self.numbers.reserve_exact(numbers.map(|row| row.len as usize).sum());
        self.contents.reserve_exact(count);
        self.lens.reserve_exact(count);
        self.starts.reserve_exact(count + 1);
    }

    fn push(&mut self, row: &ReadRow, vector: &[f64]) {
        let item = self.lens.len() as ItemId;
        self.starts.push(self.numbers.len());
        self.numbers.extend_from_slice(vector);
        self.contents.push(row.content);
        self.lens.push(row.len);
        match self.runs.last_mut().filter(|run| run.key == row.key) {
            Some(run) => {
                run.items.end = item + 1;
                run.lens = [run.lens[0].min(row.len), run.lens[1].max(row.len)];
            }
            None => {
                self.runs.push(Run { key: row.key, items: item..item + 1, lens: [row.len; 2] });
            }
        }
    }

    /// A bound on the bytes of a collection of `rows` rows with `numbers` numbers in all, and of making
    /// it.
    pub(super) fn footprint(rows: usize, numbers: usize) -> usize {
        // Places and order; contents, lengths and places of items; groups; the table doubles.
        let words = size_of::<Place>() + 6 * size_of::<u32>() + size_of::<usize>();
        let table = 4 * size_of::<(u64, u32)>() + 4;
        rows * (words + table + size_of::<Run>()) + numbers * size_of::<f64>() + 256
    }

    /// The items.
    pub(super) fn len(&self) -> u32 {
        self.lens.len() as u32
    }

    /// The numbers of a vector; none where the item is not one.
    pub(super) fn vector(&self, item: ItemId) -> &[f64] {
        let (start, end) = (self.starts[item as usize], self.starts.get(item as usize + 1));
        &self.numbers[start..end.copied().unwrap_or(self.numbers.len())]
    }

    /// The numbers of some items, one behind the other.
    pub(super) fn numbers_of(&self, items: Range<ItemId>) -> &[f64] {
        let place = |item: ItemId| self.starts.get(item as usize).copied();
        let [start, end] =
            [items.start, items.end].map(|item| place(item).unwrap_or(self.numbers.len()));
        &self.numbers[start..end]
    }

    /// What lies on devices of it.
    pub(super) fn copies(&self) -> &VectorCopies {
        &self.copies
    }

    pub(super) fn is_vector(&self, item: ItemId) -> bool {
        self.contents[item as usize] == Content::Vector
    }

    /// The number of dimensions of an item.
    pub(super) fn dimensions(&self, item: ItemId) -> u32 {
        self.lens[item as usize]
    }

    /// The numbers of all vectors.
    pub(super) fn number_count(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The run of a key.
    pub(super) fn run(&self, key: KeyId) -> Option<&Run> {
        let place = self.runs.binary_search_by_key(&key, |run| run.key).ok()?;
        self.runs.get(place)
    }

    /// The run of an item.
    pub(super) fn run_of(&self, item: ItemId) -> Option<&Run> {
        self.runs.get(self.runs.partition_point(|run| run.items.end <= item))
    }
}

/// The rows of each item, in the order of `order`.
fn groups(places: &[Place], order: &[u32], cancel: &CancelFlag) -> Result<RowGroups> {
    let mut rank = vec![0_u32; order.len()];
    (0..).zip(order).for_each(|(place, &item)| rank[item as usize] = place);
    let has_item = |place: &&Place| place.item != NO_ITEM;
    let mut offsets = vec![0_u32; order.len() + 1];
    for place in places.iter().filter(has_item) {
        offsets[rank[place.item as usize] as usize + 1] += 1;
    }
    for i in 1..offsets.len() {
        offsets[i] += offsets[i - 1];
    }
    let mut next = offsets.clone();
    let mut rows = vec![0_u32; offsets[order.len()] as usize];
    for (step, place) in places.iter().filter(has_item).enumerate() {
        cancel.check_at(step)?;
        let slot = &mut next[rank[place.item as usize] as usize];
        rows[*slot as usize] = place.row;
        *slot += 1;
    }
    let without = places.iter().filter(|place| place.item == NO_ITEM).map(|place| place.row);
    if order.is_empty() {
        offsets.clear();
    }
    Ok(RowGroups::new(offsets, rows, without.collect()))
}

impl Collection for Vectors {
    fn groups(&self) -> &RowGroups {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut RowGroups {
        &mut self.groups
    }

    fn size_in_bytes(&self) -> usize {
        self.contents.capacity() * size_of::<Content>()
            + self.lens.capacity() * size_of::<u32>()
            + self.starts.capacity() * size_of::<usize>()
            + self.numbers.capacity() * size_of::<f64>()
            + self.runs.capacity() * size_of::<Run>()
            + self.groups.size_in_bytes()
    }
}

/// Fails unless all vectors have `len` dimensions, as DataFusion's function does for a pair.
pub(super) fn check_lens(function: &str, len: u32, others: [u32; 2]) -> Result<()> {
    match others.into_iter().find(|other| *other != len) {
        None => Ok(()),
        Some(other) => exec_err!(
            "{function} needs two vectors of the same length, and the join meets vectors of \
             {len} and of {other} dimensions; leave one kind out by a condition such as \
             cardinality(v) = {len}"
        ),
    }
}
