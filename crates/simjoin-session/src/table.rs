//! The table format.

use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::FormatOptions as ArrowFormat;
use clap::ValueEnum;
use datafusion::common::Result;
use datafusion::config::FormatOptions;
use unicode_width::UnicodeWidthStr;

use super::cells::{Cell, push_rows};

/// Rows laid out together: the columns of a longer table are as wide as each such part needs.
const TABLE_CHUNK: usize = 4096;
/// Characters of a cell that are shown where a table is fitted to a terminal.
const LONGEST_CELL: usize = 2000;
/// A column that is wider is only narrowed to fewer columns of the terminal where the table may not
/// be turned.
const LEGIBLE: usize = 20;

/// The number of rows that the table format prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxRows {
    /// A number of rows.
    Limited(usize),
    /// All rows.
    Unlimited,
}

impl FromStr for MaxRows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "inf" | "infinite" | "none" => Ok(Self::Unlimited),
            number => match number.parse() {
                Ok(rows) => Ok(Self::Limited(rows)),
                Err(_) => Err("use a number of rows or inf".to_string()),
            },
        }
    }
}

/// Whether tables are turned: a line for each column of a row, as psql's `\x` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Expanded {
    /// Where a table would not be legible in the width of the terminal
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// The width that tables are fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableWidth {
    /// The width of the terminal, if standard output is one; otherwise no limit.
    Auto,
    /// A number of columns.
    Limited(usize),
    /// Tables of any width.
    Unlimited,
}

impl FromStr for TableWidth {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "inf" | "infinite" | "none" => Ok(Self::Unlimited),
            number => match number.parse() {
                Ok(columns) if columns > 0 => Ok(Self::Limited(columns)),
                _ => Err("use a number of columns, auto or inf".to_string()),
            },
        }
    }
}

impl std::fmt::Display for TableWidth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Limited(columns) => write!(f, "{columns}"),
            Self::Unlimited => f.write_str("inf"),
        }
    }
}

/// The space that a table is fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// Columns of the terminal; `None` for tables of any width.
    pub width: Option<usize>,
    /// Whether tables are turned.
    pub expanded: Expanded,
    /// Cells of any length are shown whole.
    pub whole_cells: bool,
}

impl Fit {
    /// Tables as wide as their cells.
    pub const NONE: Self = Self { width: None, expanded: Expanded::Off, whole_cells: true };

    /// The fit of a table into `columns`.
    pub fn new(columns: TableWidth, expanded: Expanded) -> Self {
        let width = match columns {
            TableWidth::Auto => terminal_width(),
            TableWidth::Limited(columns) => Some(columns),
            TableWidth::Unlimited => None,
        };
        Self { width, expanded, whole_cells: width.is_none() }
    }
}

/// The columns of the terminal that standard output is.
fn terminal_width() -> Option<usize> {
    let (_rows, columns) = console::Term::stdout().size_checked()?;
    // Terminals without a size, such as those of some build systems, give 0.
    (columns > 0).then_some(usize::from(columns))
}

/// The layout of a table's rows, which its first part decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableLayout {
    Framed,
    Turned,
}

/// Lays out the first rows of a result as a table; the rest is only counted.
pub struct TableWriter {
    schema: SchemaRef,
    format: FormatOptions,
    fit: Fit,
    limit: usize,
    /// Rows kept for the next part.
    held: Vec<RecordBatch>,
    held_rows: usize,
    printed: usize,
    left_out: bool,
    form: Option<TableLayout>,
    /// The widths of the columns of the last part.
    widths: Vec<usize>,
}

impl TableWriter {
    /// A table of `schema`, of at most `maxrows` rows.
    pub fn new(schema: SchemaRef, maxrows: MaxRows, format: FormatOptions, fit: Fit) -> Self {
        let limit = match maxrows {
            MaxRows::Limited(rows) => rows,
            MaxRows::Unlimited => usize::MAX,
        };
        Self {
            schema,
            format,
            fit,
            limit,
            held: vec![],
            held_rows: 0,
            printed: 0,
            left_out: false,
            form: None,
            widths: vec![],
        }
    }

    /// Rows laid out so far.
    pub fn printed(&self) -> usize {
        self.printed
    }

    /// Takes the rows of a batch, and gives the text that is ready.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut text = String::new();
        let mut from = 0;
        while from < batch.num_rows() {
            let room = self.limit - self.printed - self.held_rows;
            if room == 0 {
                self.left_out = true;
                break;
            }
            let rows = (batch.num_rows() - from).min(room).min(TABLE_CHUNK - self.held_rows);
            self.held.push(batch.slice(from, rows));
            self.held_rows += rows;
            from += rows;
            if self.held_rows == TABLE_CHUNK {
                self.lay_out(&mut text)?;
            }
        }
        Ok(text.into_bytes())
    }

    /// The end of the table.
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        let mut text = String::new();
        if self.form.is_none() || self.held_rows > 0 {
            self.lay_out(&mut text)?;
        }
        match self.form {
            Some(TableLayout::Turned) if self.left_out => text.push_str("-[ … ]\n"),
            Some(TableLayout::Framed) => {
                if self.left_out {
                    let dots = vec![Cell::new(".", 1); self.widths.len()];
                    (0..3).for_each(|_| push_row(&mut text, &dots, &self.widths));
                }
                push_border(&mut text, &self.widths);
            }
            _ => {}
        }
        Ok(text.into_bytes())
    }

    /// The headings of the columns.
    fn headings(&self) -> Vec<Cell> {
        let fields = self.schema.fields().iter();
        let headings = fields.map(|field| match self.format.types_info {
            true => format!("{}\n{}", field.name(), field.data_type()),
            false => field.name().clone(),
        });
        headings.map(|heading| Cell::new(&heading, self.longest())).collect()
    }

    fn longest(&self) -> usize {
        if self.fit.whole_cells { usize::MAX } else { LONGEST_CELL }
    }

    /// Lays out the rows held, without the closing line.
    fn lay_out(&mut self, text: &mut String) -> Result<()> {
        let options = ArrowFormat::try_from(&self.format)?;
        let mut rows = Vec::with_capacity(self.held_rows);
        for batch in std::mem::take(&mut self.held) {
            push_rows(&batch, &options, self.longest(), &mut rows)?;
        }
        let headings = self.headings();
        let mut natural: Vec<usize> = headings.iter().map(Cell::width).collect();
        for row in &rows {
            let widths = natural.iter_mut().zip(row);
            widths.for_each(|(width, cell)| *width = cell.width().max(*width));
        }
        let width = match rows.iter().flatten().any(Cell::is_drawing) {
            true => None,
            false => self.fit.width,
        };
        let (widths, legible) = fitted(&natural, width);
        let is_first = self.form.is_none();
        let form = *self.form.get_or_insert(match self.fit.expanded {
            // A turned table without rows would be nothing at all.
            Expanded::Off => TableLayout::Framed,
            _ if rows.is_empty() => TableLayout::Framed,
            Expanded::Auto if legible => TableLayout::Framed,
            Expanded::On | Expanded::Auto => TableLayout::Turned,
        });
        match form {
            TableLayout::Framed => {
                push_framed(text, is_first.then_some(&headings), &rows, &natural, &widths)
            }
            TableLayout::Turned => {
                push_turned(text, &headings, &rows, self.printed, self.fit.width)
            }
        }
        self.widths = widths;
        self.printed += self.held_rows;
        self.held_rows = 0;
        Ok(())
    }
}

/// The widths of columns of a table that is no wider than `width`, and whether they are legible. The
/// widest columns are narrowed.
fn fitted(natural: &[usize], width: Option<usize>) -> (Vec<usize>, bool) {
    let frame = 3 * natural.len() + 1;
    let Some(width) = width.filter(|width| natural.iter().sum::<usize>() + frame > *width) else {
        return (natural.to_vec(), true);
    };
    let mut ascending = natural.to_vec();
    ascending.sort_unstable();
    let (mut room, mut level) = (width.saturating_sub(frame), 0);
    for (narrower, natural) in ascending.iter().enumerate() {
        level = room / (ascending.len() - narrower);
        if *natural > level {
            break;
        }
        room -= natural;
    }
    let widths = natural.iter().map(|natural| (*natural).min(level.max(1))).collect();
    (widths, level >= LEGIBLE)
}

/// A table in a frame. Where cells are wrapped, a line parts the rows.
fn push_framed(
    text: &mut String,
    headings: Option<&Vec<Cell>>,
    rows: &[Vec<Cell>],
    natural: &[usize],
    widths: &[usize],
) {
    if let Some(headings) = headings {
        push_border(text, widths);
        push_row(text, headings, widths);
        push_border(text, widths);
    }
    let is_wrapped = natural != widths;
    for (number, row) in rows.iter().enumerate() {
        if is_wrapped && number > 0 {
            push_border(text, widths);
        }
        push_row(text, row, widths);
    }
}

fn push_border(text: &mut String, widths: &[usize]) {
    for width in widths {
        text.push('+');
        text.extend(std::iter::repeat_n('-', width + 2));
    }
    text.push_str("+\n");
}

fn push_row(text: &mut String, row: &[Cell], widths: &[usize]) {
    let wrapped: Vec<Cell> =
        row.iter().zip(widths).map(|(cell, width)| cell.wrapped(*width)).collect();
    let height = wrapped.iter().map(|cell| cell.lines().len()).max().unwrap_or(0);
    for line in 0..height {
        for (cell, width) in wrapped.iter().zip(widths) {
            let content = cell.lines().get(line).map_or("", String::as_str);
            text.push_str("| ");
            push_padded(text, content, *width);
            text.push(' ');
        }
        text.push_str("|\n");
    }
}

fn push_padded(text: &mut String, content: &str, width: usize) {
    text.push_str(content);
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(content.width())));
}

/// Each row as a record, a line for each column.
fn push_turned(
    text: &mut String,
    headings: &[Cell],
    rows: &[Vec<Cell>],
    before: usize,
    width: Option<usize>,
) {
    let names = headings.iter().map(Cell::width).max().unwrap_or(0);
    // Values get half of the width at least.
    let names = width.map_or(names, |width| names.min((width / 2).saturating_sub(3)).max(1));
    let room = width.map(|width| width.saturating_sub(names + 3).max(1));
    let wrapped = |cell: &Cell| match room {
        Some(room) => cell.wrapped(room),
        None => cell.clone(),
    };
    let headings: Vec<Cell> = headings.iter().map(|heading| heading.wrapped(names)).collect();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<Cell> = row.iter().map(wrapped).collect();
        let widest = cells.iter().map(Cell::width).max().unwrap_or(0);
        let mut title = format!("-[ RECORD {} ]", before + number + 1);
        let dashes = (names + 3 + widest).saturating_sub(title.width());
        title.extend(std::iter::repeat_n('-', dashes));
        text.push_str(&title);
        text.push('\n');
        for (heading, cell) in headings.iter().zip(&cells) {
            for line in 0..heading.lines().len().max(cell.lines().len()) {
                let part = |cell: &Cell| cell.lines().get(line).cloned().unwrap_or_default();
                push_padded(text, &part(heading), names);
                let value = part(cell);
                text.push_str(" |");
                if !value.is_empty() {
                    text.push(' ');
                    text.push_str(&value);
                }
                text.push('\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::util::pretty::pretty_format_batches;

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("text", DataType::Utf8, false),
        ]))
    }

    fn of_texts(texts: &[&str]) -> RecordBatch {
        let ids = Int64Array::from_iter_values(0..texts.len() as i64);
        let texts = StringArray::from_iter_values(texts);
        RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(texts)]).unwrap()
    }

    fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
        let texts = StringArray::from_iter_values(ids.clone().map(|id| format!("row {id}\nend")));
        let ids = Int64Array::from_iter_values(ids);
        RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(texts)]).unwrap()
    }

    fn fitted_table(maxrows: MaxRows, fit: Fit, batches: &[RecordBatch]) -> (String, usize) {
        let schema = batches[0].schema();
        let mut writer = TableWriter::new(schema, maxrows, FormatOptions::default(), fit);
        let mut text = vec![];
        for batch in batches {
            text.extend(writer.push(batch).unwrap());
        }
        text.extend(writer.finish().unwrap());
        (String::from_utf8(text).unwrap(), writer.printed())
    }

    fn table(maxrows: MaxRows, batches: &[RecordBatch]) -> (String, usize) {
        fitted_table(maxrows, Fit::NONE, batches)
    }

    fn fit(width: usize, expanded: Expanded, batches: &[RecordBatch]) -> String {
        let fit = Fit { width: Some(width), expanded, whole_cells: false };
        fitted_table(MaxRows::Limited(40), fit, batches).0
    }

    #[test]
    fn rows_beyond_the_limit_are_dots() {
        let (text, printed) = table(MaxRows::Limited(2), &[batch(0..1), batch(1..9)]);
        let expected = "\
+----+-------+
| id | text  |
+----+-------+
| 0  | row 0 |
|    | end   |
| 1  | row 1 |
|    | end   |
| .  | .     |
| .  | .     |
| .  | .     |
+----+-------+
";
        assert_eq!(text, expected);
        assert_eq!(printed, 2);
    }

    #[test]
    fn an_empty_table_shows_its_columns() {
        let (text, printed) = table(MaxRows::Limited(2), &[batch(0..0)]);
        assert_eq!(text, "+----+------+\n| id | text |\n+----+------+\n+----+------+\n");
        assert_eq!(printed, 0);
        let (text, printed) = table(MaxRows::Limited(0), &[batch(0..1)]);
        assert!(text.contains("| .  | .    |"), "{text}");
        assert_eq!(printed, 0);
    }

    #[test]
    fn a_long_table_comes_in_parts_under_one_header() {
        let rows = TABLE_CHUNK as i64 + 3;
        let (text, printed) = table(MaxRows::Unlimited, &[batch(0..10), batch(10..rows)]);
        assert_eq!(printed, TABLE_CHUNK + 3);
        assert_eq!(text.matches("| id ").count(), 1);
        assert_eq!(text.matches("| row ").count(), printed);
        assert_eq!(text.lines().filter(|line| line.starts_with('+')).count(), 3);
        assert!(text.ends_with("+\n"));
    }

    /// Scripts read tables as DataFusion prints them.
    #[test]
    fn a_table_of_any_width_is_that_of_arrow() {
        let batch = of_texts(&["", "Resígaro", "日本語", "two\nlines\n", "e\u{301}", "🏳️‍🌈"]);
        let expected = pretty_format_batches(std::slice::from_ref(&batch)).unwrap();
        assert_eq!(table(MaxRows::Unlimited, &[batch]).0, format!("{expected}\n"));
    }

    #[test]
    fn control_characters_are_escaped() {
        let text = table(MaxRows::Unlimited, &[of_texts(&["\x1b[2J\x07", "\u{202e}x", "日"])]).0;
        let expected = "\
+----+-------------+
| id | text        |
+----+-------------+
| 0  | \\x1B[2J\\x07 |
| 1  | \\u202Ex     |
| 2  | 日          |
+----+-------------+
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_wide_table_is_wrapped_where_that_is_legible() {
        let batch = of_texts(&["a short text", "a text of more than twenty-seven columns"]);
        let expected = "\
+----+---------------------------+
| id | text                      |
+----+---------------------------+
| 0  | a short text              |
+----+---------------------------+
| 1  | a text of more than       |
|    | twenty-seven columns      |
+----+---------------------------+
";
        assert_eq!(fit(34, Expanded::Auto, std::slice::from_ref(&batch)), expected);
        let text = fit(22, Expanded::Auto, std::slice::from_ref(&batch));
        assert!(text.starts_with("-[ RECORD 1 ]------\nid   | 0\ntext | a short text\n"), "{text}");
        for width in [1, 7, 22, 34, 40] {
            for expanded in [Expanded::Auto, Expanded::On, Expanded::Off] {
                let text = fit(width, expanded, std::slice::from_ref(&batch));
                let widest = text.lines().map(|line| line.width()).max().unwrap();
                assert!(widest <= width.max(18), "{width} {expanded:?}:\n{text}");
            }
        }
        assert!(fit(22, Expanded::Off, std::slice::from_ref(&batch)).starts_with("+----+"));
        assert!(fit(100, Expanded::On, &[batch]).starts_with("-[ RECORD 1 ]"));
    }

    #[test]
    fn a_drawing_is_not_wrapped() {
        let drawing = "┌───────────────────┐\n│  ProjectionExec   │\n└───────────────────┘";
        let batch = of_texts(&[drawing]);
        let whole = table(MaxRows::Unlimited, std::slice::from_ref(&batch)).0;
        assert_eq!(fit(20, Expanded::Auto, &[batch]), whole);
    }

    #[test]
    fn a_long_cell_is_cut_with_a_mark() {
        let long = "x".repeat(LONGEST_CELL + 5);
        let text = fit(80, Expanded::Auto, &[of_texts(&[&long])]);
        assert!(text.contains("(5 more characters)"), "{text}");
        assert_eq!(text.matches('x').count(), LONGEST_CELL + 1, "{text}");
        assert!(!table(MaxRows::Unlimited, &[of_texts(&[&long])]).0.contains("more characters"));
    }

    #[test]
    fn widths_are_shared_by_the_widest_columns() {
        assert_eq!(fitted(&[3, 50, 60], Some(80)), (vec![3, 33, 33], true));
        assert_eq!(fitted(&[3, 5], Some(15)), (vec![3, 5], true));
        assert_eq!(fitted(&[3, 10, 60], Some(60)), (vec![3, 10, 37], true));
        assert_eq!(fitted(&[30, 30, 30], Some(60)), (vec![16, 16, 16], false));
        assert_eq!(fitted(&[30, 30], Some(3)), (vec![1, 1], false));
    }
}
