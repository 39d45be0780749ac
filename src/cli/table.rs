//! The table format.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::FormatOptions as ArrowFormat;
use arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::common::Result;
use datafusion::config::FormatOptions;

use super::output::MaxRows;

/// Rows laid out together: the columns of a longer table are as wide as each such part needs.
const TABLE_CHUNK: usize = 4096;

/// Lays out the first rows of a result as a table; the rest is only counted.
pub(super) struct TableWriter {
    schema: SchemaRef,
    format: FormatOptions,
    limit: usize,
    /// Rows kept for the next part.
    held: Vec<RecordBatch>,
    held_rows: usize,
    printed: usize,
    left_out: bool,
    /// The line that closes the table, once it was begun.
    border: Option<String>,
}

impl TableWriter {
    pub(super) fn new(schema: SchemaRef, maxrows: MaxRows, format: FormatOptions) -> Self {
        let limit = match maxrows {
            MaxRows::Limited(rows) => rows,
            MaxRows::Unlimited => usize::MAX,
        };
        Self {
            schema,
            format,
            limit,
            held: vec![],
            held_rows: 0,
            printed: 0,
            left_out: false,
            border: None,
        }
    }

    /// Rows laid out so far.
    pub(super) fn printed(&self) -> usize {
        self.printed
    }

    /// Takes the rows of a batch, and gives the text that is ready.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut text = vec![];
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
        Ok(text)
    }

    /// The end of the table.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>> {
        let mut text = vec![];
        if self.border.is_none() || self.held_rows > 0 {
            self.lay_out(&mut text)?;
        }
        if let Some(border) = self.border.take() {
            if self.left_out {
                let dots: String = border
                    .trim_matches('+')
                    .split('+')
                    .map(|dashes| format!("| .{:1$}", "", dashes.len().saturating_sub(2)))
                    .collect();
                for _ in 0..3 {
                    text.extend_from_slice(format!("{dots}|\n").as_bytes());
                }
            }
            text.extend_from_slice(format!("{border}\n").as_bytes());
        }
        Ok(text)
    }

    /// Lays out the rows held, without the closing line.
    fn lay_out(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let mut batches = std::mem::take(&mut self.held);
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(self.schema.clone()));
        }
        let options = ArrowFormat::try_from(&self.format)?;
        let table = pretty_format_batches_with_options(&batches, &options)?.to_string();
        let mut lines: Vec<&str> = table.lines().collect();
        let is_border =
            |line: &&str| line.starts_with("+-") && !line.contains(|c| c != '+' && c != '-');
        let border = lines.pop();
        // Parts after the first go on without the header.
        let skip = match self.border {
            None => 0,
            Some(_) => lines.iter().skip(1).position(is_border).map_or(0, |at| at + 2),
        };
        for line in lines.iter().skip(skip) {
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        self.border = border.map(str::to_string);
        self.printed += self.held_rows;
        self.held_rows = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("text", DataType::Utf8, false),
        ]);
        let texts = StringArray::from_iter_values(ids.clone().map(|id| format!("row {id}\nend")));
        let ids = Int64Array::from_iter_values(ids);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(texts)]).unwrap()
    }

    fn table(maxrows: MaxRows, batches: &[RecordBatch]) -> (String, usize) {
        let mut writer = TableWriter::new(batches[0].schema(), maxrows, FormatOptions::default());
        let mut text = vec![];
        for batch in batches {
            text.extend(writer.push(batch).unwrap());
        }
        text.extend(writer.finish().unwrap());
        (String::from_utf8(text).unwrap(), writer.printed())
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
}
