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

impl Tokenizer {
    /// The expression of SQL for the tokens of a text, by the name of a tokenizer with its length: `qgrams:3`, `words`,
    /// `shingles:2` (runs of words); `None` of another name.
    pub fn expression(name: &str, value: &str) -> Option<String> {
        let (name, length) = match name.split_once(':') {
            Some((name, length)) => (name, Some(length.parse::<u32>().ok().filter(|&l| l > 0)?)),
            None => (name, None),
        };
        match (name, length) {
            ("words" | "word_tokens", None) => Some(format!("word_tokens({value})")),
            ("qgrams", Some(length)) => Some(format!("qgrams({value}, {length})")),
            ("shingles", Some(length)) => Some(format!("shingles(word_tokens({value}), {length})")),
            _ => None,
        }
    }
}
