//! Results as Arrow IPC streams, which programs read without parsing.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;

/// One result as a stream: its schema, its batches, and the mark of its end.
///
/// Views become plain text and binary columns, which older readers know as well.
pub(super) struct ArrowStream {
    schema: SchemaRef,
    /// None until the first bytes are asked for.
    writer: Option<StreamWriter<Vec<u8>>>,
}

impl ArrowStream {
    pub(super) fn new(schema: &Schema) -> Self {
        let fields = schema.fields().iter().map(plain_field).collect::<Vec<_>>();
        let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
        Self { schema: Arc::new(schema), writer: None }
    }

    fn writer(&mut self) -> Result<&mut StreamWriter<Vec<u8>>, ArrowError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => StreamWriter::try_new(vec![], &self.schema)?,
        };
        Ok(self.writer.insert(writer))
    }

    /// The bytes of a batch, and of the schema before the first one.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns =
            columns.map(|(column, field)| match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => cast(column, field.data_type()),
            });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let writer = self.writer()?;
        writer.write(&batch)?;
        Ok(std::mem::take(writer.get_mut()))
    }

    /// The bytes of the end.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, ArrowError> {
        let writer = self.writer()?;
        writer.finish()?;
        Ok(std::mem::take(writer.get_mut()))
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    match plain(field.data_type()) {
        Some(data_type) => Arc::new(Field::clone(field).with_data_type(data_type)),
        None => Arc::clone(field),
    }
}

/// The type without views; None where it has none.
fn plain(data_type: &DataType) -> Option<DataType> {
    let of_item = |item: &FieldRef| plain(item.data_type()).is_some().then(|| plain_field(item));
    Some(match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::ListView(item) => DataType::List(plain_field(item)),
        DataType::LargeListView(item) => DataType::LargeList(plain_field(item)),
        DataType::List(item) => DataType::List(of_item(item)?),
        DataType::LargeList(item) => DataType::LargeList(of_item(item)?),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(of_item(item)?, *size),
        DataType::Map(entries, sorted) => DataType::Map(of_item(entries)?, *sorted),
        DataType::Struct(fields) if fields.iter().any(|f| plain(f.data_type()).is_some()) => {
            DataType::Struct(fields.iter().map(plain_field).collect())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, Int64Array, ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::ipc::reader::StreamReader;

    use super::*;

    #[test]
    fn a_stream_has_its_schema_once_and_no_views() {
        let words: Arc<dyn Array> =
            Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a word of many letters")]));
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let lists = ListArray::new(
            Arc::clone(&item),
            OffsetBuffer::from_lengths([2, 0, 1]),
            Arc::clone(&words),
            None,
        );
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("word", DataType::Utf8View, true),
            Field::new("words", DataType::List(item), true),
        ]));
        let ids = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), vec![ids, words, Arc::new(lists)]).unwrap();
        let mut stream = ArrowStream::new(&schema);
        let mut bytes = stream.push(&batch).unwrap();
        bytes.extend(stream.push(&batch).unwrap());
        bytes.extend(stream.finish().unwrap());
        let reader = StreamReader::try_new(&bytes[..], None).unwrap();
        let read: Vec<RecordBatch> = reader.collect::<Result<_, _>>().unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[1].column(1).as_string::<i32>().value(2), "a word of many letters");
        let words = read[0].column(2).as_list::<i32>().value(0);
        assert_eq!(words.as_string::<i32>().value(0), "a");
        // A result without rows is a stream as well.
        let mut empty = ArrowStream::new(&schema);
        let bytes = empty.finish().unwrap();
        assert_eq!(StreamReader::try_new(&bytes[..], None).unwrap().count(), 0);
    }
}
