//! The columns of text files, by what stands in them.
//!
//! Up to some size all rows are looked at. Of more, the first rows of each file and rows at several places
//! behind them; what does not fit among the others is an error of the reader.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::common::config::{CsvOptions, JsonOptions};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use regex::Regex;

use super::csv_rows::{encoding, fields};
use super::records::Records;
use super::rule::{Looked, null_regex};
use super::shape::{JsonShape, RowShapes};
use super::values::{Seen, Value};
use crate::input::{For, Input, open, raw};
use crate::pipes::Pipes;
use crate::reading::FileName;

/// The bytes of a table that are looked at from the starts of its files.
const BYTES: u64 = 64 << 20;

/// The bytes that are looked at from the start of a file, at least.
const BYTES_OF_FILE: u64 = 256 << 10;

/// The places of a large file that are looked at behind its start, and the bytes at each.
const PLACES: u64 = 8;
const BYTES_OF_PLACE: u64 = 1 << 20;

/// The number of rows between two points where other tasks may run.
const ROWS: u64 = 512;

/// The columns of a table, and the format that reads them.
pub(crate) struct Guess {
    pub(crate) schema: SchemaRef,
    /// The format of the files, with a mark of how many rows were looked at.
    pub(crate) format: Arc<dyn FileFormat>,
}

/// The files of a table of text.
pub(crate) struct Texts<'a> {
    pub(crate) store: &'a dyn ObjectStore,
    pub(crate) format: &'a Arc<dyn FileFormat>,
    pub(crate) files: &'a [ObjectMeta],
    pub(crate) pipes: &'a Pipes,
    /// Whether files have a header, where their options do not say so.
    pub(crate) has_header: bool,
}

/// Guesses the columns of a table of CSV or JSON; `None` for other formats.
///
/// # Errors
///
/// An error that names the file and the line of what is no row of the table.
pub(crate) async fn guess(texts: &Texts<'_>) -> Result<Option<Guess>> {
    if let Some(csv) = texts.format.downcast_ref::<CsvFormat>() {
        let mut options = csv.options().clone();
        options.has_header.get_or_insert(texts.has_header);
        return texts.csv(options).await.map(Some);
    }
    match texts.format.downcast_ref::<JsonFormat>() {
        Some(json) => texts.json(json.options().clone()).await.map(Some),
        None => Ok(None),
    }
}

/// The bytes and rows that may be looked at.
struct GuessBudget {
    bytes: u64,
    files: u64,
    /// The rows that may be looked at, where the statement says so.
    rows: Option<u64>,
    is_whole: bool,
    /// Whether all rows were looked at.
    all: bool,
}

impl GuessBudget {
    /// A budget; on a cluster all rows are looked at, because its readers know no types but those declared.
    fn of(texts: &Texts<'_>, rows: Option<usize>) -> Self {
        let rows = rows.map(|rows| rows as u64);
        let is_whole = !texts.pipes.may_be_written() && rows.is_none();
        Self { bytes: BYTES, files: texts.files.len() as u64, rows, is_whole, all: true }
    }

    /// The bytes of the next file.
    fn quota(&mut self) -> u64 {
        let bytes = (self.bytes / self.files.max(1)).max(BYTES_OF_FILE);
        self.files = self.files.saturating_sub(1);
        if self.is_whole { u64::MAX } else { bytes }
    }

    /// Whether a file has been looked at enough, of which so many bytes and rows were.
    fn is_spent(&self, quota: u64, bytes: u64, rows: u64) -> bool {
        bytes >= quota || self.rows.is_some_and(|most| rows >= most)
    }

    /// Ends a file.
    fn spend(&mut self, bytes: u64, rows: u64, all: bool) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.rows = self.rows.map(|most| most.saturating_sub(rows));
        self.all &= all;
    }

    /// The mark of the format.
    fn mark(&self, files: &[ObjectMeta], rows: u64) -> usize {
        match self.all {
            true => Looked::mark_of_all(files),
            false => Looked::mark_of_some(rows),
        }
    }
}

/// The columns of CSV.
#[derive(Default)]
struct CsvColumns {
    names: Vec<String>,
    seen: Vec<Seen>,
    rows: u64,
}

impl Texts<'_> {
    async fn csv(&self, options: CsvOptions) -> Result<Guess> {
        let null = options.null_regex.as_deref().map(null_regex).transpose()?;
        let mut budget = GuessBudget::of(self, options.schema_infer_max_rec);
        let is_text = budget.rows == Some(0);
        let mut columns = CsvColumns::default();
        for file in self.files {
            let quota = budget.quota();
            let name = self.pipes.name(&file.location);
            let scan = CsvScan { texts: self, file, name: &name, options: &options, null: &null };
            name.wait(scan.look(&mut columns, &mut budget, quota)).await?;
        }
        // Text holds whatever comes.
        budget.all |= is_text || columns.seen.iter().all(|seen| seen.data_type() == DataType::Utf8);
        let names = unique(&columns.names);
        let types = columns.seen.iter().map(|seen| match is_text {
            true => DataType::Utf8,
            false => seen.data_type(),
        });
        let fields: Fields =
            names.iter().zip(types).map(|(name, of)| Field::new(name, of, true)).collect();
        let looked = budget.mark(self.files, columns.rows);
        let format = CsvFormat::default().with_options(options.with_schema_infer_max_rec(looked));
        Ok(Guess { schema: Arc::new(Schema::new(fields)), format: Arc::new(format) })
    }

    async fn json(&self, mut options: JsonOptions) -> Result<Guess> {
        let compression = FileCompressionType::from(options.compression);
        let mut budget =
            GuessBudget::of(self, options.schema_infer_max_rec.filter(|rows| *rows > 0));
        let (mut shape, mut rows, mut is_lines) = (JsonShape::default(), 0, true);
        for file in self.files.iter().filter(|file| file.size > 0) {
            let quota = budget.quota();
            let look = async {
                let input = open(self.store, &file.location, compression, For::ALook).await?;
                let (of_file, read) = look_at_rows(input, &budget, quota).await?;
                let all = !budget.is_spent(quota, read.consumed, read.rows())
                    || read.consumed >= file.size && !compression.is_compressed();
                shape.merge(of_file);
                is_lines &= read.is_lines;
                rows += read.rows();
                budget.spend(read.consumed, read.rows(), all);
                if !all && budget.rows.is_none() && read.is_lines && !compression.is_compressed() {
                    shape = self.json_places(file, read.consumed, shape.clone()).await?;
                }
                shape.fields(false).map(drop)
            };
            self.pipes.name(&file.location).wait(look).await?;
        }
        options.schema_infer_max_rec = Some(budget.mark(self.files, rows));
        options.newline_delimited = is_lines;
        let schema = Arc::new(Schema::new(shape.fields(budget.all)?));
        Ok(Guess { schema, format: Arc::new(JsonFormat::default().with_options(options)) })
    }

    /// The shape with the rows at some places of a file whose rows are lines.
    async fn json_places(
        &self,
        file: &ObjectMeta,
        from: u64,
        mut shape: JsonShape,
    ) -> Result<JsonShape> {
        for range in places(from, file.size) {
            let bytes = self.bytes(file, range).await?;
            let lines = bytes.iter().position(|byte| *byte == b'\n').map(|at| &bytes[at + 1..]);
            let whole = lines.and_then(|lines| {
                lines.iter().rposition(|byte| *byte == b'\n').map(|end| lines[..=end].to_vec())
            });
            let Some(lines) = whole else { continue };
            let mut rows = RowShapes::new(Box::new(std::io::Cursor::new(lines)));
            let mut with_place = shape.clone();
            let looked = loop {
                match rows.advance(&mut with_place) {
                    Ok(true) => {}
                    other => break other,
                }
            };
            // A line that is no row is for the reader to tell.
            if looked.is_ok() && with_place.fields(false).is_ok() {
                shape = with_place;
            }
            tokio::task::yield_now().await;
        }
        Ok(shape)
    }

    async fn bytes(&self, file: &ObjectMeta, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![];
        raw(self.store, &file.location, Some(range), For::ALook).await?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The shape of the rows at the start of a file.
async fn look_at_rows(
    input: Input,
    budget: &GuessBudget,
    quota: u64,
) -> Result<(JsonShape, RowShapes)> {
    let mut rows = RowShapes::new(input);
    let mut shape = JsonShape::default();
    while !budget.is_spent(quota, rows.consumed, rows.rows()) && rows.advance(&mut shape)? {
        if rows.rows().is_multiple_of(ROWS) {
            tokio::task::yield_now().await;
        }
    }
    Ok((shape, rows))
}

/// Ranges of a file behind its start.
fn places(from: u64, size: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let step = size.saturating_sub(from) / PLACES;
    (1..=PLACES).filter(move |_| step > BYTES_OF_PLACE).map(move |place| {
        let end = if place == PLACES { size } else { from + place * step };
        end.saturating_sub(BYTES_OF_PLACE)..end
    })
}

/// A file of CSV whose rows are looked at.
struct CsvScan<'a> {
    texts: &'a Texts<'a>,
    file: &'a ObjectMeta,
    name: &'a FileName,
    options: &'a CsvOptions,
    null: &'a Option<Regex>,
}

impl CsvScan<'_> {
    async fn look(
        &self,
        columns: &mut CsvColumns,
        budget: &mut GuessBudget,
        quota: u64,
    ) -> Result<()> {
        let compression = FileCompressionType::from(self.options.compression);
        let input = open(self.texts.store, &self.file.location, compression, For::ALook).await?;
        let mut records = Records::new(input, self.options);
        let mut rows = 0;
        if self.options.has_header.unwrap_or(true) {
            if !records.advance()? {
                return Ok(());
            }
            self.header(&records, columns)?;
        }
        let is_spent = loop {
            if budget.is_spent(quota, records.consumed, rows) {
                break true;
            }
            if !records.advance()? {
                break false;
            }
            rows += 1;
            self.row(&records, rows, columns)?;
            if rows.is_multiple_of(ROWS) {
                tokio::task::yield_now().await;
            }
        };
        let consumed = records.consumed;
        let all = !is_spent || !compression.is_compressed() && consumed >= self.file.size;
        budget.spend(consumed, rows, all);
        columns.rows += rows;
        if !all && budget.rows.is_none() && !compression.is_compressed() {
            self.places(consumed, columns).await?;
        }
        Ok(())
    }

    /// Takes the names of the columns, and room for those that the first file does not have.
    fn header(&self, records: &Records, columns: &mut CsvColumns) -> Result<()> {
        for column in columns.names.len()..records.len() {
            let Ok(name) = std::str::from_utf8(records.field(column)) else {
                return exec_err!(
                    "the header is no text in UTF-8; {}",
                    encoding(records.field(column))
                );
            };
            columns.names.push(name.to_string());
        }
        columns.seen.resize(columns.names.len(), Seen::default());
        Ok(())
    }

    fn row(&self, records: &Records, row: u64, columns: &mut CsvColumns) -> Result<()> {
        let has_header = self.options.has_header.unwrap_or(true);
        let is_flexible = self.options.truncated_rows.unwrap_or(false);
        if !has_header && (columns.names.is_empty() || is_flexible) {
            for column in columns.names.len()..records.len() {
                columns.names.push(format!("column_{}", column + 1));
            }
            columns.seen.resize(columns.names.len(), Seen::default());
        }
        let expected = columns.names.len();
        if records.len() != expected && !(is_flexible && records.len() < expected) {
            return self.wrong_length(records, row, &columns.names);
        }
        if std::str::from_utf8(records.bytes()).is_err() {
            let wrong = |at: &usize| std::str::from_utf8(records.field(*at)).is_err();
            let column = (0..records.len()).find(wrong).unwrap_or_default();
            return exec_err!(
                "row {row} (line {}), column {}: text is read as UTF-8, and this is none; {}",
                records.line(),
                columns.names[column],
                encoding(records.field(column))
            );
        }
        for (column, seen) in columns.seen.iter_mut().enumerate().take(records.len()) {
            if !seen.is_text() {
                self.add(seen, records.field(column));
            }
        }
        Ok(())
    }

    fn add(&self, seen: &mut Seen, field: &[u8]) {
        let is_null = match self.null {
            None => field.is_empty(),
            Some(null) => std::str::from_utf8(field).is_ok_and(|text| null.is_match(text)),
        };
        if !is_null {
            seen.add(Value::of_field(field));
        }
    }

    fn wrong_length(&self, records: &Records, row: u64, names: &[String]) -> Result<()> {
        let (found, expected) = (records.len(), names.len());
        let file = self.name.as_str();
        let before = match self.options.has_header.unwrap_or(true) {
            true => "the header",
            false => "the first row",
        };
        let cure = match found > expected {
            true if expected == 1 && row == 1 => format!(
                "if line 1 is a title above the header, leave it out: tail -n +2 '{file}' | simjoin -c \
                 \"SELECT … FROM '/dev/stdin'\"; another delimiter is given by OPTIONS \
                 ('format.delimiter' ';')"
            ),
            true => format!(
                "quote values that have the delimiter in them, or name more columns and fill those of \
                 shorter rows: CREATE EXTERNAL TABLE t ({}more TEXT) STORED AS CSV LOCATION '{file}' \
                 OPTIONS ('format.truncated_rows' 'true')",
                names.iter().map(|name| format!("\"{name}\" TEXT, ")).collect::<String>()
            ),
            false => format!(
                "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{file}' OPTIONS \
                 ('format.truncated_rows' 'true') reads NULL where a short row has no field"
            ),
        };
        exec_err!(
            "row {row} (line {}) has {}, and {before} has {expected}: {cure}",
            records.line(),
            fields(found)
        )
    }

    /// Looks at rows of some places. A place where rows have other lengths, because it lies in quotes, says
    /// nothing.
    async fn places(&self, from: u64, columns: &mut CsvColumns) -> Result<()> {
        for range in places(from, self.file.size) {
            let bytes = self.texts.bytes(self.file, range).await?;
            let Some(start) = bytes.iter().position(|byte| *byte == b'\n') else { continue };
            let rows = bytes[start + 1..].to_vec();
            let mut records = Records::new(Box::new(std::io::Cursor::new(rows)), self.options);
            let mut seen = vec![Seen::default(); columns.seen.len()];
            let mut before = seen.clone();
            let is_table = loop {
                if !records.advance()? {
                    break true;
                }
                // The last row may be cut: it counts only once another one follows.
                before.clone_from(&seen);
                if records.len() != seen.len() {
                    break records.consumed as usize >= bytes.len() - start - 1;
                }
                for (column, seen) in seen.iter_mut().enumerate() {
                    self.add(seen, records.field(column));
                }
            };
            if is_table {
                columns.seen.iter_mut().zip(&before).for_each(|(all, here)| all.merge(here));
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// The names of columns: of those with one name, the later ones have a number behind it.
fn unique(names: &[String]) -> Vec<String> {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut given = HashSet::new();
    let mut renamed = vec![];
    for name in names {
        if given.insert(name.clone()) {
            renamed.push(name.clone());
            continue;
        }
        let free =
            (1..).map(|number| format!("{name}_{number}")).find(|name| !taken.contains(name));
        let free = free.unwrap_or_default();
        taken.insert(free.clone());
        renamed.push(free);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_one_name_are_numbered() {
        let names = ["a", "b", "a", "a_1", "a", "", ""].map(str::to_string);
        assert_eq!(unique(&names), ["a", "b", "a_2", "a_1", "a_3", "", "_1"]);
    }

    #[test]
    fn places_lie_behind_the_start() {
        let found: Vec<_> = places(64 << 20, 200 << 20).collect();
        assert_eq!(found.len(), 8);
        assert!(found.iter().all(|range| range.start >= 64 << 20 && range.end <= 200 << 20));
        assert_eq!(found.last().unwrap().end, 200 << 20);
        assert_eq!(places(64 << 20, 66 << 20).count(), 0);
    }
}
