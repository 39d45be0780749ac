//! Cutting a script into what can be run: statements up to a semicolon at the end of a line, and
//! backslash commands on lines of their own.

use std::io::{self, BufRead};

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A part of a script, with the line (from 1) on which it starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// One or more statements.
    Statements { text: String, line: u64 },
    /// A line such as `\d`.
    Command { text: String, line: u64 },
}

/// Reads a script item by item, so that a long one neither fills the memory nor waits for its end.
pub(super) struct StatementReader<R> {
    input: R,
    lines_read: u64,
    /// Take all lines up to the end as one item.
    whole: bool,
}

impl<'a> StatementReader<&'a [u8]> {
    /// All of the text as one item, so that nothing runs when a later part does not parse.
    pub(super) fn whole(text: &'a str) -> Self {
        Self { input: text.as_bytes(), lines_read: 0, whole: true }
    }
}

impl<R: BufRead> StatementReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, lines_read: 0, whole: false }
    }

    /// The next item; None at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Item>> {
        let mut text = String::new();
        let mut first_line = self.lines_read + 1;
        loop {
            let start = text.len();
            if self.input.read_line(&mut text)? == 0 {
                let rest = Item::Statements { text, line: first_line };
                return Ok((start > 0).then_some(rest));
            }
            self.lines_read += 1;
            let line = text[start..].trim();
            if start == 0 {
                first_line = self.lines_read;
                let shebang = self.lines_read == 1 && line.starts_with("#!");
                if line.is_empty() || shebang {
                    text.clear();
                    continue;
                }
                if line.starts_with('\\') {
                    return Ok(Some(Item::Command { text: line.to_string(), line: first_line }));
                }
            }
            if !self.whole && line.contains(';') && is_complete(&text) {
                return Ok(Some(Item::Statements { text, line: first_line }));
            }
        }
    }
}

/// Whether the text ends with a semicolon, comments and white space aside, which is not part of a
/// literal or a comment.
pub(super) fn is_complete(text: &str) -> bool {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize()
    else {
        return false;
    };
    tokens.iter().rfind(|token| !matches!(token, Token::Whitespace(_))) == Some(&Token::SemiColon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(mut reader: StatementReader<&[u8]>) -> Vec<(String, u64)> {
        let mut items = vec![];
        while let Some(item) = reader.next().unwrap() {
            items.push(match item {
                Item::Statements { text, line } => (text.trim().to_string(), line),
                Item::Command { text, line } => (format!("command {text}"), line),
            });
        }
        items
    }

    #[test]
    fn a_script_is_cut_at_semicolons_that_end_a_line() {
        let script = "#!/usr/bin/env simjoin\n\nSELECT 1;\n-- a comment;\nSELECT ';\n' \
                      , 2; -- end\n\\d t\nSELECT 3; SELECT 4;\n/* ; */ SELECT\n5";
        let expected = [
            ("SELECT 1;", 3),
            ("-- a comment;\nSELECT ';\n' , 2; -- end", 4),
            ("command \\d t", 7),
            ("SELECT 3; SELECT 4;", 8),
            ("/* ; */ SELECT\n5", 9),
        ];
        let expected = expected.map(|(text, line)| (text.to_string(), line));
        assert_eq!(items(StatementReader::new(script.as_bytes())), expected);
        let whole = "SELECT 1;\nSELECT 2;";
        assert_eq!(items(StatementReader::whole(whole)), [(whole.to_string(), 1)]);
        assert_eq!(items(StatementReader::whole("\\q")), [("command \\q".to_string(), 1)]);
        assert_eq!(items(StatementReader::whole(" \n")), []);
    }

    #[test]
    fn only_a_semicolon_outside_literals_completes_a_statement() {
        for (text, complete) in [
            ("SELECT 1;", true),
            ("SELECT 1; -- note", true),
            ("SELECT 1; /* note */\n", true),
            ("SELECT 1", false),
            ("SELECT ';", false),
            ("SELECT 1 -- ;", false),
            ("SELECT /* ;", false),
            ("SELECT 1; SELECT", false),
        ] {
            assert_eq!(is_complete(text), complete, "{text}");
        }
    }
}
