//! The tokens of a text: what `qgrams` and `word_tokens` mean, written once.
//!
//! The scalar functions make lists of them. A join whose argument is such a call takes them from
//! the text itself: tokens are views of its bytes, and no list of strings is made.

use std::mem::size_of;
use std::num::NonZeroUsize;

use crate::values::byte_tokens::{ByteTokens, pack_at};

/// How a text becomes a list of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextTokenizer {
    /// The runs of this number of characters; a shorter text is one token.
    QGrams(NonZeroUsize),
    /// The maximal runs of alphanumeric characters, in lower case.
    Words,
}

/// Buffers for the tokens of texts, reused from text to text.
#[derive(Debug, Default)]
pub(crate) struct TextScratch {
    /// Where the characters start, and the end of the text.
    starts: Vec<usize>,
    pub words: Words,
}

/// The tokens of one text, repeats included.
pub(crate) enum TextTokens<'a> {
    Ascii(AsciiGrams<'a>),
    Grams(CharGrams<'a>),
    Words(&'a Words),
}

/// Runs `$body` with `$tokens` bound to the tokens of a text by reference, monomorphised for each
/// form.
macro_rules! with_text_tokens {
    ($of_text:expr, $tokens:ident => $body:expr) => {
        match $of_text {
            $crate::values::text_tokens::TextTokens::Ascii(ref $tokens) => $body,
            $crate::values::text_tokens::TextTokens::Grams(ref $tokens) => $body,
            $crate::values::text_tokens::TextTokens::Words($tokens) => $body,
        }
    };
}
pub(crate) use with_text_tokens;

impl TextTokenizer {
    /// The tokens of a text, in order.
    pub(crate) fn tokens<'a>(self, text: &'a str, scratch: &'a mut TextScratch) -> TextTokens<'a> {
        match self {
            TextTokenizer::QGrams(q) => qgrams(text, q.get(), &mut scratch.starts),
            TextTokenizer::Words => {
                scratch.words.clear();
                scratch.words.append(text);
                TextTokens::Words(&scratch.words)
            }
        }
    }

    /// A bound on the number of tokens of a text of `len` bytes, and on their bytes in all.
    pub(crate) fn most_tokens(self, len: usize) -> (usize, usize) {
        match self {
            _ if len == 0 => (0, 0),
            TextTokenizer::QGrams(q) => {
                let grams = (len + 1).saturating_sub(q.get()).max(1);
                // A byte is in at most q runs.
                (grams, len.saturating_mul(grams.min(q.get())))
            }
            // No letter's lower case has more than one and a half times as many bytes.
            TextTokenizer::Words => (len.div_ceil(2), 2 * len),
        }
    }

    /// The bytes that a scratch for texts of these lengths takes: the words of all of them, or the
    /// characters of each.
    pub(crate) fn scratch_bytes(self, lens: impl Iterator<Item = usize>) -> usize {
        match self {
            TextTokenizer::QGrams(_) => 2 * (lens.max().unwrap_or(0) + 1) * size_of::<usize>(),
            TextTokenizer::Words => {
                let len = lens.sum::<usize>() + 1;
                4 * len + 2 * len * size_of::<usize>()
            }
        }
    }
}

impl TextScratch {
    /// The bytes allocated.
    pub(crate) fn size_in_bytes(&self) -> usize {
        (self.starts.capacity() + self.words.ends.capacity()) * size_of::<usize>()
            + self.words.bytes.capacity()
    }
}

/// The runs of `q` characters of a text; of a shorter one, which is not empty, the text itself.
pub(crate) fn qgrams<'a>(text: &'a str, q: usize, starts: &'a mut Vec<usize>) -> TextTokens<'a> {
    if text.is_ascii() {
        let q = q.min(text.len());
        return TextTokens::Ascii(AsciiGrams { text: text.as_bytes(), q });
    }
    starts.clear();
    starts.extend(text.char_indices().map(|(at, _)| at));
    let q = q.min(starts.len());
    starts.push(text.len());
    TextTokens::Grams(CharGrams { text: text.as_bytes(), starts, q })
}

/// Runs of `q` bytes of a text of ASCII characters, which is empty or no shorter.
pub(crate) struct AsciiGrams<'a> {
    text: &'a [u8],
    q: usize,
}

impl ByteTokens for AsciiGrams<'_> {
    #[inline]
    fn count(&self) -> usize {
        if self.q == 0 { 0 } else { self.text.len() - self.q + 1 }
    }

    #[inline]
    fn bytes(&self, index: usize) -> &[u8] {
        &self.text[index..index + self.q]
    }

    #[inline]
    fn packed(&self, index: usize) -> Option<u64> {
        pack_at(self.text, index, self.q)
    }

    fn total_bytes(&self) -> usize {
        self.count() * self.q
    }
}

/// Runs of `q` characters of a text that is no shorter.
pub(crate) struct CharGrams<'a> {
    text: &'a [u8],
    /// Where the characters start, and the end of the text.
    starts: &'a [usize],
    q: usize,
}

impl ByteTokens for CharGrams<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.starts.len() - self.q
    }

    #[inline]
    fn bytes(&self, index: usize) -> &[u8] {
        &self.text[self.starts[index]..self.starts[index + self.q]]
    }

    #[inline]
    fn packed(&self, index: usize) -> Option<u64> {
        let start = self.starts[index];
        pack_at(self.text, start, self.starts[index + self.q] - start)
    }

    fn total_bytes(&self) -> usize {
        (0..self.count()).map(|index| self.bytes(index).len()).sum()
    }
}

/// The words of some texts in lower case.
#[derive(Debug, Default)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
}

impl Words {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the words of a text.
    pub(crate) fn append(&mut self, text: &str) {
        for word in words(text) {
            append_lower_case(word, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] }
    }
}

impl ByteTokens for Words {
    #[inline]
    fn count(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    fn bytes(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index]]
    }

    #[inline]
    fn packed(&self, index: usize) -> Option<u64> {
        let start = self.start(index);
        pack_at(&self.bytes, start, self.ends[index] - start)
    }

    fn total_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The maximal runs of alphanumeric characters of a text, as they are written.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            // Runs of ASCII letters and digits need no decoding.
            let start = at;
            while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                at += 1;
            }
            if at == bytes.len() || bytes[at].is_ascii() {
                let end = at;
                at += 1;
                if end > start {
                    return Some(&text[start..end]);
                }
                continue;
            }
            let rest = &text[start..];
            let len = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            if len > 0 {
                at = start + len;
                return Some(&rest[..len]);
            }
            at = start + rest.chars().next().map_or(1, char::len_utf8);
        }
        None
    })
}

/// Appends a word in lower case, as `lower(word)` gives it.
pub(crate) fn append_lower_case(word: &str, bytes: &mut Vec<u8>) {
    let from = bytes.len();
    if word.is_ascii() {
        bytes.extend_from_slice(word.as_bytes());
        bytes[from..].make_ascii_lowercase();
    } else if word.contains('Σ') {
        // The one letter whose lower case depends on its place in the word.
        bytes.extend_from_slice(word.to_lowercase().as_bytes());
    } else {
        let mut utf8 = [0; 4];
        for c in word.chars().flat_map(char::to_lowercase) {
            bytes.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::byte_tokens::pack;

    fn tokens(tokenizer: TextTokenizer, text: &str) -> Vec<String> {
        let mut scratch = TextScratch::default();
        let (most, most_bytes) = tokenizer.most_tokens(text.len());
        let all: Vec<Vec<u8>> = with_text_tokens!(tokenizer.tokens(text, &mut scratch), tokens => {
            assert!(tokens.count() <= most && tokens.total_bytes() <= most_bytes, "{text:?}");
            (0..tokens.count())
                .map(|i| {
                    assert_eq!(tokens.packed(i), pack(tokens.bytes(i)));
                    tokens.bytes(i).to_vec()
                })
                .collect()
        });
        assert!(
            scratch.size_in_bytes() <= tokenizer.scratch_bytes([text.len()].into_iter()).max(256)
        );
        all.into_iter().map(|token| String::from_utf8(token).unwrap()).collect()
    }

    #[test]
    fn grams_are_runs_of_characters() {
        let grams = |text, q| tokens(TextTokenizer::QGrams(NonZeroUsize::new(q).unwrap()), text);
        assert_eq!(grams("", 2), [""; 0]);
        assert_eq!(grams("a", 2), ["a"]);
        assert_eq!(grams("ab", 2), ["ab"]);
        assert_eq!(grams("abab", 2), ["ab", "ba", "ab"]);
        assert_eq!(grams("äb𝄞c", 2), ["äb", "b𝄞", "𝄞c"]);
        assert_eq!(grams("e\u{301}x", 9), ["e\u{301}x"]);
        assert_eq!(grams("abcdefghijkl", 9), ["abcdefghi", "bcdefghij", "cdefghijk", "defghijkl"]);
    }

    #[test]
    fn words_are_lower_case_runs() {
        let words = |text| tokens(TextTokenizer::Words, text);
        assert_eq!(words(" Ab-c d, İΣ ȺȺ1 — x"), ["ab", "c", "d", "i\u{307}ς", "ⱥⱥ1", "x"]);
        assert_eq!(words("…"), [""; 0]);
    }
}
