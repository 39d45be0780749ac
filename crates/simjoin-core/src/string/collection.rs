//! The distinct texts of some rows.

use std::hash::{BuildHasher, Hasher};
use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::alphabet::Alphabet;
use super::boxes::Elements;
use super::page::Page;
use crate::engine::{ItemId, KeyId, MatchSpec, Pairing, RowGroups, collection};

/// A row that has been read.
#[derive(Debug, Clone, Copy)]
pub struct ReadRow {
    /// Its number in the order of the input.
    pub row: u32,
    pub key: KeyId,
    /// The number of scalars of its text; `None` where the row matches nothing.
    pub len: Option<u32>,
    /// The bytes of its text, and where they begin.
    pub bytes: u32,
    pub start: usize,
}

impl ReadRow {
    /// The text of the row among all that were read with it.
    #[inline]
    pub(super) fn of(self, text: &str) -> &str {
        // Rows begin and end between scalars.
        text.get(self.start..self.start + self.bytes as usize).unwrap_or_default()
    }
}

/// Rows that have been read, with their texts.
#[derive(Debug, Clone, Default)]
pub struct ReadRows {
    pub rows: Vec<ReadRow>,
    pub text: String,
}

impl ReadRows {
    /// The text of a row.
    pub(super) fn text(&self, row: &ReadRow) -> &str {
        row.of(&self.text)
    }
}

/// Neighbouring items of one blocking key and one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub key: KeyId,
    /// The number of scalars.
    pub len: u32,
    pub items: Range<ItemId>,
}

/// The distinct texts of each blocking key, by the key, the length and, of one length, an order in which
/// similar texts lie near each other.
#[derive(Debug)]
pub struct Strings {
    /// The texts one behind the other, and where each begins.
    pub(super) text: String,
    pub(super) text_starts: Vec<usize>,
    /// The codes of their scalars, and where those of each text begin.
    pub codes: Vec<u8>,
    pub code_starts: Vec<usize>,
    /// The page of each text.
    pub(super) pages: Vec<Page>,
    /// The bits of the scalars of each text; none where each scalar of the build side has a code of its own.
    pub(super) scalar_bits: Vec<u64>,
    pub(super) runs: Vec<Run>,
    pub alphabet: Arc<Alphabet>,
    /// The elements that tell the texts of each run of a build side apart.
    pub(super) elements: Option<Elements>,
    pub(super) groups: RowGroups,
}

/// A hash that is equal in every process.
pub(super) fn hash_of(key: KeyId, text: &str) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u32(key);
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl Strings {
    /// Runs of items without their texts.
    pub(super) fn empty(runs: Vec<Run>, alphabet: Arc<Alphabet>, groups: RowGroups) -> Self {
        Self {
            text: String::new(),
            text_starts: vec![],
            codes: vec![],
            code_starts: vec![],
            pages: vec![],
            scalar_bits: vec![],
            runs,
            alphabet,
            elements: None,
            groups,
        }
    }

    /// The number of items.
    pub fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The text of an item.
    #[inline]
    pub fn text(&self, item: ItemId) -> &str {
        let range = self.text_starts[item as usize]..self.text_starts[item as usize + 1];
        self.text.get(range).unwrap_or_default()
    }

    /// The codes of the scalars of an item.
    #[inline]
    pub fn codes(&self, item: ItemId) -> &[u8] {
        &self.codes[self.code_starts[item as usize]..self.code_starts[item as usize + 1]]
    }

    /// The page of an item.
    #[inline]
    pub fn page(&self, item: ItemId) -> Page {
        self.pages[item as usize]
    }

    /// The bits of the scalars of an item, if they are known.
    #[inline]
    pub(super) fn scalar_bits(&self, item: ItemId) -> Option<u64> {
        self.scalar_bits.get(item as usize).copied()
    }

    /// The scalars of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.runs.iter().map(|run| run.len).max().unwrap_or(0) as usize
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The first item of each run, and the number of items.
    pub(super) fn bounds(&self) -> Vec<ItemId> {
        let end = self.runs.last().map_or(0, |run| run.items.end);
        self.runs.iter().map(|run| run.items.start).chain([end]).collect()
    }

    /// The places of the runs of a key whose lengths lie in a range.
    pub(super) fn runs_within(&self, key: KeyId, lens: &Range<u64>) -> Range<usize> {
        let first =
            |len: u64| self.runs.partition_point(|run| (run.key, u64::from(run.len)) < (key, len));
        let start = first(lens.start);
        start..first(lens.end).max(start)
    }

    /// The items of a key.
    pub fn items_of(&self, key: KeyId) -> Range<ItemId> {
        let first = |key: u64| self.runs.partition_point(|run| u64::from(run.key) < key);
        let item = |place: usize| match self.runs.get(place) {
            Some(run) => run.items.start,
            None => self.len(),
        };
        item(first(key.into()))..item(first(u64::from(key) + 1))
    }

    /// The run of an item.
    pub fn run_of(&self, item: ItemId) -> Option<&Run> {
        self.runs.get(self.runs.partition_point(|run| run.items.end <= item))
    }

    /// The probe texts that a join expects, by those of this build side.
    pub fn probe_ratio(&self, spec: &MatchSpec) -> f64 {
        match spec.pairing() {
            Pairing::Unordered => 1.0,
            Pairing::All => spec.probe_rows.ratio(self.groups.row_count()),
        }
    }
}

collection!(Strings, |this| {
    this.text.capacity()
        + this.codes.capacity()
        + (this.text_starts.capacity() + this.code_starts.capacity()) * size_of::<usize>()
        + this.pages.capacity()
        + this.scalar_bits.capacity() * size_of::<u64>()
        + this.runs.capacity() * size_of::<Run>()
        + this.elements.as_ref().map_or(0, Elements::bytes)
});
