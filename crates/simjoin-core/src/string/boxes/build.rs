//! The boxes of runs, and their strings in columns.

use std::sync::atomic::{AtomicU64, Ordering};

use super::elements::prefix_bits;
use super::{Codes, Elements, ITEMS};
use crate::simd::Simd;
use crate::string::lanes::interleave;
use crate::string::page::Page;
use crate::string::rules::Cancelled;

/// Unions and intersections of consecutive strings, and unions of their prefixes, in an array each.
#[derive(Debug, Clone, Default)]
pub(super) struct BoxBounds {
    pub(super) union: Vec<u64>,
    pub(super) common: Vec<u64>,
    pub(super) prefixes: Vec<u64>,
}

impl BoxBounds {
    fn push(&mut self, signatures: &[u64]) {
        self.union.push(union(signatures));
        self.common.push(signatures.iter().fold(!0, |common, s| common & s));
    }

    fn len(&self) -> usize {
        self.union.len()
    }

    /// Makes eight words readable from each box on.
    fn pad(&mut self) {
        self.union.extend([0; 8]);
        self.common.extend([!0; 8]);
        self.prefixes.extend([0; 8]);
    }

    fn bytes(&self) -> usize {
        8 * (self.union.capacity() + self.common.capacity() + self.prefixes.capacity())
    }
}

fn union(words: &[u64]) -> u64 {
    words.iter().fold(0, |union, word| union | word)
}

/// A run of strings of one length.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoxRun {
    /// Its items.
    pub(super) first: u32,
    pub(super) end: u32,
    /// The length of its strings.
    pub(super) len: usize,
    pub(super) first_block: usize,
    pub(super) first_group: usize,
    /// The start of its columns.
    pub(super) columns: usize,
    /// The choice of its elements.
    pub(super) choice: u32,
}

/// An index over strings in runs of one length each; see the [module](super).
#[derive(Debug, Clone)]
pub(crate) struct StringBoxes {
    pub(super) runs: Vec<BoxRun>,
    pub(super) elements: Elements,
    pub(super) blocks: BoxBounds,
    pub(super) groups: BoxBounds,
    /// The signature of each item.
    pub(super) signatures: Vec<u64>,
    /// The bits of the prefix of each item, where its elements are [by prefix](Elements::choose).
    pub(super) prefixes: Vec<u64>,
    /// The page of all strings of each group.
    pub(super) pages: Vec<Page>,
    pub(super) columns: Vec<u8>,
    /// A number that no other index of this process has, so that a probe knows what it has kept.
    pub(super) id: u64,
}

/// Strings in a group, and in a block.
pub(super) const GROUP: usize = 8;
pub(super) const BLOCK: usize = 64;

impl StringBoxes {
    /// The index of strings that are in their [`order`](super::order()). Run `r` has the items
    /// `runs[r]..runs[r + 1]`, which are of one length; `elements` were chosen for these runs.
    /// `pages` are those of the items.
    pub(crate) fn build(
        codes: Codes<'_>,
        pages: &[Page],
        runs: &[u32],
        elements: Elements,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<Self, Cancelled> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut boxes = Self {
            runs: Vec::with_capacity(runs.len()),
            elements,
            blocks: BoxBounds::default(),
            groups: BoxBounds::default(),
            signatures: Vec::with_capacity(codes.len() + GROUP),
            prefixes: vec![],
            pages: Vec::with_capacity(codes.len() / GROUP + runs.len()),
            columns: Vec::with_capacity(codes.codes.len()),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        };
        for bounds in runs.windows(2) {
            boxes.add(codes, pages, bounds[0]..bounds[1], stop)?;
        }
        boxes.blocks.pad();
        boxes.groups.pad();
        boxes.signatures.extend([0; GROUP]);
        boxes.prefixes.extend([0; GROUP]);
        Ok(boxes)
    }

    fn add(
        &mut self,
        codes: Codes<'_>,
        pages: &[Page],
        items: std::ops::Range<u32>,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<(), Cancelled> {
        let first = items.start as usize;
        let len = if items.is_empty() { 0 } else { codes.string(first).len() };
        let run = BoxRun {
            first: items.start,
            end: items.end,
            len,
            first_block: self.blocks.len(),
            first_group: self.groups.len(),
            columns: self.columns.len(),
            choice: self.elements.choice(self.runs.len()),
        };
        self.runs.push(run);
        for start in (first..items.end as usize).step_by(ITEMS) {
            if stop() {
                return Err(Cancelled);
            }
            let end = (start + ITEMS).min(items.end as usize);
            let at = self.signatures.len();
            for item in start..end {
                debug_assert_eq!(codes.string(item).len(), len);
                self.signatures.push(self.elements.signature(run.choice, codes.string(item)));
            }
            if self.elements.by_prefix() {
                let prefixes = (start..end).map(|item| prefix_bits(codes.string(item)));
                self.prefixes.extend(prefixes);
                let prefixes = &self.prefixes[at..];
                self.groups.prefixes.extend(prefixes.chunks(GROUP).map(union));
                self.blocks.prefixes.extend(prefixes.chunks(BLOCK).map(union));
            }
            let of_all = |pages: &[Page]| pages.iter().fold(Page::ANY, |of, page| of.and(*page));
            self.pages.extend(pages[start..end].chunks(GROUP).map(of_all));
            self.signatures[at..].chunks(GROUP).for_each(|part| self.groups.push(part));
            self.signatures[at..].chunks(BLOCK).for_each(|part| self.blocks.push(part));
            interleave(&mut self.columns, end - start, len, |i| codes.string(start + i));
        }
        Ok(())
    }

    /// The number of runs.
    #[cfg(test)]
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The items of a run.
    #[cfg(test)]
    pub(crate) fn items(&self, run: usize) -> std::ops::Range<u32> {
        self.runs[run].first..self.runs[run].end
    }

    /// The length of the strings of a run.
    pub(crate) fn string_len(&self, run: usize) -> usize {
        self.runs[run].len
    }

    /// The items of a run over which one call of [`Self::probe`] stays below a millisecond even
    /// if it has to verify them all.
    pub(crate) fn items_per_call(&self, simd: Simd, run: usize) -> u32 {
        // Nanoseconds that 64 strings take for each column, with bands of 16 bits.
        let column = match simd.form() {
            crate::simd::Form::Avx512 => 15,
            crate::simd::Form::Avx2 => 40,
            crate::simd::Form::Portable => 300,
        };
        let block = column * self.runs[run].len + 200;
        ((1_000_000 / block).max(1) * BLOCK) as u32
    }

    /// The bytes that the index holds beyond its own size.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<BoxRun>()
            + self.elements.bytes()
            + self.blocks.bytes()
            + self.groups.bytes()
            + 8 * (self.signatures.capacity() + self.prefixes.capacity())
            + self.pages.capacity()
            + self.columns.capacity()
    }
}
