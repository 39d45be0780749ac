//! The tokens of a text: what `qgrams` and `word_tokens` mean, written once.
//!
//! The scalar functions make lists of them. A join whose argument is such a call takes them from
//! the text itself: tokens are views of its bytes, and no list of strings is made.

use std::borrow::Cow;
use std::mem::size_of;
use std::num::NonZeroUsize;

use icu_properties::props::WordBreak;
use icu_properties::{CodePointMapData, CodePointMapDataBorrowed};

use crate::values::byte_tokens::{ByteTokens, pack_at};

/// The way in which a text becomes a list of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextTokenizer {
    /// The runs of this number of characters; a shorter text is one token.
    QGrams(NonZeroUsize),
    /// The [`words`], in lower case.
    Words,
}

/// Buffers for the tokens of texts, reused from text to text.
#[derive(Debug, Default)]
pub struct TextScratch {
    /// Where the characters start, and the end of the text.
    starts: Vec<usize>,
    pub words: LowerWords,
}

/// The tokens of one text, repeats included.
pub enum TextTokens<'a> {
    Ascii(AsciiGrams<'a>),
    Grams(CharGrams<'a>),
    Words(&'a LowerWords),
}

/// Runs `$body` with `$tokens` bound to the tokens of a text by reference, monomorphised for each
/// form.
#[macro_export]
macro_rules! with_text_tokens {
    ($of_text:expr, $tokens:ident => $body:expr) => {
        match $of_text {
            $crate::values::text_tokens::TextTokens::Ascii(ref $tokens) => $body,
            $crate::values::text_tokens::TextTokens::Grams(ref $tokens) => $body,
            $crate::values::text_tokens::TextTokens::Words($tokens) => $body,
        }
    };
}
pub use with_text_tokens;

impl TextTokenizer {
    /// The tokens of a text, in order.
    pub fn tokens<'a>(self, text: &'a str, scratch: &'a mut TextScratch) -> TextTokens<'a> {
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
    pub fn scratch_bytes(self, lens: impl Iterator<Item = usize>) -> usize {
        match self {
            TextTokenizer::QGrams(_) => 2 * (lens.max().unwrap_or(0) + 1) * size_of::<usize>(),
            // With a text in lower case beside them.
            TextTokenizer::Words => {
                let len = lens.sum::<usize>() + 1;
                6 * len + 2 * len * size_of::<usize>()
            }
        }
    }
}

impl TextScratch {
    /// The bytes allocated.
    pub fn size_in_bytes(&self) -> usize {
        (self.starts.capacity() + self.words.ends.capacity()) * size_of::<usize>()
            + self.words.bytes.capacity()
    }
}

/// The runs of `q` characters of a text; of a shorter one, which is not empty, the text itself.
pub fn qgrams<'a>(text: &'a str, q: usize, starts: &'a mut Vec<usize>) -> TextTokens<'a> {
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
pub struct AsciiGrams<'a> {
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
pub struct CharGrams<'a> {
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
pub struct LowerWords {
    bytes: Vec<u8>,
    /// The end of each word.
    ends: Vec<usize>,
}

impl LowerWords {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the words of a text.
    pub fn append(&mut self, text: &str) {
        for word in words(&with_lower_sigmas(text)) {
            append_lower_case(word, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] }
    }
}

impl ByteTokens for LowerWords {
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

/// The words of a text, as they are written: its maximal runs of letters and digits, each with the marks
/// that follow one of them, and with the joiners and format characters between them.
///
/// Where a mark goes on with a word, the word boundaries of Unicode have none either (UAX #29, rule WB4):
/// a decomposed accent, a virama or a tone mark is a part of its word. A format character at the end of a
/// word is no part of it, so that a mark of the writing direction behind a word makes no other word of it.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
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
            let len = word_len(rest);
            if len > 0 {
                at = start + len;
                return Some(&rest[..len]);
            }
            at = start + rest.chars().next().map_or(1, char::len_utf8);
        }
        None
    })
}

static WORD_BREAKS: CodePointMapDataBorrowed<'static, WordBreak> = CodePointMapData::new();

/// The length of the word with which a text begins, 0 where it begins with none.
fn word_len(text: &str) -> usize {
    /// The joiners are marks to the word boundaries; at the end of a word neither shows.
    const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];
    let mut len = 0;
    for (at, c) in text.char_indices() {
        let ends_word = c.is_alphanumeric() || {
            if at == 0 || c.is_ascii() {
                break;
            }
            match WORD_BREAKS.get(c) {
                WordBreak::Extend => !JOINERS.contains(&c),
                WordBreak::Format | WordBreak::ZWJ => false,
                _ => break,
            }
        };
        if ends_word {
            len = at + c.len_utf8();
        }
    }
    len
}

/// The text, in lower case if it has a capital sigma: the one letter whose lower case depends on what stands
/// around it, also beyond its word (`ΟΣ'Α`). The words of a text are those of `lower(text)`, therefore.
pub fn with_lower_sigmas(text: &str) -> Cow<'_, str> {
    match !text.is_ascii() && text.contains('Σ') {
        true => Cow::Owned(text.to_lowercase()),
        false => Cow::Borrowed(text),
    }
}

/// Appends a word of [`with_lower_sigmas`] in lower case, as `lower` gives it.
pub fn append_lower_case(word: &str, bytes: &mut Vec<u8>) {
    let from = bytes.len();
    if word.is_ascii() {
        bytes.extend_from_slice(word.as_bytes());
        bytes[from..].make_ascii_lowercase();
    } else {
        let mut utf8 = [0; 4];
        for c in word.chars().flat_map(char::to_lowercase) {
            bytes.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

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

    #[test]
    fn marks_go_on_with_the_word_that_they_follow() {
        let words = |text| tokens(TextTokenizer::Words, text);
        for (text, expected) in [
            ("re\u{301}ne\u{301} ngo\u{323}c", &["re\u{301}ne\u{301}", "ngo\u{323}c"][..]),
            ("Nguye\u{302}\u{303}n", &["nguye\u{302}\u{303}n"]),
            ("सत्य हिन्दी", &["सत्य", "हिन्दी"]),
            ("ป้ารัตน์ น้ำ", &["ป้ารัตน์", "น้ำ"]),
            ("ស្រ្តី မြန်မာ", &["ស្រ្តី", "မြန်မာ"]),
            ("ܫܠܳܡܳܐ", &["ܫܠܳܡܳܐ"]),
            ("за\u{301}мок", &["за\u{301}мок"]),
            ("שָׁלוֹם", &["שָׁלוֹם"]),
            // Joiners and soft hyphens within a word, and marks behind digits.
            ("می\u{200c}روم co\u{ad}op", &["می\u{200c}روم", "co\u{ad}op"]),
            ("ക്\u{200d}ഷ 1\u{20e3}", &["ക്\u{200d}ഷ", "1\u{20e3}"]),
            // At the end of a word they are none of it, nor do they make one.
            ("ab\u{200f} c\u{ad} d\u{200d}\u{200c}\u{2060}", &["ab", "c", "d"]),
            ("\u{feff}ab\u{feff}", &["ab"]),
            ("\u{301}a \u{200d}b \u{ad}", &["a", "b"]),
            ("a\u{ad}\u{301}b", &["a\u{ad}\u{301}b"]),
            // A zero-width space parts words; so does a mark behind what is no word.
            ("a\u{200b}b -\u{301}c", &["a", "b", "c"]),
        ] {
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    /// The words of `lower(text)`, character by character.
    fn naive_words(text: &str) -> Vec<String> {
        let text: Vec<char> = text.to_lowercase().chars().collect();
        let goes_on = |c: char| {
            matches!(WORD_BREAKS.get(c), WordBreak::Extend | WordBreak::Format | WordBreak::ZWJ)
        };
        let is_last = |c: char| {
            c.is_alphanumeric() || WORD_BREAKS.get(c) == WordBreak::Extend && c != '\u{200c}'
        };
        let mut words = vec![];
        let mut at = 0;
        while at < text.len() {
            if !text[at].is_alphanumeric() {
                at += 1;
                continue;
            }
            let mut end = at;
            while end < text.len() && (text[end].is_alphanumeric() || goes_on(text[end])) {
                end += 1;
            }
            let last = (at..end).rev().find(|&i| is_last(text[i])).unwrap_or(at);
            words.push(text[at..=last].iter().collect());
            at = end;
        }
        words
    }

    #[test]
    fn words_of_many_scripts_equal_the_naive_ones_and_those_of_the_lower_case() {
        /// Runs of code points that hold letters, marks and more of scripts.
        const RANGES: [(u32, u32); 16] = [
            (0x20, 0x7e),
            (0xa0, 0x24f),
            (0x300, 0x36f),
            (0x386, 0x3ce),
            (0x400, 0x48f),
            (0x591, 0x5ea),
            (0x600, 0x6ff),
            (0x700, 0x74a),
            (0x900, 0x97f),
            (0xe01, 0xe5b),
            (0x1000, 0x109f),
            (0x1780, 0x17e9),
            (0x1e00, 0x1fff),
            (0x200b, 0x2064),
            (0x3040, 0x30ff),
            (0x1f3f0, 0x1f400),
        ];
        let mut rng = StdRng::seed_from_u64(48);
        for _ in 0..20_000 {
            let few = rng.random_range(0..RANGES.len());
            let len = rng.random_range(0..24);
            let text: String = (0..len)
                .filter_map(|_| match rng.random_range(0..8) {
                    0 => Some(' '),
                    1 => ['Σ', 'İ', '\'', '\u{ad}', '\u{301}', 'ß'].choose(&mut rng).copied(),
                    kind => {
                        let range = if kind < 6 { few } else { rng.random_range(0..RANGES.len()) };
                        let (first, last) = RANGES[range];
                        char::from_u32(rng.random_range(first..=last))
                    }
                })
                .collect();
            let words = tokens(TextTokenizer::Words, &text);
            assert_eq!(words, naive_words(&text), "{text:?}");
            assert_eq!(words, tokens(TextTokenizer::Words, &text.to_lowercase()), "{text:?}");
        }
    }

    /// No lower case makes a letter, a digit or a mark of what is none, or parts a word: so words are the
    /// same before and after it.
    #[test]
    fn the_lower_case_of_every_character_keeps_its_place_in_a_word() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let lower: Vec<char> = c.to_lowercase().collect();
            if lower == [c] {
                continue;
            }
            assert!(c.is_alphanumeric() && lower[0].is_alphanumeric(), "{c:?}: {lower:?}");
            let text = format!("{c}x");
            assert_eq!(words(&text).collect::<Vec<_>>(), [text.as_str()]);
            assert_eq!(words(&text.to_lowercase()).count(), 1, "{c:?}");
        }
    }

    /// A long run of format characters is read once.
    #[test]
    fn format_characters_without_end_are_no_words() {
        let run = "\u{ad}".repeat(2_000_000);
        assert_eq!(tokens(TextTokenizer::Words, &format!("a{run} {run}b")), ["a", "b"]);
    }
}
