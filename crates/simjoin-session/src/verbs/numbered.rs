//! Numbers of the rows of a table in memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use super::{ROW, quoted};

/// Puts the numbers of the rows, from 1 on, behind the columns of a table in memory. Returns how many there are.
///
/// # Errors
///
/// When the table is not in memory, or has a column of that name.
pub async fn number_rows(ctx: &SessionContext, table: &str) -> Result<usize> {
    let name = quoted(table);
    let provider = ctx.table_provider(name.as_str()).await?;
    let Some(memory) = provider.downcast_ref::<MemTable>() else {
        return plan_err!("the rows of {table} are not in memory");
    };
    let schema = provider.schema();
    if schema.index_of(ROW).is_ok() {
        return plan_err!(
            "{table} has a column {ROW}, which has the numbers of rows here: rename it"
        );
    }
    let number = Arc::new(Field::new(ROW, DataType::Int64, false));
    let fields: Vec<_> = schema.fields().iter().cloned().chain([number]).collect();
    let numbered = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let (mut batches, mut rows) = (vec![], 0_i64);
    for partition in &memory.batches {
        for batch in partition.read().await.iter() {
            let next = rows + batch.num_rows() as i64;
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows + 1..=next));
            let columns = batch.columns().iter().cloned().chain([numbers]).collect();
            batches.push(RecordBatch::try_new(Arc::clone(&numbered), columns)?);
            rows = next;
        }
    }
    ctx.deregister_table(name.as_str())?;
    ctx.register_table(name.as_str(), Arc::new(MemTable::try_new(numbered, vec![batches])?))?;
    Ok(rows as usize)
}
