//! Builds `List<Utf8>` columns token by token: q-grams, words and shingles of one row at a time.
//!
//! All buffers live as long as a batch, so that a row costs no allocation of its own.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{ListArray, NullBufferBuilder, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_err};
use foldhash::fast::FixedState;

use super::tokenizer::Tokenizer;
use crate::values::byte_tokens::ByteTokens;
use crate::values::text_tokens::{
    append_lower_case, qgrams, with_lower_sigmas, with_text_tokens, words,
};

/// A `List<Utf8>` under construction.
pub(super) struct TokenLists {
    tokenizer: Tokenizer,
    /// The bytes of all tokens, always whole characters.
    bytes: Vec<u8>,
    /// The end of each token in `bytes`, after a leading 0.
    token_ends: Vec<i32>,
    /// The end of each list in tokens, after a leading 0.
    list_ends: Vec<i32>,
    validity: NullBufferBuilder,
    /// The greatest offset: `Utf8` and list offsets are 32 bits wide.
    limit: usize,
    seen: SeenGrams,
    /// A buffer for the q-grams of the current text.
    starts: Vec<usize>,
}

impl TokenLists {
    pub(super) fn new(tokenizer: Tokenizer, rows: usize) -> Self {
        let mut list_ends = Vec::with_capacity(rows + 1);
        list_ends.push(0);
        Self {
            tokenizer,
            bytes: Vec::new(),
            token_ends: vec![0],
            list_ends,
            validity: NullBufferBuilder::new(rows),
            limit: i32::MAX as usize,
            seen: SeenGrams::default(),
            starts: Vec::new(),
        }
    }

    /// `len` as an offset.
    #[inline]
    fn offset(&self, len: usize) -> Result<i32> {
        if len > self.limit {
            return exec_err!(
                "{}: the tokens of one batch exceed 2 GiB; use a smaller \
                 datafusion.execution.batch_size",
                self.tokenizer
            );
        }
        Ok(len as i32)
    }

    /// Ends the current token behind the last byte written.
    #[inline]
    fn end_token(&mut self) -> Result<()> {
        let end = self.offset(self.bytes.len())?;
        self.token_ends.push(end);
        Ok(())
    }

    #[inline]
    fn push_token(&mut self, token: &[u8]) -> Result<()> {
        // Checked before the bytes are there, so that no buffer grows far beyond the limit.
        let end = self.offset(self.bytes.len() + token.len())?;
        self.bytes.extend_from_slice(token);
        self.token_ends.push(end);
        Ok(())
    }

    fn end_list(&mut self, valid: bool) -> Result<()> {
        let end = self.offset(self.token_ends.len() - 1)?;
        self.list_ends.push(end);
        self.validity.append(valid);
        Ok(())
    }

    /// Appends a NULL list.
    pub(super) fn push_null(&mut self) -> Result<()> {
        self.end_list(false)
    }

    /// Appends the distinct runs of `q` characters of `text`, `q >= 1`.
    pub(super) fn push_qgrams(&mut self, text: &str, q: usize) -> Result<()> {
        let mut starts = std::mem::take(&mut self.starts);
        with_text_tokens!(qgrams(text, q, &mut starts), grams => self.push_distinct(grams))?;
        self.starts = starts;
        self.end_list(true)
    }

    /// Appends every token but repeats.
    fn push_distinct(&mut self, tokens: &impl ByteTokens) -> Result<()> {
        self.seen.start(tokens.count());
        for index in 0..tokens.count() {
            let token = tokens.bytes(index);
            // A short token is its own exact key; a longer one may share its key with others.
            let is_new = match tokens.packed(index) {
                Some(word) => self.seen.insert(word, index, |other| tokens.bytes(other) == token),
                None => {
                    let hash = FixedState::default().hash_one(token);
                    self.seen.insert(hash, index, |other| tokens.bytes(other) == token)
                }
            };
            if is_new {
                self.push_token(token)?;
            }
        }
        Ok(())
    }

    /// Appends the words of `text` in lower case.
    pub(super) fn push_words(&mut self, text: &str) -> Result<()> {
        for word in words(&with_lower_sigmas(text)) {
            // Before the bytes are there, as for any token; the lower case may have some more.
            self.offset(self.bytes.len() + word.len())?;
            append_lower_case(word, &mut self.bytes);
            self.end_token()?;
        }
        self.end_list(true)
    }

    /// Appends the runs of `k` consecutive `elements`, joined by spaces, `k >= 1`.
    pub(super) fn push_shingles(&mut self, elements: &[&str], k: usize) -> Result<()> {
        // An empty list has no runs, and a list shorter than `k` is its own only run.
        for run in elements.windows(k.min(elements.len()).max(1)) {
            let len = run.iter().map(|e| e.len()).sum::<usize>() + run.len() - 1;
            self.offset(self.bytes.len() + len)?;
            for (i, element) in run.iter().enumerate() {
                if i > 0 {
                    self.bytes.push(b' ');
                }
                self.bytes.extend_from_slice(element.as_bytes());
            }
            self.end_token()?;
        }
        self.end_list(true)
    }

    /// The type of the finished column.
    pub(super) fn data_type() -> DataType {
        DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
    }

    pub(super) fn finish(mut self) -> Result<ListArray> {
        let offsets = |ends: Vec<i32>| OffsetBuffer::new(ScalarBuffer::from(ends));
        let tokens =
            StringArray::try_new(offsets(self.token_ends), Buffer::from_vec(self.bytes), None)?;
        Ok(ListArray::try_new(
            Arc::new(Field::new_list_field(DataType::Utf8, true)),
            offsets(self.list_ends),
            Arc::new(tokens),
            self.validity.finish(),
        )?)
    }
}

/// The q-grams that the current text has shown so far: a hash table reused from row to row.
///
/// An entry counts only if it bears the number of the current row, so that nothing is cleared.
#[derive(Default)]
struct SeenGrams {
    slots: Vec<GramSlot>,
    /// The number of the current row; 0 marks slots never used.
    row: u32,
    /// The current row uses the first `mask + 1` slots, a power of two.
    mask: usize,
    /// The number of slots that hold a q-gram of the current row: at most half of all.
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct GramSlot {
    key: u64,
    /// The number of the q-gram in its text.
    index: usize,
    row: u32,
}

/// Long texts repeat their q-grams: the table starts no larger than this and grows as needed.
const MOST_FIRST_SLOTS: usize = 1 << 12;

impl SeenGrams {
    /// Forgets the text before; up to `grams` distinct q-grams are to come.
    fn start(&mut self, grams: usize) {
        self.use_slots(grams.saturating_mul(2).clamp(2, MOST_FIRST_SLOTS).next_power_of_two());
    }

    /// Starts anew with `slots` slots, a power of two.
    fn use_slots(&mut self, slots: usize) {
        if self.slots.len() < slots {
            self.slots.resize(slots, GramSlot::default());
        }
        self.mask = slots - 1;
        self.len = 0;
        self.row = self.row.wrapping_add(1);
        if self.row == 0 {
            self.slots.fill(GramSlot::default());
            self.row = 1;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let used = &self.slots[..=self.mask];
        let entries: Vec<GramSlot> = used.iter().filter(|s| s.row == self.row).copied().collect();
        self.use_slots(2 * (self.mask + 1));
        for entry in entries {
            // They are distinct: none equals another, whatever its key.
            self.insert(entry.key, entry.index, |_| false);
        }
    }

    /// Notes a q-gram by its number; false when an equal one was there. `is_equal` decides for an
    /// earlier q-gram with the same key.
    #[inline]
    fn insert(&mut self, key: u64, index: usize, is_equal: impl Fn(usize) -> bool) -> bool {
        let product = u128::from(key ^ 0x9E37_79B9_7F4A_7C15) * 0xF39C_C060_5CED_C835;
        let mut at = ((product >> 64) as u64 ^ product as u64) as usize & self.mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.row != self.row {
                *slot = GramSlot { key, index, row: self.row };
                self.len += 1;
                if 2 * self.len > self.mask {
                    self.grow();
                }
                return true;
            }
            if slot.key == key && is_equal(slot.index) {
                return false;
            }
            at = (at + 1) & self.mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overflow is an error before any offset or buffer outgrows its type.
    #[test]
    fn more_tokens_than_offsets_reach_are_an_error() {
        let lists = |tokenizer| TokenLists { limit: 10, ..TokenLists::new(tokenizer, 3) };
        let mut grams = lists(Tokenizer::QGrams);
        grams.push_qgrams("abcd", 3).unwrap();
        let message = grams.push_qgrams("efghi", 3).unwrap_err().strip_backtrace();
        assert_eq!(
            message,
            "Execution error: qgrams: the tokens of one batch exceed 2 GiB; use a smaller \
             datafusion.execution.batch_size"
        );
        assert!(grams.bytes.len() <= 10);
        assert!(lists(Tokenizer::WordTokens).push_words("ab cdefg hijk").is_err());
        assert!(lists(Tokenizer::WordTokens).push_words("ÄÖÜÄÖÜ").is_err());
        let mut shingles = lists(Tokenizer::Shingles);
        shingles.push_shingles(&["a", "bcd", "ef"], 2).unwrap_err();
        // Empty tokens take no bytes, their offsets do.
        assert!(lists(Tokenizer::Shingles).push_shingles(&[""; 11], 1).is_err());
    }
}
