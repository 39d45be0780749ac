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

use super::tokenize::Tokenizer;

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
    /// Where the characters of the current text start, and its end.
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
        let text_bytes = text.as_bytes();
        let is_ascii = text.is_ascii();
        let chars = if is_ascii {
            text.len()
        } else {
            self.starts.clear();
            self.starts.extend(text.char_indices().map(|(at, _)| at));
            self.starts.push(text.len());
            self.starts.len() - 1
        };
        if chars <= q {
            if chars > 0 {
                self.push_token(text_bytes)?;
            }
            return self.end_list(true);
        }
        self.seen.start(chars - q + 1);
        if is_ascii && q <= 8 {
            // Up to eight bytes are their own exact key.
            let mask = u64::MAX >> (64 - 8 * q);
            let mut key = 0;
            for (end, &byte) in (1..).zip(text_bytes) {
                key = (key << 8 | u64::from(byte)) & mask;
                if end >= q && self.seen.insert(key, end - q, |_| true) {
                    self.push_token(&text_bytes[end - q..end])?;
                }
            }
        } else {
            let hasher = FixedState::default();
            for first in 0..=chars - q {
                let (start, end) = if is_ascii {
                    (first, first + q)
                } else {
                    (self.starts[first], self.starts[first + q])
                };
                let gram = &text_bytes[start..end];
                // Equal bytes at both starts are equal runs: as many characters, as many bytes.
                let is_new = self.seen.insert(hasher.hash_one(gram), start, |other| {
                    text_bytes[other..].starts_with(gram)
                });
                if is_new {
                    self.push_token(gram)?;
                }
            }
        }
        self.end_list(true)
    }

    /// Appends the lower-cased maximal runs of alphanumeric characters of `text`.
    pub(super) fn push_words(&mut self, text: &str) -> Result<()> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            // Runs of ASCII letters and digits need no decoding.
            let start = at;
            while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                at += 1;
            }
            if at == bytes.len() || bytes[at].is_ascii() {
                if at > start {
                    self.push_token(&bytes[start..at])?;
                    let from = self.bytes.len() - (at - start);
                    self.bytes[from..].make_ascii_lowercase();
                }
                at += 1;
                continue;
            }
            let rest = &text[start..];
            let len = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            if len == 0 {
                at = start + rest.chars().next().map_or(1, char::len_utf8);
                continue;
            }
            self.push_lower_case(&rest[..len])?;
            at = start + len;
        }
        self.end_list(true)
    }

    /// Appends `word` in lower case, as `lower(word)` gives it.
    fn push_lower_case(&mut self, word: &str) -> Result<()> {
        if word.contains('Σ') {
            // The one letter whose lower case depends on its place in the word.
            return self.push_token(word.to_lowercase().as_bytes());
        }
        let mut utf8 = [0; 4];
        for c in word.chars().flat_map(char::to_lowercase) {
            self.bytes.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
        }
        self.end_token()
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
    slots: Vec<Slot>,
    /// The number of the current row; 0 marks slots never used.
    row: u32,
    /// The current row uses the first `mask + 1` slots, a power of two.
    mask: usize,
    /// How many q-grams the current row has put into slots, at most half of them.
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: u64,
    /// Where in its text the q-gram starts.
    start: usize,
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
            self.slots.resize(slots, Slot::default());
        }
        self.mask = slots - 1;
        self.len = 0;
        self.row = self.row.wrapping_add(1);
        if self.row == 0 {
            self.slots.fill(Slot::default());
            self.row = 1;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let used = &self.slots[..=self.mask];
        let entries: Vec<Slot> = used.iter().filter(|s| s.row == self.row).copied().collect();
        self.use_slots(2 * (self.mask + 1));
        for entry in entries {
            // They are distinct: none equals another, whatever its key.
            self.insert(entry.key, entry.start, |_| false);
        }
    }

    /// Notes the q-gram at `start`; false when an equal one was there. `is_equal` decides for
    /// the start of an earlier q-gram with the same key.
    #[inline]
    fn insert(&mut self, key: u64, start: usize, is_equal: impl Fn(usize) -> bool) -> bool {
        let product = u128::from(key ^ 0x9E37_79B9_7F4A_7C15) * 0xF39C_C060_5CED_C835;
        let mut at = ((product >> 64) as u64 ^ product as u64) as usize & self.mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.row != self.row {
                *slot = Slot { key, start, row: self.row };
                self.len += 1;
                if 2 * self.len > self.mask {
                    self.grow();
                }
                return true;
            }
            if slot.key == key && is_equal(slot.start) {
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
