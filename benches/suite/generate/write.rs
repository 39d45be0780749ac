//! Rows to Parquet, a row group at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Builder, Int64Array, ListBuilder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;

use super::rows::{Row, Rows};

/// Rows handed to the writer at a time.
const BATCH: u64 = 4096;

/// Rows that are drawn one after the other.
pub trait Source {
    fn schema(&self) -> SchemaRef;

    /// The next `count` rows, with numbers from `first` on.
    fn batch(&mut self, first: u64, count: u64) -> Result<RecordBatch>;
}

/// Writes `count` rows.
pub fn write(mut rows: impl Source, count: u64, row_group: usize, path: &Path) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(row_group))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, rows.schema(), Some(properties))?;
    let mut done = 0;
    while done < count {
        let length = BATCH.min(count - done);
        writer.write(&rows.batch(done, length)?)?;
        done += length;
    }
    writer.close()?;
    Ok(())
}

fn item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Int32, false))
}

impl Source for Rows {
    /// `id` (Int64, from 0) and `tokens` (list of Int32) or `text`.
    fn schema(&self) -> SchemaRef {
        let content = match self.is_text() {
            true => Field::new("text", DataType::Utf8, false),
            false => Field::new("tokens", DataType::List(item()), false),
        };
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), content]))
    }

    fn batch(&mut self, first: u64, count: u64) -> Result<RecordBatch> {
        let ids = Int64Array::from_iter_values(first as i64..(first + count) as i64);
        let mut texts = StringBuilder::new();
        let mut lists = ListBuilder::new(Int32Builder::new()).with_field(item());
        for _ in 0..count {
            match self.next() {
                Row::Text(text) => texts.append_value(text),
                Row::Tokens(tokens) => {
                    lists.values().append_slice(&tokens);
                    lists.append(true);
                }
            }
        }
        let content: ArrayRef = match self.is_text() {
            true => Arc::new(texts.finish()),
            false => Arc::new(lists.finish()),
        };
        Ok(RecordBatch::try_new(self.schema(), vec![Arc::new(ids), content])?)
    }
}
