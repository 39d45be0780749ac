//! Texts as kernels read them: codes four to a word.

use std::ops::Range;

use simjoin_core::string::collection::Strings;

use crate::engine::{Collection, ItemId};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::offload::Arena;
use crate::string::abi::{NO_CODE, STAGE, TextSide, TextSigning};
use crate::util::parallel::{Threads, for_each, steps_per_task};

/// Items that a task takes on, at least.
const LEAST_ITEMS: usize = 1 << 12;
/// Codes of a word.
const CODES: usize = size_of::<u32>();

/// The texts of some items.
#[derive(Debug)]
pub(super) struct PackedTexts {
    pub items: Range<ItemId>,
    words: Vec<u32>,
    starts: Vec<u32>,
    lens: Vec<u32>,
    pages: Vec<u8>,
    /// None where rows are not counted, or every item has one.
    row_counts: Vec<u32>,
    /// The memory of the arrays.
    _memory: Reservation,
}

/// The texts of some items on a device, and how kernels sign them.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeclaredTexts {
    pub signing: TextSigning,
    pub pages: u64,
    pub row_counts: u64,
}

/// The words that the codes of some items take.
pub(super) fn word_count(strings: &Strings, items: Range<ItemId>) -> usize {
    items.map(|item| strings.codes(item).len().div_ceil(CODES)).sum()
}

/// Codes in words, NO_CODE behind the last one.
fn words_of(codes: &[u8]) -> impl Iterator<Item = u32> {
    codes.chunks(CODES).map(|chunk| {
        let mut word = [NO_CODE; CODES];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    })
}

impl PackedTexts {
    /// `counts`: rows of the join are counted.
    ///
    /// # Errors
    ///
    /// Where memory is refused.
    pub(super) fn new(
        strings: &Strings,
        items: Range<ItemId>,
        counts: bool,
        threads: Threads,
        reservation: &dyn Memory,
    ) -> Result<Self> {
        let groups = strings.groups();
        let count = items.len();
        let counted = if counts && !groups.has_no_repeats() { count } else { 0 };
        let word_count = word_count(strings, items.clone());
        let memory = reservation.new_empty();
        memory.try_grow((word_count + 2 * count + counted) * size_of::<u32>() + count)?;
        let mut starts = Vec::with_capacity(count);
        let mut lens = Vec::with_capacity(count);
        let mut end = 0;
        for item in items.clone() {
            let len = strings.codes(item).len();
            starts.push(end as u32);
            lens.push(len as u32);
            end += len.div_ceil(CODES);
        }
        let mut words = vec![0; end];
        let share = steps_per_task(threads, count, LEAST_ITEMS);
        let (mut tasks, mut rest) = (vec![], &mut words[..]);
        for first in (0..count).step_by(share) {
            let place = |at: usize| starts.get(at).map_or(end, |&start| start as usize);
            let (part, behind) = rest.split_at_mut(place(first + share) - place(first));
            tasks.push((items.clone().skip(first).take(share), part));
            rest = behind;
        }
        for_each(threads, tasks, |(items, words)| {
            let codes = items.flat_map(|item| words_of(strings.codes(item)));
            words.iter_mut().zip(codes).for_each(|(word, codes)| *word = codes);
            Ok(())
        })?;
        let counted = items.clone().take(counted);
        let row_counts = counted.map(|item| groups.row_count_of(item)).collect();
        let pages = items.clone().map(|item| strings.page(item).number()).collect();
        Ok(Self { items, words, starts, lens, pages, row_counts, _memory: memory })
    }

    /// Declares the texts, and their signatures by `bits`; with boxes where they are columns.
    pub(super) fn declare<'a>(
        &'a self,
        arena: &mut Arena<'a>,
        bits: &'a [u8],
        are_columns: bool,
    ) -> DeclaredTexts {
        let Self { words, starts, lens, pages, row_counts, .. } = self;
        let count = starts.len() as u64;
        let signing = TextSigning {
            words: arena.copied(words),
            starts: arena.copied(starts),
            lens: arena.copied(lens),
            bits: arena.copied(bits),
            signatures: arena.room::<u64>(count),
            boxes: match are_columns {
                true => arena.room::<[u64; 2]>(count.div_ceil(STAGE.into())),
                false => 0,
            },
            count: count as u32,
            reserved: 0,
        };
        let row_counts = if row_counts.is_empty() { 0 } else { arena.copied(row_counts) };
        DeclaredTexts { signing, pages: arena.copied(pages), row_counts }
    }
}

impl DeclaredTexts {
    /// The texts, the first of which has number `first`.
    pub(super) fn side(&self, first: u32) -> TextSide {
        let TextSigning { words, starts, lens, signatures, .. } = self.signing;
        let Self { pages, row_counts, .. } = *self;
        TextSide { words, starts, lens, pages, signatures, row_counts, first, reserved: 0 }
    }
}
