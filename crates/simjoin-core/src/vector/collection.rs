//! The distinct vectors of some rows.

use std::hash::{BuildHasher, Hasher};
use std::mem::size_of;
use std::ops::Range;

use foldhash::fast::FixedState;

use super::boxes::Boxes;
use super::width::{Vector, VectorNumbers};
use crate::engine::{ItemId, KeyId, MatchSpec, Pairing, RowGroups, collection};
use crate::error::{Result, exec_err};
use crate::util::attached::Attached;

/// The value that a row is joined by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Nothing: it matches nothing.
    None,
    /// A list with a NULL element, which matches nothing and must have the others' length.
    WithNull,
    Vector,
    /// A list with NaN, in a join in which [that is as NULL](crate::predicate::NanScore::Null): like
    /// [`Self::WithNull`].
    WithNan,
}

/// A row that has been read.
#[derive(Debug, Clone, Copy)]
pub struct ReadRow {
    /// Its number in the order of the input.
    pub row: u32,
    pub key: KeyId,
    pub content: Content,
    /// The number of dimensions.
    pub len: u32,
    /// The place of its first number, where it is a vector.
    pub start: usize,
}

impl ReadRow {
    /// The numbers of the row among all that were read with it; none where it is no vector.
    #[inline]
    pub(super) fn of(self, numbers: &VectorNumbers) -> Vector<'_> {
        match self.content {
            Content::Vector => numbers.vector(self.start..self.start + self.len as usize),
            _ => Vector::EMPTY,
        }
    }
}

/// Rows that have been read, with their numbers.
#[derive(Debug, Clone, Default)]
pub struct ReadRows {
    pub rows: Vec<ReadRow>,
    pub numbers: VectorNumbers,
}

impl ReadRows {
    pub(super) fn vector(&self, row: &ReadRow) -> Vector<'_> {
        row.of(&self.numbers)
    }

    /// Makes the numbers narrow, where all of them are `f32`.
    pub fn narrowed(self) -> Self {
        Self { numbers: self.numbers.narrowed(), ..self }
    }
}

/// Items of one blocking key.
#[derive(Debug, Clone)]
pub struct Run {
    pub key: KeyId,
    pub items: Range<ItemId>,
    /// The least and the greatest number of dimensions.
    pub lens: [u32; 2],
}

/// Where the numbers of an item lie; it has none where it is no vector.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NumbersPlace {
    pub part: u32,
    pub len: u32,
    pub start: usize,
}

/// The distinct vectors of each blocking key, by the key and the order of their first rows or, with
/// boxes, one in which neighbours lie near each other. Vectors are equal when their bits are.
#[derive(Debug, Default)]
pub struct Vectors {
    pub(super) contents: Vec<Content>,
    pub(super) lens: Vec<u32>,
    /// By item, where its numbers lie.
    pub(super) places: Vec<NumbersPlace>,
    /// The numbers, as they were read or one behind the other.
    pub(super) parts: Vec<VectorNumbers>,
    /// The numbers of all items.
    pub(super) number_count: usize,
    pub(super) runs: Vec<Run>,
    pub(super) groups: RowGroups,
    pub(super) boxes: Option<Boxes>,
    /// The copies on devices, for one.
    attached: Attached,
}

/// A hash that is equal in every process.
pub(super) fn hash_of(key: KeyId, content: Content, vector: Vector<'_>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u64(u64::from(key) << 2 | content as u64);
    vector.iter().for_each(|number| hasher.write_u64(number.to_bits()));
    hasher.finish()
}

impl Vectors {
    /// The items.
    pub fn len(&self) -> u32 {
        self.lens.len() as u32
    }

    /// The numbers of a vector; none where the item is not one.
    #[inline]
    pub fn vector(&self, item: ItemId) -> Vector<'_> {
        let NumbersPlace { part, len, start } = self.places[item as usize];
        match len {
            0 => Vector::EMPTY,
            _ => self.parts[part as usize].vector(start..start + len as usize),
        }
    }

    /// Has the first numbers of a vector brought near: those of neighbours in an order lie anywhere. Nothing
    /// beyond the last item.
    #[inline]
    pub(super) fn prefetch(&self, item: ItemId) {
        /// The processor brings the others by itself.
        const FIRST: usize = 256;
        if (item as usize) < self.places.len() {
            self.vector(item).prefetch(FIRST);
        }
    }

    /// The numbers of some items, where they lie one behind the other.
    pub fn numbers_of(&self, items: Range<ItemId>) -> Option<Vector<'_>> {
        let places = &self.places[items.start as usize..items.end as usize];
        let mut places = places.iter().filter(|place| place.len > 0);
        let Some(&NumbersPlace { part, len, start }) = places.next() else {
            return Some(Vector::EMPTY);
        };
        let mut end = start + len as usize;
        for place in places {
            if (place.part, place.start) != (part, end) {
                return None;
            }
            end += place.len as usize;
        }
        Some(self.parts[part as usize].vector(start..end))
    }

    /// Boxes around groups of neighbours, where there are any.
    pub fn boxes(&self) -> Option<&Boxes> {
        self.boxes.as_ref()
    }

    /// Values beside the collection, such as its copies on devices.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    pub fn is_vector(&self, item: ItemId) -> bool {
        self.contents[item as usize] == Content::Vector
    }

    /// The number of dimensions of an item.
    pub fn dimensions(&self, item: ItemId) -> u32 {
        self.lens[item as usize]
    }

    /// The numbers of all vectors.
    pub fn number_count(&self) -> usize {
        self.number_count
    }

    /// The probe vectors that a join expects, by those of this build side.
    pub fn probe_ratio(&self, spec: &MatchSpec) -> f64 {
        match spec.pairing() {
            Pairing::Unordered => 1.0,
            Pairing::All => spec.probe_rows.ratio(self.groups.row_count()),
        }
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The run of a key.
    pub fn run(&self, key: KeyId) -> Option<&Run> {
        let place = self.runs.binary_search_by_key(&key, |run| run.key).ok()?;
        self.runs.get(place)
    }

    /// The run of an item.
    pub fn run_of(&self, item: ItemId) -> Option<&Run> {
        self.runs.get(self.runs.partition_point(|run| run.items.end <= item))
    }
}

collection!(Vectors, |this| {
    this.contents.capacity() * size_of::<Content>()
        + this.lens.capacity() * size_of::<u32>()
        + this.places.capacity() * size_of::<NumbersPlace>()
        + this.parts.iter().map(VectorNumbers::size_in_bytes).sum::<usize>()
        + this.parts.capacity() * size_of::<VectorNumbers>()
        + this.runs.capacity() * size_of::<Run>()
        + this.boxes.as_ref().map_or(0, Boxes::size_in_bytes)
});

/// Fails unless all vectors have `len` dimensions, as DataFusion's function does for a pair.
pub fn check_lens(function: &str, len: u32, others: [u32; 2]) -> Result<()> {
    match others.into_iter().find(|other| *other != len) {
        None => Ok(()),
        Some(other) => exec_err!(
            "{function} needs two vectors of the same length, and the join meets vectors of \
             {len} and of {other} dimensions; leave one kind out by a condition such as \
             cardinality(v) = {len}"
        ),
    }
}
