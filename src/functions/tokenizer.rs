//! The functions that turn text into tokens, by name.

use std::fmt;

/// A function that turns a text, or a list of words, into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tokenizer {
    /// `qgrams(text, q)`
    QGrams,
    /// `word_tokens(text)`
    WordTokens,
    /// `shingles(list, k)`
    Shingles,
}

impl Tokenizer {
    /// Every tokenizer, in the order of the documentation.
    pub const ALL: [Tokenizer; 3] = [Tokenizer::QGrams, Tokenizer::WordTokens, Tokenizer::Shingles];

    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        match self {
            Tokenizer::QGrams => "qgrams",
            Tokenizer::WordTokens => "word_tokens",
            Tokenizer::Shingles => "shingles",
        }
    }

    /// The name of the second argument, the length of a run, if there is one.
    pub(super) fn length_name(self) -> Option<&'static str> {
        match self {
            Tokenizer::QGrams => Some("q"),
            Tokenizer::WordTokens => None,
            Tokenizer::Shingles => Some("k"),
        }
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
