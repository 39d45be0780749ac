//! Rows without views of texts and bytes.
//!
//! Views of several batches refer to the same texts. A sort counts these once for each batch, and so runs out of
//! memory that nothing takes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::Result;

/// The schema of such rows.
pub(super) fn of_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(of_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn of_field(field: &FieldRef) -> FieldRef {
    let data_type = of_type(field.data_type());
    match data_type == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(field.as_ref().clone().with_data_type(data_type)),
    }
}

fn of_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        DataType::List(field) => DataType::List(of_field(field)),
        DataType::LargeList(field) => DataType::LargeList(of_field(field)),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(of_field(field), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of_field).collect()),
        other => other.clone(),
    }
}

/// The rows of a batch in a schema of [`of_schema`], or back in that of the batch.
pub(super) fn of_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, BinaryViewArray, ListArray, StringViewArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn views_come_back() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![
            Some("a text longer than twelve bytes"),
            None,
            Some("short"),
        ]));
        let bytes: ArrayRef =
            Arc::new(BinaryViewArray::from(vec![Some(&b"x"[..]), Some(b"y"), None]));
        let field =
            |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
        let row = StructArray::from(vec![(Arc::new(field("t", &texts)), Arc::clone(&texts))]);
        let item = Arc::new(field("item", &texts));
        let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
        let list: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::clone(&texts), None));
        let row: ArrayRef = Arc::new(row);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("t", texts, true),
            ("b", bytes, true),
            ("r", row, true),
            ("l", list, true),
        ]);
        let batch = batch.unwrap();
        let schema = of_schema(&batch.schema());
        assert!(!format!("{schema:?}").contains("View"));
        let without = of_batch(&batch, &schema).unwrap();
        assert_eq!(of_batch(&without, &batch.schema()).unwrap(), batch);
        assert_eq!(of_schema(&schema), schema);
    }
}
