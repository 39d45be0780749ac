//! The cells of a table as lines of text, and their widths in columns of a terminal.

use std::borrow::Cow;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions as ArrowFormat};
use datafusion::common::Result;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::escape::{Escapes, text_but};

/// Columns from one tab stop to the next.
const TAB: usize = 8;

/// The lines of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell(Vec<String>);

impl Cell {
    /// A cell with some text, of which at most `longest` characters are kept.
    pub fn new(text: &str, longest: usize) -> Self {
        let shown = match text.char_indices().nth(longest) {
            None => Cow::Borrowed(text),
            Some((end, _)) => {
                let rest = text[end..].chars().count();
                Cow::Owned(format!("{}… ({rest} more characters)", &text[..end]))
            }
        };
        let safe = text_but(&shown, &['\n', '\t'], Escapes::Readable);
        Self(safe.split('\n').map(without_tabs).collect())
    }

    /// The lines of the cell.
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    /// Whether the lines are a drawing, such as a plan in boxes, which wrapping would destroy.
    pub fn is_drawing(&self) -> bool {
        self.0.len() > 1 && self.0.iter().any(|line| line.contains('│'))
    }

    /// The columns of the widest line.
    pub fn width(&self) -> usize {
        self.0.iter().map(|line| line.width()).max().unwrap_or(0)
    }

    /// The lines, none of them wider than `width` if that is possible.
    pub fn wrapped(&self, width: usize) -> Self {
        Self(self.0.iter().flat_map(|line| wrap(line, width)).collect())
    }
}

/// The line with blanks up to the next stop in place of its tabs.
fn without_tabs(line: &str) -> String {
    let mut parts = line.split('\t');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let stop = (plain.width() / TAB + 1) * TAB;
        plain.push_str(&" ".repeat(stop - plain.width()));
        plain.push_str(part);
    }
    plain
}

/// Cuts a line at blanks, and words that are too long behind a sign or between two characters. Further
/// lines are indented a little more than the first one, if that is. Where several blanks are too many,
/// one stays.
fn wrap(line: &str, width: usize) -> Vec<String> {
    if line.width() <= width {
        return vec![line.to_string()];
    }
    let width = width.max(1);
    let first = line.len() - line.trim_start_matches(' ').len();
    let indent = match first {
        0 => 0,
        first => (first + 4).min(width / 2),
    };
    let mut lines = vec![];
    let mut current = " ".repeat(first.min(width / 2));
    // Columns that the current line has, and whether it has a word.
    let (mut used, mut has_word) = (current.width(), false);
    // Blanks before the next word.
    let mut blanks = 0;
    for piece in line[first..].split_inclusive(' ') {
        let word = piece.trim_end_matches(' ');
        let parts = match word.width() > width - indent {
            true => word.split_inclusive(['=', ',', '/', '_']).collect(),
            false => vec![word],
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let room = width.saturating_sub(used + part.width());
            if has_word && used + part.width() + blanks.min(1) > width {
                lines.push(std::mem::take(&mut current));
                current.push_str(&" ".repeat(indent));
                (used, has_word, blanks) = (indent, false, 0);
            } else if blanks > room {
                blanks = 1;
            }
            current.push_str(&" ".repeat(blanks));
            used += blanks;
            blanks = 0;
            for cluster in part.graphemes(true) {
                if used + cluster.width() > width && has_word {
                    lines.push(std::mem::take(&mut current));
                    current.push_str(&" ".repeat(indent));
                    used = indent;
                }
                current.push_str(cluster);
                used += cluster.width();
                has_word = true;
            }
        }
        blanks += piece.len() - word.len();
    }
    lines.push(current);
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

/// Adds the rows of a batch.
pub fn push_rows(
    batch: &RecordBatch,
    format: &ArrowFormat<'_>,
    longest: usize,
    rows: &mut Vec<Vec<Cell>>,
) -> Result<()> {
    let columns = batch.columns().iter();
    let formatters = columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), format))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let cells = formatters.iter().map(|formatter| {
            let text = formatter.value(row).try_to_string()?;
            Ok(Cell::new(&text, longest))
        });
        rows.push(cells.collect::<Result<Vec<_>>>()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, width: usize) -> Vec<String> {
        Cell::new(text, usize::MAX).wrapped(width).0
    }

    #[test]
    fn lines_are_cut_at_blanks_or_between_characters() {
        assert_eq!(lines("night watch", 11), ["night watch"]);
        assert_eq!(lines("the night watch", 11), ["the night", "watch"]);
        assert_eq!(lines("a nightwatchman", 6), ["a", "nightw", "atchma", "n"]);
        assert_eq!(lines("  X: aaa bbb ccc", 12), ["  X: aaa bbb", "      ccc"]);
        assert_eq!(lines("one\ntwo three", 5), ["one", "two", "three"]);
        assert_eq!(lines("a probe_rows=1,x", 8), ["a probe_", "rows=1,x"]);
        // A value that stands apart comes nearer, or goes to the next line whole.
        assert_eq!(lines("    rows          20,000", 16), ["    rows 20,000"]);
        assert_eq!(lines("    rows_of          20,000", 16), ["    rows_of", "        20,000"]);
        // Two columns for each; an accent goes with its letter.
        assert_eq!(lines("日本語日本語", 5), ["日本", "語日", "本語"]);
        assert_eq!(lines("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
        assert_eq!(lines("日", 1), ["日"]);
        assert_eq!(lines("", 3), [""]);
    }

    #[test]
    fn cells_are_safe_and_bounded() {
        assert_eq!(Cell::new("a\tb\n\x1b[1m", usize::MAX).0, ["a       b", "\\x1B[1m"]);
        assert_eq!(Cell::new("abcdef", 4).0, ["abcd… (2 more characters)"]);
        assert_eq!(Cell::new("abcd", 4).0, ["abcd"]);
        assert_eq!(Cell::new("日本", 4).width(), 4);
    }
}
