//! Rows of CSV: Arrow's reader, with checks of the values whose types were guessed.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Decoder;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::common::config::CsvOptions;
use datafusion::common::{Result, exec_err};
use regex::Regex;

use super::records::Records;
use super::rows::{Decode, shown};
use super::values::{Value, holds};

/// Reads the rows of a CSV file.
#[derive(Debug, Clone)]
pub(super) struct CsvReader {
    /// All columns of the file.
    pub(super) schema: SchemaRef,
    /// The columns to be read.
    pub(super) columns: Vec<usize>,
    pub(super) options: CsvOptions,
    pub(super) null: Option<Regex>,
    /// Whether the types were guessed, and values that they do not hold may come.
    pub(super) is_checked: bool,
}

impl CsvReader {
    /// A decoder of batches of so many rows. A header is only at the start of a file.
    pub(super) fn decoder(&self, rows: usize, at_start: bool) -> Result<CsvDecoder> {
        let target = Arc::new(self.schema.project(&self.columns)?);
        let read = match self.is_checked {
            true => as_text(&self.schema),
            false => Arc::clone(&self.schema),
        };
        let inner = self.builder(read, rows, at_start).with_projection(self.columns.clone());
        let target = self.is_checked.then_some(target);
        Ok(CsvDecoder { inner: inner.build_decoder(), target })
    }

    fn builder(&self, schema: SchemaRef, rows: usize, at_start: bool) -> ReaderBuilder {
        let options = &self.options;
        let mut builder = ReaderBuilder::new(schema)
            .with_batch_size(rows)
            .with_header(at_start && options.has_header.unwrap_or(true))
            .with_delimiter(options.delimiter)
            .with_quote(options.quote)
            .with_truncated_rows(options.truncated_rows.unwrap_or(false));
        if let Some(terminator) = options.terminator {
            builder = builder.with_terminator(terminator);
        }
        if let Some(escape) = options.escape {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = options.comment {
            builder = builder.with_comment(comment);
        }
        if let Some(null) = &self.null {
            builder = builder.with_null_regex(null.clone());
        }
        builder
    }

    /// Finds the fault of a row, of which these are the bytes, and perhaps those of later ones. `None` where its
    /// fields can be read. Before the bytes of the first row of a file stands its header.
    pub(super) fn explain(&self, bytes: &[u8], is_first: bool) -> Result<Option<Wrong>> {
        let mut records =
            Records::new(Box::new(std::io::Cursor::new(bytes.to_vec())), &self.options);
        let has_header = is_first && self.options.has_header.unwrap_or(true);
        if has_header && !records.advance()? || !records.advance()? {
            return Ok(None);
        }
        let expected = self.schema.fields().len();
        let is_short = self.options.truncated_rows.unwrap_or(false) && records.len() < expected;
        if records.len() != expected && !is_short {
            let found = fields(records.len());
            return Ok(Some(Wrong::Row(format!(
                "it has {found}, and the table has {expected} columns: quote values that have the \
                 delimiter in them; OPTIONS ('format.truncated_rows' 'true') fills the columns of short rows"
            ))));
        }
        for &column in &self.columns {
            let Some(field) = (column < records.len()).then(|| records.field(column)) else {
                continue;
            };
            let name = self.schema.field(column).name();
            let Ok(text) = std::str::from_utf8(field) else {
                return Ok(Some(Wrong::Row(format!(
                    "column {name}: text is read as UTF-8, and this is none; {}",
                    encoding(field)
                ))));
            };
            if !self.is_read(column, text) {
                let data_type = self.schema.field(column).data_type();
                return Ok(Some(Wrong::Value(format!(
                    "column {name}: {} is no {data_type}",
                    shown(text)
                ))));
            }
        }
        Ok(None)
    }

    /// Whether the value of a column can be read.
    fn is_read(&self, column: usize, text: &str) -> bool {
        if self.null.as_ref().map_or(text.is_empty(), |null| null.is_match(text)) {
            return true;
        }
        let data_type = self.schema.field(column).data_type();
        if self.is_checked {
            return holds(data_type, Value::of_field(text.as_bytes()));
        }
        let field = Field::new("x", data_type.clone(), true);
        let quoted = format!("\"{}\"\n", text.replace('"', "\"\""));
        let mut decoder = ReaderBuilder::new(Arc::new(Schema::new(vec![field])))
            .with_batch_size(1)
            .build_decoder();
        decoder.decode(quoted.as_bytes()).and_then(|_| decoder.flush()).is_ok()
    }
}

/// The fault of a row.
pub(super) enum Wrong {
    /// The row itself, with a cure.
    Row(String),
    /// A value, which another type would hold.
    Value(String),
}

/// `1 field`, `2 fields`
pub(super) fn fields(count: usize) -> String {
    format!("{count} field{}", if count == 1 { "" } else { "s" })
}

/// Advice on bytes that are no UTF-8: the encodings of Western texts, of which Windows' has letters where
/// the other has control characters.
pub(super) fn encoding(bytes: &[u8]) -> String {
    let mut wrong = bytes.utf8_chunks().flat_map(|chunk| chunk.invalid());
    let name = match wrong.any(|byte| (0x80..0xa0).contains(byte)) {
        true => "cp1252",
        false => "latin1",
    };
    format!("convert the file, for example with iconv -f {name} -t utf8")
}

fn as_text(schema: &Schema) -> SchemaRef {
    let text = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8));
    Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Fields>()))
}

pub(super) struct CsvDecoder {
    inner: Decoder,
    /// The columns, where they are read as text and checked.
    target: Option<SchemaRef>,
}

impl Decode for CsvDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(self.inner.decode(bytes)?)
    }

    fn is_full(&self) -> bool {
        self.inner.capacity() == 0
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.inner.flush()? else { return Ok(None) };
        let Some(target) = &self.target else { return Ok(Some(batch)) };
        let columns = batch.columns().iter().zip(target.fields());
        let columns: Result<Vec<ArrayRef>> =
            columns.map(|(column, field)| checked(column, field)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(target), columns?, &options)?))
    }
}

/// The texts of a column as values of its type, each of which holds its text exactly.
pub(super) fn checked(texts: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let data_type = field.data_type();
    if texts.data_type() == data_type {
        return Ok(Arc::clone(texts));
    }
    for text in texts.as_string::<i32>().iter().flatten() {
        if !holds(data_type, Value::of_field(text.as_bytes())) {
            return exec_err!("column {}: {} is no {data_type}", field.name(), shown(text));
        }
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(texts, data_type, &options)?)
}
