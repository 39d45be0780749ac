//! Cuts the lines of a script into items that run: statements, each up to its semicolon, and
//! backslash commands on lines of their own.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use datafusion_simjoin::sql::TextCursor;

/// The longest statement, in bytes: its tokens take some fifty times as much memory.
pub(super) const LONGEST_STATEMENT: usize = 64 << 20;

/// A part of a script, with the line (from 1) on which it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// One statement. Where it starts in the middle of a line, spaces stand for the text before it,
    /// so that the columns in messages are those of the line.
    Statement { text: String, line: u64 },
    /// A line such as `\d`.
    Command { text: String, line: u64 },
}

/// Cuts lines into items as they come, so that a long script neither fills the memory nor waits for
/// its end.
///
/// A backslash command is obeyed wherever its line is not inside a literal or a comment; a
/// statement that was begun goes on behind it.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    /// The text of the next statement so far.
    text: String,
    /// The line on which `text` starts.
    line: u64,
    lines_read: u64,
    /// There is more in `text` than a comment that has not ended.
    has_words: bool,
}

impl Cutter {
    /// Whether a statement was begun that has not ended.
    pub(super) fn has_begun(&self) -> bool {
        !self.text.is_empty()
    }

    /// Whether the statement that was begun is too long already.
    pub(super) fn has_too_much(&self) -> bool {
        self.text.len() > LONGEST_STATEMENT
    }

    /// The line on which the statement that was begun starts.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Forgets the statement that was begun.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.has_words = false;
    }

    /// Takes a line, and gives the items that it completes. The tokens are those of the dialect.
    pub(super) fn push(&mut self, line: &str, dialect: &dyn Dialect) -> Vec<Item> {
        self.lines_read += 1;
        let first = self.lines_read == 1;
        // Editors of Windows put a byte order mark before the text.
        let line = if first { line.trim_start_matches('\u{feff}') } else { line };
        let trimmed = line.trim();
        let skipped = trimmed.is_empty() || first && trimmed.starts_with("#!");
        if skipped && self.text.is_empty() {
            return vec![];
        }
        if trimmed.starts_with('\\') && !self.is_inside_token(dialect) {
            return vec![Item::Command { text: trimmed.to_string(), line: self.lines_read }];
        }
        if self.text.is_empty() {
            self.line = self.lines_read;
        }
        self.text.push_str(line);
        if !line.contains(';') {
            self.forget_comments(dialect);
            return vec![];
        }
        self.cut(dialect)
    }

    /// The statement that the end of the text ends, without a semicolon.
    pub(super) fn finish(&mut self) -> Option<Item> {
        let text = std::mem::take(&mut self.text);
        self.has_words = false;
        (!text.is_empty()).then_some(Item::Statement { text, line: self.line })
    }

    /// Whether the text ends inside a literal or a comment, as far as it has been read.
    fn is_inside_token(&self, dialect: &dyn Dialect) -> bool {
        !self.text.is_empty() && tokens(&self.text, dialect).1
    }

    /// Forgets white space and comments that no statement follows yet.
    fn forget_comments(&mut self, dialect: &dyn Dialect) {
        if self.has_words {
            return;
        }
        // Only these start a comment; most texts need no look at their tokens.
        let start = self.text.trim_start();
        if start.is_empty() || start.starts_with(['-', '/', '#']) {
            let (tokens, is_open) = tokens(&self.text, dialect);
            let is_space = |t: &TokenWithSpan| matches!(t.token, Token::Whitespace(_));
            if tokens.iter().all(is_space) {
                if !is_open {
                    self.text.clear();
                }
                return;
            }
        }
        self.has_words = true;
    }

    /// Takes the statements out of the text that a semicolon ends.
    fn cut(&mut self, dialect: &dyn Dialect) -> Vec<Item> {
        let text = std::mem::take(&mut self.text);
        let (tokens, _) = tokens(&text, dialect);
        let mut items = vec![];
        let mut cursor = TextCursor::new(&text);
        let (mut start, mut place) = (0, Location::new(1, 1));
        let mut is_empty = true;
        let part = |start: usize, end: usize, place: Location| {
            let before = usize::try_from(place.column - 1).unwrap_or_default();
            " ".repeat(before) + text.get(start..end).unwrap_or_default()
        };
        for TokenWithSpan { token, span } in tokens {
            match token {
                Token::Whitespace(_) => {}
                Token::SemiColon => {
                    let end = cursor.byte_offset(span.end);
                    if !is_empty {
                        let line = self.line + place.line - 1;
                        items.push(Item::Statement { text: part(start, end, place), line });
                    }
                    (start, place, is_empty) = (end, span.end, true);
                }
                _ => is_empty = false,
            }
        }
        self.text = part(start, text.len(), place);
        self.line += place.line - 1;
        self.has_words = !is_empty;
        self.forget_comments(dialect);
        items
    }
}

/// The tokens of the text, and whether the tokenizer gave up behind them: a literal or a comment
/// starts there that the text does not end.
fn tokens(text: &str, dialect: &dyn Dialect) -> (Vec<TokenWithSpan>, bool) {
    let mut tokens = vec![];
    let result = Tokenizer::new(dialect, text)
        .with_unescape(false)
        .tokenize_with_location_into_buf(&mut tokens);
    (tokens, result.is_err())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::{GenericDialect, MySqlDialect};

    use super::*;

    fn cut_by(dialect: &dyn Dialect, script: &str) -> Vec<(String, u64)> {
        let mut cutter = Cutter::default();
        let mut items = vec![];
        for line in script.split_inclusive('\n') {
            items.extend(cutter.push(line, dialect));
        }
        items.extend(cutter.finish());
        let shown = items.into_iter().map(|item| match item {
            Item::Statement { text, line } => (text.trim_end().to_string(), line),
            Item::Command { text, line } => (format!("command {text}"), line),
        });
        shown.collect()
    }

    #[track_caller]
    fn check(script: &str, expected: &[(&str, u64)]) {
        let expected: Vec<_> =
            expected.iter().map(|(text, line)| (text.to_string(), *line)).collect();
        assert_eq!(cut_by(&GenericDialect {}, script), expected, "{script}");
    }

    #[test]
    fn a_script_is_cut_at_its_semicolons() {
        check(
            "#!/usr/bin/env simjoin\n\nSELECT 1;\n-- a comment;\nSELECT ';\n\
             ', 2; -- end\n\\d t\n/* ; */ SELECT\n5",
            &[
                ("SELECT 1;", 3),
                ("SELECT ';\n', 2;", 5),
                ("command \\d t", 7),
                ("/* ; */ SELECT\n5", 8),
            ],
        );
        check(" \n;;\n-- nothing\n/* at\nall */\n", &[]);
        check("\\q", &[("command \\q", 1)]);
    }

    /// Spaces take the place of the text before it on the line, for the columns of messages.
    #[test]
    fn statements_of_one_line_are_cut_apart() {
        check(
            "SELECT 1; SELECT 'é;'; SELECT\n 2 ; SELECT 3",
            &[
                ("SELECT 1;", 1),
                ("          SELECT 'é;';", 1),
                ("                       SELECT\n 2 ;", 1),
                ("     SELECT 3", 2),
            ],
        );
        check(
            "SELECT 1; -- end\nSELECT 2; /* end\n of it */",
            &[("SELECT 1;", 1), ("SELECT 2;", 2)],
        );
        check("SELECT 1; SELECT 'open\n", &[("SELECT 1;", 1), ("          SELECT 'open", 1)]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        check("\u{feff}SELECT 1;\n", &[("SELECT 1;", 1)]);
        check("\u{feff}#!/bin/simjoin\nSELECT 1;\n", &[("SELECT 1;", 2)]);
    }

    #[test]
    fn commands_are_obeyed_inside_a_statement_but_not_inside_a_literal() {
        check(
            "SELECT 1\n\\d\n, '\n\\d\n' /*\n\\d */;",
            &[("command \\d", 2), ("SELECT 1\n, '\n\\d\n' /*\n\\d */;", 1)],
        );
    }

    #[test]
    fn literals_are_those_of_the_dialect() {
        let script = "SELECT \"a\\\";\"; SELECT 2;";
        assert_eq!(cut_by(&MySqlDialect {}, script)[0].0, "SELECT \"a\\\";\";");
        assert_eq!(cut_by(&GenericDialect {}, script)[0].0, "SELECT \"a\\\";");
    }

    #[test]
    fn what_was_begun_can_be_forgotten() {
        let (mut cutter, dialect) = (Cutter::default(), GenericDialect {});
        assert!(!cutter.has_begun());
        for (line, begun) in [("-- note\n", false), ("SELECT\n", true), ("\\d\n", true)] {
            cutter.push(line, &dialect);
            assert_eq!(cutter.has_begun(), begun, "{line}");
        }
        cutter.clear();
        assert!(!cutter.has_begun() && cutter.finish().is_none());
        assert_eq!(cutter.push("SELECT 1; SELECT", &dialect).len(), 1);
        assert!(cutter.has_begun());
    }
}
